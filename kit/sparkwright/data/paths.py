"""Which files a URL, a list or an export means, how they are shared out, who sees them."""

import hashlib
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import run_job
from sparkwright.cluster.slots import is_local, tasks_to_ask
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.files import (
    absolute,
    is_folder,
    join,
    open_to_read,
    read_bytes,
    remove,
    write_bytes,
)
from sparkwright.storage.listing import StoredFile, list_entries, list_files

from ._exported import ExportedDataSet, find_export
from ._manifest import MANIFEST_NAME, Manifest

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_PART = re.compile(r"part-\d+(\.txt)?")
_PROBES = 10
_PROBED_BYTES = 1 << 20
_NAMED = 5


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file, and what is known of it before it is read: None where that is unknown."""

    url: str
    size_bytes: int | None = None
    examples: int | None = None  # in the file
    start: int = 0  # the first example to take
    stop: int | None = None  # one past the last; None: to the end
    crc32c: int | None = None

    @property
    def taken(self) -> int:
        """How many examples to take."""
        return ((self.examples or 0) if self.stop is None else self.stop) - self.start

    def is_as_written(self, content: bytes) -> bool:
        """Whether these bytes have the checksum of the manifest; True where that has none."""
        return self.crc32c is None or crc32c_of(content) == self.crc32c


def crc32c_of(content: bytes) -> int:
    """The checksum of a file's bytes, as a manifest has it."""
    import google_crc32c

    return google_crc32c.value(content)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFiles:
    """The files that were asked for, in the order in which they are read."""

    files: tuple[FileToRead, ...]
    manifest: Manifest | None = None  # of the export that they are
    fingerprint: str | None = None  # changes when a file does; None if unknown
    probes: tuple[str, ...]  # all executors must see the first that the driver sees


@overload
def list_paths(
    url: str | os.PathLike[str],
    extensions: Sequence[str] | None = None,
    recursive: bool = False,
    *,
    spark: None = None,
) -> list[str]: ...


@overload
def list_paths(
    url: str | os.PathLike[str],
    extensions: Sequence[str] | None = None,
    recursive: bool = False,
    *,
    spark: "SparkSession",
) -> "RDD[str]": ...


def list_paths(
    url: str | os.PathLike[str],
    extensions: Sequence[str] | None = None,
    recursive: bool = False,
    *,
    spark: "SparkSession | None" = None,
) -> "list[str] | RDD[str]":
    """URLs of files, sorted; an export's minibatches in their order.

    Files and folders whose names begin with "." or "_" are left out.

    Args:
        url: a file, a folder, or a pattern with `*`, `?`, `[…]` or `**`; local or of any store.
        extensions: endings to keep, such as "csv", in any case; default None: all.
        recursive: with sub-folders; default False.
        spark: give an RDD of the URLs instead of a list; default None.

    Raises:
        FileNotFoundError: if there is nothing, naming the URL.
        OSError: whatever the store says.
    """
    name = os.fspath(url)
    export = export_at(name)
    if export is None:
        files = list_files(name, extensions=extensions, recursive=recursive)
        paths = [file.url for file in files]
    else:
        endings = tuple(f".{e.lstrip('.').lower()}" for e in extensions or ())
        paths = [p for p in export.paths if not endings or p.lower().endswith(endings)]
    if spark is None:
        return paths
    context = context_of(spark)
    return context.parallelize(paths, max(1, min(len(paths), context.defaultParallelism)))


def cut_files(files: Sequence[FileToRead], edges: Sequence[int]) -> list[list[FileToRead]]:
    """Consecutive shares of files, cut where an edge, a number of examples, falls into a file.

    Example:
        >>> shares = cut_files([FileToRead("a", 9, 3), FileToRead("b", 9, 4)], [0, 5, 7])
        >>> [[(f.url, f.start, f.stop) for f in share] for share in shares]
        [[('a', 0, None), ('b', 0, 2)], [('b', 2, 4)]]
    """
    found: list[list[FileToRead]] = [[] for _ in edges[1:]]
    first, share = 0, 0
    for file in files:
        last = first + (file.examples or 0)
        while share < len(found) and edges[share] < last:
            start, stop = max(edges[share], first), min(edges[share + 1], last)
            whole = (start, stop) == (first, last)
            piece = file if whole else replace(file, start=start - first, stop=stop - first)
            if start < stop:
                found[share].append(piece)
            if edges[share + 1] > last:
                break
            share += 1
        first = last
    return found


