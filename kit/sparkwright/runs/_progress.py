"""Progress of a run outside notebooks: one line an epoch on standard output, as Keras prints it.

On a terminal the current epoch is a bar, rewritten in place while the script waits for the run.
"""

import atexit
import contextlib
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Generator, Mapping
from typing import Any, TextIO

import numpy as np

from ._events import (
    RowsLogged,
    RunEvent,
    RunStatus,
    StateChanged,
    Validated,
    WorkerLost,
)
from ._history import epoch_logs
from .record import RunRecord

_LOOK_S = 0.1
_PAINT_S = 0.2
_CELLS = 20
# Narrower terminals have no room for a bar.
_WIDE_COLUMNS = 72
_BAR = "━"
_CLEAR = "\x1b[K"


class ProgressLines:
    """Prints the progress of one run until it ends."""

    def __init__(
        self,
        record: RunRecord,
        *,
        name: str,
        title: str,
        validates: bool,
        stream: TextIO | None = None,
    ) -> None:
        """Print the heading, and listen to `record`.

        Args:
            record: of the run.
            name: of the run.
            title: what is trained.
            validates: whether each epoch ends with a validation.
            stream: where to; default None: standard output as it is now.
        """
        self._record, self._name, self._validates = record, name, validates
        self._stream: Any = stream or sys.stdout
        self._lock, self._repaints = threading.RLock(), can_repaint(self._stream)
        self._next = 0  # the epoch whose line comes next; 0 before training
        self._start = 0  # the first row that can belong to it
        self._looked_s = -math.inf
        self._epoch_began_s: float | None = None
        self._validated_s: dict[int, float] = {}
        self._painted = False
        self._over = threading.Event()
        # While the script waits for the run the terminal is not in use otherwise.
        self._attended, self._interrupted = 0, False
        self._print(f"Run {name}: {title}")
        record.add_listener(self._heard)
        # After `start_spark`, so before the session is stopped.
        atexit.register(self._leave)
        if self._repaints:
            threading.Thread(target=self._paint, name=f"{name}-progress", daemon=True).start()

    @contextlib.contextmanager
    def attended(self) -> Generator[None]:
        """Repaint the current epoch in place, on a terminal, while the script waits."""
        self._attended += 1
        try:
            yield
        finally:
            self._attended -= 1

    def interrupted(self) -> None:
        """Leave the end of the run to the exception that is about to be raised."""
        self._interrupted = True

    def _leave(self) -> None:
        """The script ends before the run: that its workers are lost then is no news."""
        with self._lock:
            self._print(f"Run {self._name}: the script ends, and the run with it")
            self._over.set()

    # -- events -----------------------------------------------------------------------------

    def _heard(self, event: RunEvent) -> None:
        with self._lock:
            if self._over.is_set():
                return
            match event:
                case RowsLogged(start=start, count=count):
                    if self._next == 0:
                        rows = self._record.log.rows(start, start + count)
                        self._next = int(np.min(rows["epoch"], initial=1))
                    if time.monotonic() - self._looked_s < _LOOK_S:
                        return
                case Validated(point=point):
                    self._validated_s[point.epoch] = self._record.status().elapsed_s
                case StateChanged(state="queued", message=message):
                    self._print(message)
                case WorkerLost(worker=worker, host=host):
                    self._start = 0
                    self._print(f"Worker {worker} on {host} was lost; Spark starts it again")
                case StateChanged():
                    pass
                case _:
                    return
            # By events, which come in order: the status may be ahead of them.
            ends = isinstance(event, StateChanged) and event.state in ("done", "stopped", "failed")
            self._look(over=ends)

    def _look(self, *, over: bool) -> None:
        """Print the lines of the epochs that are complete, and of the run's end."""
        self._looked_s = time.monotonic()
        status = self._record.status()
        if over:  # rows may have been discarded, or added for lost workers
            self._start = 0
        while self._next and (found := self._epoch(status, over=over)) is not None:
            line, self._epoch_began_s = found
            self._print(line)
            rows = self._record.log.rows(self._start)["epoch"]
            later = rows > self._next
            self._start += int(np.argmax(later)) if later.any() else len(rows)
            self._next += 1
        if over:
            self._over.set()
            atexit.unregister(self._leave)
            self._end(status)

    def _end(self, status: RunStatus) -> None:
        """What an error or the waiting script does not show already."""
        failed_unseen = status.state == "failed" and not self._attended
        told = status.state != "failed" and status.message not in ("", "done")
        if not self._interrupted and (failed_unseen or told):
            self._print(f"Run {self._name}: {status.message}")
        elif self._painted:
            self._write(f"\r{_CLEAR}")

    # -- lines ------------------------------------------------------------------------------

    def _epoch(self, status: RunStatus, *, over: bool) -> tuple[str, float] | None:
        """The line of the next epoch and the time of its end; None while it goes on."""
        number = self._next
        rows = self._record.log.rows(self._start)
        mine = rows["epoch"] == number
        if not mine.any():
            return None
        steps = self._record.steps_per_epoch or 0
        complete = int(mine.sum()) >= steps > 0
        validated = not self._validates or number in self._validated_s
        # Rows of a lost worker may never come.
        if not ((complete and validated) or over or status.epoch > number + 1):
            return None
        ended_s = max(float(rows["time_s"][mine].max()), self._validated_s.get(number, 0.0))
        return self._line(rows, mine, status, ended_s=ended_s), ended_s

    def _line(
        self, rows: Mapping[str, Any], mine: Any, status: RunStatus, *, ended_s: float
    ) -> str:
        """Of one epoch, as far as its rows have come."""
        number, steps = self._next, self._record.steps_per_epoch
        done, examples = int(mine.sum()), rows["examples"][mine]
        times = rows["time_s"][mine]
        first = int(np.argmin(times))
        speed = float(np.nan_to_num(rows["examples_per_s"][mine][first]))
        trained_from_s = float(times[first]) - (float(examples[first]) / speed if speed else 0.0)
        began_s = trained_from_s if self._epoch_began_s is None else self._epoch_began_s
        rate = float(examples.sum()) / max(float(times.max()) - min(began_s, trained_from_s), 1e-6)
        logs = epoch_logs({name: column[mine] for name, column in rows.items()}, number)
        bar = _CELLS if shutil.get_terminal_size().columns >= _WIDE_COLUMNS else 0
        for point in status.validation:
            if point.epoch == number:
                found = {"loss": point.loss, **point.metrics}
                logs |= {f"val_{name}": value for name, value in sorted(found.items())}
        return line(
            epoch=(number, status.epochs),
            steps=(done, max(done, steps or 0)),
            seconds=max(0.0, ended_s - began_s),
            examples_per_s=rate,
            logs=logs,
            bar=bar if self._repaints else None,
        )

    # -- the terminal -----------------------------------------------------------------------

    def _paint(self) -> None:
        while not self._over.wait(_PAINT_S):
            with self._lock:
                if self._attended and not self._over.is_set():
                    text = self._current()
                    columns = shutil.get_terminal_size().columns
                    self._write(f"\r{text[: columns - 1]}{_CLEAR}")
                    self._painted = True

    def _current(self) -> str:
        """The line that is rewritten in place."""
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
        # A stream that is closed, or missing, must not end the training.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._stream.write(text)
            self._stream.flush()


