"""The exchanges and plan of a run, and the order of its examples; pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PlanKind = Literal["averaging", "sharing"]
Part = Literal["parameters", "moments", "residuals"]
Precision = Literal["float32", "bfloat16", "int8", "threshold"]
Route = Literal["ring", "mesh", "driver", "spark"]
# A number of minibatches, or a dict of first epoch (from 1) -> number.
Frequency = int | Mapping[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """An exchange between the workers of a run; defines a training master.

    Attributes:
        what: "parameters": their mean replaces each worker's; "moments": the optimizer's state
            likewise, with gradient sharing at the end of an epoch; "residuals": unsent changes of
            a worker.
        every: minibatches of a worker between two exchanges, or a dict by epoch; None: as many as
            fit in 40 ms.
        precision: "float32"; "bfloat16" or "int8": rounded changes of the parameters; "threshold":
            only the signs of elements above a threshold.
        density: maximum size of a message relative to the vector.
        among: "ring": each worker with its neighbors; "mesh": along a tree; "driver": likewise,
            through the driver's port; "spark": by a Spark job.
        delay: minibatches that a worker trains during an exchange; 0: the worker waits.
    """

    what: tuple[Part, ...]
    every: Frequency | None
    precision: Precision
    density: float = 1.0
    among: Route
    delay: int = 0

    @property
    def is_rounded(self) -> bool:
        """Whether values are rounded; then each worker sends to every other worker."""
        return self.precision in ("bfloat16", "int8")

    @property
    def kind(self) -> PlanKind:
        """Whether workers average parameters or share updates."""
        return "averaging" if "parameters" in self.what else "sharing"

    def averaged_bytes(self, vector_bytes: int, updater_bytes: int = 0) -> int:
        """Return the bytes per exchange, as float32.

        Args:
            vector_bytes: size of all averaged values, including the parameters.
            updater_bytes: size of the optimizer's state, used if it is averaged.
        """
        return vector_bytes + (updater_bytes if {"parameters", "moments"} <= {*self.what} else 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingPlan:
    """Workers, minibatches and rounds of one epoch.

    With gradient sharing, an epoch is one round: workers synchronize only at its end.

    Attributes:
        rows: examples of each worker; a worker may have none.
        batch_size: minibatch size of each worker.
        averaging_frequency: minibatches per worker between two averagings, or a dict by epoch; with
            `kind` "sharing" those of the worker with most data.
        epochs: passes over the data.
        kind: "averaging" (default): parameters are averaged every few minibatches; "sharing":
            every minibatch sends an encoded update.
        steps_per_epoch: minibatches of an epoch, of all workers together; None (default): those of
            all examples.
        first_epoch: first epoch of the run, from 0 (default).
    """

    rows: tuple[int, ...]
    batch_size: int
    averaging_frequency: Frequency
    epochs: int
    kind: PlanKind = "averaging"
    steps_per_epoch: int | None = None
    first_epoch: int = 0

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.rows)

    @property
    def minibatches(self) -> tuple[int, ...]:
        """Minibatches of each worker per epoch; the last one may be smaller."""
        return epoch_minibatches(self.rows, self.batch_size, self.steps_per_epoch)

    @property
    def examples(self) -> int:
        """Examples that the run trains in all, about so many if an epoch is no whole pass."""
        steps = self.steps_per_epoch
        an_epoch = sum(self.rows) if steps is None else steps * self.batch_size
        return an_epoch * (self.epochs - self.first_epoch)

    @property
    def rounds(self) -> int:
        """Averagings per epoch; with several frequencies, for the last one.

        The worker with most data determines the number.

        Example:
            >>> plan = TrainingPlan(rows=(70, 10), batch_size=10, averaging_frequency=5, epochs=1)
            >>> plan.minibatches, plan.rounds
            ((7, 1), 2)
        """
        return self.rounds_in(None)

    def rounds_in(self, epoch: int | None) -> int:
        """Return the averagings in an epoch, from 0; None: after the last change of frequency."""
        frequency = frequency_in(self.averaging_frequency, epoch)
        return -(-max(self.minibatches, default=0) // frequency)

    @property
    def idle_workers(self) -> tuple[int, ...]:
        """Workers without data."""
        return tuple(worker for worker, n in enumerate(self.rows) if n == 0)

    @property
    def idle_fraction(self) -> float:
        """Fraction of the workers' time lost to uneven data, from 0 to 1.

        With `kind` "sharing", idle workers take over work of others, so that only the remainder of
        an uneven division is lost.
        """
        total = sum(self.minibatches)
        if not total:
            return 0.0
        most = -(-total // self.workers) if self.kind == "sharing" else max(self.minibatches)
        return 1 - total / (most * self.workers)


def by_epoch(frequency: Frequency) -> Mapping[int, int]:
    """Return a frequency as a dict by first epoch."""
    return {1: frequency} if isinstance(frequency, int) else frequency


def frequency_in(frequency: Frequency, epoch: int | None = None) -> int:
    """Return the frequency in an epoch, from 0; None: after the last change.

    Example:
        >>> [frequency_in({1: 1, 3: 5}, epoch) for epoch in range(4)]
        [1, 1, 5, 5]
    """
    numbers = by_epoch(frequency)
    return [n for first, n in numbers.items() if epoch is None or first <= epoch + 1][-1]


def minibatch_count(rows: int, batch_size: int) -> int:
    """Return the minibatches of `rows` examples, including a smaller last one."""
    return -(-rows // batch_size)


def epoch_minibatches(
    rows: Sequence[int], batch_size: int, steps_per_epoch: int | None = None
) -> tuple[int, ...]:
    """Return the minibatches of each worker per epoch.

    Example:
        >>> epoch_minibatches((70, 10), 10), epoch_minibatches((70, 10), 10, 4)
        ((7, 1), (4, 0))
    """
    counts = [minibatch_count(count, batch_size) for count in rows]
    if steps_per_epoch is None or not sum(counts):
        return tuple(counts)
    ends = np.cumsum([0, *counts]) * steps_per_epoch / sum(counts)
    return tuple(np.diff(np.floor(ends + 0.5).astype(int)).tolist())


def passes(
    start: int, stop: int, *, epoch: int, count: int, per_epoch: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (pass, first minibatch in it, count) of minibatches `start` to `stop` of an epoch.

    A pass has `count` minibatches, an epoch (from 0) `per_epoch`. An epoch continues where the
    previous one ended.

    Example:
        >>> list(passes(0, 4, epoch=1, count=6, per_epoch=4))
        [(0, 4, 2), (1, 0, 2)]
    """
    at, end = epoch * per_epoch + start, epoch * per_epoch + stop
    while at < end:
        size = min(end, (at // count + 1) * count) - at
        yield at // count, at % count, size
        at += size


def epoch_order(
    rows: int, *, seed: int, epoch: int, worker: int, shuffle: bool
) -> NDArray[np.int64]:
    """Return the order of worker `worker`'s `rows` examples in epoch `epoch` (from 0).

    It depends only on the arguments, so that a replacement continues at the same example.
    """
    order = np.arange(rows, dtype=np.int64)
    if shuffle:
        np.random.default_rng([seed, epoch, worker]).shuffle(order)
    return order


def calls(
    order: NDArray[np.int64], *, position: int, minibatches: int, batch_size: int
) -> Iterator[NDArray[np.int64]]:
    """Yield (steps, batch) examples from minibatch `position`, a shorter last one on its own."""
    start = position * batch_size
    stop = max(start, min(start + minibatches * batch_size, order.size))
    full = (stop - start) // batch_size
    if full > 0:
        yield order[start : start + full * batch_size].reshape(full, batch_size)
    if start + full * batch_size < stop:
        yield order[start + full * batch_size : stop].reshape(1, -1)
