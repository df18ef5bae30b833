"""Ctrl-C while the main thread waits for a run or a job: handled here instead of by PySpark.

PySpark's handler of SIGINT cancels all jobs of the session before it raises KeyboardInterrupt: with
a run's tasks go the averages that they hold, and other jobs of the user's. Handlers are set in the
main thread only, so elsewhere nothing changes. A handler of the user's own stays.
"""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

_PYSPARK, _KERNEL = "pyspark.", "ipykernel."


class Interrupts:
    """What a block does with SIGINT; see `interrupts_raise` and `interrupts_held`."""

    def __init__(self, act: Callable[[], None] | None = None) -> None:
        """Hold the first signal back."""
        self._act = act
        self._before: Any = None
        self._begun = self.is_held = False

    def __call__(self, _number: int, _frame: object) -> None:
        """Handle a signal."""
        if self._act is not None:
            self._act()
        elif self._begun or self.is_held:
            raise KeyboardInterrupt
        else:
            self.is_held = True

    def begin(self) -> None:
        """From now on raise KeyboardInterrupt at each signal.

        Raises:
            KeyboardInterrupt: if one is held back here or by the block around this one.
        """
        self._begun = True
        around = self._before
        if isinstance(around, Interrupts) and around.is_held:
            around.is_held, self.is_held = False, True
        if self.is_held:
            self.is_held = False
            raise KeyboardInterrupt

    def install(self, *instead_of: str) -> None:
        """Become the handler if the present one is Python's, this kit's or of these modules."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        known = handler is signal.default_int_handler or isinstance(handler, Interrupts)
        if handler is not self and (known or _module(handler).startswith(instead_of)):
            self._before = handler
            signal.signal(signal.SIGINT, self)

    def remove(self) -> None:
        """Put back the handler that was there, unless another one has been set meanwhile."""
        if self._before is not None and signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, self._before)


@contextlib.contextmanager
def interrupts_raise() -> Generator[Interrupts]:
    """Let SIGINT raise KeyboardInterrupt in the main thread, and do nothing else.

    It does so after `begin` of what this yields, which is called where the exception is caught; it
    also raises what was held back before.
    """
    interrupts = Interrupts()
    interrupts.install(_PYSPARK, _KERNEL)
    try:
        yield interrupts
    finally:
        interrupts.remove()


@contextlib.contextmanager
def interrupts_held() -> Generator[None]:
    """Hold the first SIGINT back until `interrupts_raise` within the block, or the block's end.

    What begins a run must not be interrupted half-way: nobody could stop the run then. A second
    SIGINT raises KeyboardInterrupt at once.
    """
    interrupts = Interrupts()
    interrupts.install(_PYSPARK, _KERNEL)
    try:
        yield
    finally:
        interrupts.remove()
    interrupts.begin()


class TaskInterrupts:
    """Lets SIGINT cancel the current asyncio task, where PySpark has set its handler.

    Kernels of notebooks do so by themselves, unless Spark is started in the same cell.
    """

    def __init__(self) -> None:
        """To be called in the task; nothing changes before `install`."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def act() -> None:
            loop.call_soon_threadsafe(task.cancel)

        self._interrupts = Interrupts(act)

    def install(self) -> None:
        """Replace the handler if it is PySpark's, which may be set at any time."""
        if _module(signal.getsignal(signal.SIGINT)).startswith(_PYSPARK):
            self._interrupts.install(_PYSPARK)

    def remove(self) -> None:
        """Put it back."""
        self._interrupts.remove()


def traceback_hidden(kind: type[BaseException]) -> None:
    """Have an uncaught exception of `kind` end a script with its message alone.

    Does nothing if something else, such as an IDE, has replaced `sys.excepthook`.
    """
    if sys.excepthook is not sys.__excepthook__:
        return

    def report(found: type[BaseException], error: BaseException, trace: Any) -> None:
        if issubclass(found, kind) and sys.stderr is not None:
            lines = [f"{found.__name__}: {error}", *getattr(error, "__notes__", ())]
            sys.stderr.write("".join(f"{text}\n" for text in lines))
        else:
            sys.__excepthook__(found, error, trace)

    sys.excepthook = report


def _module(handler: Any) -> str:
    return str(getattr(handler, "__module__", ""))
