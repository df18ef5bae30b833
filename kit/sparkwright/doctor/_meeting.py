"""The driver's side of the doctor's job: all tasks meet here, so that each slot is seen once."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh._connection import Connection, Listener
from sparkwright.mesh._handshake import Address, close_socket

from ._lines import Lines
from ._probe import partners

_LOOK_AGAIN_S = 0.5


class Meeting:
    """Listens as a run would, until all tasks have come or no more do.

    Attributes:
        address: (host, port) that it listens on.
        came: tasks that were there at the same time.
        answers: executor -> what it told; for those whose task never ends.
        running: how many tasks Spark has begun, whose Python may be yet to come; at first none is
            known of.
    """

    def __init__(
        self,
        *,
        secret: bytes,
        host: str,
        ports: Sequence[int],
        tasks: int,
        quiet_s: float,
        timeout_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open a port.

        Args:
            secret: that tasks prove.
            host: the address to listen on.
            ports: the first free one is taken; (0,): any.
            tasks: how many to wait for.
            quiet_s: go on without the rest if nobody has come for so long, but for those whom
                Spark has begun.
            timeout_s: how long one task may be silent.
            clock: what time it is.

        Raises:
            NetworkError: if none of the ports can be opened.
        """
        self.came: set[int] = set()
        self.answers: dict[str, dict[str, Any]] = {}
        self.running: Callable[[], int] = lambda: 0
        self._tasks, self._quiet_s, self._timeout_s = tasks, quiet_s, timeout_s
        self._clock = clock
        self._addresses: dict[str, list[Any]] = {}
        self._labels: dict[str, str] = {}
        self._tried = 0
        self._last_news_s = time.monotonic()
        self._begun = False  # nobody waits for more tasks
        self._closed = False
        self._changed = threading.Condition()
        self._sockets: set[Any] = set()
        self._listener = Listener(
            secret=secret, host=host, ports=ports, on_connection=self._attend, name="doctor"
        )
        self.address: Address = self._listener.address

    def close(self) -> None:
        """Stop listening and let go of those who are still there."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            sockets = tuple(self._sockets)
        self._listener.close()
        for sock in sockets:
            close_socket(sock)

    def _attend(self, connection: Connection) -> None:
        with self._changed:
            if self._closed:
                connection.close()
                return
            self._sockets.add(connection.socket)
        assert connection.keys is not None
        lines = Lines(connection.socket, connection.keys, timeout_s=self._timeout_s)
        try:
            self._converse(lines)
        except (OSError, NetworkError, LookupError, TypeError, ValueError):
            pass  # The task tells what is wrong with the connection, if it can.
        finally:
            connection.close()
            with self._changed:
                self._sockets.discard(connection.socket)
                self._changed.notify_all()

    def _converse(self, lines: Lines) -> None:
        hello = lines.receive()
        executor, label = str(hello["executor"]), str(hello["label"])
        with self._changed:
            is_first = executor not in self._labels
            self._labels[executor] = label
        lines.send({"first": is_first})
        message = lines.receive()
        while message.get("time"):
            came = self._clock()
            lines.send({"came": came, "left": self._clock()})
            message = lines.receive()
        if is_first:
            self._arrive(executor, label, message)
        self._wait_for_all(int(hello["task"]))
        if is_first:
            lines.send({"others": self._others(executor)})
            peers = lines.receive()["peers"]
            self._have_tried(executor, peers)
        lines.send({})

    def _arrive(self, executor: str, label: str, message: dict[str, Any]) -> None:
        with self._changed:
            if message["address"] is not None:
                host, port = message["address"]
                self._addresses[executor] = [str(host), int(port)]
            self.answers[executor] = {
                "executor": executor,
                "label": label,
                "place": dict(message["place"]),
                "samples": message["samples"],
            }

    def _wait_for_all(self, task: int) -> None:
        with self._changed:
            if self._begun:
                return  # in a slot that another task has left
            self.came.add(task)
            self._last_news_s = time.monotonic()
            self._changed.notify_all()
            while len(self.came) < self._tasks and not self._closed and not self._begun:
                rest_s = self._last_news_s + self._quiet_s - time.monotonic()
                if rest_s <= 0 and self.running() <= len(self.came):
                    break
                self._changed.wait(rest_s if rest_s > 0 else _LOOK_AGAIN_S)
            self._begun = True
            self._changed.notify_all()

    def _others(self, executor: str) -> dict[str, list[Any]]:
        with self._changed:
            if executor not in self._addresses:
                return {}
            chosen = partners(executor, sorted(self._addresses))
            return {self._labels[other]: self._addresses[other] for other in chosen}

    def _have_tried(self, executor: str, peers: dict[str, Any]) -> None:
        told = {str(label): str(problem) for label, problem in peers.items()}
        deadline = time.monotonic() + self._timeout_s / 2
        with self._changed:
            self.answers[executor]["place"]["peers"] = told
            self._tried += 1
            self._changed.notify_all()
            while self._tried < len(self.answers) and not self._closed:
                rest_s = deadline - time.monotonic()
                if rest_s <= 0:
                    return
                self._changed.wait(rest_s)
