"""Some of many pairs of numbers to draw, chosen so that samples of parts merge exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._exact_sums import LARGEST

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]
_ROWS = 1 << 16


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PairSample:
    """The different pairs (label, prediction) of smallest hash, and how often each occurred.

    The hash depends on nothing but the pair's bits, so that every different pair is as likely to
    be kept. A pair that is among the smallest of all is among the smallest of every part it
    occurs in; its counts there add up to that in the whole, whatever the parts.

    Attributes:
        size: most pairs that are kept.
        labels: (k,) float64, k at most `size`, in order of the hash; read-only.
        predictions: (k,) float64, likewise.
        counts: (k,) int64, how often each pair occurred; likewise.
    """

    size: int
    labels: Floats
    predictions: Floats
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, labels: Floats, predictions: Floats, *, size: int) -> "PairSample":
        """The sample of (n,) pairs of finite numbers, in time O(n) and memory O(size)."""
        sample = _smallest(labels[:0], predictions[:0], np.zeros(0, np.int64), size)
        for start in range(0, labels.size, _ROWS):
            label, prediction = labels[start : start + _ROWS], predictions[start : start + _ROWS]
            if sample.labels.size == size:
                last = _hashes(sample.labels[-1:], sample.predictions[-1:])
                near = _hashes(label, prediction) <= last
                label, prediction = label[near], prediction[near]
            if label.size:
                part = _smallest(label, prediction, np.ones(label.size, np.int64), size)
                sample = sample + part
        return sample

    def __add__(self, other: "PairSample") -> "PairSample":
        """The sample of both sets of pairs together; the sizes must be equal."""
        return _smallest(
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.predictions, other.predictions]),
            np.concatenate([self.counts, other.counts]),
            self.size,
        )

    def __eq__(self, other: object) -> bool:
        """Same pairs, as often, out of samples of the same size."""
        return (
            isinstance(other, PairSample)
            and self.size == other.size
            and np.array_equal(self.labels, other.labels)
            and np.array_equal(self.predictions, other.predictions)
            and np.array_equal(self.counts, other.counts)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        return {
            "labels": self.labels.tolist(),
            "predictions": self.predictions.tolist(),
            "counts": self.counts.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Any, *, size: int, examples: int) -> "PairSample":
        """The inverse of `to_dict`.

        Args:
            values: what `to_dict` gave.
            size: as then.
            examples: pairs that the sample was taken from.

        Raises:
            DataError: if that cannot be a sample of so many pairs.
        """
        read = _lists(values, size)
        if read is not None:
            labels, predictions, counts = read
            sample = _smallest(
                np.array(labels, np.float64),
                np.array(predictions, np.float64),
                np.array([min(count, examples + 1) for count in counts], np.int64),
                size,
            )
            complete = sum(counts) == examples
            if sample.labels.size == len(counts) and (
                complete or (len(counts) == size and sum(counts) < examples)
            ):
                return sample
        raise DataError(
            f"an evaluation's sample must hold up to {size} different pairs of finite labels and "
            f"predictions, and how many of the {examples} rows each stands for. "
            f"Received: {values!r:.100}."
        )


def points_per_output(outputs: int) -> int:
    """Pairs to keep of each of so many outputs: 1,000, or fewer of more than 20 outputs."""
    return min(1000, max(10, 20_000 // max(outputs, 1)))


def _lists(values: Any, size: int) -> tuple[list[float], list[float], list[int]] | None:
    if not isinstance(values, Mapping):
        return None
    found: Mapping[str, Any] = values  # pyright: ignore[reportUnknownVariableType]
    lists = [found.get(key) for key in ("labels", "predictions", "counts")]
    if not all(isinstance(each, list) and len(each) <= size for each in lists):
        return None
    labels, predictions, counts = (list[Any](each or []) for each in lists)
    if not len(labels) == len(predictions) == len(counts):
        return None
    for number in labels + predictions:
        if type(number) not in (int, float) or not abs(number) <= LARGEST:  # NaN is not
            return None
    if not all(type(count) is int and 0 < count < 1 << 62 for count in counts):
        return None
    return labels, predictions, counts


def _smallest(
    labels: Floats, predictions: Floats, counts: NDArray[np.int64], size: int
) -> PairSample:
    """The `size` different pairs of smallest hash; counts of equal pairs are added."""
    labels, predictions = labels + 0.0, predictions + 0.0  # -0.0 and 0.0 are one number
    hashes = _hashes(labels, predictions)
    # Two pairs may have the same hash: then their values decide.
    order = np.lexsort((predictions, labels, hashes))
    labels, predictions, hashes = labels[order], predictions[order], hashes[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (labels[1:] != labels[:-1]) | (predictions[1:] != predictions[:-1])
    first = np.flatnonzero(new)
    total = np.add.reduceat(counts[order], first) if first.size else counts[:0]
    kept = first[:size]
    arrays = labels[kept], predictions[kept], total[:size].copy()
    for array in arrays:
        array.setflags(write=False)
    return PairSample(size=size, labels=arrays[0], predictions=arrays[1], counts=arrays[2])


def _hashes(labels: Floats, predictions: Floats) -> Words:
    """(n,) 64 bits that look random, the same for the same pair on every machine."""
    first = _mixed((labels + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return _mixed(first ^ (predictions + 0.0).view(np.uint64))


def _mixed(words: Words) -> Words:
    """SplitMix64's finisher: every bit of the result depends on every bit of the argument.

    References:
        G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
        OOPSLA 2014.
    """
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
