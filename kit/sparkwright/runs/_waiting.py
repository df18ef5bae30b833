"""Waiting for a run, and what interrupts and the end of the process do to it meanwhile."""

import asyncio
import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, NoReturn

from sparkwright._interrupts import Ending, TaskInterrupts, interrupts_raise, traceback_hidden
from sparkwright.errors import ConfigurationError, RunInterrupted, RunTimeoutError

from ._progress import ProgressLines
from ._queue import Place
from .extensions import end_process, keep_model
from .outcome import held, sentence

if TYPE_CHECKING:
    from ._run import TrainingRun

_of_thread = threading.local()  # `run`: the name of the run whose thread it is
_log = logging.getLogger(__name__)
# An interrupt frees the executors within 5 s: stop first, then cancel.
_POLITE_STOP_S = 3.5
_HARD_STOP_S = 5.0


class Waiting:
    """The waits for the end of one run.

    Whatever ends the process in Python's order, SIGTERM and SIGHUP during a wait included, first
    stops the run and writes its model beside the stored runs.
    """

    def __init__(
        self,
        run: "TrainingRun",
        place: Place,
        *,
        cancel: Callable[[], None],
        lines: ProgressLines | None,
    ) -> None:
        """Wait for `run` at its `place` in the queue; `cancel` cancels its tasks."""
        self._run, self._place, self._cancel, self._lines = run, place, cancel, lines
        self.over = threading.Event()
        self._is_urgent = False
        self._wakers: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._process = os.getpid()
        # After `start_spark`, so called before the session is stopped.
        atexit.register(self._at_exit)

    def begin(self) -> None:
        """Mark this thread as that of the run, which must not wait for itself."""
        _of_thread.run = self._place.name

    def end(self) -> None:
        """End all waits, because the run is over."""
        atexit.unregister(self._at_exit)
        with self._lock:
            self.over.set()
            wakers, self._wakers = self._wakers, []
        for wake in wakers:
            wake()

    def until_over(self, timeout_s: float | None) -> None:
        """Wait for the end of the run; see `TrainingRun.wait` for what it raises."""
        self._check_waiter()
        if not self._is_over_within(timeout_s):
            raise RunTimeoutError(
                f"`wait` waited {timeout_s:g} s for run {self._run.name} to end; it goes on. "
                "Wait again, or end it with `run.stop()`."
            )

    def _check_waiter(self) -> None:
        """Raise if a callback waits for its own run, or for a run that waits for it."""
        of = getattr(_of_thread, "run", None)
        if of is None or self.over.is_set():
            return
        if of == self._place.name:
            raise ConfigurationError(
                f"a run cannot wait for itself. Received: `wait` of run {of} in one of its "
                "callbacks. To end training there, set `self.model.stop_training = True`."
            )
        if of in self._place.record.behind:
            raise ConfigurationError(
                "a callback cannot wait for a run that waits for the task slots of its own. "
                f"Received: `wait` of run {self._place.name} in a callback of run {of}. Wait after "
                f"run {of}, or use fewer workers."
            )

    def _is_over_within(self, timeout_s: float | None) -> bool:
        with interrupts_raise(again=self._hurry, ends=True) as interrupts, self._attended():
            try:
                interrupts.begin()
                return self._look_until(timeout_s)
            except KeyboardInterrupt:
                self._interrupt()
                raise self._interrupted() from None
            except Ending as ending:
                self._interrupt()
                self._end_process(ending.number)

    async def until_over_async(self) -> None:
        """Wait without blocking the event loop; see `until_over`."""
        with self._attended():
            await self._over_or_interrupted()

    async def _over_or_interrupted(self) -> None:
        loop = asyncio.get_running_loop()
        over = asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                loop.call_soon_threadsafe(over.set)

        with self._lock:
            self._wakers.append(wake)
        if self.over.is_set():
            wake()
        interrupts = TaskInterrupts(ends=True)
        try:
            # In short waits: the kernel's interrupt takes effect when the event loop wakes up.
            while not over.is_set():
                interrupts.install()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), 0.25)
        except (asyncio.CancelledError, KeyboardInterrupt):
            stopped = self._begin_stop()
            while not stopped.is_set():
                try:
                    await asyncio.sleep(0.05)
                except (asyncio.CancelledError, KeyboardInterrupt):
                    self._hurry()
            if interrupts.ending is not None:
                self._end_process(interrupts.ending)
            raise self._interrupted() from None
        finally:
            interrupts.remove()

    @contextlib.contextmanager
    def _attended(self) -> Generator[None]:
        """Repaint the progress lines in place during the block."""
        try:
            with contextlib.nullcontext() if self._lines is None else self._lines.attended():
                yield
        except KeyboardInterrupt:
            traceback_hidden(RunInterrupted)
            raise

    def _look_until(self, timeout_s: float | None) -> bool:
        # In short waits: on some platforms a wait without a timeout cannot be interrupted.
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.over.wait(
            0.5 if deadline is None else min(0.5, deadline - time.monotonic())
        ):
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    def _interrupt(self) -> None:
        """Stop the run, and wait for its end for some seconds."""
        if self._lines is not None:
            self._lines.interrupted()
        self._begin_stop().wait(_HARD_STOP_S + 1.0)

    def _begin_stop(self) -> threading.Event:
        """Stop the run on another thread, as an interrupt could leave it in an undefined state."""
        stopped = threading.Event()

        def stop() -> None:
            try:
                self._stop()
            finally:
                stopped.set()

        name = f"sparkwright-{self._run.id}-stop"
        threading.Thread(target=stop, name=name, daemon=True).start()
        return stopped

    def _hurry(self) -> None:
        """Cancel the tasks at once; safe in a handler of signals."""
        self._is_urgent = True

    def _stop(self) -> None:
        try:
            began_s = time.monotonic()
            self._run.stop()
            while not self.over.wait(0.1):
                if self._is_urgent or time.monotonic() - began_s > _POLITE_STOP_S:
                    self._cancel()
                    self.over.wait(max(0.1, _HARD_STOP_S - (time.monotonic() - began_s)))
                    return
        except Exception:
            _log.exception("run %s could not be stopped", self._run.name)

    def _end_process(self, number: int) -> NoReturn:
        """Write the model of the stopped run, and end the process as signal `number` does."""
        self._keep_model(signal.Signals(number).name)
        end_process(number)

    def _at_exit(self) -> None:
        """Stop the run that the end of the script or of the kernel overtakes; write its model."""
        if os.getpid() != self._process:  # a fork of it
            return
        # On this thread, because none can be started any more.
        self._stop()
        self._keep_model("the end of the process")

    def _keep_model(self, ended_by: str) -> None:
        """Write what the run has learned beside the stored runs, and tell where."""
        run = self._run
        outcome, kept = run.result, ""
        if outcome is not None and outcome.vector is not None:
            kept = f" {keep_model(run.model, f'{run.name}-{run.id}')}"
        text = f"run {run.name} was ended by {ended_by}; {self._held()}{kept}"
        print(text, file=sys.stderr, flush=True)

    def _interrupted(self) -> RunInterrupted:
        """The exception after an interrupt; its message states what the model holds."""
        status, outcome = self._run.status, self._run.result
        error = RunInterrupted(
            f"run {self._run.name} was interrupted in epoch {status.epoch} of {status.epochs}; "
            f"{self._held()}"
        )
        if outcome is not None and outcome.error is not None:
            error.add_note(f"The run had failed: {sentence(outcome.error)}")
        return error

    def _held(self) -> str:
        """Describe the state that the model holds after an interrupt, if known."""
        outcome, restored = self._run.result, self._run.restored_epoch
        if outcome is None:
            return f"run {self._run.name} has not ended yet. The model is unchanged until it does."
        if outcome.vector is not None and restored is not None:
            return f"the model holds the weights of epoch {restored}."
        if outcome.vector is None and (count := outcome.progress.averagings):
            return (
                f"the model is unchanged: no worker could deliver the average of averaging {count}."
            )
        text = held(None if outcome.vector is None else outcome.progress)
        return text[0].lower() + text[1:]
