"""Distribute arrays of the driver, or a small bundled set of images."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.cluster.connect import context_of, is_connect
from sparkwright.cluster.shared_bytes import PART_BYTES
from sparkwright.errors import ConfigurationError

from ._distributed import DistributedDataSet
from .chunks import cut, to_bytes
from .dataset import DataSet
from .wording import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PARTITION_BYTES = 16 << 20
_IN_TASKS_BYTES = 64 << 20


@session_first
def from_arrays(
    spark: "SparkSession",
    features: Mapping[str, Any] | Any,
    labels: Mapping[str, Any] | Any | None = None,
    *,
    features_masks: Mapping[str, Any] | Any | None = None,
    labels_masks: Mapping[str, Any] | Any | None = None,
    weights: Any | None = None,
    partitions: int | None = None,
) -> DistributedDataSet:
    """Distribute arrays of the driver.

    More than 64 MiB are kept in the driver's `spark.local.dir` until the session ends.

    Args:
        spark: the session.
        features: (n, ...) array, or a dict input name -> array; or a DataSet, without the other
            arrays.
        labels: (n, ...) array, or a dict output name -> array; default None.
        features_masks: (n, time) arrays per input, 0 where a step is padding; default None.
        labels_masks: (n,) or (n, time) arrays per output, 0 where a label is ignored; default None.
        weights: (n,) weight of each example in the loss; default None.
        partitions: number of partitions; default None: Spark's default parallelism, or more so
            that a partition is at most about 16 MiB.

    Raises:
        DataError: if the arrays are invalid, as in `DataSet`.
    """
    dataset: Any = features
    if not isinstance(features, DataSet):
        masks = {"features_masks": features_masks, "labels_masks": labels_masks}
        dataset = DataSet(features, labels, **masks, weights=weights)
    context = context_of(spark)
    least = math.ceil(dataset.size_bytes / _PARTITION_BYTES)
    count = partitions or max(context.defaultParallelism, least)
    edges = np.linspace(0, len(dataset), count + 1).astype(int)
    pieces = [dataset.take(slice(a, b)) for a, b in pairwise(edges)]
    chunks = [[to_bytes(chunk) for chunk in cut(piece)] for piece in pieces]
    is_large = dataset.size_bytes > _IN_TASKS_BYTES and not is_connect(spark)
    rdd = (_as_broadcasts if is_large else _in_tasks)(context, chunks)
    return DistributedDataSet(spark, rdd, counts=tuple(len(piece) for piece in pieces))


def _in_tasks(context: Any, partitions: list[list[bytes]]) -> Any:
    """Send each partition with its task. Spark Connect sends large ones as files."""
    return context.parallelize(partitions, len(partitions)).flatMap(lambda partition: partition)


def _as_broadcasts(context: Any, partitions: list[list[bytes]]) -> Any:
    """Send each partition as broadcasts of its own, which only its task fetches."""
    one = context.parallelize([0], 1)
    return context.union(
        [one.flatMap(partial(_read, _shared(context, chunks))) for chunks in partitions]
    )


def _shared(context: Any, chunks: list[bytes]) -> list[Any]:
    """Broadcast chunks in groups of at most `PART_BYTES`, or of one."""
    groups: list[list[bytes]] = [[]]
    for chunk in chunks:
        if groups[-1] and sum(map(len, groups[-1])) + len(chunk) > PART_BYTES:
            groups.append([])
        groups[-1].append(chunk)
    return [context.broadcast(group) for group in groups]


def _read(shared: list[Any], _: int) -> Iterator[bytes]:
    return (chunk for group in shared for chunk in group.value)


@session_first
def digits(spark: "SparkSession", *, partitions: int | None = None) -> DistributedDataSet:
    """Return 1,797 handwritten digits, (28, 28, 1) float32 from 0 to 1, with labels 0 to 9.

    The data is scikit-learn's `load_digits` (UCI "Optical Recognition of Handwritten Digits", test
    part), with 8x8 images enlarged by linear interpolation and shuffled with a fixed seed.

    Args:
        spark: the session.
        partitions: number of partitions; default None: Spark's default parallelism.
    """
    data = from_arrays(spark, load_digits(), partitions=partitions)
    # The data depends only on the version of scikit-learn and this code.
    import sklearn

    content = f"digits 28x28 {sklearn.__version__} {data.rdd.getNumPartitions()}"
    data.fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return data


def load_digits() -> DataSet:
    """Return the examples of `digits`, in this process."""
    try:
        from sklearn import datasets
    except ImportError:
        raise ConfigurationError(
            "`digits` needs scikit-learn. Received: it is not installed. Install "
            "`sparkwright[notebook]`, or use `from_arrays` with your own data."
        ) from None

    bunch: Any = datasets.load_digits()
    enlarge = _interpolation(8, 28)
    images = np.einsum("ij,njk,lk->nil", enlarge, bunch.images / 16.0, enlarge)
    order = np.random.default_rng(0).permutation(len(images))
    features = images[order, :, :, None].astype(np.float32)
    return DataSet(features, bunch.target[order].astype(np.int32))


def _interpolation(source: int, target: int) -> Any:
    """Return the (target, source) matrix of linear interpolation between pixel centers."""
    at = (np.arange(target) + 0.5) * source / target - 0.5
    return np.stack([np.interp(at, np.arange(source), one) for one in np.eye(source)], axis=1)
