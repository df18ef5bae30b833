"""Statistics and clipping of the residual; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.evaluation.numbers import short_number

from ._format import check_threshold
from ._vectors import BLOCK, Pieces, Vector, block_bounds, difference, paired, segments, single

PERCENTILES = (50.0, 95.0, 99.0, 99.9, 99.99)
SAMPLE = 100_000


@configuration
class ResidualClipping(Configuration):
    """Clip every element of the residual to a multiple of the threshold at regular intervals."""

    multiple: float = option(
        default=5.0,
        minimum=1,
        unit="thresholds",
        label="At most",
        help="The residual is cut to so many thresholds, so that no change is sent long after it "
        "was of use.",
    )
    every: int = option(
        default=5, minimum=1, unit="messages", help="How often; 5 costs next to nothing."
    )

    def due(self, step: int) -> bool:
        """Return whether to clip after encoding message `step` (from 0).

        Example:
            >>> [step for step in range(12) if ResidualClipping(every=5).due(step)]
            [5, 10]
        """
        return step > 0 and step % self.every == 0

    def excess(
        self, shared: Vector, local: Sequence[Vector], threshold: float | Sequence[float]
    ) -> tuple[NDArray[np.int64], Vector]:
        """Return the indices and amounts by which `shared - local` exceeds the bound.

        Args:
            shared: (N,) float32 or float64.
            local: 1-D arrays of N elements in all.
            threshold: t for the whole vector, or one for each array of `local`.

        Returns:
            (K,) ascending indices into the vector and (K,) signed values, of the dtype of
            `shared`. Adding the values to `local` at these indices clips the residual.

        Example:
            >>> clipping = ResidualClipping(multiple=2)
            >>> clipping.excess(np.zeros(3), [np.array([-5.0, 1.0, 2.5])], 1.0)
            (array([0, 2]), array([ 3. , -0.5]))
        """
        pieces = paired(single("shared", shared, writable=False), local)
        bounds, thresholds = segments(pieces, threshold)
        scratch = np.empty(BLOCK, shared.dtype)
        indices, values = [np.empty(0, np.int64)], [np.empty(0, shared.dtype)]
        for (start, stop), one in zip(pairwise(bounds), thresholds, strict=True):
            bound = shared.dtype.type(self.multiple * check_threshold(one))
            for block in block_bounds(start, stop):
                residual = difference(shared, pieces, block, scratch)
                there = np.flatnonzero(np.abs(residual) > bound)
                over = residual[there]
                indices.append(there + block[0])
                values.append(over - np.copysign(bound, over))
        return np.concatenate(indices), np.concatenate(values)


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualStatistics:
    """Statistics of a residual.

    Attributes:
        length: number of elements, N.
        threshold: t, rounded to float32.
        count: number of elements with |r| >= t, which encoding selects.
        mean: mean of |r|.
        maximum: largest |r|.
        percentiles: of |r|, at 50, 95, 99, 99.9 and 99.99 %.
        sampled: number of elements that the percentiles are computed on.
    """

    length: int
    threshold: float
    count: int
    mean: float
    maximum: float
    percentiles: tuple[float, ...]
    sampled: int

    @property
    def sparsity(self) -> float:
        """`count` / `length`."""
        return self.count / self.length if self.length else 0.0

    def line(self) -> str:
        """Return all statistics in one line; percentiles also in units of the threshold."""
        percentiles = ", ".join(
            f"{p:g} %: {short_number(value)} ({short_number(value / self.threshold)} t)"
            for p, value in zip(PERCENTILES, self.percentiles, strict=True)
        )
        sample = "" if self.sampled == self.length else f" of {self.sampled:,} elements"
        return (
            f"residual: length {self.length:,}, threshold t {short_number(self.threshold)}, "
            f"count |r| >= t {self.count:,}, sparsity {short_number(self.sparsity)}, "
            f"mean |r| {short_number(self.mean)}, max |r| {short_number(self.maximum)}, "
            f"percentiles{sample}: {percentiles}"
        )


def residual_statistics(
    shared: Vector, local: Sequence[Vector], threshold: float, *, exact: bool = False
) -> ResidualStatistics:
    """Compute statistics of `shared - local`; nothing is changed.

    Args:
        shared: (N,) float32 or float64.
        local: 1-D arrays of N elements in all.
        threshold: t; if variables have their own thresholds, call once for each variable.
        exact: compute the percentiles on every element. Default False: on at most 100,000 evenly
            spaced elements. The other statistics always use every element.

    Raises:
        DataError: if the lengths of the vectors differ.
        ConfigurationError: if the threshold is not a finite number above 0.

    Example:
        >>> print(residual_statistics(np.zeros(2), [np.array([3.0, -1.0])], 2.0).line()[:63])
        residual: length 2, threshold t 2, count |r| >= t 1, sparsity 0
    """
    pieces = paired(single("shared", shared, writable=False), local)
    rounded = check_threshold(threshold)
    scratch = np.empty(BLOCK, shared.dtype)
    count, total, maximum = 0, 0.0, 0.0
    for bounds in block_bounds(0, shared.size):
        residual = difference(shared, pieces, bounds, scratch)
        np.abs(residual, out=residual)
        count += int(np.count_nonzero(residual >= rounded))
        total += float(residual.sum())
        largest = float(residual.max())
        maximum = largest if math.isnan(largest) else max(maximum, largest)
    sample = _magnitudes(shared, pieces, 1 if exact else -(-shared.size // SAMPLE))
    with np.errstate(invalid="ignore"):
        found = np.percentile(sample, PERCENTILES) if sample.size else np.zeros(len(PERCENTILES))
    return ResidualStatistics(
        length=shared.size,
        threshold=rounded,
        count=count,
        mean=total / shared.size if shared.size else 0.0,
        maximum=maximum,
        percentiles=tuple(float(value) for value in found),
        sampled=sample.size,
    )


def residual_sample(shared: Vector, local: Sequence[Vector]) -> Vector:
    """Return |shared - local| of at most 100,000 evenly spaced elements.

    Raises:
        DataError: if the lengths of the vectors differ.

    Example:
        >>> residual_sample(np.zeros(2), [np.array([3.0, -1.0])])
        array([3., 1.])
    """
    pieces = paired(single("shared", shared, writable=False), local)
    return _magnitudes(shared, pieces, -(-shared.size // SAMPLE))


def _magnitudes(shared: Vector, local: Pieces, stride: int) -> Vector:
    """Return |shared - local| of every `stride`-th element."""
    stride = max(stride, 1)
    sample = shared[::stride].copy()
    other = [
        array[-start % stride :: stride]
        for array, start in zip(local.arrays, local.starts, strict=False)
    ]
    with np.errstate(over="ignore", invalid="ignore"):
        sample -= np.concatenate([*other, sample[:0]])
    return np.abs(sample, out=sample)
