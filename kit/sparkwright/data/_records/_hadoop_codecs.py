"""The compressions of Hadoop's record files, by the class names that stand in their headers.

What is compressed unfolds to 1 GiB at most, however little a file needs to announce more.
"""

import bz2
import zlib
from collections.abc import Callable
from typing import Protocol

from sparkwright.errors import DataError

DEFAULT_CODEC = "org.apache.hadoop.io.compress.DefaultCodec"
MAX_UNPACKED_BYTES = 1 << 30
_COMPRESS = "org.apache.hadoop.io.compress."


def check_codec(class_name: str, *, source: str) -> None:
    """Refuse a compression that is not read here.

    Raises:
        DataError: naming the class and those that are.
    """
    if class_name not in _NEW:
        known = ", ".join(sorted(name.rpartition(".")[2] for name in _NEW))
        raise DataError(
            f"a record file must be compressed with one of {known}. "
            f"Received: {class_name!r} in {source}. Write it again with one of these."
        )


def pack(content: bytes) -> bytes:
    """`content` as DefaultCodec writes it: one zlib stream."""
    return zlib.compress(content)


def unpack(codec: str, content: bytes) -> bytes:
    """The inverse of `pack`, for any of the codecs.

    Raises:
        DataError: if `content` is damaged, incomplete or unfolds to more than 1 GiB.
    """
    parts: list[bytes] = []
    left = MAX_UNPACKED_BYTES
    while content:  # gzip and bzip2 files may be several, one after another
        unpacker = _NEW[codec]()
        try:
            parts.append(unpacker.decompress(content, left + 1))
        except (zlib.error, OSError, ValueError) as error:
            raise DataError(
                f"compressed bytes must be what {codec.rpartition('.')[2]} writes. "
                f"Received: {len(content)} bytes that are not ({error})."
            ) from None
        left -= len(parts[-1])
        if left < 0:
            raise DataError(
                f"compressed bytes must unfold to {MAX_UNPACKED_BYTES} bytes at most. "
                f"Received: more, from {len(content)} bytes."
            )
        if not unpacker.eof:
            raise DataError(
                "compressed bytes must be complete. "
                f"Received: {len(content)} bytes that break off in the middle."
            )
        content = unpacker.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _Unpacker(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _gzip() -> _Unpacker:
    return zlib.decompressobj(wbits=31)


_NEW: dict[str, Callable[[], _Unpacker]] = {
    DEFAULT_CODEC: zlib.decompressobj,
    _COMPRESS + "DeflateCodec": zlib.decompressobj,
    _COMPRESS + "GzipCodec": _gzip,
    _COMPRESS + "BZip2Codec": bz2.BZ2Decompressor,
}
