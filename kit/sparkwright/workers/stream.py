"""A worker's examples read from a data pipeline, epoch by epoch, instead of from files."""

import inspect
from collections import OrderedDict, deque
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet, TfData
from sparkwright.data.chunks import datasets_of
from sparkwright.errors import DataError

from .shard import Shard

_KEPT_EPOCHS = 2  # the current epoch and the next, which is prefetched
_INFINITE = -1  # the cardinality of a tf.data.Dataset


class StreamedShard(Shard):
    """The shard of a `TfData`; its worker reads examples sequentially."""

    def __init__(self, data: TfData, *, worker: int, workers: int, window: int) -> None:
        """Count the examples if their number is unknown."""
        self._data, self._worker, self._workers, self._window = data, worker, workers, window
        self._takes_epoch = "epoch" in inspect.signature(data.make).parameters
        self._source: Any = None
        self._epochs: OrderedDict[int, _Epoch] = OrderedDict()
        self.columns = {}
        if (rows := data.rows(workers)) is not None:
            self.rows = rows[worker]
        else:
            with closing(self._batches(0)) as batches:
                self.rows = sum(map(len, batches))

    def gather(self, rows: NDArray[np.int64], *, epoch: int = 0) -> dict[str, NDArray[Any]]:
        """Return consecutive examples of an epoch, from 0; see `Shard.gather`."""
        start, stop = int(rows.flat[0]), int(rows.flat[-1]) + 1
        drawn = self._epochs.pop(epoch, None)
        if drawn is None or drawn.first > start:
            drawn = _Epoch(self._batches(epoch), self._window)
        self._epochs[epoch] = drawn
        while len(self._epochs) > _KEPT_EPOCHS:
            self._epochs.popitem(last=False)[1].batches.close()
        if drawn.draw(start, stop) < stop:
            raise DataError(
                f"shard {self._worker} of {self._workers} must have {self.rows:,} examples in each "
                f"epoch. Received: {drawn.end:,} in epoch {epoch + 1}. Repeat the dataset, or set "
                "`TfData(make, examples=…)` to the number of examples of all shards."
            )
        if stop == self.rows:
            drawn.batches.close()
        columns = drawn.between(start, stop).columns()
        return {n: array.reshape(*rows.shape, *array.shape[1:]) for n, array in columns.items()}

    def close(self) -> None:
        """Close all pipelines."""
        for drawn in self._epochs.values():
            drawn.batches.close()

    def _batches(self, epoch: int) -> Generator[DataSet]:
        """Iterate over an epoch, from 0; close the generator if not exhausted."""
        if self._source is None or self._takes_epoch:
            own = {"epoch": epoch} if self._takes_epoch else {}
            self._source = self._data.make(self._worker, self._workers, **own)
        source = self._source
        of_keras = hasattr(source, "num_batches")
        if not (of_keras or hasattr(source, "cardinality")):
            raise DataError(
                "`make` must return a tf.data.Dataset or a keras.utils.PyDataset. Received: "
                f"{type(source).__name__}."
            )
        endless = source.num_batches is None if of_keras else source.cardinality() == _INFINITE
        if endless and self._data.examples is None:
            raise DataError(
                "an infinite dataset needs the number of examples of an epoch. Received: "
                f"examples=None for {type(source).__name__}. Use `TfData(make, examples=…)`."
            )
        if of_keras:
            source.on_epoch_begin()
        try:
            yield from map(self._data.mapped, datasets_of(source))
        finally:
            if of_keras:
                source.on_epoch_end()


class _Epoch:
    """The examples of an epoch within a sliding window."""

    def __init__(self, batches: Generator[DataSet], window: int) -> None:
        self.batches, self._window = batches, window
        self._kept: deque[DataSet] = deque()
        self.first = self.end = 0  # range of the examples kept

    def draw(self, start: int, stop: int) -> int:
        """Read up to example `stop` (exclusive); return the number of examples read."""
        while self.end < stop and (batch := next(self.batches, None)) is not None:
            self._kept.append(batch)
            self.end += len(batch)
            while self._kept and self.first + len(self._kept[0]) <= start - self._window:
                self.first += len(self._kept.popleft())
        return self.end

    def between(self, start: int, stop: int) -> DataSet:
        """Return the kept examples from `start` to `stop` (exclusive)."""
        parts, at = list[DataSet](), self.first
        for batch in self._kept:
            if at < stop and start < at + len(batch):
                parts.append(batch.take(slice(max(0, start - at), stop - at)))
            at += len(batch)
        return DataSet.concatenate(parts)
