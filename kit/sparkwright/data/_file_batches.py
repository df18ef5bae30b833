"""File batches: ZIP archives of original files with their URIs.

Many small files are slow to list and open; a batch packs them into one file. An archive holds
`originalUris.txt`, one URI per line, and `file_0.jpg`, `file_1.jpg`, … in the same order. The
format is compatible with Deeplearning4j's FileBatch, in both directions.
"""

import io
import re
import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote, unquote

from sparkwright.errors import DataError
from sparkwright.storage.archive import DAMAGE, read_entry
from sparkwright.storage.files import read_bytes

INDEX = "originalUris.txt"
# Limits of readers, so that a small archive cannot exhaust the memory.
ENTRY_BYTES = 256 << 20
BATCH_BYTES = 1 << 30
ENTRIES = 9_999  # Java's reader takes 10,000 with the index
_NAME = re.compile(r"file_(\d{1,4})(?:\.[^/\\]*)?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileBatch:
    """The contents of some files with their original URIs.

    Attributes:
        uris: percent-encoded URIs of the original files, such as `file:/data/cat/a%20b.jpg`.
        contents: bytes of the files, in the same order.

    Example:
        >>> batch = FileBatch(uris=("file:/data/a%20cat/1.jpg",), contents=(b"bytes",))
        >>> FileBatch.from_bytes(batch.to_bytes()) == batch
        True
        >>> batch.urls
        ('/data/a cat/1.jpg',)
    """

    uris: tuple[str, ...]
    contents: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.uris) != len(self.contents) or not self.uris:
            raise DataError(
                "a file batch must have one URI for each file, and at least one file. "
                f"Received: {len(self.uris)} URIs for {len(self.contents)} files."
            )
        broken = [uri for uri in self.uris if not uri or "\n" in uri]
        if broken:
            raise DataError(
                "each URI of a file batch must be one line of text. "
                f"Received: uri={broken[0]!r}. Percent-encode it."
            )

    def __len__(self) -> int:
        return len(self.uris)

    @property
    def urls(self) -> tuple[str, ...]:
        """Return the URIs as paths and URLs, in the format of `list_paths`."""
        return tuple(map(url_of, self.uris))

    def to_bytes(self) -> bytes:
        """Return the ZIP archive, uncompressed, as most file formats are compressed already.

        Raises:
            DataError: if it exceeds the limits of readers.
        """
        check_sizes([len(content) for content in self.contents], what="a file batch")
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
            packed.writestr(_entry(INDEX), "\n".join(self.uris).encode())
            for number, (uri, content) in enumerate(zip(self.uris, self.contents, strict=True)):
                packed.writestr(_entry(f"file_{number}.{_extension(uri)}"), content)
        return archive.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, *, url: str = "the archive") -> "FileBatch":
        """Read an archive; the inverse of `to_bytes`.

        Args:
            content: the archive.
            url: name of the archive in messages.

        Raises:
            DataError: naming `url`, if it is not a file batch, or is damaged or too large.
        """
        uris: list[str] = []
        contents: list[bytes] = []
        for uri, _, found in iterate(content, url):
            if isinstance(found, DataError):
                raise found
            uris.append(uri)
            contents.append(found)
        return cls(uris=tuple(uris), contents=tuple(contents))


def read_file_batch(url: str) -> FileBatch:
    """Read one file batch.

    Raises:
        DataError: naming `url`, if it is not a file batch, or is damaged.
        OSError: naming `url`, if it cannot be read.
    """
    return FileBatch.from_bytes(read_bytes(url), url=url)


def iterate(content: bytes, url: str) -> Iterator[tuple[str, str, bytes | DataError]]:
    """Yield (URI, entry name, bytes) of an archive's files; a DataError for unreadable bytes."""
    with _opened(io.BytesIO(content), f"{url} with {len(content):,} bytes") as archive:
        for uri, entry in _checked(archive, url):
            try:
                yield uri, entry.filename, read_entry(archive, entry)
            except (*DAMAGE, OSError) as error:
                found = DataError(
                    "each file of a file batch must be intact. Received: "
                    f"{entry.filename} ({uri}) in {url}: {error}. Write the archive again."
                )
                found.__cause__ = error
                yield uri, entry.filename, found


