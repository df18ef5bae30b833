"""The log of a run: one row per worker and minibatch; unreported rows; the throughput."""

import math
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters import TrainingPlan
from sparkwright.masters.plan import frequency_in
from sparkwright.workers.protocol import Progress

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
# Other columns that are not metrics.
_FURTHER = {
    *("learning_rate", "update_ratio", "threshold", "sparsity", "message_bytes", "staleness"),
    *("residual_p50", "residual_p99", "residual_max"),
    *("processor", "memory_bytes", "gpu", "gpu_memory_bytes"),
}
# Before the name of a metric that is also the name of such a column.
_METRIC = "metric "
_FIRST_CAPACITY = 4096
# The throughput is the mean over this window.
_WINDOW_S = 3.0
Counts = NDArray[np.int64]


class History:
    """Append-only columns that any thread can read while the run appends rows.

    Columns: worker (from 0), epoch and round (from 1), step (this worker's minibatches since the
    run began, from 1), loss (before the step), examples (of the minibatch), time_s (since the run
    began), examples_per_s (of this worker in this round), and one per compiled metric (the mean
    since the epoch began, at each round's last step, NaN elsewhere; an array `f1` is the columns
    `f1/0`, `f1/1`, …, and the name of another column follows "metric "). Minibatches that count but
    whose worker died before it reported them have a loss and examples_per_s of NaN. They have the
    epoch in which they were trained, and follow the worker's other rows.

    Two more float columns, NaN where not measured:

    * learning_rate: the learning rate of a round's last minibatch;
    * update_ratio: about once a second, the size of a minibatch's update relative to this worker's
      trainable parameters: RMS of the round's net change over RMS of the parameters before it,
      divided by the round's n minibatches (with gradient sharing: by those of a message). It
      equals the ratio of one minibatch if all steps point in the same direction. For unrelated
      directions it is lower by the square root of n. Large networks are sampled.

    Resource use of the worker's process, measured with the last minibatch of a round about every
    2 s, NaN elsewhere; the columns appear with the first measurement:

    * processor: its CPU time since the last measurement, as a fraction of the CPU time of the
      worker's cores; above 1 if it used more cores than its own;
    * memory_bytes: its resident memory, including pages of its data files that are in memory;
    * gpu: GPU utilization from 0 to 1; gpu_memory_bytes: memory in use on the GPU. Only for
      workers with a GPU for which nvidia-smi works.

    With gradient sharing `round` counts this worker's minibatches of the epoch, including those
    taken over from another worker. Float columns describe the minibatch's message:

    * threshold: the change of a parameter by each element of the message; the first variable's if
      each has its own;
    * sparsity: fraction of the parameters that the message changes;
    * message_bytes: its size;
    * staleness: minibatches by which the slowest other worker is behind, as known to this worker;
    * residual_p50, residual_p99, residual_max: median, 99th percentile and maximum of |r|, the
      updates not sent yet; about once a second, always with `encoding_debug_mode`, NaN elsewhere.

    Example:
        >>> log = History()
        >>> log.append({"worker": np.array([0, 0]), "loss": np.array([2.3, 2.1])})
        >>> len(log), log.rows(1)["loss"]
        (2, array([2.1]))
    """

    def __init__(self) -> None:
        """Create an empty log."""
        self._lock = threading.Lock()
        self._length = 0
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(_FIRST_CAPACITY, dtype) for name, dtype in COLUMNS.items()
        }

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Mapping[str, NDArray[Any]]) -> None:
        """Append rows as columns of equal length; new names become new float columns."""
        count = len(next(iter(rows.values())))
        with self._lock:
            start, stop = self._length, self._length + count
            for name in rows.keys() - self._columns.keys():
                capacity = len(self._columns["worker"])
                self._columns[name] = np.full(capacity, np.nan)
            if stop > len(self._columns["worker"]):
                self._grow(stop)
            for name, column in self._columns.items():
                # Also clears values of rows that have been dropped.
                column[start:stop] = rows.get(name, 0 if name in COLUMNS else np.nan)
            self._length = stop

    def discard(self, worker: int, *, after_step: int) -> None:
        """Drop the rows of `worker` after `after_step`; that work is lost and repeated."""
        with self._lock:
            columns = {name: column[: self._length] for name, column in self._columns.items()}
            keep = (columns["worker"] != worker) | (columns["step"] <= after_step)
            self._length = int(keep.sum())
            for name, column in columns.items():
                self._columns[name][: self._length] = column[keep]

    def clear(self) -> None:
        """Drop all rows."""
        with self._lock:
            self._length = 0

    def rows(self, start: int = 0, stop: int | None = None) -> dict[str, NDArray[Any]]:
        """Return copies of the columns, from row `start` to `stop` (default: the end)."""
        with self._lock:
            end = self._length if stop is None else min(stop, self._length)
            return {name: column[start:end].copy() for name, column in self._columns.items()}

    def to_frame(self) -> Any:
        """Return all rows as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def _grow(self, needed: int) -> None:
        capacity = max(needed, 2 * len(self._columns["worker"]))
        for name, column in self._columns.items():
            fill = np.nan if name not in COLUMNS else 0
            larger = np.full(capacity, fill, column.dtype)
            larger[: self._length] = column[: self._length]
            self._columns[name] = larger


def block_rows(
    # "epoch", "round", "count", "seconds", "metrics"; optionally "readings"
    block: Mapping[str, Any],
    *,
    worker: int,
    step: int,  # its minibatches before
    ended_s: float,  # from the start of the run
    # Of its previous row: a delayed message must not date rows later than the next.
    not_before_s: float,
    examples: NDArray[Any],  # of each minibatch
    **columns: NDArray[Any],
) -> dict[str, NDArray[Any]]:
    """The log's rows for the minibatches of a round, of which there is at least one."""
    count, seconds = int(block["count"]), max(float(block["seconds"]), 1e-9)
    numbers = np.arange(1, count + 1)
    rows: dict[str, NDArray[Any]] = {
        "worker": np.full(count, worker),
        "epoch": np.full(count, block["epoch"]),
        "round": np.full(count, block["round"]),
        "step": step + numbers,
        "examples": examples,
        "time_s": np.maximum(ended_s - seconds * (1 - numbers / count), not_before_s),
        "examples_per_s": np.full(count, float(examples.sum()) / seconds),
        **columns,
    }
    metrics = {
        (_METRIC if name in COLUMNS or name in _FURTHER else "") + name: value
        for name, value in block["metrics"].items()
    }
    for name, value in {**metrics, **block.get("readings", {})}.items():
        rows[name] = np.full(count, np.nan)
        rows[name][-1] = value
    return rows