def _prompt() -> str:
    """Python's prompt and what has been typed there; empty while a statement is being run."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    if not hasattr(sys, "ps1") or threading.main_thread().ident in frames:
        return ""
    readline: Any = sys.modules.get("readline")
    return f"{sys.ps1}{'' if readline is None else readline.get_line_buffer()}"


def can_repaint(stream: Any) -> bool:
    """Whether `stream` is a terminal that can move its cursor, and show the bar."""
    try:
        _BAR.encode(getattr(stream, "encoding", None) or "ascii")
        return stream.isatty() and os.environ.get("TERM") != "dumb"
    except (UnicodeError, LookupError, ValueError, AttributeError):
        return False


def line(
    *,
    epoch: tuple[int, int],
    steps: tuple[int, int],
    seconds: float,
    examples_per_s: float,
    logs: Mapping[str, float],
    bar: int | None,
) -> str:
    """Return the line of an epoch.

    Args:
        epoch: its number, from 1, and how many there are.
        steps: minibatches trained, and those of an epoch.
        seconds: since it began.
        examples_per_s: that were trained.
        logs: loss and metrics by name.
        bar: cells of the bar; 0: none; None: the stream is no terminal.

    Example:
        >>> line(epoch=(1, 3), steps=(5, 5), seconds=2.04, examples_per_s=1234.5,
        ...      logs={"loss": 0.25, "val_loss": 0.00031}, bar=None)
        'Epoch 1/3 - 5/5 - 2s - 1,234 examples/s - loss: 0.2500 - val_loss: 3.1000e-04'
        >>> line(epoch=(1, 3), steps=(2, 4), seconds=0.25, examples_per_s=10, logs={}, bar=4)
        'Epoch 1/3 ━━╌╌ 2/4 - 250ms - 10 examples/s'
    """
    done, total = steps
    filled = 0 if not total else bar * done // total if bar else 0
    drawn = f"{_BAR * filled}{'╌' * (bar - filled)} " if bar else "- " if bar is None else ""
    parts = [f"Epoch {epoch[0]}/{epoch[1]} {drawn}{done}/{total}", duration(seconds)]
    parts.append(f"{examples_per_s:,.0f} examples/s")
    parts += [f"{name}: {_number(value)}" for name, value in logs.items()]
    return " - ".join(parts)


def duration(seconds: float) -> str:
    """Return a duration as Keras writes it, such as "250ms", "2s" or "1:02"."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    if not hours:
        return f"{minutes}:{whole % 60:02}"
    return f"{hours}:{minutes % 60:02}:{whole % 60:02}"


def _number(value: float) -> str:
    return f"{value:.4f}" if not value or abs(value) > 1e-3 else f"{value:.4e}"
