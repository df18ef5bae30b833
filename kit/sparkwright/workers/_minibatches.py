"""Minibatches by their place, and a worker's share of a round of them."""

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.errors import NonFiniteLossError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.plan import (
    calls,
    epoch_minibatches,
    epoch_order,
    minibatch_count,
    passes,
)
from sparkwright.timeline import PhaseCode
from sparkwright.workers.work import Span

from ._batch_layout import BatchLayout
from ._control import Activity
from ._phases import NO_PHASES, PhaseRecorder
from ._replica_base import Replica
from .requests import WorkerSettings
from .shard import Shard, ShardSource
from .stream import StreamedShard

Block = dict[str, NDArray[Any]]
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


class Pause(NamedTuple):
    """What to do in the midst of a round.

    Attributes:
        after: minibatches that come before it, at least 1. With fewer in the round nothing is
            done.
        call: does it.
    """

    after: int
    call: Callable[[], None]


class Minibatches:
    """Gathers the examples of spans, in the order in which their epoch visits them, and trains.

    Attributes:
        step_s: seconds that a minibatch of the last block took; infinite before the first.
    """

    def __init__(
        self,
        settings: WorkerSettings[Any],
        replica: Replica,
        shard: Shard,
        shards: ShardSource,
        phases: PhaseRecorder = NO_PHASES,
        activity: Activity | None = None,
    ) -> None:
        """Match the shard's columns with the network.

        Args:
            settings: of the worker.
            replica: what is trained.
            shard: this worker's data.
            shards: gives other workers' data.
            phases: records what took how long; default: nothing is recorded.
            activity: counts minibatches; default: nobody asks.

        Raises:
            DataError: if the data does not fit the network.
        """
        self._settings, self._replica = settings, replica
        self._shard, self._shards = shard, shards
        self._phases, self._activity = phases, activity or Activity()
        self.step_s = math.inf
        self._layout: BatchLayout | None = (
            BatchLayout(replica.model, shard.columns, training=True) if shard.columns else None
        )
        self._orders: dict[int, tuple[int, NDArray[np.int64]]] = {}  # owner -> (pass, order)

    @property
    def layout(self) -> BatchLayout:
        """Which column feeds which input; known once there is data."""
        assert self._layout is not None
        return self._layout

    def gather(self, span: Span) -> list[Block]:
        """The minibatches of `span`, in order: full ones as one block, a shorter one as another.

        Each array of a block has shape (minibatches, batch, ...).

        Raises:
            NetworkError: if another worker's data cannot be had.
        """
        settings = self._settings
        mine = span.owner == settings.worker
        shard = self._shard if mine else self._shards.of(span.owner)
        blocks: list[Block] = []
        for number, position, minibatches in passes(
            span.start,
            span.stop,
            epoch=span.epoch,
            count=minibatch_count(shard.rows, settings.master.batch_size_per_worker),
            per_epoch=self.per_epoch(span.owner, shard.rows),
        ):
            rounds = calls(
                self._order(span.owner, shard, number),
                position=position,
                minibatches=minibatches,
                batch_size=settings.master.batch_size_per_worker,
            )
            streams = {"epoch": number} if isinstance(shard, StreamedShard) else {}
            blocks += [shard.gather(rows, **streams) for rows in rounds]
        if self._layout is None and blocks:
            examples = {name: a.reshape(-1, *a.shape[2:]) for name, a in blocks[0].items()}
            self._layout = BatchLayout(self._replica.model, examples, training=True)
        return blocks

    def per_epoch(self, owner: int, rows: int) -> int:
        """Minibatches of an epoch in the data of `owner`, who has so many `rows`."""
        master = self._settings.master
        if master.steps_per_epoch is None:
            return minibatch_count(rows, master.batch_size_per_worker)
        return epoch_minibatches(
            self._shards.rows, master.batch_size_per_worker, master.steps_per_epoch
        )[owner]

    def _order(self, owner: int, shard: Any, number: int) -> NDArray[np.int64]:
        """The order of pass `number` over the data of `owner`, in `shard`."""
        if self._orders.get(owner, (-1, None))[0] != number:
            master = self._settings.master
            order = epoch_order(
                shard.rows,
                seed=master.seed,
                epoch=number,
                worker=owner,
                shuffle=master.shuffle and not isinstance(shard, StreamedShard),
            )
            self._orders[owner] = (number, order)
        return self._orders[owner][1]

    def train(
        self,
        blocks: Iterable[Block],
        span: Span | None,
        *,
        data_s: float,
        done: int = 0,
        backwards: bool = False,
        stopping: threading.Event | None = None,
    ) -> RoundDone:
        """Train blocks one after another; with hooks, minibatch by minibatch.

        Args:
            blocks: of `span`.
            span: what is being trained; None: nothing.
            data_s: seconds spent waiting for the blocks.
            done: minibatches of the span before these; default 0.
            backwards: whether it is trained from its end; default False.
            stopping: ends training after a block; default None: nothing does.

        Raises:
            NonFiniteLossError: if a loss is NaN or infinite and that is to stop the run.
        """
        losses, examples = list[NDArray[np.float32]](), list[int]()
        metrics: dict[str, float] = {}
        for block in blocks:
            assert span is not None
            steps, batch = next(iter(block.values())).shape[:2]
            started_s = time.monotonic()
            found, metrics = self._train(block)
            ended_s = self._phases.since(self._replica.train_phase, started_s)
            self.step_s = (ended_s - started_s) / steps
            self._activity.steps += steps
            self._check(found, span, done=done + len(examples), backwards=backwards)
            losses.append(found)
            examples += [batch] * steps
            if stopping is not None and stopping.is_set():
                break
        return RoundDone(
            losses=np.concatenate([np.empty(0, np.float32), *losses]),
            examples=np.array(examples, np.int32),
            metrics=metrics,
            data_s=data_s,
            readings={"learning_rate": self._replica.learning_rate} if losses else {},
        )

    def _train(self, block: Block) -> tuple[NDArray[np.float32], dict[str, float]]:
        """Train a block; with hooks, minibatch by minibatch. See `Replica.train`."""
        hooks = self._settings.master.hooks
        if not hooks:
            return self._replica.train(self.layout, block)
        losses: list[NDArray[np.float32]] = []
        metrics: dict[str, float] = {}
        for step in range(next(iter(block.values())).shape[0]):
            one = {name: array[step : step + 1] for name, array in block.items()}
            minibatch = DataSet.from_columns({name: array[0] for name, array in one.items()})
            for hook in hooks:
                hook.pre_update(minibatch, self._replica.model)
            found, metrics = self._replica.train(self.layout, one)
            losses.append(found)
            for hook in hooks:
                hook.post_update(minibatch, self._replica.model)
        return np.concatenate(losses), metrics

    def _check(
        self, losses: NDArray[np.float32], span: Span, *, done: int, backwards: bool
    ) -> None:
        """Raise if a loss is NaN or infinite and that is to stop the run."""
        if not self._settings.stop_at_non_finite or np.isfinite(losses).all():
            return
        bad = int(np.flatnonzero(~np.isfinite(losses))[0])
        minibatch = span.stop - 1 - (done + bad) if backwards else span.start + done + bad
        raise NonFiniteLossError(
            worker=self._settings.worker,
            host="",
            reason=f"the loss became {float(losses[bad])} in epoch {span.epoch + 1}, minibatch "
            f"{minibatch + 1} of worker {span.owner}. Lower the learning rate, clip gradients or "
            'look at that worker\'s data; `non_finite="continue"` goes on regardless.',
        )


