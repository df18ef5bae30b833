"""SIGINT (Ctrl-C), SIGTERM and SIGHUP while the main thread waits for a run or a job.

PySpark's handler cancels all jobs of the session before it raises KeyboardInterrupt. This loses the
averages that a run's tasks hold, and the user's other jobs. Handlers are replaced in the main
thread only; a handler that the user has set stays. A script that waits for a run and is asked to
end (by Kubernetes, a job scheduler, a closed terminal) first stops the run.
"""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any, NoReturn

_PYSPARK, _KERNEL = "pyspark.", "ipykernel."
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class Ending(BaseException):
    """SIGTERM or SIGHUP: this process is asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


class Interrupts:
    """A handler of signals; see `interrupts_raise` and `interrupts_held`."""

    def __init__(
        self,
        act: Callable[[int], None] | None = None,  # instead of raising
        *,
        again: Callable[[], None] | None = None,  # at each signal after the first that raised
        ends: bool = False,  # SIGTERM and SIGHUP raise `Ending`
    ) -> None:
        """Hold the first signal until `begin`; `again` may only set an attribute."""
        self._act, self._again, self._ends = act, again, ends
        self._before: Any = None
        self._ending: list[signal.Signals] = []  # signals whose default is replaced
        self._begun = self.is_held = self._has_raised = False
        self._number = int(signal.SIGINT)  # of the signal that is held

    def __call__(self, number: int, _frame: object) -> None:
        if self._act is not None:
            self._act(number)
        elif self._has_raised and self._again is not None:
            self._again()
        elif self._begun or self.is_held:
            self._raise(number)
        else:
            self.is_held, self._number = True, number

    def _raise(self, number: int) -> NoReturn:
        self._has_raised = True
        raise Ending(number) if number in _ENDINGS else KeyboardInterrupt

    def begin(self) -> None:
        """Raise KeyboardInterrupt at each signal from now on."""
        self._begun = True
        around = self._before
        if isinstance(around, Interrupts) and around.is_held:
            around.is_held, self.is_held = False, True
        if self.is_held:
            self.is_held = False
            self._raise(self._number)

    def install(self, *instead_of: str) -> None:
        """Set this handler if the current one is Python's, Sparkwright's or of these modules."""
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGINT)
        known = handler is signal.default_int_handler or isinstance(handler, Interrupts)
        if handler is not self and (known or _module(handler).startswith(instead_of)):
            self._before = handler
            signal.signal(signal.SIGINT, self)
        self.install_endings()

    def install_endings(self) -> None:
        """Set this handler for SIGTERM and SIGHUP if asked to, where they would end the process."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _ENDINGS if self._ends else ():
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self)
                self._ending.append(number)

    def remove(self) -> None:
        """Restore the previous handlers, unless others have been set in the meantime."""
        for number in self._ending:
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_DFL)
        if self._before is not None and signal.getsignal(signal.SIGINT) is self:
            signal.signal(signal.SIGINT, self._before)


@contextlib.contextmanager
def interrupts_raise(
    *, again: Callable[[], None] | None = None, ends: bool = False
) -> Generator[Interrupts]:
    """Make SIGINT only raise KeyboardInterrupt in the main thread; see `Interrupts`.

    It raises after a call of `begin` on the yielded object, which also raises held signals. Call
    `begin` where the exception is caught.
    """
    interrupts = Interrupts(again=again, ends=ends)
    interrupts.install(_PYSPARK, _KERNEL)
    try:
        yield interrupts
    finally:
        interrupts.remove()


@contextlib.contextmanager
def interrupts_held() -> Generator[None]:
    """Hold the first SIGINT until `interrupts_raise` within the block, or the block's end.

    Use it to start runs: an interrupted start would leave a run that cannot be stopped. A second
    SIGINT raises KeyboardInterrupt immediately.
    """
    interrupts = Interrupts()
    interrupts.install(_PYSPARK, _KERNEL)
    try:
        yield
    finally:
        interrupts.remove()
    interrupts.begin()


class TaskInterrupts:
    """Cancels the current asyncio task on SIGINT where PySpark has set its handler."""

    def __init__(self, *, ends: bool = False) -> None:
        """Call it within the task; the handlers change with `install`."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self.ending: int | None = None  # the signal that cancelled the task

        def act(number: int) -> None:
            if number in _ENDINGS:
                self.ending = number
            loop.call_soon_threadsafe(task.cancel)

        self._interrupts = Interrupts(act, ends=ends)

    def install(self) -> None:
        """Replace the handler if it is PySpark's, which may be set at any time."""
        if _module(signal.getsignal(signal.SIGINT)).startswith(_PYSPARK):
            self._interrupts.install(_PYSPARK)
        self._interrupts.install_endings()

    def remove(self) -> None:
        """Restore the previous handlers."""
        self._interrupts.remove()


def traceback_hidden(kind: type[BaseException]) -> None:
    """Make an uncaught exception of `kind` end a script with only its message."""
    if sys.excepthook is not sys.__excepthook__:
        # Another program, such as an IDE, has replaced it.
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
