"""A small set of real images that needs no download."""

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.errors import ConfigurationError

from ._distributed import DistributedDataSet
from ._from_arrays import from_arrays
from ._session_first import session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@session_first
def digits(spark: "SparkSession", *, partitions: int | None = None) -> DistributedDataSet:
    """1,797 real handwritten digits, (28, 28, 1) float32 from 0 to 1, with labels 0 to 9.

    scikit-learn's bundled set (UCI "Optical Recognition of Handwritten Digits", test part), whose
    8x8 images are enlarged by linear interpolation. The order is shuffled once, with a fixed seed.

    Args:
        spark: the session.
        partitions: default None: Spark's default parallelism.
    """
    try:
        import sklearn
        from sklearn.datasets import load_digits
    except ImportError:
        raise ConfigurationError(
            "`digits` are part of scikit-learn, which is not installed. Install "
            "`sparkwright[notebook]`, or use `from_arrays` with data of your own."
        ) from None

    bunch: Any = load_digits()
    enlarge = _interpolation(8, 28)
    images = np.einsum("ij,njk,lk->nil", enlarge, bunch.images / 16.0, enlarge)
    order = np.random.default_rng(0).permutation(len(images))
    data = from_arrays(
        spark,
        images[order, :, :, None].astype(np.float32),
        bunch.target[order].astype(np.int32),
        partitions=partitions,
    )
    # Bundled: what it is depends on scikit-learn and on the code above alone.
    content = f"digits 28x28 {sklearn.__version__} {data.rdd.getNumPartitions()}"
    data.fingerprint = hashlib.sha256(content.encode()).hexdigest()
    return data


def _interpolation(source: int, target: int) -> Any:
    """(target, source) matrix of linear interpolation between pixel centres."""
    at = np.clip((np.arange(target) + 0.5) * source / target - 0.5, 0, source - 1)
    left = np.minimum(at.astype(int), source - 2)
    share = at - left
    matrix = np.zeros((target, source))
    matrix[np.arange(target), left] = 1 - share
    matrix[np.arange(target), left + 1] += share
    return matrix