def epoch_logs(rows: Mapping[str, NDArray[Any]], epoch: int) -> dict[str, float]:
    """The logs of Keras for `epoch` (from 1), from the log's columns: "loss" and the metrics.

    The loss is the mean over the examples, each before the update of its minibatch. A metric is the
    mean of the workers' last values, weighted by their examples.
    """
    import pandas as pd

    mine = pd.DataFrame({name: column[rows["epoch"] == epoch] for name, column in rows.items()})
    by_worker = mine.groupby("worker")
    last, examples = by_worker.last(), by_worker["examples"].sum()  # the last value that is not NaN
    reported = mine[mine["loss"].notna()]
    found = {"loss": (reported["loss"], reported["examples"])}
    for name in sorted(mine.columns.difference([*COLUMNS, *_FURTHER])):
        found[name] = (last[name].dropna(), examples[last[name].notna()])
    return {
        name.removeprefix(_METRIC): (
            float(np.average(values, weights=weights)) if len(values) else math.nan
        )
        for name, (values, weights) in sorted(found.items())
    }


def unreported_rows(
    plan: TrainingPlan, progress: Progress, rows: Mapping[str, Any]
) -> dict[int, dict[str, Counts]]:
    """Epoch, round and examples of each minibatch that counts but is missing from `rows`.

    All minibatches of an epoch count except those in `progress.todo`. The totals of each epoch and
    of each worker are exact. If several workers were lost while they trained each other's data, the
    assignment of minibatches to these workers is a guess.
    """
    totals, size = np.array(plan.minibatches, np.int64), plan.batch_size
    epochs = max(progress.opened, progress.epoch + 1, int(np.max(rows["epoch"], initial=0)))
    reported = np.zeros((plan.workers, epochs), np.int64)
    reported_examples = np.zeros_like(reported)
    place = rows["worker"], rows["epoch"] - 1
    np.add.at(reported, place, 1)
    np.add.at(reported_examples, place, rows["examples"])

    # The minibatches that count, by owner of the data and epoch.
    done = np.zeros_like(reported)
    begun = slice(plan.first_epoch, progress.opened)
    done[:, begun] = totals[:, None]
    done_examples = np.zeros_like(reported)
    done_examples[:, begun] = np.minimum(np.array(plan.rows, np.int64), totals * size)[:, None]
    for owner, epoch, start, stop in progress.todo:
        done[owner, epoch] -= stop - start
        count = plan.rows[owner]
        done_examples[owner, epoch] -= min(count, stop * size) - min(count, start * size)

    # Negative if a lost worker reported minibatches that another worker trained again.
    missing = np.maximum((done - reported).sum(axis=0), 0)
    smaller = np.maximum(size * missing - (done_examples - reported_examples).sum(axis=0), 0)
    expected = np.array(progress.steps, np.int64) - reported.sum(axis=1)
    found: dict[int, dict[str, Counts]] = {}
    lost = [int(worker) for worker in np.flatnonzero(expected > 0)]
    own = {worker: np.maximum(done[worker] - reported[worker], 0) for worker in lost}
    taken: dict[int, Counts] = {}
    for worker in lost:
        taken[worker] = _first(np.minimum(own[worker], missing), int(expected[worker]))
        missing -= taken[worker]
    for worker in lost:
        # Then minibatches of its data that others trained, and those of unknown epochs.
        for there in (missing, np.maximum(totals[worker] - reported[worker] - taken[worker], 0)):
            more = _first(there, int(expected[worker] - taken[worker].sum()))
            taken[worker] += more
            missing -= np.minimum(more, missing)
        taken[worker][progress.epoch - 1] += expected[worker] - taken[worker].sum()
        count = int(taken[worker].sum())
        by = size * count - (progress.examples[worker] - int(reported_examples[worker].sum()))
        cut = _first(np.minimum(smaller, (size - 1) * taken[worker]), by)
        smaller -= cut
        numbers = [
            np.arange(n, n + more) for n, more in zip(reported[worker], taken[worker], strict=True)
        ]
        epoch = np.repeat(np.arange(epochs), taken[worker])
        found[worker] = {
            "epoch": epoch + 1,
            "round": _rounds(plan, progress, epoch, np.concatenate(numbers)),
            "examples": _examples(size, epoch, cut, by),
        }
    return found


