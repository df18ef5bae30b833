"""Open files of HDFS, as Python's own file objects."""

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

# Of the sizes from 128 kB to 256 MB, the client reads and writes this one fastest.
_PIECE_BYTES = 4 << 20
_BUFFER_BYTES = 256 << 10
_Call = Callable[[Callable[[], Any], str], Any]


def open_reader(
    open_inner: Callable[[], Any], call: _Call, path: str, version: Callable[[], Any] | None = None
) -> BinaryIO:
    """A file to read, with a buffer.

    Args:
        open_inner: opens it with the client.
        call: runs a function of the client in time, given what it does.
        path: for messages.
        version: what changes when another file takes its place; default None: nobody knows.
    """
    reader = _Reader(open_inner, call, path, version)
    return cast(BinaryIO, io.BufferedReader(reader, _BUFFER_BYTES))


def open_writer(open_inner: Callable[[], Any], call: _Call, path: str) -> BinaryIO:
    """A new file to write, with a buffer; arguments as of `open_reader`."""
    return cast(BinaryIO, io.BufferedWriter(_Writer(open_inner, call, path), _PIECE_BYTES))


class _Reader(io.RawIOBase):
    def __init__(
        self,
        open_inner: Callable[[], Any],
        call: _Call,
        path: str,
        version: Callable[[], Any] | None,
    ) -> None:
        super().__init__()
        self._open_inner, self._call, self._path = open_inner, call, path
        self._inner: Any = call(open_inner, f"open {path}")
        self.size: int = call(self._inner.file_length, f"open {path}")
        # One piece comes from one file in any case, and is not worth another question.
        is_large = version is not None and self.size > _PIECE_BYTES
        self._version = version if is_large else None
        self._opened = call(version, f"open {path}") if version is not None and is_large else None
        self._at = 0
        # What was read beyond the last request, which ended at `_ahead_at`.
        self._ahead, self._ahead_at = memoryview(b""), -1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise ValueError(f"a place in a file must be at least 0. Received: {start + offset}.")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        wanted = min(len(target), max(0, self.size - self._at))
        if not wanted:
            return 0
        if self._at != self._ahead_at:
            # The first read at a place may be the only one there.
            found = self._fetch(min(wanted, _PIECE_BYTES))
        elif not self._ahead:
            found = self._fetch(min(_PIECE_BYTES, self.size - self._at))
        else:
            found = self._ahead
        count = min(wanted, len(found))
        target[:count] = found[:count]
        self._at += count
        self._ahead, self._ahead_at = found[count:], self._at
        return count

    def readall(self) -> bytes:
        content = bytearray(max(0, self.size - self._at))
        view, at = memoryview(content), 0
        while count := self.readinto(view[at:]):
            at += count
        view.release()
        return bytes(content)

    def _fetch(self, size_bytes: int) -> memoryview:
        at = self._at
        what = f"read {self._path}"
        try:
            content = self._call(lambda: self._inner.read_range(at, size_bytes), what)
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise
            # Where its blocks are may have changed since; ask anew, once.
            self._inner = self._call(self._open_inner, what)
            self._require_same_file(what)
            content = self._call(lambda: self._inner.read_range(at, size_bytes), what)
        if len(content) != size_bytes:
            raise OSError(f"{size_bytes} bytes of {self._path} were read as {len(content)}.")
        return memoryview(content)

    def _require_same_file(self, what: str) -> None:
        """After opening anew: what is there may be another file by now, of other content."""
        length = self._call(self._inner.file_length, what)
        version = None if self._version is None else self._call(self._version, what)
        if (length, version) != (self.size, self._opened):
            raise OSError(f"{self._path} was replaced while it was read. Read it again.")


class _Writer(io.RawIOBase):
    def __init__(self, open_inner: Callable[[], Any], call: _Call, path: str) -> None:
        super().__init__()
        self._call, self._path = call, path
        self._at = 0
        self._failure: BaseException | None = None
        self._inner: Any = call(open_inner, f"create {path}")

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, buffer: Any, /) -> int:
        if self._failure is not None:
            raise self._failure
        content = memoryview(buffer).cast("B")[:_PIECE_BYTES]
        # Given up or interrupted, the call may still read the buffer: it gets a copy of its own.
        piece = bytes(content)
        inner = self._inner
        try:
            self._call(lambda: inner.write(piece), f"write {self._path}")
        except BaseException as error:
            self._failure = error
            raise
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        inner, self._inner = self._inner, None
        # After a failure the client would make a file of what there is.
        if self._failure is None:
            self._call(inner.close, f"write {self._path}")
