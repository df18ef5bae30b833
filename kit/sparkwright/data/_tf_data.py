"""Training data that each worker draws from a pipeline of its own, such as a tf.data.Dataset."""

import inspect
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count

from .dataset import DataSet
from .export import datasets_of
from .normalizer import Normalizer


@dataclass(frozen=True, slots=True)
class TfData:
    """Training data that each worker draws from a `tf.data.Dataset` or `keras.utils.PyDataset`.

    `SparkNetwork.fit` and `ParallelWrapper.fit` take it in place of data. Each worker calls
    `make(shard, shards)` once, where `shard` is its number and `shards` the number of workers, and
    iterates over the result anew in each epoch: random steps of the pipeline, such as augmentation,
    differ from epoch to epoch. A function with a parameter `epoch` (from 0) is called in each
    epoch, `make(shard, shards, epoch=epoch)`: with seeds derived from it, a run repeats exactly.

    Elements are batches, as for `keras.Model.fit`: features, (features, labels) or (features,
    labels, weights); features and labels are arrays, or dicts by name. The sizes of batches do not
    matter: minibatches of `batch_size_per_worker` examples are made anew, in the dataset's order,
    without the master's shuffle. A worker trains its own shard only: `share_work` has no effect. A
    replacement of a lost worker draws the epoch from its beginning and leaves out what is done.

    Attributes:
        make: the function. It travels in Spark's closure, and runs where TensorFlow is.
        examples: of all shards together in an epoch. Shard k has as many as
            `Dataset.shard(shards, k)` leaves of them. What a dataset has beyond them is not drawn,
            so it may be infinite. Default None: each worker counts its shard by an additional pass
            before training.
        normalizer: applied to each batch; default None. Networks with a normalizer set theirs.

    Raises:
        ConfigurationError: if `make` is no function, or `examples` no count.

    Example:
        def make(shard, shards):
            files = tf.data.Dataset.list_files("photos/*.jpg", shuffle=False)
            return files.shard(shards, shard).shuffle(1000).map(augmented).batch(32)

        network.fit(sw.data.TfData(make, examples=50_000), epochs=10)
    """

    make: Callable[..., Any]
    examples: int | None = None
    normalizer: Normalizer | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not callable(self.make):
            raise ConfigurationError(
                "`make` must be a function of (shard, shards) that returns a tf.data.Dataset or a "
                f"keras PyDataset. Received: {type(self.make).__name__}. A dataset itself cannot "
                "be sent to workers: return it from a function."
            )
        check_count("examples", self.examples, optional=True)

    def pipeline(self, shard: int, shards: int) -> "Pipeline":
        """The pipeline of a shard; nothing is made yet."""
        return Pipeline(self, shard, shards)


class Pipeline:
    """What a worker draws a shard from."""

    def __init__(self, data: TfData, shard: int, shards: int) -> None:
        """Make nothing yet."""
        self._data, self._shard, self._shards = data, shard, shards
        self._takes_epoch = "epoch" in inspect.signature(data.make).parameters
        self._source: Any = None

    def count(self) -> int:
        """Examples of the shard in an epoch; drawn and counted if they are not known.

        Raises:
            DataError: if the pipeline gives no batches.
        """
        if self._data.examples is not None:
            return len(range(self._shard, self._data.examples, self._shards))
        source = self._made(0)
        # Of tf.data: -1 where it never ends.
        if getattr(source, "num_batches", 0) is None or _cardinality(source) == -1:
            raise DataError(
                "the examples of an epoch must be known of a dataset that never ends. Received: "
                f"examples=None for {type(source).__name__}. Use `TfData(make, examples=…)`."
            )
        with closing(self.epoch(0)) as batches:
            return sum(map(len, batches))

    def epoch(self, epoch: int) -> Generator[DataSet]:
        """The batches of an epoch, from 0; close it if it is left before its end."""
        source, normalizer = self._made(epoch), self._data.normalizer
        _tell(source, "on_epoch_begin")
        try:
            for batch in datasets_of(source):
                yield batch if normalizer is None else normalizer.transform(batch)
        finally:
            _tell(source, "on_epoch_end")

    def _made(self, epoch: int) -> Any:
        if self._takes_epoch:
            return self._checked(self._data.make(self._shard, self._shards, epoch=epoch))
        if self._source is None:
            self._source = self._checked(self._data.make(self._shard, self._shards))
        return self._source

    @staticmethod
    def _checked(source: Any) -> Any:
        if hasattr(source, "element_spec") or hasattr(source, "num_batches"):
            return source
        raise DataError(
            "`make` must return a tf.data.Dataset or a keras.utils.PyDataset, which can be read in "
            f"each epoch. Received: {type(source).__name__}."
        )


def _cardinality(source: Any) -> int:
    return int(source.cardinality()) if hasattr(source, "cardinality") else 0


def _tell(source: Any, method: str) -> None:
    """Call a method that a PyDataset has, and a tf.data.Dataset has not."""
    if hasattr(source, method):
        getattr(source, method)()
