"""Reading a binary file front to back with jumps, every length checked against what is left."""

from typing import BinaryIO

from sparkwright.errors import DataError

from ._hadoop_types import decode_vint, vint_size


class ByteWindow:
    """A buffer over a file that knows its length: nothing longer than the rest is ever allocated.

    Attributes:
        source: the file's name, for errors.
        size_bytes: the file's length.
        position: where the next byte comes from.
    """

    def __init__(
        self, file: BinaryIO, *, size_bytes: int, source: str, read_ahead_bytes: int = 1 << 20
    ) -> None:
        """Start at the file's first byte; read at least `read_ahead_bytes` at a time."""
        self.source, self.size_bytes = source, size_bytes
        self.position = 0
        self._file, self._read_ahead_bytes = file, read_ahead_bytes
        self._buffer, self._start = b"", 0

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return self.size_bytes - self.position

    def seek(self, position: int) -> None:
        """Go to `position`, which must be in the file or at its end."""
        self.position = position

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes.

        Args:
            count: how many; not believed before it has been compared with the file's length.
            what: their name, for the error.

        Raises:
            DataError: if `count` is negative or more than is left.
            OSError: whatever the file says.
        """
        content = self.peek(count, what)
        self.position += count
        return content

    def peek(self, count: int, what: str) -> bytes:
        """As `take`, without going on."""
        if not 0 <= count <= self.left:
            raise DataError(
                f"{what} must lie within the file. Received: {count} bytes announced at byte "
                f"{self.position} of {self.source}, {self.left} bytes left. "
                "It is damaged, or broken off."
            )
        offset = self.position - self._start
        if offset < 0 or offset + count > len(self._buffer):
            self._fill(count)
            offset = 0
        return self._buffer[offset : offset + count]

    def fetched(self) -> tuple[bytes, int]:
        """What has been fetched, and where in it the next byte is; maybe at its end."""
        offset = self.position - self._start
        return (self._buffer, offset) if 0 <= offset <= len(self._buffer) else (b"", 0)

    def vint(self, what: str) -> int:
        """The VInt that comes next.

        Raises:
            DataError: if the file ends before it does.
            OSError: whatever the file says.
        """
        size = vint_size(self.peek(1, what)[0])
        return decode_vint(self.take(size, what))[0]

    def int32(self, what: str) -> int:
        """The next 4 bytes as a signed number, high byte first; errors as for `vint`."""
        return int.from_bytes(self.take(4, what), "big", signed=True)

    def find(self, pattern: bytes, start: int, end: int) -> int | None:
        """Where `pattern` next begins, from `start` on and before `end`; None if nowhere.

        Raises:
            OSError: whatever the file says.
        """
        self.seek(max(start, 0))
        while self.left >= len(pattern) and self.position < end:
            count = min(self.left, max(self._read_ahead_bytes, 2 * len(pattern)))
            at = self.peek(count, "a sync mark").find(pattern)
            if at >= 0:
                return self.position + at if self.position + at < end else None
            self.position += count - len(pattern) + 1
        return None

    def _fill(self, count: int) -> None:
        wanted = min(max(count, self._read_ahead_bytes), self.left)
        self._file.seek(self.position)
        parts: list[bytes] = []
        while wanted > 0 and (part := self._file.read(wanted)):
            parts.append(part)
            wanted -= len(part)
        self._buffer, self._start = b"".join(parts), self.position
        if len(self._buffer) < count:
            raise DataError(
                f"a file must keep its length while it is read. Received: {self.source} ends at "
                f"byte {self._start + len(self._buffer)}, not at {self.size_bytes}."
            )
