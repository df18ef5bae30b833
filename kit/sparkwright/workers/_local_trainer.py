"""A worker's minibatches: gathered from its shard ahead of time, trained a round at a time."""

import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.errors import NonFiniteLossError
from sparkwright.masters._plan import calls, epoch_order, minibatch_count

from ._batch_layout import BatchLayout
from ._replica import Replica
from ._shard import Shard

# A compiled call cannot be interrupted, so it should not take much longer than this.
_CALL_S = 0.5

Block = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class AveragingSettings:
    """What a worker needs to know of its master and its run; see the master for the options."""

    worker: int
    attempt: int
    seed: int
    epochs: int
    batch_size: int
    averaging_frequency: int
    prefetch_batches: int
    save_updater: bool
    shuffle: bool
    stop_at_non_finite: bool
    peer_timeout_s: float
    connect_timeout_s: float
    hooks: tuple[Any, ...] = field(default=(), repr=False)


@dataclass(slots=True)
class RoundDone:
    """What one worker did in one round.

    Attributes:
        losses: (minibatches,) float32.
        examples: (minibatches,) int32.
        metrics: the compiled metrics since the epoch began.
        data_s: seconds spent waiting for minibatches.
    """

    losses: NDArray[np.float32]
    examples: NDArray[np.int32]
    metrics: dict[str, float]
    data_s: float


class LocalTrainer:
    """Trains consecutive minibatches of a shard, gathered ahead on a thread of its own."""

    def __init__(self, settings: AveragingSettings, replica: Replica, shard: Shard) -> None:
        """Match the shard's columns with the network.

        Raises:
            DataError: if they do not fit.
        """
        self._settings, self._replica, self._shard = settings, replica, shard
        self._layout: BatchLayout | None = replica.arrange(shard.columns) if shard.rows else None
        self._step_s = math.inf  # until the first call has been timed
        self._order: tuple[int, NDArray[np.int64]] = (-1, np.empty(0, np.int64))
        self._ahead: deque[tuple[tuple[int, int], Future[list[Block]]]] = deque()
        self._gatherer = (
            ThreadPoolExecutor(1, thread_name_prefix="sparkwright-prefetch")
            if settings.prefetch_batches
            else None
        )

    def close(self) -> None:
        """End the prefetching thread."""
        if self._gatherer is not None:
            self._gatherer.shutdown(wait=True, cancel_futures=True)

    def round(self, *, epoch: int, position: int, stopping: threading.Event) -> RoundDone:
        """Train up to `averaging_frequency` minibatches from minibatch `position` of `epoch`.

        Raises:
            NonFiniteLossError: if a loss is NaN or infinite and that is to stop the run.
        """
        losses: list[NDArray[np.float32]] = []
        examples: list[NDArray[np.int32]] = []
        metrics: dict[str, float] = {}
        asked_s = time.perf_counter()
        blocks = self._blocks(epoch, position)
        data_s = time.perf_counter() - asked_s
        for block in self._pieces(blocks):
            steps, batch = next(iter(block.values())).shape[:2]
            started_s = time.perf_counter()
            found, metrics = self._train(block)
            self._step_s = (time.perf_counter() - started_s) / steps
            losses.append(found)
            examples.append(np.full(steps, batch, np.int32))
            if self._settings.stop_at_non_finite and not np.isfinite(found).all():
                step = position + sum(map(len, losses)) - steps
                raise self._non_finite(epoch, step, found)
            if stopping.is_set():
                break
        return RoundDone(
            losses=np.concatenate(losses) if losses else np.empty(0, np.float32),
            examples=np.concatenate(examples) if examples else np.empty(0, np.int32),
            metrics=metrics,
            data_s=data_s,
        )

    def _train(self, block: Block) -> tuple[NDArray[np.float32], dict[str, float]]:
        assert self._layout is not None
        hooks = self._settings.hooks
        if not hooks:
            return self._replica.train(self._layout, block)
        losses: list[NDArray[np.float32]] = []
        metrics: dict[str, float] = {}
        for step in range(next(iter(block.values())).shape[0]):
            one = {name: array[step : step + 1] for name, array in block.items()}
            minibatch = DataSet.from_columns({name: array[0] for name, array in one.items()})
            for hook in hooks:
                hook.pre_update(minibatch, self._replica.model)
            found, metrics = self._replica.train(self._layout, one)
            losses.append(found)
            for hook in hooks:
                hook.post_update(minibatch, self._replica.model)
        return np.concatenate(losses), metrics

    def _pieces(self, blocks: list[Block]) -> Iterator[Block]:
        """Cut blocks into calls that should take no longer than about `_CALL_S`."""
        for block in blocks:
            steps, start = next(iter(block.values())).shape[0], 0
            while start < steps:
                stop = min(steps, start + max(1, int(_CALL_S / self._step_s)))
                yield {name: array[start:stop] for name, array in block.items()}
                start = stop

    def _blocks(self, epoch: int, position: int) -> list[Block]:
        """The minibatches of one round, from what was gathered ahead if it is there."""
        if self._gatherer is None:
            return self._gather(epoch, position)
        while self._ahead and self._ahead[0][0] != (epoch, position):
            self._ahead.popleft()[1].cancel()  # the run was rewound, or went on elsewhere
        frequency = self._settings.averaging_frequency
        depth = -(-self._settings.prefetch_batches // frequency)
        nexts = self._upcoming(epoch, position, depth + 1)
        for key in nexts[len(self._ahead) :]:
            self._ahead.append((key, self._gatherer.submit(self._gather, *key)))
        return self._ahead.popleft()[1].result() if self._ahead else []

    def _upcoming(self, epoch: int, position: int, count: int) -> list[tuple[int, int]]:
        """The next `count` rounds' (epoch, position), this one first; none beyond the data."""
        total = minibatch_count(self._shard.rows, self._settings.batch_size)
        found: list[tuple[int, int]] = []
        while len(found) < count and epoch < self._settings.epochs and total:
            if position < total:
                found.append((epoch, position))
                position += self._settings.averaging_frequency
            elif found:
                epoch, position = epoch + 1, 0
            else:
                break  # this epoch's data is used up; the others are still at it
        return found

    def _gather(self, epoch: int, position: int) -> list[Block]:
        settings = self._settings
        if self._order[0] != epoch:
            order = epoch_order(
                self._shard.rows,
                seed=settings.seed,
                epoch=epoch,
                worker=settings.worker,
                shuffle=settings.shuffle,
            )
            self._order = (epoch, order)
        rounds = calls(
            self._order[1],
            position=position,
            minibatches=settings.averaging_frequency,
            batch_size=settings.batch_size,
        )
        return [self._shard.gather(rows) for rows in rounds]

    def _non_finite(
        self, epoch: int, first_step: int, losses: NDArray[np.float32]
    ) -> NonFiniteLossError:
        bad = int(np.flatnonzero(~np.isfinite(losses))[0])
        return NonFiniteLossError(
            worker=self._settings.worker,
            host="",
            reason=(
                f"the loss became {losses[bad]} in epoch {epoch + 1}, minibatch "
                f"{first_step + bad + 1} of worker {self._settings.worker}. Lower the learning "
                "rate, clip gradients or look at that worker's data; "
                '`non_finite="continue"` goes on regardless.'
            ),
        )
