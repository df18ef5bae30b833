"""TFRecord: records with checksums, read also past damage, and files of them.

    record = length, uint64 | checksum of the length | content | checksum of the content

The low byte of a number comes first. A checksum is CRC-32C, rotated right by 15 bits plus
0xa282ead8. Files may be compressed as a whole, by gzip or zlib.

References:
    TensorFlow, `tensorflow/core/lib/io/record_writer.h` and `lib/hash/crc32c.h`.
"""

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

import numpy as np

from sparkwright.errors import DataError
from sparkwright.options import check_choice

from ._record_bytes import MAX_UNPACKED_BYTES, ByteWindow

FileCompression = Literal["gzip", "zlib"]
_ENDINGS: dict[str, FileCompression] = {
    **{".gz": "gzip", ".gzip": "gzip"},
    **{".zlib": "zlib", ".zz": "zlib"},
}
_HEAD = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_SEARCHED_BYTES = 1 << 20


def masked_crc(content: bytes) -> int:
    """Return the checksum of `content` as TFRecord files hold it, a uint32.

    Example:
        >>> hex(masked_crc(b"123456789"))
        '0xc78ab0e5'
    """
    import google_crc32c

    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(content: bytes) -> bytes:
    """Return `content` as a record."""
    length = len(content).to_bytes(8, "little")
    checksums = [_CHECKSUM.pack(masked_crc(part)) for part in (length, content)]
    return b"".join([length, checksums[0], content, checksums[1]])


def compression_of(url: str, compression: str | None) -> FileCompression | None:
    """Return the compression of a file: as given, or for "auto" by its ending.

    Example:
        >>> compression_of("faces.tfrecord.gz", "auto"), compression_of("faces.tfrecord", "auto")
        ('gzip', None)
    """
    check_choice("compression", compression, ("auto", "gzip", "zlib", None))
    if compression == "gzip" or compression == "zlib" or compression is None:
        return compression
    return next((c for end, c in _ENDINGS.items() if url.lower().endswith(end)), None)


def read_frames(
    file: BinaryIO,
    *,
    size_bytes: int,
    source: str,
    compression: FileCompression | None = None,
    on_damage: Callable[[DataError], None] | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Yield the records of a file: where each begins (once decompressed), and its content.

    Args:
        file: open for reading.
        size_bytes: its length.
        source: its name, for errors.
        compression: "gzip", "zlib" or None (default).
        on_damage: receives what is wrong, and may raise it; otherwise reading continues at the
            next record whose checksums are right. Default None: raise.

    Raises:
        DataError: if a checksum is wrong or the file ends within a record, naming the byte.
        OSError: if the file cannot be read.
    """
    window = ByteWindow(file, size_bytes=size_bytes, source=source)
    take = _taker(window) if compression is None else _unpacker(file, source)
    at = 0
    while True:
        try:
            found = _frame(take, at, source, MAX_UNPACKED_BYTES if compression else window.left)
        except DataError as error:
            _report(error, on_damage)
            if compression is not None or not _seek_frame(window, at + 1):
                return
            at = window.position
            continue
        if found is None:
            return
        content, is_intact = found
        if is_intact:
            yield at, content
        else:  # the length was right: the next record begins behind it
            error = DataError(
                "the content of a TFRecord must have its checksum. "
                f"Received: another at byte {at} of {source}. The record is damaged."
            )
            _report(error, on_damage)
        at += _HEAD.size + len(content) + _CHECKSUM.size


def _report(error: DataError, on_damage: Callable[[DataError], None] | None) -> None:
    if on_damage is None:
        raise error
    on_damage(error)


def _frame(
    take: Callable[[int], bytes], at: int, source: str, largest: int
) -> tuple[bytes, bool] | None:
    """Return the content of the next record, and whether it is intact; None at the end."""
    head = take(_HEAD.size)
    if not head:
        return None
    length, checksum = _HEAD.unpack(head.ljust(_HEAD.size, b"\0"))
    if len(head) == _HEAD.size and masked_crc(head[:8]) != checksum:
        raise DataError(
            "the length of a TFRecord must have its checksum. "
            f"Received: another at byte {at} of {source}. The file is damaged, compressed in "
            "another way (`compression`), or of another kind."
        )
    body = b"" if length > largest else take(length + _CHECKSUM.size)
    if len(head) < _HEAD.size or len(body) < length + _CHECKSUM.size:
        raise DataError(
            "a TFRecord must lie within its file. "
            f"Received: one at byte {at} of {source} that is cut off, or too long. "
            "The file is damaged, or not complete."
        )
    content = body[:length]
    return content, masked_crc(content) == _CHECKSUM.unpack(body[length:])[0]


def _taker(window: ByteWindow) -> Callable[[int], bytes]:
    return lambda count: window.take(min(count, window.left), "a record")


def _unpacker(file: BinaryIO, source: str) -> Callable[[int], bytes]:
    """Return a function that decompresses the next bytes of a gzip or zlib file."""
    import pyarrow as pa

    # Arrow recognizes zlib too, and files of several members.
    stream = pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "gzip")

    def take(count: int) -> bytes:
        try:
            return stream.read(count)
        except OSError as error:
            # Errors of the store are other than those of the decompression.
            if not str(error).startswith(("zlib", "Truncated")):
                raise
            raise DataError(
                f"compressed bytes must be intact and complete. Received: {source} ({error})."
            ) from None

    return take


def _seek_frame(window: ByteWindow, start: int) -> bool:
    """Move to the next record, at `start` or behind it, whose checksums are right."""
    while window.size_bytes - start >= _HEAD.size:
        window.position = start
        block = window.peek(min(window.left, _SEARCHED_BYTES), "a record")
        numbers = np.frombuffer(block, np.uint8)
        # No file has 2**40 bytes: only where the length's three high bytes are 0 may one begin.
        high = (numbers[5:-6] | numbers[6:-5] | numbers[7:-4]) == 0
        for offset in np.flatnonzero(high).tolist():
            window.position = at = start + offset
            try:
                found = _frame(_taker(window), at, window.source, window.left)
            except DataError:
                continue
            if found and found[1]:
                window.position = at
                return True
        start += len(block) - _HEAD.size + 1
    return False
