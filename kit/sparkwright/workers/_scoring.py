"""Loss and metrics of a replica on validation examples, as sums over minibatches."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ._batch_layout import BatchLayout
from ._replica_base import Replica
from .shard import Shard

_LEAST_BATCH = 64


def validation_sums(
    replica: Replica,
    shard: Shard,
    layout: BatchLayout | None,
    *,
    batch_size: int,
    next_batch: Callable[[], None] = lambda: None,
) -> NDArray[np.float64]:
    """Return the sum of the losses, the number of examples, and the metrics' accumulators."""
    replica.model.reset_metrics()
    loss_sum, size = 0.0, max(batch_size, _LEAST_BATCH)
    for start in range(0, shard.rows, size):
        next_batch()
        block = {name: array[start : start + size] for name, array in shard.columns.items()}
        assert layout is not None
        loss_sum += replica.loss(layout, block) * min(size, shard.rows - start)
    return np.concatenate([[loss_sum, shard.rows], replica.metric_state()])
