"""Arrays and bytes in one file: an uncompressed ZIP archive with SHA-256 digests.

Arrays are members in NumPy's format (`.npy`). The last member, `meta.json`, contains the caller's
JSON-serializable fields and the SHA-256 of every other member. The archive's CRC-32 covers
`meta.json`. Any ZIP tool can open the file. Reading executes no code and never allocates more than
the file's size.
"""

import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright._yaml import strict_json

_META = "meta.json"
_DIGESTS = "sha256"
# Small enough to stay in a core's cache between computing the CRC and writing.
_BLOCK_BYTES = 1 << 20
_HEADER_LIMIT_BYTES = 4096
# Raised by `zipfile` and `json` for damaged files; `OSError` means a failure of the store.
DAMAGE = (
    *(zipfile.BadZipFile, ValueError, LookupError, RuntimeError, EOFError, zlib.error),
    *(NotImplementedError, OverflowError, struct.error),
)
_UNPACKED_IN_BLOCKS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class ArchiveError(ValueError):
    """A file was not written by `write_archive`, or is damaged."""


def write_archive(
    file: BinaryIO, meta: Mapping[str, Any], members: Mapping[str, NDArray[Any] | bytes]
) -> None:
    """Write `meta` (JSON) and `members` (bytes, or 1-D numbers named ".npy") without copies."""

    def described(digests: Mapping[str, str]) -> str:
        return json.dumps({**meta, _DIGESTS: digests}, indent=1, default=_plain_number)

    write_members(file, {name: _member(each) for name, each in members.items()}, _META, described)


class Member(NamedTuple):
    """A member to write: its size, and a function that yields its content from the start."""

    size_bytes: int
    blocks: Callable[[], Iterable[Any]]


def write_members(
    file: BinaryIO,
    members: Mapping[str, Member],
    last: str,
    described: Callable[[dict[str, str]], str],
    compression: int = zipfile.ZIP_STORED,
) -> None:
    """Write members, then the member `last` with the text `described(SHA-256 by name)`."""
    # Digests take longer than writing to a fast store, so they are computed in parallel.
    with (
        ThreadPoolExecutor(1) as hashing,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        digests: dict[str, str] = {}
        for name, member in members.items():
            digest = _submitted(hashing, member)
            large = member.size_bytes >= zipfile.ZIP64_LIMIT // 2
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=large) as target:
                for block in member.blocks():
                    target.write(block)
            digests[name] = digest.result()
        archive.writestr(zipfile.ZipInfo(last), described(digests), compression)


def _submitted(hashing: ThreadPoolExecutor, member: Member) -> Future[str]:
    try:
        return hashing.submit(_sha256, member.blocks)
    except RuntimeError:  # the interpreter is ending, and starts no threads
        done = Future[str]()
        done.set_result(_sha256(member.blocks))
        return done


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], dict[str, NDArray[Any] | bytes]]:
    """Read what `write_archive` wrote; the arrays are writable."""
    try:
        with zipfile.ZipFile(file) as archive:
            infos = _checked(archive.infolist(), file.seek(0, io.SEEK_END))
            meta: Any = strict_json(_read_member(archive, infos.pop(_META)).tobytes())
            digests: dict[str, str] = meta.pop(_DIGESTS)
            if digests.keys() != infos.keys():
                raise ArchiveError(f"unexpected members {sorted(infos)}")
            members: dict[str, NDArray[Any] | bytes] = {}
            for name, info in infos.items():
                content = _read_member(archive, info, digests[name])
                array = name.endswith(".npy")
                members[name] = _array(name, content) if array else content.tobytes()
            return meta, members
    except ArchiveError:
        raise
    except (*DAMAGE, TypeError, AttributeError, MemoryError) as error:
        raise ArchiveError(f"it cannot be read ({type(error).__name__}: {error})") from error