def may_be_averaged(
    done: RoundDone, replica: Replica, settings: WorkerSettings[Any], *, epoch: int, updater: bool
) -> bool:
    """Whether the replica's state after a round is finite, with the optimizer's if `updater`.

    Raises:
        NonFiniteLossError: if it is not, and that is to stop the run.
    """
    if not len(done.losses) or replica.state.is_finite(updater=updater):
        return True
    if settings.stop_at_non_finite:
        raise non_finite_state(epoch, worker=settings.worker)
    return False


def non_finite_state(epoch: int, *, worker: int) -> NonFiniteLossError:
    """The error for NaN or infinite parameters of `worker`, in an epoch counted from 0."""
    return NonFiniteLossError(
        worker=worker,
        host="",
        reason=f"parameters or moments became NaN or infinite in epoch {epoch + 1}, although every "
        "loss was finite. Lower the learning rate or clip gradients; "
        '`non_finite="continue"` averages the other workers\' parts instead.',
    )


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
        self._settings, self._rows, self._phases = settings, shard.rows, phases
        self._data_phase = PhaseCode.FIRST_DATA
        self._minibatches = Minibatches(settings, replica, shard, shards, phases, activity)
        self._ahead: deque[tuple[Span, Future[list[Block]]]] = deque()
        self._lent: tuple[Span, Future[list[Block]]] | None = None  # another's, gathered ahead
        self._gatherer = (
            ThreadPoolExecutor(1, thread_name_prefix="sparkwright-prefetch")
            if settings.master.prefetch_batches
            else None
        )

    def close(self) -> None:
        """End the prefetching thread."""
        if self._gatherer is not None:
            self._gatherer.shutdown(wait=True, cancel_futures=True)

    def forget_lent(self) -> None:
        """What was gathered ahead of others' data may have failed: they are elsewhere now."""
        self._lent = None

    def round(
        self,
        share: Span | None,
        *,
        stopping: threading.Event,
        pause: Pause | None = None,
        lent_next: Span | None = None,
    ) -> RoundDone:
        """Train the minibatches of `share`; another worker's from the end, see `without`.

        Args:
            share: what to train; None: nothing.
            stopping: ends training after a compiled call.
            pause: what to do in the midst of it; default None: nothing.
            lent_next: minibatches of another worker to gather meanwhile; default None.

        Raises:
            NonFiniteLossError: if a loss is NaN or infinite and that is to stop the run.
            NetworkError: if another worker's data cannot be had.
        """
        asked_s = time.monotonic()
        blocks = self._blocks(share, lent_next) if share is not None else []
        data_s = time.monotonic() - asked_s
        if blocks:
            self._phases.add(self._data_phase, asked_s, asked_s + data_s)
            self._data_phase = PhaseCode.DATA
        return self._minibatches.train(
            self._pieces(blocks, pause),
            share,
            data_s=data_s,
            backwards=share is not None and share.owner != self._settings.worker,
            stopping=stopping,
        )

    def _pieces(self, blocks: list[Block], pause: Pause | None) -> Iterator[Block]:
        """Cut blocks into calls that should take no longer than about `_CALL_S`."""
        left = pause.after if pause is not None else 0
        for block in blocks:
            steps, start = next(iter(block.values())).shape[0], 0
            while start < steps:
                stop = min(steps, start + max(1, int(_CALL_S / self._minibatches.step_s)))
                if left:
                    stop = min(stop, start + left)
                yield {name: array[start:stop] for name, array in block.items()}
                # The piece has been trained when the next one is asked for.
                if pause is not None and left and not (left := left - (stop - start)):
                    pause.call()
                start = stop

    def _blocks(self, share: Span, lent_next: Span | None) -> list[Block]:
        """The minibatches of a share, from what was gathered ahead if it is there."""
        if self._gatherer is None:
            return self._gather(share)
        if share.owner != self._settings.worker:
            if self._lent is None or self._lent[0] != share:
                self._lent = share, self._gatherer.submit(self._gather, share)
            _, gathered = self._lent
            self._lent = None
            if lent_next is not None:
                self._lent = lent_next, self._gatherer.submit(self._gather, lent_next)
            return gathered.result()
        while self._ahead and self._ahead[0][0] != share:
            self._ahead.popleft()[1].cancel()  # the run was rewound, or went on elsewhere
        master = self._settings.master
        depth = -(-master.prefetch_batches // master.frequency_in(share.epoch))
        nexts = self._upcoming(share, depth + 1)
        for span in nexts[len(self._ahead) :]:
            self._ahead.append((span, self._gatherer.submit(self._gather, span)))
        return self._ahead.popleft()[1].result()

    def _upcoming(self, share: Span, count: int) -> list[Span]:
        """This share and the next ones that are likely to follow it; none beyond the data."""
        total = self._minibatches.per_epoch(share.owner, self._rows)
        found = [share]
        while len(found) < count:
            last = found[-1]
            epoch, start = (last.epoch, last.stop) if last.stop < total else (last.epoch + 1, 0)
            if epoch >= self._settings.epochs:
                break
            stop = min(start + self._settings.master.frequency_in(epoch), total)
            found.append(Span(last.owner, epoch, start, stop))
        return found

    def _gather(self, share: Span) -> list[Block]:
        blocks = self._minibatches.gather(share)
        if share.owner == self._settings.worker:
            return blocks
        return [{name: a[::-1] for name, a in block.items()} for block in reversed(blocks)]
