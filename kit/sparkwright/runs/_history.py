"""The record of a run: one row per worker and minibatch, appended while it trains."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLUMNS: dict[str, type[np.generic]] = {
    "worker": np.int32,
    "epoch": np.int32,
    "round": np.int32,
    "step": np.int64,
    "loss": np.float64,
    "examples": np.int32,
    "time_s": np.float64,
    "examples_per_s": np.float64,
}
_FIRST_CAPACITY = 4096


class History:
    """Append-only columns, safe to read from any thread while the run appends.

    Columns: worker (from 0), epoch and round (from 1), step (this worker's minibatches since the
    run began, from 1), loss (before the step), examples (of the minibatch), time_s (since the run
    began), examples_per_s (of this worker in this round), and one per compiled metric (the mean
    since the epoch began, known at each round's last step, NaN elsewhere). The loss of minibatches
    that count, but whose worker died before it could tell, is NaN; so is their examples_per_s.
    Their epoch is the one that they were trained in; they follow the worker's other rows.

    Two more float columns, NaN where nothing was measured:

    * learning_rate: that a round's last minibatch was trained with, whatever schedule gave it;
    * update_ratio: about once a second, how far a minibatch moved this worker's trainable
      parameters: RMS of the round's net change over RMS of the parameters before it, divided by
      the round's n minibatches (with gradient sharing: by those of a message). That is the ratio
      of one minibatch if all steps point the same way. It is lower where they differ: by the
      square root of n for unrelated directions. Large networks are sampled.

    With gradient sharing `round` counts this worker's minibatches of the epoch, also those that it
    took over from another worker, and there are float columns about the minibatch's message:

    * threshold: by which each element of the message changes a parameter; the first variable's, if
      each has its own;
    * sparsity: share of the parameters that the message changes, from 0 to 1;
    * message_bytes: its size;
    * staleness: minibatches that the slowest other worker is behind this one, as known here;
    * residual_p50, residual_p99, residual_max: median, 99th percentile and largest |r| of what was
      not sent yet; about once a second, with `encoding_debug_mode` always, NaN elsewhere.

    Example:
        >>> log = History()
        >>> log.append({"worker": np.array([0, 0]), "loss": np.array([2.3, 2.1])})
        >>> len(log), log.rows(1)["loss"]
        (2, array([2.1]))
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._length = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(_FIRST_CAPACITY, dtype) for name, dtype in COLUMNS.items()
        }

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Add rows given as columns of one length; new names become new float columns."""
        count = len(next(iter(rows.values())))
        with self._lock:
            start, stop = self._length, self._length + count
            for name in rows.keys() - self._columns.keys():
                capacity = len(self._columns["worker"])
                self._columns[name] = np.full(capacity, np.nan)
            if stop > len(self._columns["worker"]):
                self._grow(stop)
            for name, column in self._columns.items():
                # What is not given is not what lay there before rows were dropped.
                column[start:stop] = rows.get(name, 0 if name in COLUMNS else np.nan)
            self._length = stop

    def discard(self, worker: int, *, after_step: int) -> None:
        """Drop the rows of `worker` beyond `after_step`: that work was lost and is done again."""
        with self._lock:
            columns = {name: column[: self._length] for name, column in self._columns.items()}
            keep = (columns["worker"] != worker) | (columns["step"] <= after_step)
            self._length = int(keep.sum())
            for name, column in columns.items():
                self._columns[name][: self._length] = column[keep]

    def clear(self) -> None:
        """Forget all rows."""
        with self._lock:
            self._length = 0

    def rows(self, start: int = 0, stop: int | None = None) -> dict[str, NDArray[Any]]:
        """Copies of the columns from row `start` up to `stop` (default: all there are)."""
        with self._lock:
            end = self._length if stop is None else min(stop, self._length)
            return {name: column[start:end].copy() for name, column in self._columns.items()}

    def to_frame(self) -> Any:
        """A pandas DataFrame of everything so far."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def _grow(self, needed: int) -> None:
        capacity = max(needed, 2 * len(self._columns["worker"]))
        for name, column in self._columns.items():
            fill = np.nan if name not in COLUMNS else 0
            larger = np.full(capacity, fill, column.dtype)
            larger[: self._length] = column[: self._length]
            self._columns[name] = larger