def _first(there: Counts, wanted: int) -> Counts:
    """Take `wanted` minibatches from `there`, beginning with the first epochs."""
    before = np.cumsum(there) - there
    return np.clip(wanted - before, 0, there)


def _rounds(plan: TrainingPlan, progress: Progress, epoch: Counts, number: Counts) -> Counts:
    """The round of each minibatch, its worker's `number`th (from 0) of its epoch."""
    if plan.kind == "sharing":
        return number + 1
    numbers = [frequency_in(plan.averaging_frequency, each) for each in epoch.tolist()]
    frequency = np.array(numbers, np.int64)
    rounds = -(-max(plan.minibatches) // frequency)
    last = np.where(epoch == progress.epoch, progress.round, rounds)
    return np.minimum(number // frequency + 1, np.maximum(last, 1))


def _examples(size: int, epoch: Counts, cut: Counts, by: int) -> Counts:
    """Full minibatches, minus `cut[e]` examples in epoch e and `by` examples in total."""
    examples = np.full(len(epoch), size, np.int64)
    # The last minibatches, of an epoch and in total, are smaller; none is empty.
    everywhere = np.ones(len(epoch), bool)
    for which, less in [(epoch == e, int(cut[e])) for e in np.flatnonzero(cut)] + [
        (everywhere, by - int(cut.sum()))
    ]:
        last_first = np.flatnonzero(which)[::-1]
        examples[last_first] -= _first(examples[last_first] - 1, less)
    return examples


class Throughput:
    """Examples per second of all workers; times are those of one clock."""

    def __init__(self) -> None:
        self.trained = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None  # end of the first round, and its examples

    def add(self, examples: int, *, ended_s: float) -> None:
        """Add a round that ended at `ended_s`."""
        self._recent.append((ended_s, examples))
        self.trained += examples

    def begin(self, now_s: float) -> None:
        """Measure from now on, after the first round, which includes compilation."""
        self._first = now_s, self.trained

    def clear(self) -> None:
        """Forget what was trained, because training restarts."""
        self.trained = 0
        self._recent.clear()

    def recent(self, now_s: float) -> float:
        """Examples per second over the last seconds; 0: none was trained."""
        while self._recent and self._recent[0][0] < now_s - _WINDOW_S:
            self._recent.popleft()
        if not self._recent:
            return 0.0
        span_s = min(_WINDOW_S, max(now_s - self._recent[0][0], 0.05))
        return sum(count for _, count in self._recent) / span_s

    def overall(self, last_s: float | None) -> float:
        """Examples per second until `last_s`, the end of the last minibatch; 0: unknown."""
        if self._first is None or last_s is None:
            return 0.0
        span_s = last_s - self._first[0]
        return (self.trained - self._first[1]) / span_s if span_s > 0.05 else 0.0
