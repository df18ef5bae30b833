"""Time-outs, error messages and Python file objects for the HDFS client."""

import io
import re
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, BinaryIO, TypeVar, cast

from sparkwright.errors import NetworkError, RunTimeoutError, SparkwrightError

_T = TypeVar("_T")
# The fastest piece size for reading and writing, of sizes from 128 kB to 256 MB.
_PIECE_BYTES = 4 << 20
_BUFFER_BYTES = 256 << 10
_Call = Callable[[Callable[[], Any], str], Any]
# The client returns the server's exception as text: RPCError("class", "message\n\tat …").
_REMOTE = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_OWN = re.compile(r'(\w+)\("(.*)"\)', re.DOTALL)
# An error of the Kerberos library: its class, then ": " and the message.
_KERBEROS = re.compile(r'GSSAPIError\(.*, \d+, "[^:]*: (.*)"\)', re.DOTALL)
_ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}|\\(.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
# Words in the system libraries' errors for an unreachable host.
_CONNECTION = (
    *("connection", "failed to lookup", "no route", "timed out", "unreachable", "eof"),
    *("broken pipe", "refused", "reset by peer"),
)

_KINDS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "AccessControlException": PermissionError,
    "AuthorizationException": PermissionError,
    "SecretManager$InvalidToken": PermissionError,
    "ParentNotDirectoryException": NotADirectoryError,
    "PathIsNotDirectoryException": NotADirectoryError,
    "StandbyException": NetworkError,
}
_REMEDIES = {
    "AccessControlException": (
        "Without Kerberos, set the environment variable HADOOP_USER_NAME to another user, or ask "
        "the path's owner for permission."
    ),
    "SecretManager$InvalidToken": (
        "Call again: each Spark job receives new delegation tokens. Replace the file that "
        "HADOOP_TOKEN_FILE_LOCATION names."
    ),
    "SafeModeException": (
        "Wait until the NameNode knows all blocks, or, if it was entered manually, leave it "
        "with: hdfs dfsadmin -safemode leave."
    ),
    "DSQuotaExceededException": "Remove files there, or ask the administrator for a larger quota.",
    "NSQuotaExceededException": "Remove files there, or ask the administrator for a larger quota.",
    "StandbyException": (
        "Use the name of the nameservice instead of a host, with HADOOP_CONF_DIR set."
    ),
    "InvalidPathException": 'Names in HDFS must not contain ":" or empty parts.',
    "AlreadyBeingCreatedException": "Another writer has the file open; wait until it closes it.",
}
_NO_HOST = (
    "Name the NameNode's host and port, as in hdfs://namenode:8020/path, or set HADOOP_CONF_DIR to "
    "a folder with core-site.xml and hdfs-site.xml."
)


def on_thread(function: Callable[[], _T], timeout_s: float, *, name: str) -> "Future[_T]":
    """Call `function` on a daemon thread; return its future after at most `timeout_s`.

    Python waits at its exit for the threads of a pool, but not for daemons.
    """
    future: Future[_T] = Future()

    def settle() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # the client's panics do not derive from Exception
            future.set_exception(error)

    Thread(target=settle, name=name, daemon=True).start()
    wait([future], timeout_s)
    return future


def within(timeout_s: float, function: Callable[[], _T], *, what: str, server: str) -> _T:
    """Call `function` of the client on another thread and wait for it."""
    # The client waits for a NameNode without limit, and ignores Ctrl-C meanwhile.
    future = on_thread(function, timeout_s, name="hdfs-call")
    if not future.done():
        raise RunTimeoutError(
            f"Waited {timeout_s:g} s for {server} to {what}. Check that its NameNode and "
            "DataNodes run and are reachable; set another limit with the environment variable "
            "FSSPEC_HDFS_TIMEOUT_S."
        )
    error = future.exception()
    if error is None:
        return future.result()
    try:
        # Convert the client's errors and panics; raise all others unchanged.
        ours = isinstance(error, SparkwrightError) or not isinstance(error, OSError | RuntimeError)
        if ours and type(error).__name__ != "PanicException":
            raise error
        raise as_os_error(error, server=server) from None
    finally:
        del error, future  # a reference cycle would keep the caller's frames alive


