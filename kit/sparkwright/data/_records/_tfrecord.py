"""TFRecord: how records follow each other, each with two checksums.

    record = length, uint64 | checksum of the length | content | checksum of the content

Numbers are low byte first. A checksum is CRC-32C, rotated right by 15 bits plus 0xa282ead8. Files
may be compressed as a whole, by gzip or zlib.

References:
    TensorFlow, `tensorflow/core/lib/io/record_writer.h` and `lib/hash/crc32c.h`.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._byte_window import ByteWindow

FileCompression = Literal["gzip", "zlib"]
_HEAD = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_LARGEST_UNPACKED_RECORD = 1 << 30
_READ_BYTES = 1 << 20
WINDOW_BITS = {"gzip": 31, "zlib": 15}
_ENDINGS = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib"}


def masked_crc(content: bytes) -> int:
    """The checksum of `content` as TFRecord files hold it, a uint32.

    Example:
        >>> hex(masked_crc(b"123456789"))
        '0xc78ab0e5'
    """
    import google_crc32c

    crc = google_crc32c.value(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(content: bytes) -> bytes:
    """`content` as a record."""
    length = len(content).to_bytes(8, "little")
    return b"".join(
        [
            length,
            _CHECKSUM.pack(masked_crc(length)),
            content,
            _CHECKSUM.pack(masked_crc(content)),
        ]
    )


def compression_of(url: str, compression: str | None) -> FileCompression | None:
    """The compression of a file: as given, or by its ending.

    Args:
        url: the file.
        compression: "gzip", "zlib", None, or "auto": by `.gz`, `.gzip`, `.zlib` and `.zz`.

    Raises:
        ConfigurationError: if it is something else.

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


class _Plain:
    """The bytes of a file as they are."""

    def __init__(self, window: ByteWindow) -> None:
        self.window = window

    @property
    def position(self) -> int:
        return self.window.position

    @property
    def largest(self) -> int:
        return self.window.left

    def some(self, count: int) -> bytes:
        return self.window.take(min(count, self.window.left), "a record")


class _Unpacked:
    """The bytes of a compressed file; what they unfold to is known only while reading."""

    largest = _LARGEST_UNPACKED_RECORD

    def __init__(self, file: BinaryIO, compression: FileCompression) -> None:
        self.position = 0
        self._file, self._bits = file, WINDOW_BITS[compression]
        self._unpacker = zlib.decompressobj(wbits=self._bits)
        self._packed = b""
        self._held = bytearray()
        self._begun = True  # a file without any byte is not compressed

    def some(self, count: int) -> bytes:
        while len(self._held) < count and self._more():
            pass
        content = bytes(self._held[:count])
        del self._held[:count]
        self.position += len(content)
        return content

    def _more(self) -> bool:
        if self._unpacker.eof:  # gzip files may be several, one after another
            self._packed = self._unpacker.unused_data + self._packed
            self._unpacker = zlib.decompressobj(wbits=self._bits)
            self._begun = False
        self._packed = self._packed or self._file.read(_READ_BYTES)
        if not self._packed:
            if self._begun:
                raise DataError("compressed bytes must be complete. Received: they break off.")
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
    """The records of a file: where each begins (once unpacked), and its content.

    Args:
        file: open for reading.
        size_bytes: its length.
        source: its name, for errors.
        compression: "gzip", "zlib" or None (default).
        on_damage: gets what is wrong, and may raise it; else reading goes on at the next record
            whose checksums are right. Default None: raise.

    Raises:
        DataError: if a checksum is wrong or the file ends within a record, naming the byte.
        OSError: whatever the file says.
    """
    window = ByteWindow(file, size_bytes=size_bytes, source=source)
    content: _Plain | _Unpacked = (
        _Plain(window) if compression is None else _Unpacked(file, compression)
    )
    while True:
        at = content.position
        try:
            found = _next_frame(content, at, source)
        except _WrongContent as error:
            _tell(on_damage, error)
            continue  # the length was right: the next record begins here
        except DataError as error:
            if compression is not None and source not in str(error):
                error = DataError(f"{error} It lies behind byte {at} of {source}, unpacked.")
            _tell(on_damage, error)
            if isinstance(content, _Unpacked) or not _seek_frame(window, at + 1):
                return
            continue
        if found is None:
            return
        yield at, found


class _WrongContent(DataError):
    """The content of a record is damaged; where the next begins is known."""


def _tell(on_damage: Callable[[DataError], None] | None, error: DataError) -> None:
    if on_damage is None:
        raise DataError(str(error)) from None
    on_damage(error)


def _next_frame(content: _Plain | _Unpacked, at: int, source: str) -> bytes | None:
    head = content.some(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise _broken_off(at, source)
    length, checksum = _HEAD.unpack(head)
    if masked_crc(head[:8]) != checksum:
        raise DataError(
            "the length of a TFRecord must have its checksum. "
            f"Received: another at byte {at} of {source}. The file is damaged, compressed in "
            "another way (`compression`), or of another kind."
        )
    if length > content.largest:
        raise _broken_off(at, source)
    body = content.some(length + _CHECKSUM.size)
    if len(body) < length + _CHECKSUM.size:
        raise _broken_off(at, source)
    if masked_crc(body[:length]) != _CHECKSUM.unpack(body[length:])[0]:
        raise _WrongContent(
            "the content of a TFRecord must have its checksum. "
            f"Received: another at byte {at} of {source}. The record is damaged."
        )
    return body[:length]


def _broken_off(at: int, source: str) -> DataError:
    return DataError(
        "a TFRecord must lie within its file. "
        f"Received: one at byte {at} of {source} that is cut off, or too long. "
        "The file is damaged, or not complete."
    )


def _seek_frame(window: ByteWindow, start: int) -> bool:
    """Go to the next record, at `start` or behind it, whose checksums are right."""
    while window.size_bytes - start >= _HEAD.size:
        window.seek(start)
        block = window.peek(min(window.left, _READ_BYTES), "a record")
        numbers = np.frombuffer(block, np.uint8)
        # No file has 2**40 bytes: only where the length's three high bytes are 0 may one begin.
        high = (numbers[5:-6] | numbers[6:-5] | numbers[7:-4]) == 0
        for offset in np.flatnonzero(high).tolist():
            if _is_frame(window, start + offset):
                window.seek(start + offset)
                return True
        start += len(block) - _HEAD.size + 1
    return False


def _is_frame(window: ByteWindow, at: int) -> bool:
    window.seek(at)
    length, checksum = _HEAD.unpack(head := window.take(_HEAD.size, "a record"))
    if masked_crc(head[:8]) != checksum or length + _CHECKSUM.size > window.left:
        return False
    body = window.take(length + _CHECKSUM.size, "a record")
    return masked_crc(body[:length]) == _CHECKSUM.unpack(body[length:])[0]
