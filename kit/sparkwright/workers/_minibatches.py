"""Minibatches by their place: of the worker's own shard, or of another worker's."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.errors import NonFiniteLossError
from sparkwright.masters._plan import calls, epoch_order
from sparkwright.runs._work import Span

from ._batch_layout import BatchLayout
from ._replica import Replica
from ._settings import WorkerSettings
from ._shard import Shard
from ._shard_service import ShardSource

Block = dict[str, NDArray[Any]]


class Minibatches:
    """Gathers the examples of spans, in the order in which their epoch visits them."""

    def __init__(
        self, settings: WorkerSettings[Any], replica: Replica, shard: Shard, shards: ShardSource
    ) -> None:
        """Match the shard's columns with the network.

        Args:
            settings: of the worker.
            replica: what is trained.
            shard: this worker's data.
            shards: gives other workers' data.

        Raises:
            DataError: if the data does not fit the network.
        """
        self._settings, self._replica = settings, replica
        self._shard, self._shards = shard, shards
        self._layout: BatchLayout | None = (
            replica.arrange(shard.columns, training=True) if shard.rows else None
        )
        self._orders: dict[int, tuple[int, NDArray[np.int64]]] = {}  # owner -> (epoch, order)

    @property
    def layout(self) -> BatchLayout:
        """Which column feeds which input; known once there is data."""
        assert self._layout is not None
        return self._layout

    def gather(self, span: Span) -> list[Block]:
        """The minibatches of `span`, in order: the full ones as one block, then a shorter one.

        Each array of a block has shape (minibatches, batch, ...).

        Raises:
            NetworkError: if another worker's data cannot be had.
        """
        settings = self._settings
        mine = span.owner == settings.worker
        shard = self._shard if mine else self._shards.of(span.owner)
        if self._orders.get(span.owner, (-1, None))[0] != span.epoch:
            order = epoch_order(
                shard.rows,
                seed=settings.master.seed,
                epoch=span.epoch,
                worker=span.owner,
                shuffle=settings.master.shuffle,
            )
            self._orders[span.owner] = (span.epoch, order)
        rounds = calls(
            self._orders[span.owner][1],
            position=span.start,
            minibatches=span.size,
            batch_size=settings.master.batch_size_per_worker,
        )
        blocks = [shard.gather(rows) for rows in rounds]
        if self._layout is None and blocks:
            examples = {name: a.reshape(-1, *a.shape[2:]) for name, a in blocks[0].items()}
            self._layout = self._replica.arrange(examples, training=True)
        return blocks

    def train(self, block: Block) -> tuple[NDArray[np.float32], dict[str, float]]:
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


def non_finite_state(epoch: int, *, worker: int) -> NonFiniteLossError:
    """The error for NaN or infinite parameters of `worker`, in an epoch counted from 0."""
    return NonFiniteLossError(
        worker=worker,
        host="",
        reason=f"parameters or moments became NaN or infinite in epoch {epoch + 1}, although every "
        "loss was finite. Lower the learning rate or clip gradients; "
        '`non_finite="continue"` averages the other workers\' parts instead.',
    )


def non_finite_reason(loss: float, *, span: Span, minibatch: int) -> str:
    """What is said of a NaN or infinite `loss` in minibatch `minibatch` of an epoch's order."""
    return (
        f"the loss became {loss} in epoch {span.epoch + 1}, minibatch {minibatch + 1} of worker "
        f"{span.owner}. Lower the learning rate, clip gradients or look at that worker's data; "
        '`non_finite="continue"` goes on regardless.'
    )
