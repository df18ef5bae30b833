"""An fsspec file system for `hdfs://` without Java, based on the package hdfs-native."""

import contextlib
import functools
import os
import posixpath
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, BinaryIO, TypeVar

from sparkwright.cluster.delegation import use_tokens_of_job
from sparkwright.errors import ConfigurationError

from ._hdfs_client import open_reader, open_writer, within

_T = TypeVar("_T")
HDFS = "hdfs"
_SCHEME = f"{HDFS}://"
_DEFAULT_PORT = 8020
_TIMEOUT_S = 60.0
# The client waits 60 s for each DataNode, and may try three.
_DATA_TIMEOUT_FACTOR = 3.0
# Retry a single NameNode for about 10 s, as Hadoop's client does. The client's defaults (15
# attempts, up to 15 s apart) suit several NameNodes with failover.
_ONE_NAMENODE = {"dfs.client.failover.max.attempts": "4"}
_ENTRIES_AT_ONCE = 1000
_IDENTITY = ("HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HADOOP_CONF_DIR", "HADOOP_HOME")


# Ids of processes that created a client, the first one first. A fork inherits the client's
# connections without the threads that serve them. The child would wait forever, or read responses
# meant for its parent.
_used_by: list[int] = []


def hdfs_system_of(url: str) -> tuple[Any, str]:
    """Return the file system of an "hdfs://" URL, see `docs/storage.md`, and the path in it."""
    if _used_by and _used_by[0] != os.getpid():
        raise ConfigurationError(
            "a process that uses HDFS must not be forked from one that has used it: they would "
            f"share connections. Received: process {os.getpid()}. Use another start method, such "
            "as multiprocessing.get_context('spawn')."
        )
    use_tokens_of_job()
    authority, slash, path = url.removeprefix(_SCHEME).partition("/")
    # A client reads these environment variables only once.
    identity = tuple(os.environ.get(name) for name in _IDENTITY)
    return _system(authority, _options(), identity), normal(slash + path)


def normal(path: str) -> str:
    """Return an absolute path without the parts "", "." and "..", which the NameNode rejects.

    Example:
        >>> normal("/a//b/../c/"), normal("")
        ('/a/c', '/')
    """
    return posixpath.normpath("/" + path.lstrip("/"))


def _options() -> tuple[tuple[str, Any], ...]:
    from fsspec.config import conf

    return tuple(sorted(conf.get("hdfs", {}).items()))


@functools.lru_cache(maxsize=64)
def _system(authority: str, options: tuple[tuple[str, Any], ...], identity: tuple[Any, ...]) -> Any:
    del identity
    if "@" in authority:
        raise ConfigurationError(
            f"an HDFS URL must not contain a user. Received: {_SCHEME}{authority}. Set the "
            "environment variable HADOOP_USER_NAME."
        )
    # fsspec's own cache does not distinguish users.
    return _class()(authority, dict(options), skip_instance_cache=True)


