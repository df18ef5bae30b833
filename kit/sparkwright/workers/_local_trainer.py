"""A worker's share of a round: gathered ahead of time, trained in calls that are not too long."""

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NonFiniteLossError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters._plan import minibatch_count
from sparkwright.runs._work import Span
from sparkwright.timeline import PhaseCode

from ._control import Activity
from ._minibatches import Block, Minibatches, non_finite_reason
from ._phases import NO_PHASES, PhaseRecorder
from ._replica import Replica
from ._settings import WorkerSettings
from ._shard import Shard
from ._shard_service import ShardSource

# A compiled call cannot be interrupted, so it should not take much longer than this.
_CALL_S = 0.5


@dataclass(slots=True)
class RoundDone:
    """What one worker did in one round.

    Attributes:
        losses: (minibatches,) float32.
        examples: (minibatches,) int32.
        metrics: the compiled metrics since the epoch began.
        data_s: seconds spent waiting for minibatches.
        readings: further columns of the log, known of the last minibatch only.
    """

    losses: NDArray[np.float32]
    examples: NDArray[np.int32]
    metrics: dict[str, float]
    data_s: float
    readings: dict[str, float] = field(default_factory=dict[str, float])


class LocalTrainer:
    """Trains shares of minibatches; those of its own shard are gathered ahead on another thread."""

    def __init__(
        self,
        settings: WorkerSettings[ParameterAveragingTrainingMaster],
        replica: Replica,
        shard: Shard,
        shards: ShardSource,
        phases: PhaseRecorder = NO_PHASES,
        activity: Activity | None = None,
    ) -> None:
        """Match the shard's columns with the network; see `Minibatches`.

        Args:
            settings: of the worker.
            replica: what is trained.
            shard: this worker's data.
            shards: gives other workers' data.
            phases: is told what took how long; default: nobody is.
            activity: counts minibatches; default: nobody asks.

        Raises:
            DataError: if they do not fit.
        """
        self._settings, self._rows = settings, shard.rows
        self._replica, self._phases = replica, phases
        self._activity = activity or Activity()
        self._data_phase = PhaseCode.FIRST_DATA
        self._minibatches = Minibatches(settings, replica, shard, shards)
        self._step_s = math.inf  # until the first call has been timed
        self._ahead: deque[tuple[Span, Future[list[Block]]]] = deque()
        self._gatherer = (
            ThreadPoolExecutor(1, thread_name_prefix="sparkwright-prefetch")
            if settings.master.prefetch_batches
            else None
        )

    def close(self) -> None:
        """End the prefetching thread."""
        if self._gatherer is not None:
            self._gatherer.shutdown(wait=True, cancel_futures=True)

    def round(self, share: Span | None, *, stopping: threading.Event) -> RoundDone:
        """Train the minibatches of `share`; another worker's from the end, see `without`.

        Raises:
            NonFiniteLossError: if a loss is NaN or infinite and that is to stop the run.
            NetworkError: if another worker's data cannot be had.
        """
        losses: list[NDArray[np.float32]] = []
        examples: list[NDArray[np.int32]] = []
        metrics: dict[str, float] = {}
        asked_s = time.monotonic()
        blocks = self._blocks(share) if share is not None else []
        data_s = time.monotonic() - asked_s
        if blocks:
            self._phases.add(self._data_phase, asked_s, asked_s + data_s)
            self._data_phase = PhaseCode.DATA
        for block in self._pieces(blocks):
            steps, batch = next(iter(block.values())).shape[:2]
            started_s = time.monotonic()
            found, metrics = self._minibatches.train(block)
            ended_s = time.monotonic()
            self._step_s = (ended_s - started_s) / steps
            self._activity.steps += steps
            self._phases.add(self._replica.train_phase, started_s, ended_s)
            losses.append(found)
            examples.append(np.full(steps, batch, np.int32))
            if self._settings.stop_at_non_finite and not np.isfinite(found).all():
                raise self._non_finite(share, sum(map(len, losses)) - steps, found)
            if stopping.is_set():
                break
        return RoundDone(
            losses=np.concatenate(losses) if losses else np.empty(0, np.float32),
            examples=np.concatenate(examples) if examples else np.empty(0, np.int32),
            metrics=metrics,
            data_s=data_s,
            readings={"learning_rate": self._replica.learning_rate} if losses else {},
        )

    def _pieces(self, blocks: list[Block]) -> Iterator[Block]:
        """Cut blocks into calls that should take no longer than about `_CALL_S`."""
        for block in blocks:
            steps, start = next(iter(block.values())).shape[0], 0
            while start < steps:
                stop = min(steps, start + max(1, int(_CALL_S / self._step_s)))
                yield {name: array[start:stop] for name, array in block.items()}
                start = stop

    def _blocks(self, share: Span) -> list[Block]:
        """The minibatches of a share, from what was gathered ahead if it is there."""
        if self._gatherer is None or share.owner != self._settings.worker:
            return self._gather(share)
        while self._ahead and self._ahead[0][0] != share:
            self._ahead.popleft()[1].cancel()  # the run was rewound, or went on elsewhere
        depth = -(
            -self._settings.master.prefetch_batches // self._settings.master.averaging_frequency
        )
        nexts = self._upcoming(share, depth + 1)
        for span in nexts[len(self._ahead) :]:
            self._ahead.append((span, self._gatherer.submit(self._gather, span)))
        return self._ahead.popleft()[1].result()

    def _upcoming(self, share: Span, count: int) -> list[Span]:
        """This share and the next ones that are likely to follow it; none beyond the data."""
        total = minibatch_count(self._rows, self._settings.master.batch_size_per_worker)
        found = [share]
        while len(found) < count:
            last = found[-1]
            epoch, start = (last.epoch, last.stop) if last.stop < total else (last.epoch + 1, 0)
            if epoch >= self._settings.epochs:
                break
            stop = min(start + self._settings.master.averaging_frequency, total)
            found.append(Span(last.owner, epoch, start, stop))
        return found

    def _gather(self, share: Span) -> list[Block]:
        blocks = self._minibatches.gather(share)
        if share.owner == self._settings.worker:
            return blocks
        return [{name: a[::-1] for name, a in block.items()} for block in reversed(blocks)]

    def _non_finite(
        self, share: Span | None, first_step: int, losses: NDArray[np.float32]
    ) -> NonFiniteLossError:
        assert share is not None
        bad = int(np.flatnonzero(~np.isfinite(losses))[0])
        done = first_step + bad
        mine = share.owner == self._settings.worker
        minibatch = share.start + done if mine else share.stop - 1 - done
        return NonFiniteLossError(
            worker=self._settings.worker,
            host="",
            reason=non_finite_reason(float(losses[bad]), span=share, minibatch=minibatch),
        )
