"""A deterministic sample of pairs to plot, the same for any grouping of the data."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .checks import Values, checked_counts, checked_floats, frozen, read_as

Floats = NDArray[np.float64]
LARGEST = 1e150  # the square of a larger number may overflow
_ROWS = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairSample(Values):
    """The pairs (label, prediction) with the smallest hashes, and their read-only counts."""

    # The hash depends only on the pair's bits, so each unique pair is equally likely to be kept.
    # A pair with one of the smallest hashes of all data has one of the smallest hashes of each part
    # that contains it, so the counts of parts add up to those of the whole.

    size: int = field(compare=False)  # most pairs to keep
    labels: Floats = field(metadata=read_as(checked_floats, "k"))  # float64, ordered by hash
    predictions: Floats = field(metadata=read_as(checked_floats, "k"))
    counts: NDArray[np.int64] = field(metadata=read_as(checked_counts, "k"))  # occurrences

    @classmethod
    def of(cls, labels: Floats, predictions: Floats, *, size: int) -> "PairSample":
        """Sample (n,) pairs of finite numbers, in O(n) time and O(size) memory."""
        sample = _smallest(labels[:0], predictions[:0], np.zeros(0, np.int64), size)
        for start in range(0, labels.size, _ROWS):
            label, prediction = labels[start : start + _ROWS], predictions[start : start + _ROWS]
            if sample.labels.size == size:
                last = _hashes(sample.labels[-1:], sample.predictions[-1:])
                near = _hashes(label, prediction) <= last
                label, prediction = label[near], prediction[near]
            if label.size:
                ones = np.ones(label.size, np.int64)
                sample = sample + _smallest(label, prediction, ones, size)
        return sample

    def __add__(self, other: "PairSample") -> "PairSample":
        """Return the sample of both sets of pairs together; the sizes must be equal."""
        return _smallest(
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.predictions, other.predictions]),
            np.concatenate([self.counts, other.counts]),
            self.size,
        )


def points_per_output(outputs: int) -> int:
    """Return the pairs to keep for each output: 1,000, or fewer for more than 20 outputs."""
    return min(1000, max(10, 20_000 // max(outputs, 1)))


def _smallest(
    labels: Floats, predictions: Floats, counts: NDArray[np.int64], size: int
) -> PairSample:
    """Return the `size` unique pairs with the smallest hashes; add the counts of equal pairs."""
    labels, predictions = labels + 0.0, predictions + 0.0  # -0.0 becomes 0.0
    # Order pairs with equal hashes by their values.
    order = np.lexsort((predictions, labels, _hashes(labels, predictions)))
    labels, predictions = labels[order], predictions[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (labels[1:] != labels[:-1]) | (predictions[1:] != predictions[:-1])
    first = np.flatnonzero(new)
    total = np.add.reduceat(counts[order], first) if first.size else counts[:0]
    kept = first[:size]
    return PairSample(
        size=size,
        labels=frozen(labels[kept]),
        predictions=frozen(predictions[kept]),
        counts=frozen(total[:size].copy()),
    )


def _hashes(labels: Floats, predictions: Floats) -> NDArray[np.uint64]:
    """Return (n,) 64-bit hashes, the same for equal pairs on every machine."""
    first = mixed((labels + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return mixed(first ^ (predictions + 0.0).view(np.uint64))


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply SplitMix64's finisher, a bijection of 64 bits (Steele, Lea, Flood, OOPSLA 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
