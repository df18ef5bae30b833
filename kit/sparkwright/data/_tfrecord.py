"""TFRecord: records with checksums, and reading them past damage.

    record = length, uint64 | checksum of the length | content | checksum of the content

The low byte of a number comes first. A checksum is CRC-32C, rotated right by 15 bits plus
0xa282ead8. Files may be compressed as a whole, by gzip or zlib.

References:
    TensorFlow, `tensorflow/core/lib/io/record_writer.h` and `lib/hash/crc32c.h`.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._record_bytes import MAX_UNPACKED_BYTES, ByteWindow

FileCompression = Literal["gzip", "zlib"]
WINDOW_BITS = {"gzip": 31, "zlib": 15}
_ENDINGS = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib"}
_HEAD = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_READ_BYTES = 1 << 20


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

    Raises:
        ConfigurationError: if it is not "gzip", "zlib", None or "auto".

    Example:
        >>> compression_of("faces.tfrecord.gz", "auto"), compression_of("faces.tfrecord", "auto")
        ('gzip', None)
    """
    if compression == "auto":
        compression = next((c for end, c in _ENDINGS.items() if url.lower().endswith(end)), None)
    if compression is None or compression == "gzip" or compression == "zlib":
        return compression
    raise ConfigurationError(
        '`compression` must be "auto", "gzip", "zlib" or None. '
        f"Received: compression={compression!r}."
    )


class _Unpacked:
    """The bytes of a compressed file."""

    def __init__(self, file: BinaryIO, compression: FileCompression) -> None:
        self._file, self._bits = file, WINDOW_BITS[compression]
        self._unpacker = zlib.decompressobj(wbits=self._bits)
        self._packed, self._held = b"", bytearray()
        self._begun = True  # a file without any byte is not compressed

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end."""
        while len(self._held) < count and self._more():
            pass
        content = bytes(self._held[:count])
        del self._held[:count]
        return content

    def _more(self) -> bool:
        if self._unpacker.eof:  # gzip files may be several, one after another
            self._packed = self._unpacker.unused_data + self._packed
            self._unpacker = zlib.decompressobj(wbits=self._bits)
            self._begun = False
        self._packed = self._packed or self._file.read(_READ_BYTES)
        if not self._packed:
            if self._begun:
                raise DataError("compressed bytes must be complete. Received: an incomplete file.")
            return False
        self._begun = True
        try:
            self._held += self._unpacker.decompress(self._packed, _READ_BYTES)
        except zlib.error as error:
            raise DataError(f"compressed bytes must be intact. Received: {error}.") from None
        self._packed = self._unpacker.unconsumed_tail
        return True


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
    unpacked = None if compression is None else _Unpacked(file, compression)
    at = 0

    def take(count: int) -> bytes:
        if unpacked is not None:
            return unpacked.take(count)
        return window.take(min(count, window.left), "a record")

    def frame() -> tuple[bytes, bool] | None:
        """Return the content, and whether its checksum is right; None at the end."""
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
        largest = window.left if unpacked is None else MAX_UNPACKED_BYTES
        body = b"" if length > largest else take(length + _CHECKSUM.size)
        if len(head) < _HEAD.size or len(body) < length + _CHECKSUM.size:
            raise DataError(
                "a TFRecord must lie within its file. "
                f"Received: one at byte {at} of {source} that is cut off, or too long. "
                "The file is damaged, or not complete."
            )
        return body[:length], masked_crc(body[:length]) == _CHECKSUM.unpack(body[length:])[0]

    def report(error: DataError) -> None:
        if on_damage is None:
            raise error
        on_damage(error)

    while True:
        try:
            found = frame()
        except DataError as error:
            text = str(error)
            report(
                error
                if source in text
                else DataError(f"{text} It is behind byte {at} of {source}.")
            )
            if unpacked is not None or not _seek_frame(window, at + 1):
                return
            at = window.position
            continue
        if found is None:
            return
        if found[1]:
            yield at, found[0]
        else:  # the length was right: the next record begins behind it
            report(
                DataError(
                    "the content of a TFRecord must have its checksum. "
                    f"Received: another at byte {at} of {source}. The record is damaged."
                )
            )
        at += _HEAD.size + len(found[0]) + _CHECKSUM.size


def _seek_frame(window: ByteWindow, start: int) -> bool:
    """Move to the next record, at `start` or behind it, whose checksums are right."""
    while window.size_bytes - start >= _HEAD.size:
        window.position = start
        block = window.peek(min(window.left, _READ_BYTES), "a record")
        numbers = np.frombuffer(block, np.uint8)
        # No file has 2**40 bytes: only where the length's three high bytes are 0 may one begin.
        high = (numbers[5:-6] | numbers[6:-5] | numbers[7:-4]) == 0
        for offset in np.flatnonzero(high).tolist():
            window.position = at = start + offset
            length, checksum = _HEAD.unpack(head := window.take(_HEAD.size, "a record"))
            if masked_crc(head[:8]) != checksum or length + _CHECKSUM.size > window.left:
                continue
            body = window.take(length + _CHECKSUM.size, "a record")
            if masked_crc(body[:length]) == _CHECKSUM.unpack(body[length:])[0]:
                window.position = at
                return True
        start += len(block) - _HEAD.size + 1
    return False
