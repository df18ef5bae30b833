"""Calls of HDFS' client, given up after a time, which the client itself would not do."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sparkwright.errors import SparkwrightError

from ._hdfs_errors import as_os_error, timed_out

_T = TypeVar("_T")


class _Call(Generic[_T]):
    def __init__(self, function: Callable[[], _T]) -> None:
        self._function = function
        self._done = threading.Event()
        self._result: _T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # the client's own panics are no Exceptions
            self._error = error

    def finish(self) -> None:
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        return self._done.wait(timeout_s)

    def result(self) -> Any:
        """What came of it; only once, so that no cycle keeps the caller's frames alive."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        return self._result


class _Helper(threading.Thread):
    """A thread that runs one call after the other; a call that never ends takes it along."""

    def __init__(self) -> None:
        super().__init__(name="hdfs-call", daemon=True)
        self._calls: queue.SimpleQueue[_Call[Any]] = queue.SimpleQueue()
        self.start()

    def give(self, call: _Call[Any]) -> None:
        self._calls.put(call)

    def run(self) -> None:
        while True:
            call = self._calls.get()
            call.run()
            _idle.append(self)
            call.finish()
            del call


_idle: deque[_Helper] = deque()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads do not go along


def within(timeout_s: float, function: Callable[[], _T], *, what: str, server: str) -> _T:
    """Call `function` on another thread and wait for it.

    The client waits for a NameNode that hangs for ever, and is deaf to Ctrl-C meanwhile. A call
    that is given up goes on until the client ends it, without anybody who waits.

    Args:
        timeout_s: how long to wait, in seconds.
        function: of the client.
        what: it does, for the message: "list the folder".
        server: whom it asks, for the message: "hdfs://namenode:8020".

    Raises:
        RunTimeoutError: after `timeout_s`.
        OSError: what `function` raises, with a remedy.
    """
    try:
        helper = _idle.pop()
    except IndexError:
        helper = _Helper()
    call = _Call(function)
    helper.give(call)
    if not call.wait(timeout_s):
        raise timed_out(what, server=server, timeout_s=timeout_s)
    try:
        return call.result()
    except BaseException as error:
        # Its own panics are no Exceptions; what is neither is a mistake in what calls it.
        if isinstance(error, OSError | RuntimeError) and not isinstance(error, SparkwrightError):
            raise as_os_error(error, server=server) from None
        if type(error).__name__ == "PanicException":
            raise as_os_error(error, server=server) from None
        raise
