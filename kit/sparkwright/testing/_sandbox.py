"""What all clusters for tests have in common: one folder, and processes that end with this one."""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from sparkwright.errors import ConfigurationError

from ._server_process import Keeper, ServerProcess

T = TypeVar("T")


class Sandbox:
    """Servers in one temporary folder, which end with this process, however it ends.

    A kind of sandbox says in `_start` what runs in it.

    Attributes:
        folder: for everything; it exists from `start` to `close`.
    """

    def __init__(self, name: str) -> None:
        """Describe it.

        Args:
            name: part of the folder's name.
        """
        self.folder = Path()
        self._name = name
        self._keeper: Keeper | None = None
        self._servers: list[ServerProcess] = []

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.close()

    def start(self) -> Self:
        """Start it, unless it runs, and wait until it is ready; returns it.

        Raises:
            ConfigurationError: if this machine lacks what it needs.
            NetworkError: if a process ends; with its log's end.
            RunTimeoutError: if a process is not ready in time; with its log's end.
        """
        if self._keeper is not None:
            return self
        self._prepare()
        self.folder = Path(tempfile.mkdtemp(prefix=f"sparkwright-{self._name}-"))
        self._keeper = Keeper(self.folder)
        try:
            self._start(self._keeper)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """End all processes and remove the folder; nothing if it does not run."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        for server in self._servers:
            server.kill()
        self._servers = []
        self._end(keeper)
        # It ends what still runs in the folder as well, such as executors.
        keeper.close()

    def _prepare(self) -> None:
        """Find what is needed, before there is anything to clean up."""

    def _start(self, keeper: Keeper) -> None:
        """Start the servers; if it raises, everything is ended."""
        raise NotImplementedError

    def _end(self, keeper: Keeper) -> None:
        """End what is no server, and forget servers that have been ended."""

    def _started(self, part: T | None) -> T:
        """What is there once it has been started.

        Raises:
            ConfigurationError: if it has not.
        """
        if part is None:
            raise ConfigurationError(
                f"{type(self).__name__} must have been started. Received: one that does not run. "
                "Use it with `with`, or call start()."
            )
        return part

    def _add_server(self, name: str, keeper: Keeper, *, logs: Path | None = None) -> ServerProcess:
        """A server yet to be started; its log is in `logs`, by default in the folder."""
        server = ServerProcess(name, logs or self.folder, keeper)
        self._servers.append(server)
        return server
