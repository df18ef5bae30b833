"""A worker's examples drawn from a pipeline, epoch by epoch, in place of files."""

from collections import OrderedDict, deque
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet, TfData
from sparkwright.errors import DataError

from .shard import Shard

_KEPT_EPOCHS = 2  # the present one, and the next, of which minibatches are gathered ahead


class StreamedShard(Shard):
    """The shard of a `TfData`; it keeps the examples drawn last and no others.

    Only its own worker trains it, in the order in which examples come.
    """

    def __init__(self, data: TfData, *, worker: int, workers: int, window: int) -> None:
        """Count the examples if they are not known.

        Args:
            data: what each worker draws from.
            worker: whose shard it is.
            workers: how many there are.
            window: examples before those asked for last that may be asked for again. Others are
                drawn again, from the beginning of their epoch.

        Raises:
            DataError: if they cannot be counted.
            Whatever the user's function raises.
        """
        self._pipeline = data.pipeline(worker, workers)
        self._worker, self._workers, self._window = worker, workers, window
        self._epochs: OrderedDict[int, _Epoch] = OrderedDict()
        self.rows, self.columns = self._pipeline.count(), {}

    def gather(self, rows: NDArray[np.int64], *, epoch: int = 0) -> dict[str, NDArray[np.generic]]:
        """As `Shard.gather`, of consecutive examples of an epoch, from 0.

        Raises:
            DataError: if the pipeline ends before them, or its batches differ in shape.
            Whatever the user's pipeline raises.
        """
        start, stop = int(rows.flat[0]), int(rows.flat[-1]) + 1
        drawn = self._epochs.pop(epoch, None)
        if drawn is None or drawn.first > start:
            if drawn is not None:
                drawn.close()
            drawn = _Epoch(self._pipeline.epoch(epoch), self._window)
        self._epochs[epoch] = drawn
        while len(self._epochs) > _KEPT_EPOCHS:
            self._epochs.popitem(last=False)[1].close()
        if drawn.draw(start, stop) < stop:
            raise DataError(
                f"shard {self._worker} of {self._workers} must have {self.rows:,} examples in each "
                f"epoch. Received: {drawn.end:,} in epoch {epoch + 1}. Let the dataset repeat, or "
                "give `TfData(make, examples=…)` the examples of all shards together."
            )
        if stop == self.rows:
            drawn.close()
        columns = drawn.between(start, stop).columns()
        return {
            name: array.reshape(*rows.shape, *array.shape[1:]) for name, array in columns.items()
        }

    def close(self) -> None:
        """Give up all pipelines."""
        for drawn in self._epochs.values():
            drawn.close()


class _Epoch:
    """Examples of an epoch, those before the window forgotten."""

    def __init__(self, batches: Generator[DataSet], window: int) -> None:
        self._batches, self._window = batches, window
        self._kept: deque[DataSet] = deque()
        self.first = self.end = 0  # of the examples that are kept

    def draw(self, start: int, stop: int) -> int:
        """Draw until example `stop` (exclusive); returns how many there are."""
        while self.end < stop and (batch := next(self._batches, None)) is not None:
            self._kept.append(batch)
            self.end += len(batch)
            while self._kept and self.first + len(self._kept[0]) <= start - self._window:
                self.first += len(self._kept.popleft())
        return self.end

    def between(self, start: int, stop: int) -> DataSet:
        """Examples that are kept."""
        parts, at = list[DataSet](), self.first
        for batch in self._kept:
            if at < stop and start < at + len(batch):
                parts.append(batch.take(slice(max(0, start - at), stop - at)))
            at += len(batch)
        return parts[0] if len(parts) == 1 else DataSet.concatenate(parts)

    def close(self) -> None:
        """Leave the pipeline; what is kept stays."""
        self._batches.close()
