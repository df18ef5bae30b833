"""Find files by URL, list or export, split them into partitions, and check their visibility."""

import hashlib
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import run_job
from sparkwright.cluster.slots import is_local, tasks_to_reach_all
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
from sparkwright.storage.listing import list_entries, list_files

from ._exported import ExportedDataSet, find_export
from ._manifest import MANIFEST_NAME, Manifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PART = re.compile(r".*/part-\d+(\.txt)?", re.DOTALL)
_PROBES = 10
_PROBED_BYTES = 1 << 20
_NAMED = 5


@dataclass(frozen=True, slots=True)
class FileToRead:
    """A file to read, with properties known in advance; None: unknown."""

    url: str
    size_bytes: int | None = None
    examples: int | None = None  # number of examples in the file
    start: int = 0  # first example to read
    stop: int | None = None  # end of the range to read; None: all remaining examples
    crc32c: int | None = None

    @property
    def taken(self) -> int:
        """Number of examples to read."""
        return ((self.examples or 0) if self.stop is None else self.stop) - self.start

    def is_as_written(self, content: bytes) -> bool:
        """Whether `content` has the checksum in the manifest; True without a checksum."""
        return self.crc32c is None or crc32c_of(content) == self.crc32c


def crc32c_of(content: bytes) -> int:
    """Return the CRC-32C of a file's bytes, as in a manifest."""
    import google_crc32c

    return google_crc32c.value(content)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundFiles:
    """The requested files, in reading order."""

    files: tuple[FileToRead, ...]
    manifest: Manifest | None = None  # manifest of the export, if the files are one
    fingerprint: str | None = None  # changes when a file does; None: unknown
    probes: tuple[str, ...]  # executors must see the first of these that the driver sees


def list_paths(
    url: str | os.PathLike[str], extensions: Sequence[str] | None = None, recursive: bool = False
) -> list[str]:
    """List the URLs of files, sorted; the minibatches of an export in their order.

    Files and folders whose names begin with "." or "_" are ignored.

    Args:
        url: a file, a folder, or a pattern with `*`, `?`, `[…]` or `**`, in any file system.
        extensions: file extensions to keep, such as "csv", in any case; default None: all.
        recursive: whether to include subfolders; default False.

    Raises:
        FileNotFoundError: if no file exists, naming the URL.
        OSError: if the folder cannot be listed.
    """
    name = os.fspath(url)
    export = export_at(name)
    if export is None:
        files = list_files(name, extensions=extensions, recursive=recursive)
        return [file.url for file in files]
    endings = tuple(f".{e.lstrip('.').lower()}" for e in extensions or ())
    return [p for p in export.paths if not endings or p.lower().endswith(endings)]


def cut_files(files: Sequence[FileToRead], edges: Sequence[int]) -> list[list[FileToRead]]:
    """Split files into consecutive ranges of examples, cutting files at the given `edges`."""
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
    """Split files into at most `shares` ranges whose numbers of examples differ by at most one."""
    total = sum(file.examples or 0 for file in files)
    shares = max(1, min(shares, len(files)))
    return cut_files(files, [total * number // shares for number in range(shares + 1)])


def is_rdd(value: Any) -> bool:
    """Whether `value` is an RDD; does not import Spark."""
    pyspark: Any = sys.modules.get("pyspark")
    return pyspark is not None and isinstance(value, pyspark.RDD)


def find_files(where: Any, *, ours: bool) -> FoundFiles:
    """Find the files at `where`, on the driver; with `ours` (no loader) only lists and `.arrow`."""
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
    """Return the export at `url`; None if missing, or if `manifest.json` is of another program."""
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
    if lists and stored and is_folder(url) and all(_PART.fullmatch(f.url) for f in stored):
        return _listed([line for f in stored for line in _lines(f.url)], source=url)
    kept = [f for f in stored if f.url.endswith(".arrow") or not ours]
    if not kept:
        found = f"{len(stored)} files, starting with {stored[0].url}" if stored else "no file"
        raise DataError(
            "there must be at least one file"
            f"{' that ends in .arrow' if ours else ''}. Received: {url}, with {found}. "
            "For other file formats give a `loader` to `fit_paths`, `from_minibatches` or "
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
        raise DataError(
            f"an export must have at least one file. Received: {export.url} with no files."
        )
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
    """Return listed files without checking them, as there may be very many."""
    if not urls:
        raise DataError(f"there must be at least one file. Received: {source} with no files.")
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
        raise DataError(
            f"a file of paths must be text. Received: {url}, which contains zero bytes."
        )
    return [line.strip() for line in text.splitlines() if line.strip()]


# -- visibility of files to executors


def check_reached(spark: "SparkSession", folder: str) -> None:
    """Check that executors see a file that the driver writes into `folder`."""
    if not is_local(spark):
        probe = join(folder, "_probe")
        write_bytes(probe, folder.encode())
        check_visible(spark, probe)
        remove(probe)


def check_complete(folder: str, written: set[str]) -> None:
    """Check that `folder` contains exactly the entries written by executors."""
    found = {name.rstrip("/") for name in list_entries(folder) if not name.startswith((".", "_"))}
    if found != written:
        missing, more = sorted(written - found), sorted(found - written)
        raise DataError(
            "the folder must contain exactly the files written by the tasks. Received: "
            f"{len(missing)} of {len(written)} missing {missing[:3]}, {len(more)} additional "
            f"{more[:3]}, in {folder}. All executors must write to one file system, and the data "
            "must be deterministic."
        )


def check_visible(spark: "SparkSession", *urls: str) -> None:
    """Check in a Spark job that executors read the same file as the driver, unless it is local."""
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
    """Compare the file's digest on all executors, with one task per slot."""

    def look(_: object) -> Iterator[tuple[str, str]]:
        try:
            problem = "" if digest_of(url) == digest else "the content differs"
        except Exception as error:  # file systems raise various types
            problem = f"{type(error).__name__}: {error}"
        yield socket.gethostname(), problem

    slots = tasks_to_reach_all(spark)
    tasks = context_of(spark).parallelize(range(slots), slots).mapPartitions(look)
    answers = run_job(spark, tasks.collect, description="check that executors see the files")
    problems = {host: problem for host, problem in answers if problem}
    if problems:
        hosts = "; ".join(f"{host} ({why})" for host, why in sorted(problems.items())[:_NAMED])
        more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
        raise ConfigurationError(
            "every executor must see the files that the driver sees. Received: "
            f"{url}, which these hosts do not see: {hosts}{more}. Use a shared file system "
            "(hdfs://…, s3://…), or a folder that is mounted at the same path on all hosts."
        )


def digest_of(url: str) -> str:
    """Return the SHA-256 of a file's first MiB."""
    with open_to_read(url) as file:
        return hashlib.sha256(file.read(_PROBED_BYTES)).hexdigest()
