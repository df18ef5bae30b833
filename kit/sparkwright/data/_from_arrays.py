"""Arrays of the driver, distributed."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrow import to_bytes
from ._chunks import cut
from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._session_first import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PARTITION_BYTES = 16 << 20


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

    Args:
        spark: the session.
        features: (n, ...) array, or a dict input name -> array.
        labels: likewise per output; default None.
        features_masks: (n, time) arrays per input, 0 where a step is padding; default None.
        labels_masks: (n,) or (n, time) arrays per output, 0 where not to count; default None.
        weights: (n,) weight of each example in the loss; default None.
        partitions: how many; default None: Spark's default parallelism, or more for arrays of
            which a partition would hold over 16 MB. A task carries its partition with it, and
            larger ones can take all memory of the driver's Java side.

    Raises:
        DataError: if the arrays do not fit together.
    """
    dataset = DataSet(
        features,
        labels,
        features_masks=features_masks,
        labels_masks=labels_masks,
        weights=weights,
    )
    context = spark.sparkContext
    least = math.ceil(dataset.size_bytes / _PARTITION_BYTES)
    count = partitions or max(context.defaultParallelism, least)
    edges = np.linspace(0, len(dataset), count + 1).astype(int)
    pieces = [dataset.take(slice(a, b)) for a, b in pairwise(edges)]
    chunks = [[to_bytes(chunk) for chunk in cut(piece)] for piece in pieces]
    rdd = context.parallelize(chunks, count).flatMap(lambda partition: partition)
    return DistributedDataSet(spark, rdd, counts=tuple(len(piece) for piece in pieces))