def _timeout_s(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.0 < (timeout_s := float(text)) < float("inf"):
            return timeout_s
    raise ConfigurationError(
        f"timeout_s of HDFS must be a positive number of seconds. Received: {text!r}. Check the "
        "environment variable FSSPEC_HDFS_TIMEOUT_S."
    )


@functools.cache
def _class() -> type[Any]:
    """Create the class on first use, so that fsspec is imported only if needed."""
    from fsspec import AbstractFileSystem

    return type("HdfsSystem", (HdfsOperations, AbstractFileSystem), {})


class HdfsOperations:
    """HDFS implementation of the methods that fsspec's AbstractFileSystem requires."""

    protocol = HDFS
    root_marker = "/"

    def __init__(self, authority: str, options: dict[str, Any], **_: Any) -> None:
        """Store the options; the client connects on the first call."""
        super().__init__()
        self._server = f"{_SCHEME}{authority}"
        self._settings = {name: str(value) for name, value in options.items()}
        self._timeout_s = _timeout_s(self._settings.pop("timeout_s", str(_TIMEOUT_S)))
        self._client: Any = None

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        if path.startswith(_SCHEME):
            path = "/" + path.removeprefix(_SCHEME).partition("/")[2]
        return normal(path)

    def unstrip_protocol(self, name: str) -> str:
        return f"{self._server}{self._strip_protocol(name)}"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the size, type and modification time of a file or folder."""
        path = self._strip_protocol(path)
        return _entry(self._ask(lambda client: client.get_file_info(path), f"examine {path}"))

    def exists(self, path: str, **_: Any) -> bool:
        """Whether the file or folder exists; other errors are raised."""
        return self._found(path) is not None

    def isdir(self, path: str) -> bool:
        """Whether `path` is an existing folder; other errors are raised."""
        return (self._found(path) or {}).get("type") == "directory"

    def _found(self, path: str) -> dict[str, Any] | None:
        try:
            return self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a folder; for a file, return the file itself."""
        entries = self._listed(self._strip_protocol(path), recursive=False)
        return entries if detail else [entry["name"] for entry in entries]

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **_: Any,
    ) -> Any:
        """List the files below a folder, or the file itself; raise for unreadable folders."""
        path = self._strip_protocol(path)
        root = self._found(path)
        entries = [] if root is None else [root]
        if root is not None and root["type"] == "directory":
            entries += self._below(path, maxdepth)
        found = {e["name"]: e for e in entries if withdirs or e["type"] == "file"}
        names = sorted(found)
        return {name: found[name] for name in names} if detail else names

    def _below(self, path: str, maxdepth: int | None) -> list[dict[str, Any]]:
        if maxdepth is None:
            return self._listed(path, recursive=True)
        entries: list[dict[str, Any]] = []
        folders = [path]
        for _ in range(maxdepth):
            level = [entry for folder in folders for entry in self._listed(folder, recursive=False)]
            folders = [entry["name"] for entry in level if entry["type"] == "directory"]
            entries += level
        return entries

    def _listed(self, path: str, *, recursive: bool) -> list[dict[str, Any]]:
        what = f"list {path}"
        found: Iterator[Any] = self._ask(lambda client: client.list_status(path, recursive), what)
        entries: list[dict[str, Any]] = []
        while batch := self._ask(lambda _: list(islice(found, _ENTRIES_AT_ONCE)), what):
            entries += map(_entry, batch)
        return entries

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Create a folder, unless it exists."""
        path = self._strip_protocol(path)
        self._ask(lambda client: client.mkdirs(path, 0o755, create_parents), f"make {path}")

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Create a folder and its parents."""
        if not exist_ok and self.exists(path):
            raise FileExistsError(f"{path} exists.")
        self.mkdir(path)

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        """Rename a file or folder; `overwrite=True` replaces a file, or an empty folder."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        overwrite = bool(options.get("overwrite", False))
        self._ask(lambda client: client.rename(source, target, overwrite), f"rename {source}")

    def rm_file(self, path: str) -> None:
        self.rm(path)

    def rmdir(self, path: str) -> None:
        self.rm(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove a file or an empty folder; with `recursive`, any folder."""
        assert maxdepth is None
        for name in self._strip_protocol(path if isinstance(path, list) else [path]):
            removed = self._ask(
                lambda client, n=name: client.delete(n, recursive), f"remove {name}"
            )
            if not removed:
                raise FileNotFoundError(name)

    def open(self, path: str, mode: str = "rb", **_: Any) -> BinaryIO:
        """Open a file for reading ("rb") or a new file for writing ("wb")."""
        path = self._strip_protocol(path)
        # The client's own file objects would publish a partial file when garbage-collected.
        if mode == "rb":
            return open_reader(
                lambda: self._connected().inner.read(path),
                self._transfer,
                path,
                lambda: self._connected().inner.get_file_info(path).modification_time,
            )
        if mode != "wb":
            raise ConfigurationError(
                f"an HDFS file must be opened for reading or overwriting. Received: mode={mode!r}."
            )
        return open_writer(lambda: _create(self._connected(), path), self._transfer, path)

    def _ask(self, function: Callable[[Any], _T], what: str) -> _T:
        """Call the NameNode."""
        return self._within(self._timeout_s, lambda: function(self._connected()), what)

    def _transfer(self, function: Callable[[], _T], what: str) -> _T:
        """Read or write one piece of a file on DataNodes."""
        return self._within(self._timeout_s * _DATA_TIMEOUT_FACTOR, function, what)

    def _within(self, timeout_s: float, function: Callable[[], _T], what: str) -> _T:
        try:
            return within(timeout_s, function, what=what, server=self._server)
        except TimeoutError:
            self._client = None  # the call may still occupy its connection
            raise

    def _connected(self) -> Any:
        client = self._client
        if client is None:
            client = self._client = _new_client(self._server, self._settings)
        return client


def _new_client(server: str, settings: dict[str, str]) -> Any:
    try:
        from hdfs_native import Client
    except ImportError as error:
        raise ConfigurationError(
            f"hdfs:// needs the package hdfs-native. Received: {error}. Install it, on every "
            "machine, with: pip install 'sparkwright[hdfs]'."
        ) from None
    _used_by.append(os.getpid())
    authority = server.removeprefix(_SCHEME)
    if ":" in authority:
        return Client(server, _ONE_NAMENODE | settings)
    try:
        return Client(server, settings or None)
    except RuntimeError:
        if not authority:
            raise
        # There is no nameservice of that name: use it as a NameNode's host, on the default port.
        return Client(f"{server}:{_DEFAULT_PORT}", _ONE_NAMENODE | settings)


def _create(client: Any, path: str) -> Any:
    from hdfs_native import WriteOptions

    return client.inner.create(path, WriteOptions(overwrite=True))


def _entry(status: Any) -> dict[str, Any]:
    return {
        "name": status.path,
        "size": status.length,
        "type": "directory" if status.isdir else "file",
        "mtime": status.modification_time,
        "owner": status.owner,
        "group": status.group,
        "permission": status.permission,
    }
