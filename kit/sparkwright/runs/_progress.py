"""Progress of a run outside notebooks: one line per epoch on standard output, as in Keras.

On a terminal, the line of the current epoch has a bar. It is repainted in place while the script
waits for the run.
"""

import atexit
import contextlib
import os
import queue
import shutil
import sys
import threading
from collections.abc import Generator, Mapping
from typing import Any, TextIO

from ._events import RowsLogged, RunEvent, RunStatus, StateChanged, Validated, WorkerLost
from .record import RunRecord

_PAINT_S = 0.2
# Maximum time that the script waits for a terminal that blocks output.
_BLOCKED_S = 1.0
# Rows of a short epoch arrive after the next epochs have begun; rows of a lost worker never do.
_LATE_S = 5.0
_CELLS = 20
# Narrower terminals have no room for a bar.
_WIDE_COLUMNS = 72
_BAR = "━"
_CLEAR = "\x1b[K"
_ENDED = ("done", "stopped", "failed")


class ProgressLines:
    """Prints the progress of one run until it ends, on a separate thread.

    The terminal may block this thread, for example after Ctrl-S. The run and its listeners do not
    wait for it.
    """

    def __init__(
        self,
        record: RunRecord,
        *,
        name: str,
        title: str,  # what is trained
        validates: bool,  # an epoch's line waits for the validation results
        stream: TextIO | None = None,  # None: standard output
    ) -> None:
        """Print the heading and start the thread."""
        self._record, self._name, self._validates = record, name, validates
        self._stream: Any = stream or sys.stdout
        self._repaints = can_repaint(self._stream)
        self._next = 0  # the epoch of the next line; 0 before training
        self._start = 0  # the first row of the log that can belong to it
        self._epoch_began_s: float | None = None
        self._validated_s: dict[int, float] = {}
        self._painted = False
        # Number of waiting calls; during these, the script does not use the terminal otherwise.
        self._attended, self._interrupted = 0, False
        self._events: queue.SimpleQueue[RunEvent | None] = queue.SimpleQueue()
        self._print(f"Run {name}: {title}")
        record.events.add_listener(self._on_event)
        self._thread = threading.Thread(target=self._main, name=f"{name}-progress", daemon=True)
        # Registered after `start_spark`, so called before the session is stopped.
        atexit.register(self._at_exit)
        self._thread.start()

    @contextlib.contextmanager
    def attended(self) -> Generator[None]:
        """Repaint the current epoch in place during the block, on a terminal."""
        self._attended += 1
        try:
            yield
        finally:
            if self._record.status().state in _ENDED:
                self.join(_BLOCKED_S)
            self._attended -= 1

    def interrupted(self) -> None:
        """Print nothing about the end of the run, because an exception reports it."""
        self._interrupted = True

    def join(self, timeout_s: float | None = None) -> None:
        """Wait, after the end of the run, until everything is printed."""
        self._thread.join(timeout_s)

    def _at_exit(self) -> None:
        """End the thread when the script exits before the run, without reporting lost workers."""
        self._events.put(None)
        self.join()

    # -- events -----------------------------------------------------------------------------

    def _on_event(self, event: RunEvent) -> None:
        if not isinstance(event, RowsLogged):
            self._events.put(event)
        elif not self._next:  # the log may already hold rows of a checkpoint
            epochs = self._record.log.rows(event.start, event.start + event.count)["epoch"]
            self._next = int(epochs.min()) if len(epochs) else 0

    def _main(self) -> None:
        is_over = False
        while not is_over:
            try:
                event = self._events.get(timeout=_PAINT_S)
            except queue.Empty:
                self._print_epochs()
                self._paint()
                continue
            match event:
                case None:
                    self._print(f"Run {self._name}: ended, because the script exits")
                    return
                case Validated(point=point):
                    self._validated_s[point.epoch] = self._record.status().elapsed_s
                case StateChanged(state="queued", message=message):
                    self._print(message)
                case WorkerLost(worker=worker, host=host):
                    self._start = 0
                    self._print(f"Worker {worker} on {host} was lost; Spark restarts it")
                case StateChanged(state=state):
                    # From the event, because the status may be ahead of the queued events.
                    is_over = state in _ENDED
                case _:
                    pass
            self._print_epochs(over=is_over)
        atexit.unregister(self._at_exit)
        self._end(self._record.status())

    def _print_epochs(self, *, over: bool = False) -> None:
        status = self._record.status()
        if over:  # rows may have been dropped, or added for lost workers
            self._start = 0
        while self._next and (found := self._epoch(status, over=over)) is not None:
            line, self._epoch_began_s = found
            self._print(line)
            rows = self._record.log.rows(self._start)["epoch"]
            later = rows > self._next
            self._start += int(later.argmax()) if later.any() else len(rows)
            self._next += 1

    def _end(self, status: RunStatus) -> None:
        """Print the final message, unless an exception reports it or it has no information."""
        failed_unseen = status.state == "failed" and not self._attended
        has_message = status.state != "failed" and status.message not in ("", "done")
        if not self._interrupted and (failed_unseen or has_message):
            self._print(f"Run {self._name}: {status.message}")
        elif self._painted:
            self._write(f"\r{_CLEAR}")

    # -- lines ------------------------------------------------------------------------------

    def _epoch(self, status: RunStatus, *, over: bool) -> tuple[str, float] | None:
        """Return the line of the next epoch and the time of its end; None: not complete."""
        number = self._next
        rows = self._record.log.rows(self._start)
        mine = rows["epoch"] == number
        if not mine.any():
            return None
        steps = self._record.steps_per_epoch or 0
        complete = int(mine.sum()) >= steps > 0
        validated = not self._validates or number in self._validated_s
        ended_s = max(float(rows["time_s"][mine].max()), self._validated_s.get(number, 0.0))
        late = status.epoch > number + 1 and status.elapsed_s > ended_s + _LATE_S
        if not ((complete and validated) or over or late):
            return None
        return self._line(rows, mine, status, ended_s=ended_s), ended_s

    def _line(
        self, rows: Mapping[str, Any], mine: Any, status: RunStatus, *, ended_s: float
    ) -> str:
        """Return the line of an epoch, from the rows so far."""
        number, done = self._next, int(mine.sum())
        times, examples = rows["time_s"][mine], rows["examples"][mine]
        first = times.argmin()
        speed = float(rows["examples_per_s"][mine][first])
        trained_from_s = float(times[first]) - (float(examples[first]) / speed if speed > 0 else 0)
        began_s = trained_from_s if self._epoch_began_s is None else self._epoch_began_s
        steps = max(done, self._record.steps_per_epoch or 0)
        rate = float(examples.sum()) / max(float(times.max()) - trained_from_s, 1e-6)
        bar = "- "
        if self._repaints:
            filled, is_wide = _CELLS * done // steps, _columns() >= _WIDE_COLUMNS
            bar = f"{_BAR * filled}{'╌' * (_CELLS - filled)} " if is_wide else ""
        parts = [f"Epoch {number}/{status.epochs} {bar}{done}/{steps}"]
        parts += [duration(max(0.0, ended_s - began_s)), f"{rate:,.0f} examples/s"]
        for name, value in self._record.epoch_logs(number, rows).items():
            is_small = value and abs(value) <= 1e-3
            parts.append(f"{name}: {value:.4e}" if is_small else f"{name}: {value:.4f}")
        return " - ".join(parts)

    # -- the terminal -----------------------------------------------------------------------

    def _paint(self) -> None:
        if self._attended and self._repaints:
            self._write(f"\r{self._current()[: _columns() - 1]}{_CLEAR}")
            self._painted = True

    def _current(self) -> str:
        """Return the line that is repainted in place."""
        status = self._record.status()
        waits = f"{status.message or status.state}, {duration(status.elapsed_s)}"
        if not self._next or status.state in ("queued", "starting"):
            return waits[:1].upper() + waits[1:]
        rows = self._record.log.rows(self._start)
        mine = rows["epoch"] == self._next
        if status.state == "stopping" or not mine.any():
            return f"Epoch {self._next}/{status.epochs} {status.message}"
        return self._line(rows, mine, status, ended_s=status.elapsed_s)

    def _print(self, text: str) -> None:
        prompt = _prompt() if self._repaints and not self._attended else ""
        cleared = self._painted or prompt
        self._write(f"\r{text}{_CLEAR}\n{prompt}" if cleared else f"{text}\n")
        self._painted = False

    def _write(self, text: str) -> None:
        # A closed or missing stream must not end training.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)
            self._stream.flush()


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _prompt() -> str:
    """Return Python's prompt and its current input; empty while a statement is executed."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    if not hasattr(sys, "ps1") or threading.main_thread().ident in frames:
        return ""
    readline: Any = sys.modules.get("readline")
    return f"{sys.ps1}{'' if readline is None else readline.get_line_buffer()}"


def can_repaint(stream: Any) -> bool:
    """Return whether `stream` is a terminal that can move its cursor and display the bar."""
    try:
        _BAR.encode(getattr(stream, "encoding", None) or "ascii")
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (UnicodeError, LookupError, ValueError, AttributeError):
        return False


def duration(seconds: float) -> str:
    """Return a duration as Keras writes it, such as "250ms", "2s" or "1:02"."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if round(seconds) < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours = f"{minutes // 60}:{minutes % 60:02}" if minutes >= 60 else f"{minutes}"
    return f"{hours}:{rest:02}"