def as_os_error(error: BaseException, *, server: str) -> OSError:
    """Convert an error of the client to an OSError with one sentence and a remedy."""
    text = str(error)
    if remote := _REMOTE.fullmatch(text):
        name = remote[1].rpartition(".")[2]
        message = _first_lines(_unescaped(remote[2]))
        remedy = _REMEDIES.get(name, "")
        kind = _KINDS.get(name, OSError)
        return kind(f"{_sentence(message or name)} {remedy}".rstrip())
    if isinstance(error, OSError) and "\n\tat " in text:
        message = _first_lines(text)
        kind = IsADirectoryError if message.startswith("Path is not a file") else type(error)
        return kind(_sentence(message))
    if isinstance(error, FileNotFoundError | FileExistsError):
        return error
    if found := _KERBEROS.fullmatch(text):
        return PermissionError(
            f"{server} requires a valid Kerberos ticket. Received: {_unescaped(found[1])}. Run "
            "kinit, or set the environment variable KRB5_CLIENT_KTNAME to your keytab; for "
            "executors, before Spark starts, or with `spark.kerberos.keytab` and "
            "`spark.kerberos.principal`."
        )
    if own := _OWN.fullmatch(text):
        text = f"{own[1]}: {_unescaped(own[2])}"
        if own[1] == "InvalidArgument":
            return OSError(f"{server} does not name a NameNode ({_unescaped(own[2])}). {_NO_HOST}")
    if text == "RPC listener disconnected":
        return NetworkError(
            f"{server} closed the connection at once. If it requires Kerberos, HADOOP_CONF_DIR "
            "must name a folder whose core-site.xml has hadoop.security.authentication=kerberos."
        )
    if any(word in text.lower() for word in _CONNECTION):
        return NetworkError(
            f"{server} cannot be reached ({_first_lines(text)}). Check the host and the port, and "
            "that its NameNode and DataNodes run."
        )
    return OSError(f"HDFS at {server} failed: {_first_lines(text)}")


def _first_lines(text: str) -> str:
    """Return the message on one line, without the server's stack trace."""
    return " ".join(text.partition("\n\tat ")[0].split())


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!")) else f"{text}."


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return _PLAIN.get(found[2], found[2])

    return _ESCAPE.sub(plain, text)


def open_reader(
    open_inner: Callable[[], Any], call: _Call, path: str, version: Callable[[], Any] | None = None
) -> BinaryIO:
    """Open a file for buffered reading; `version()` changes if the file is replaced."""
    return cast(
        BinaryIO, io.BufferedReader(_Reader(open_inner, call, path, version), _BUFFER_BYTES)
    )


def open_writer(open_inner: Callable[[], Any], call: _Call, path: str) -> BinaryIO:
    """Create a file for buffered writing; arguments as in `open_reader`."""
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
        self._size: int = call(self._inner.file_length, f"open {path}")
        # A file of one piece cannot be replaced between two reads.
        self._version = version if self._size > _PIECE_BYTES else None
        self._opened = None if self._version is None else call(self._version, f"open {path}")
        self._at = 0
        # Bytes read beyond the last request, which ended at `_ahead_at`.
        self._ahead, self._ahead_at = memoryview(b""), -1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(
                f"a position in a file must be at least 0. Received: {start + offset}."
            )
        self._at = start + offset
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        wanted = min(len(target), max(0, self._size - self._at))
        if not wanted:
            return 0
        if self._at != self._ahead_at:
            # Do not read ahead after a seek: there may be no second read.
            found = self._fetch(min(wanted, _PIECE_BYTES))
        elif not self._ahead:
            found = self._fetch(min(_PIECE_BYTES, self._size - self._at))
        else:
            found = self._ahead
        count = min(wanted, len(found))
        target[:count] = found[:count]
        self._at += count
        self._ahead, self._ahead_at = found[count:], self._at
        return count

    def readall(self) -> bytes:
        content = bytearray(max(0, self._size - self._at))
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
            # Its blocks may have moved: reopen the file and retry once.
            self._inner = self._call(self._open_inner, what)
            self._require_same_file(what)
            content = self._call(lambda: self._inner.read_range(at, size_bytes), what)
        if len(content) != size_bytes:
            raise OSError(f"{size_bytes} bytes of {self._path} were read as {len(content)}.")
        return memoryview(content)

    def _require_same_file(self, what: str) -> None:
        """Raise if the file was replaced since it was opened."""
        length = self._call(self._inner.file_length, what)
        version = None if self._version is None else self._call(self._version, what)
        if (length, version) != (self._size, self._opened):
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
        # After a time-out or Ctrl-C the call may still read the buffer, so it gets a copy.
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
        # After a failure, closing the client's file would publish the partial content.
        if self._failure is None:
            self._call(inner.close, f"write {self._path}")
