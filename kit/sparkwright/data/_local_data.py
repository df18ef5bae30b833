"""Examples outside Spark: read in the driver process, or by a pipeline of each worker."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count

from ._skipped import Skipped
from .chunks import datasets_of
from .dataset import DataSet
from .pieces import SkipLog

_MOST_BYTES = 256 << 20  # of a pipeline that is read into memory
_INFINITE = -1  # the cardinality of a tf.data.Dataset
_PIPELINES = ("tensorflow.python.data.", "keras.", "torch.utils.data.")


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalData:
    """The result of `read_images` and `read_csv_sequences`.

    Attributes:
        data: the examples.
        skipped: counts and first messages of the skipped items.
        class_names: output name -> class names.
    """

    data: DataSet
    skipped: Skipped
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])

    @classmethod
    def of(cls, found: Iterable[DataSet], log: SkipLog, source: str, **known: Any) -> Self:
        """Concatenate `found`; raise DataError, which names `source`, if it is empty."""
        if parts := list(found):
            return cls(data=DataSet.concatenate(parts), skipped=log.skipped, **known)
        raise DataError(
            f"the data must have at least one example. Received: none in {source}; "
            f"{str(log.skipped).splitlines()[0]}."
        )


@dataclass(frozen=True, slots=True)
class TfData:
    """Training data from a `tf.data.Dataset` or `keras.utils.PyDataset` on each worker.

    `SparkNetwork.fit` and `ParallelWrapper.fit` accept it as data. Each worker calls
    `make(shard, shards)` once, with its index and the number of workers. It iterates over the
    result in every epoch, so that random steps differ. If `make` has a parameter `epoch` (from 0),
    the worker calls it in every epoch.

    Elements are batches of any size: features, (features, labels) or (features, labels, weights),
    as arrays or dicts by name. The master forms its minibatches from them in order, without its
    shuffle. Each worker trains only on its shard.

    Attributes:
        make: the function; serialized with Spark's closure.
        examples: number of examples of all shards per epoch. Shard k has the share of
            `Dataset.shard(shards, k)`; further elements are not used. Default None: each worker
            counts its shard in an additional pass.

    Raises:
        ConfigurationError: if `make` is not a function, or `examples` is not a positive integer.

    Example:
        def make(shard, shards):
            files = tf.data.Dataset.list_files("photos/*.jpg", shuffle=False)
            return files.shard(shards, shard).shuffle(1000).map(augmented).batch(32)

        network.fit(sw.data.TfData(make, examples=50_000), epochs=10)
    """

    make: Callable[..., Any]
    examples: int | None = None
    _steps: tuple[Callable[[DataSet], DataSet], ...] = field(default=(), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not callable(self.make):
            raise ConfigurationError(
                "`make` must be a function of (shard, shards) that returns a tf.data.Dataset or a "
                f"keras PyDataset. Received: {type(self.make).__name__}. A dataset cannot be "
                "serialized for workers: return it from a function."
            )
        check_count("examples", self.examples, optional=True)

    @property
    def layout(self) -> NoReturn:
        """The layout of examples, needed to build a model.

        Raises:
            ConfigurationError: always, because only workers have examples.
        """
        raise ConfigurationError(
            "a model must be built before it is trained on a `TfData`, because the driver has no "
            "examples. Received: an unbuilt model. Call it once on an example."
        )

    def map_chunks(self, function: Callable[[DataSet], DataSet], *, step: str) -> "TfData":
        """Apply `function` to each batch on its worker; normalizers use it. `step` is ignored."""
        return replace(self, _steps=(*self._steps, function))

    def mapped(self, batch: DataSet) -> DataSet:
        """Return a batch of the pipeline after all functions of `map_chunks`."""
        for function in self._steps:
            batch = function(batch)
        return batch

    def rows(self, shards: int) -> tuple[int, ...] | None:
        """Return the number of examples of each shard per epoch; None if it must be counted."""
        if self.examples is None:
            return None
        return tuple(len(range(shard, self.examples, shards)) for shard in range(shards))


def of_pipeline(data: Any, option: str) -> LocalData | None:
    """Read a tf.data.Dataset, PyDataset or DataLoader once; None for data of other kinds."""
    known = any(kind.__module__.startswith(_PIPELINES) for kind in type(data).__mro__)
    if not (known and (hasattr(data, "__iter__") or hasattr(data, "num_batches"))):
        return None
    cardinality = data.cardinality() if hasattr(data, "cardinality") else 0
    endless = cardinality == _INFINITE or getattr(data, "num_batches", 0) is None
    found, size = list[DataSet](), 0
    for batch in () if endless else datasets_of(map(_as_tuple, _each(data))):
        found.append(batch)
        size += sum(array.nbytes for array in batch.columns().values())
        if size > _MOST_BYTES:
            break
    if endless or size > _MOST_BYTES:
        raise DataError(
            f"`{option}` must be at most {_MOST_BYTES >> 20} MiB, because it is read into memory. "
            f"Received: {'endless' if endless else 'more'} batches of a {type(data).__name__}. Let "
            "each worker read its part: `fit(sw.data.TfData(make))`, where `make(shard, shards)` "
            "returns such as `dataset.shard(shards, shard)`."
        )
    return LocalData.of(found, SkipLog("raise"), f"the {type(data).__name__}")


def _as_tuple(batch: Any) -> Any:
    return tuple(batch) if isinstance(batch, list) else batch  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _each(data: Any) -> Iterable[Any]:
    if hasattr(data, "__iter__"):
        return data
    return (data[number] for number in range(data.num_batches))