def equal_shares(files: Sequence[FileToRead], shares: int) -> list[list[FileToRead]]:
    """Consecutive shares of as many examples each, give or take one; at most one a file.

    Equal partitions need no repartition before training.
    """
    total = sum(file.examples or 0 for file in files)
    shares = max(1, min(shares, len(files)))
    return cut_files(files, [total * number // shares for number in range(shares + 1)])


def is_rdd(value: Any) -> bool:
    """Whether `value` is an RDD; does not load Spark to find out."""
    pyspark: Any = sys.modules.get("pyspark")
    return pyspark is not None and isinstance(value, pyspark.RDD)


def find_files(where: Any, *, ours: bool) -> FoundFiles:
    """The files that `where` names, on the driver; see `from_minibatches`.

    With `ours`, where there is no loader, text files are lists of paths, and of a folder that is no
    export only `.arrow` files count. Else every file is data.
    """
    if isinstance(where, ExportedDataSet):
        where = where.url
    if isinstance(where, (str, os.PathLike)):
        return _found_at(os.fspath(where), ours=ours)
    if isinstance(where, Sequence):
        return _listed([os.fspath(url) for url in where], source="a list")
    raise ConfigurationError(
        "minibatches are read from a URL, a list of URLs, an RDD of URLs or an export. Received: "
        f"{type(where).__name__}."
    )


def export_at(url: str) -> ExportedDataSet | None:
    """The export at `url`; None if there is none, or a `manifest.json` of another program."""
    if _is_pattern(url):
        return None
    try:
        return find_export(url)
    except DataError:
        if any(name.startswith("_minibatches-") for name in list_entries(url)):
            raise
        return None


def _is_pattern(url: str) -> bool:
    return any(sign in url for sign in "*?[")


def _found_at(url: str, *, ours: bool) -> FoundFiles:
    export = export_at(url)
    if export is not None:
        return _of_export(export)
    lists = ours and not _is_pattern(url)
    if lists and url.lower().endswith(".txt"):
        return _listed(_lines(url), source=url)
    stored = list_files(url)
    if lists and stored and is_folder(url) and all(_PART.fullmatch(_name(f)) for f in stored):
        return _listed([line for f in stored for line in _lines(f.url)], source=url)
    kept = [f for f in stored if f.url.endswith(".arrow") or not ours]
    if not kept:
        found = f"{len(stored)} files, {_name(stored[0])} the first" if stored else "no file"
        raise DataError(
            "there must be at least one file"
            f"{' that ends in .arrow' if ours else ''}. Received: {url}, with {found}. "
            "For files of another format give a `loader` to `fit_paths`, `from_minibatches` or "
            "`read_minibatches`."
        )
    digest = hashlib.sha256()
    for file in kept:
        digest.update(f"{file.url}\n{file.size_bytes}\n{file.version}\n".encode())
    return FoundFiles(
        files=tuple(FileToRead(f.url, f.size_bytes) for f in kept),
        fingerprint=digest.hexdigest(),
        probes=tuple(f.url for f in kept[:_PROBES]),
    )


def _of_export(export: ExportedDataSet) -> FoundFiles:
    manifest = export.manifest
    if not manifest.files:
        raise DataError(f"an export must have at least one file. Received: {export.url} with none.")
    return FoundFiles(
        files=tuple(
            FileToRead(path, file.size_bytes, file.examples, crc32c=file.crc32c)
            for path, file in zip(export.paths, manifest.files, strict=True)
        ),
        manifest=manifest,
        fingerprint=hashlib.sha256(f"{export.url}\n{manifest.to_json()}".encode()).hexdigest(),
        probes=(f"{export.url}/{MANIFEST_NAME}",),
    )


def _listed(urls: Sequence[str], *, source: str) -> FoundFiles:
    """Files that are looked at only when they are read: there may be very many."""
    if not urls:
        raise DataError(f"there must be at least one file. Received: {source}, which names none.")
    files = tuple(FileToRead(absolute(url)) for url in urls)
    return FoundFiles(files=files, probes=tuple(file.url for file in files[:_PROBES]))


def _lines(url: str) -> list[str]:
    try:
        text = read_bytes(url).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"a file of paths must be UTF-8 text. Received: {url} ({error.reason} at byte "
            f"{error.start})."
        ) from None
    if "\0" in text:
        raise DataError(f"a file of paths must be text. Received: {url}, with zero bytes.")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _name(file: StoredFile) -> str:
    return file.url.rpartition("/")[2]


# -- what executors see


def check_reached(spark: "SparkSession", folder: str) -> None:
    """Check, before hours of work, that executors see what the driver writes into `folder`."""
    if not is_local(spark):
        probe = join(folder, "_probe")
        write_bytes(probe, folder.encode())
        check_visible(spark, probe)
        remove(probe)


def check_complete(folder: str, written: set[str]) -> None:
    """Check that the driver sees the entries that executors have written, and nothing else."""
    found = {name.rstrip("/") for name in list_entries(folder) if not name.startswith((".", "_"))}
    if found != written:
        missing, more = sorted(written - found), sorted(found - written)
        raise DataError(
            "the folder must hold what the tasks have written. Received: "
            f"{len(missing)} of {len(written)} missing {missing[:3]}, {len(more)} more "
            f"{more[:3]}, in {folder}. All executors must write into one store, and the data must "
            "be the same each time it is computed."
        )


def check_visible(spark: "SparkSession", *urls: str) -> None:
    """Have the executors read the first file that the driver can read, and compare; a Spark job.

    Nothing happens if all of Spark runs on this machine, or there is no such file.
    """
    if is_local(spark):
        return
    for url in urls:
        try:
            digest = digest_of(url)
        except OSError:
            continue
        ask_executors(spark, url, digest)
        return


def ask_executors(spark: "SparkSession", url: str, digest: str) -> None:
    """`check_visible` wherever Spark runs: one task for each slot."""

    def look(_: object) -> Iterator[tuple[str, str]]:
        try:
            problem = "" if digest_of(url) == digest else "another file is there"
        except Exception as error:  # stores raise errors of their own kinds
            problem = f"{type(error).__name__}: {error}"
        yield socket.gethostname(), problem

    slots = tasks_to_ask(spark)
    tasks = context_of(spark).parallelize(range(slots), slots).mapPartitions(look)
    answers = run_job(spark, tasks.collect, description="check that executors see the files")
    problems = {host: problem for host, problem in answers if problem}
    if problems:
        hosts = "; ".join(f"{host} ({why})" for host, why in sorted(problems.items())[:_NAMED])
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise ConfigurationError(
            "every executor must see the files that the driver sees. Received: "
            f"{url}, which these hosts do not: {hosts}{more}. Use a store that all reach "
            "(hdfs://…, s3://…), or a folder that is mounted at the same place everywhere."
        )


def digest_of(url: str) -> str:
    """SHA-256 of a file's first mebibyte."""
    with open_to_read(url) as file:
        return hashlib.sha256(file.read(_PROBED_BYTES)).hexdigest()