def blocks_of(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, block_bytes: int = _BLOCK_BYTES
) -> Iterator[bytes]:
    """Yield the content of a member in blocks: `ZipFile.read` would unpack all before checks."""
    if entry.compress_type not in _UNPACKED_IN_BLOCKS:
        raise zipfile.BadZipFile(
            f"{entry.filename!r} must be stored or deflated, but has the compression "
            f"{entry.compress_type}"
        )
    size_bytes = 0
    with archive.open(entry) as member:
        while block := member.read(block_bytes):  # up to its end, where the CRC-32 is checked
            size_bytes += len(block)
            yield block
    if size_bytes != entry.file_size:
        raise zipfile.BadZipFile(
            f"{entry.filename!r} does not have the {entry.file_size} bytes of its directory entry"
        )


def read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of a member; raise the same errors as `blocks_of`."""
    return b"".join(blocks_of(archive, entry))


def is_numbers(array: NDArray[Any]) -> bool:
    """Whether `array` can be a member: 1-D, of native numbers or booleans."""
    return array.ndim == 1 and array.dtype.kind in "biuf" and array.dtype.isnative


def _checked(infos: list[zipfile.ZipInfo], size_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """Return the archive's directory by name; raise if it is inconsistent with the file."""
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ArchiveError(f"{info.filename} is compressed")
        if not 0 <= info.header_offset <= size_bytes - info.file_size:
            raise ArchiveError(f"{info.filename} exceeds the file")
    if sum(info.file_size for info in infos) > size_bytes:
        raise ArchiveError("its members are larger than the file")
    by_name = {info.filename: info for info in infos}
    if len(by_name) != len(infos):
        raise ArchiveError("two members have the same name")
    if _META not in by_name:
        raise ArchiveError(f"it has no {_META}")
    return by_name


def _member(content: NDArray[Any] | bytes) -> Member:
    parts = _parts(content)

    def blocks() -> Iterator[memoryview]:
        for part in parts:
            for start in range(0, len(part), _BLOCK_BYTES):
                yield part[start : start + _BLOCK_BYTES]

    return Member(sum(map(len, parts)), blocks)


def _parts(content: NDArray[Any] | bytes) -> tuple[memoryview, ...]:
    if isinstance(content, bytes):
        return (memoryview(content),)
    if not is_numbers(content):
        raise TypeError(f"only 1-D arrays of numbers can be written. Received: {content.dtype}.")
    content = np.ascontiguousarray(content)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(content))
    return header.getbuffer(), content.view(np.uint8).data


def _sha256(blocks: Callable[[], Iterable[Any]]) -> str:
    digest = hashlib.sha256()
    for block in blocks():
        digest.update(block)
    return digest.hexdigest()


def _read_member(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, sha256: str | None = None
) -> NDArray[np.uint8]:
    content = np.empty(info.file_size, np.uint8)
    digest, at = hashlib.sha256(), 0
    for block in blocks_of(archive, info):
        content[at : at + len(block)] = np.frombuffer(block, np.uint8)
        digest.update(block)
        at += len(block)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise ArchiveError(f"{info.filename} differs from its SHA-256")
    return content


def array_in(content: bytes | NDArray[np.uint8]) -> NDArray[Any]:
    """Return a view of the numbers in an .npy file, without unpickling or trusting its header."""
    header = io.BytesIO(bytes(content[:_HEADER_LIMIT_BYTES]))
    form = np.lib.format
    try:
        is_first = form.read_magic(header) == (1, 0)
        read = form.read_array_header_1_0 if is_first else form.read_array_header_2_0
        shape, fortran, dtype = read(header)
    except Exception as error:  # the parser raises many kinds of errors
        raise ArchiveError(f"it is not an array: {error}") from error
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ArchiveError(f"it is not numeric: shape {shape}, dtype {dtype}")
    if header.tell() + math.prod(shape) * dtype.itemsize != len(content):
        raise ArchiveError("its size differs from that in its header")
    values = np.frombuffer(content, np.uint8)[header.tell() :].view(dtype)
    return values.reshape(shape, order="F" if fortran else "C")


def _array(name: str, content: NDArray[np.uint8]) -> NDArray[Any]:
    try:
        found = array_in(content)
    except ArchiveError as error:
        raise ArchiveError(f"{name}: {error}") from error
    if not is_numbers(found):
        raise ArchiveError(
            f"{name} is not a 1-D array of numbers: shape {found.shape}, dtype {found.dtype}"
        )
    return found


def _plain_number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"fields must be JSON-serializable. Received: {value!r}.")
