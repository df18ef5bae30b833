"""The state that a worker keeps: the last average, and the arithmetic that makes the next."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters import OuterOptimizer
from sparkwright.masters.parameter_averaging import Updater
from sparkwright.masters.plan import Exchange
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.rounded_sum import ROUNDINGS, Precision, all_reduce_rounded
from sparkwright.networks import unpack_arrays
from sparkwright.workers.protocol import Progress

from ._replica_base import Replica

Vector = NDArray[np.floating[Any]]
_PIECE = 65_536  # numbers that fit into a CPU cache


class RoundedAverage:
    """A worker's state for averaging with `exchange_precision`."""

    # Changes are smaller than parameters, so their rounding errors are smaller. These are added to
    # this worker's part of the next average.

    def __init__(self, precision: Precision, size: int, dtype: np.dtype[Any]) -> None:
        self._rounding = ROUNDINGS[precision]()
        self.lost = np.zeros(size, dtype)  # rounding errors that are not sent yet

    def begin(self, lost: bytes = b"") -> None:
        """Reset when a group forms, because an aborted round leaves `lost` undefined."""
        self.lost[:] = np.frombuffer(lost, self.lost.dtype) if lost else 0

    def reduce(self, ring: Ring, average: Vector, work: Vector, *, share: float) -> None:
        """Replace this worker's part of the mean, in `work`, by the mean."""
        size = self.lost.size
        for start in range(0, size, _PIECE):
            piece = slice(start, min(start + _PIECE, size))
            self.lost[piece] += work[piece] - work.dtype.type(share) * average[piece]
        work[:size] = average[:size]
        all_reduce_rounded(ring, self.lost, work[:size], self._rounding)
        # The rest is averaged at full precision.
        if work.size > size:
            ring.all_reduce(work[size:])


class KeptState:
    """The last average, which the driver or new workers may request, and the next one."""

    def __init__(
        self, replica: Replica, *, worker: int, exchange: Exchange, updater: Updater, velocity: int
    ) -> None:
        self._replica, self._worker, self.updater = replica, worker, updater
        state = replica.state
        self.size = state.averaged_size + (state.updater_size if updater == "average" else 0)
        # In the layout of `ModelState.read`, then the velocity of the outer optimizer, if any.
        self.average = np.zeros(self.size + velocity, state.dtype)
        self.work = np.empty_like(self.average)  # the next average
        self.progress = Progress()  # at `average`
        self.keeping = threading.Lock()  # held while average and progress change together
        self.synchronized = False  # whether the worker has a state to continue from
        self.rounded = (
            RoundedAverage(exchange.precision, state.trainable_size, state.dtype)
            if exchange.precision in ("bfloat16", "int8")
            else None
        )

    def keep(self, progress: Progress, *, changed: bool = True) -> None:
        """Make `work` the current average, if it `changed`, and set `progress`."""
        with self.keeping:
            if changed:
                self.average, self.work = self.work, self.average
            self.progress = progress

    def extras(self) -> list[NDArray[Any]]:
        """Return the state that is not averaged, with the seeds of worker 0."""
        state = self._replica.state
        values = state.read_extras()
        state.own_seeds(values, worker=-self._worker)
        return values

    def write_extras(self, content: bytes, *, workers: int = 1) -> None:
        """Load the state that is not averaged."""
        # The state of worker 0; in a checkpoint, then the own state of each other worker, and the
        # rounding errors of all workers.
        state, worker = self._replica.state, self._worker
        like = state.read_extras()
        size = sum(array.nbytes for array in like)
        values = unpack_arrays(content[:size], like)
        if len(content) == size or worker >= workers:
            state.own_seeds(values, worker=worker)
            return state.write_extras(values)
        like = state.read_counters()
        each = sum(array.nbytes for array in like)
        start = size + (worker - 1) * each
        if worker:
            values[: len(like)] = unpack_arrays(content[start : start + each], like)
        if self.rounded is not None:
            lost, start = self.rounded.lost.nbytes, size + (workers - 1) * each
            self.rounded.begin(content[start:][worker * lost : (worker + 1) * lost])
        return state.write_extras(values)

    def mean(self, ring: Ring, weights: list[int], own: NDArray[Any] | None = None) -> bool:
        """Write this worker's part of the weighted mean to `work`; False if weights are 0."""
        total, mine = sum(weights), weights[ring.rank]
        if not total:
            return False
        if mine and own is not None:  # without the optimizer's state
            np.multiply(own, own.dtype.type(mine / total), out=self.work[: self.size])
        elif mine:
            averages = self.updater == "average"
            part = self.work[: self.size]
            self._replica.state.read(updater=averages, out=part, scale=mine / total)
        else:
            self.work[: self.size] = 0
        return True

    def take_outer_step(self, outer: OuterOptimizer) -> None:
        """Apply the outer optimizer to the mean in `work`, in place."""
        parameters = slice(self._replica.state.trainable_size)
        before, after = self.average, self.work
        outer.step(before[parameters], after[parameters], before[self.size :], after[self.size :])