def uris_in(file: BinaryIO, url: str) -> list[str]:
    """Return the URIs without reading the files; `file` must be seekable."""
    with _opened(file, url) as archive:
        return [uri for uri, _ in _checked(archive, url)]


@contextmanager
def _opened(file: BinaryIO, received: str) -> Generator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except DataError:
        raise
    except DAMAGE as error:
        raise DataError(
            f"a file batch must be an intact ZIP archive. Received: {received}: {error}. "
            "Write it again."
        ) from error


def _checked(archive: zipfile.ZipFile, url: str) -> list[tuple[str, zipfile.ZipInfo]]:
    """Validate an archive without reading its files; return URIs and entries in order."""
    entries = {entry.filename: entry for entry in archive.infolist()}
    index = entries.pop(INDEX, None)
    for group in (entries.values(), [index] if index else []):
        check_sizes([entry.file_size for entry in group], what=f"the file batch {url}")
    few = f"{len(entries)} files, such as {', '.join(sorted(entries)[:3])!r:.80}"
    try:
        lines = b"" if index is None else read_entry(archive, index)
        uris = [line.rstrip("\r") for line in lines.decode().rstrip("\r\n").split("\n")]
    except UnicodeDecodeError as error:
        raise DataError(f"{INDEX!r} must be UTF-8. Received: {url}: {error}.") from None
    found = {int(m[1]): entries[name] for name in entries if (m := _NAME.fullmatch(name))}
    count = len(archive.infolist()) - 1
    if not lines.strip() or len(found) != count or sorted(found) != list(range(len(uris))):
        raise DataError(
            f"a file batch must hold {INDEX!r} and one file for each line of it, once and named "
            f"`file_NUMBER.EXTENSION`, numbered from 0. Received: {url} with "
            f"{len(uris) if lines.strip() else 0} lines and {few}."
        )
    return [(uri, found[number]) for number, uri in enumerate(uris)]


def uri_of(url: str) -> str:
    """Return a path or URL as a URI that Java accepts."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme != "file":
        return f"{scheme}://{_quoted(rest)}"
    path = rest if separator else url
    # Java would parse a host after two slashes.
    return f"file:{_quoted(re.sub('^/+', '/', path))}"


def url_of(uri: str) -> str:
    """Return the path or URL of a URI; a URI without scheme is a path."""
    if not _SCHEME.match(uri):
        return uri
    scheme, _, rest = uri.partition(":")
    if scheme == "file":
        return unquote(rest[2:] if rest.startswith("///") else rest, errors="surrogateescape")
    return f"{scheme}:{unquote(rest, errors='surrogateescape')}"


def check_sizes(sizes: Sequence[int], *, what: str) -> None:
    """Raise if an archive of files of these sizes exceeds the limits of readers."""
    if len(sizes) > ENTRIES or max(sizes, default=0) > ENTRY_BYTES or sum(sizes) > BATCH_BYTES:
        raise DataError(
            f"{what} must hold at most {ENTRIES:,} files of {ENTRY_BYTES >> 20} MiB each and "
            f"{BATCH_BYTES >> 20} MiB together. Received: {len(sizes):,} files of at most "
            f"{max(sizes, default=0):,} bytes, {sum(sizes):,} together. Use a smaller batch size."
        )


def _entry(name: str) -> zipfile.ZipInfo:
    # A fixed time stamp makes archives of equal files equal.
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _extension(uri: str) -> str:
    name = url_of(uri).rpartition("/")[2]
    before, _, extension = name.rpartition(".")
    return extension if before and extension.isascii() and extension.isalnum() else "bin"


def _quoted(path: str) -> str:
    # Characters allowed in the path of a Java URI.
    return quote(path, safe="/!*'():@&=+$,;", errors="surrogateescape")
