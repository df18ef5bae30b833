"""Gathering and training of minibatches."""

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.errors import NonFiniteLossError
from sparkwright.masters.plan import epoch_minibatches, minibatch_count
from sparkwright.workers.work import Span

from ._batch_layout import BatchLayout
from ._control import Activity
from ._mark import marked
from ._phases import NO_PHASES, PhaseRecorder
from ._replica_base import Replica
from .examples import calls_of, order_in
from .requests import WorkerSettings
from .shard import Shard, ShardSource
from .stream import StreamedShard

Block = dict[str, NDArray[Any]]


@dataclass(slots=True)
class RoundDone:
    """Results of one worker in one round."""

    losses: NDArray[np.float32]  # (minibatches,)
    examples: NDArray[np.int32]  # (minibatches,)
    metrics: dict[str, float]  # since the beginning of the epoch
    data_s: float  # spent waiting for minibatches
    readings: dict[str, float] = field(default_factory=dict[str, float])  # of the last minibatch


class Minibatches:
    """Gather the examples of spans in the order of their epoch, and train on them."""

    def __init__(
        self,
        settings: WorkerSettings[Any],
        replica: Replica,
        shard: Shard,
        shards: ShardSource,
        phases: PhaseRecorder = NO_PHASES,
        activity: Activity | None = None,
    ) -> None:
        """Match the shard's columns with the network."""
        self._settings, self._replica = settings, replica
        self._shard, self._shards = shard, shards
        self._phases, self._activity = phases, activity or Activity()
        self.step_s = math.inf  # per minibatch of the last block
        self._layout: BatchLayout | None = (
            BatchLayout(replica.model, shard.columns, training=True) if shard.columns else None
        )
        self._orders: dict[int, tuple[int, NDArray[np.int64]]] = {}  # owner -> (pass, order)

    @property
    def layout(self) -> BatchLayout:
        """Mapping of columns to inputs; available after the first data."""
        assert self._layout is not None
        return self._layout

    def gather(self, span: Span) -> list[Block]:
        """Return the minibatches of `span`, (steps, batch, ...): full ones in one block."""
        settings = self._settings
        mine = span.owner == settings.worker
        shard = self._shard if mine else self._shards.of(span.owner)
        blocks: list[Block] = []
        for number, rows in calls_of(
            span,
            count=minibatch_count(shard.rows, settings.master.batch_size_per_worker),
            per_epoch=self.per_epoch(span.owner, shard.rows),
            batch_size=settings.master.batch_size_per_worker,
            order=partial(self._order, span.owner, shard),
        ):
            streams = {"epoch": number} if isinstance(shard, StreamedShard) else {}
            blocks.append(shard.gather(rows, **streams))
        if self._layout is None and blocks:
            examples = {name: a.reshape(-1, *a.shape[2:]) for name, a in blocks[0].items()}
            self._layout = BatchLayout(self._replica.model, examples, training=True)
        return blocks

    def per_epoch(self, owner: int, rows: int) -> int:
        """Return the minibatches per epoch of worker `owner`, which has `rows` examples."""
        master = self._settings.master
        if master.steps_per_epoch is None:
            return minibatch_count(rows, master.batch_size_per_worker)
        return epoch_minibatches(
            self._shards.rows, master.batch_size_per_worker, master.steps_per_epoch
        )[owner]

    def _order(self, owner: int, shard: Any, number: int) -> NDArray[np.int64]:
        """Return the order of examples in pass `number` over `shard` of worker `owner`."""
        if self._orders.get(owner, (-1, None))[0] != number:
            settings = self._settings
            order = (
                np.arange(shard.rows, dtype=np.int64)
                if isinstance(shard, StreamedShard)
                else order_in(
                    number,
                    owner,
                    rows=settings.rows or self._shards.rows,
                    master=settings.master,
                    earlier=settings.earlier,
                )
            )
            self._orders[owner] = (number, order)
        return self._orders[owner][1]

    def train(
        self,
        blocks: Iterable[Block],
        span: Span | None,
        *,
        data_s: float,  # spent waiting for the blocks
        done: int = 0,  # minibatches of the span trained before
        backwards: bool = False,  # the span is trained from its end
        stopping: threading.Event | None = None,  # ends training after a block
    ) -> RoundDone:
        """Train blocks in order; with hooks, minibatch by minibatch."""
        losses, examples = list[NDArray[np.float32]](), list[int]()
        metrics: dict[str, float] = {}
        for block in blocks:
            assert span is not None
            steps, batch = next(iter(block.values())).shape[:2]
            started_s = time.monotonic()
            part = _part(span, done + len(examples), steps, backwards=backwards)
            with marked(part):
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
        """Raise if a loss is NaN or infinite and the master stops at that."""
        if not self._settings.stop_at_non_finite or np.isfinite(losses).all():
            return
        bad = int(np.flatnonzero(~np.isfinite(losses))[0])
        minibatch = span.stop - 1 - (done + bad) if backwards else span.start + done + bad
        raise NonFiniteLossError(
            worker=self._settings.worker,
            host="",
            reason=f"the loss became {float(losses[bad])} in epoch {span.epoch + 1}, minibatch "
            f"{minibatch + 1} of worker {span.owner}. Lower the learning rate, clip gradients or "
            'check that worker\'s data; `non_finite="continue"` ignores this.',
        )


def _part(span: Span, done: int, steps: int, *, backwards: bool) -> Span:
    """Return the `steps` minibatches of `span` after the first or, `backwards`, last `done`."""
    if backwards:
        return span._replace(start=span.stop - done - steps, stop=span.stop - done)
    return span._replace(start=span.start + done, stop=span.start + done + steps)


def may_be_averaged(
    done: RoundDone, replica: Replica, settings: WorkerSettings[Any], *, epoch: int, updater: bool
) -> bool:
    """Return whether the state after a round is finite, with the optimizer's if `updater`."""
    if not len(done.losses) or replica.state.is_finite(updater=updater):
        return True
    if settings.stop_at_non_finite:
        raise non_finite_state(epoch, worker=settings.worker)
    return False


def non_finite_state(epoch: int, *, worker: int) -> NonFiniteLossError:
    """Create the error for NaN or infinite parameters of `worker`; `epoch` counts from 0."""
    return NonFiniteLossError(
        worker=worker,
        host="",
        reason=f"parameters or moments became NaN or infinite in epoch {epoch + 1}, although every "
        "loss was finite. Lower the learning rate or clip gradients; "
        '`non_finite="continue"` averages the other workers\' parts instead.',
    )
