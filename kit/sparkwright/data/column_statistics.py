"""Statistics of the columns of an array: summarized by chunk, merged, then shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation.pair_sample import mixed

from ._moments import Moments, Per, column_values, mask_of, readings_of
from .dataset import Array, DataSet

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
# A sample of very wide rows is smaller: about this many numbers, 100 rows at least.
_SAMPLE_NUMBERS = 2_000_000
Integers = NDArray[np.int64]
Priorities = NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class RowSample:
    """At most `size` rows of those seen: the ones with the smallest of seeded random priorities.

    A row's priority depends on its place alone, so any grouping of merges gives the same sample.

    References:
        E. Cohen, H. Kaplan, "Summarizing data using bottom-k sketches", PODC 2007.
    """

    size: int
    priorities: Priorities  # (rows,) increasing
    values: Array  # (rows, columns)

    @classmethod
    def of(cls, values: Array, priorities: Priorities, size: int) -> "RowSample":
        """The rows of (n, columns) `values` whose (n,) priorities are smallest."""
        if len(priorities) > size:
            chosen = np.argpartition(priorities, size - 1)[:size]
            values, priorities = values[chosen], priorities[chosen]
        order = np.argsort(priorities, kind="stable")
        return cls(size, priorities[order], values[order])

    def merge(self, other: "RowSample") -> "RowSample":
        """The sample of both together."""
        count = len(other.priorities)
        if len(self.priorities) == self.size:
            count = int(np.searchsorted(other.priorities, self.priorities[-1]))
        if not count:
            return self
        return RowSample.of(
            np.concatenate([self.values, other.values[:count]]),
            np.concatenate([self.priorities, other.priorities[:count]]),
            self.size,
        )


def priorities_of(numbers: Integers, *, seed: int, partition: int) -> Priorities:
    """(n,) pseudo-random priorities of the rows with these numbers in their partition."""
    start = np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    stream = split_mix(split_mix(start) + np.uint64(partition))
    return split_mix(stream + numbers.astype(np.uint64))


def split_mix(state: Priorities) -> Priorities:
    """SplitMix64: the next number of each state, which looks random."""
    return mixed(state + np.uint64(0x9E3779B97F4A7C15))


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ArraySummary:
    """What is known of one array's columns, so far."""

    rows: int  # numbers in each column
    counts: Integers  # (3, columns) of them NaN, infinite and 0
    moments: Moments  # of the finite ones
    sample: RowSample

    @property
    def shape(self) -> tuple[int, ...]:
        """(columns,)."""
        return self.moments.shape

    def merge(self, other: "ArraySummary") -> "ArraySummary":
        """The summary of both together, which have the same columns."""
        return ArraySummary(
            rows=self.rows + other.rows,
            counts=self.counts + other.counts,
            moments=self.moments.merge(other.moments),
            sample=self.sample.merge(other.sample),
        )


def summaries_of(
    chunk: DataSet, flat_name: str, *, partition: int, start: int, size: int, seed: int
) -> dict[Per, ArraySummary]:
    """A summary for each reading of an array, the best first; masked steps do not count."""
    array, mask = chunk.columns()[flat_name], mask_of(chunk, flat_name)
    found: dict[Per, ArraySummary] = {}
    for per in readings_of(chunk, flat_name, "feature"):
        places = array.shape if per == "value" else array.shape[:-1]
        numbers = np.arange(math.prod(places), dtype=np.int64).reshape(places)
        if mask is not None:
            numbers = numbers[mask != 0]
        numbers = numbers.reshape(-1) + start * math.prod(places[1:])
        values = column_values(chunk, flat_name, per)
        columns = values.shape[1]
        missing = infinite = np.zeros(columns, np.int64)
        valid = None
        if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
            valid, missing, infinite = (
                finite,
                _counted(np.isnan(values)),
                _counted(np.isinf(values)),
            )
        most = min(size, max(100, _SAMPLE_NUMBERS // columns))
        priorities = priorities_of(numbers, seed=seed, partition=partition)
        found[per] = ArraySummary(
            rows=len(values),
            counts=np.stack([missing, infinite, _counted(values == 0)]),
            moments=Moments.of(values, valid),
            sample=RowSample.of(values, priorities, most),
        )
    return found


def _counted(which: NDArray[np.bool_]) -> Integers:
    """(columns,) True values of each column of (n, columns)."""
    return np.count_nonzero(np.ascontiguousarray(which.T), axis=1).astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """How often numbers fall into each of some bins of equal width.

    Attributes:
        edges: bins + 1 increasing numbers; a bin holds its left edge, the last one both.
        counts: numbers in each bin.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnStatistics:
    """Statistics of one column, over its finite numbers unless said otherwise.

    Attributes:
        array: "features/..." or "labels/..." with the name of the input or output.
        position: on the last axis; 0 for an array without one.
        name: of the column, if known; else "".
        count: finite numbers.
        missing: numbers that are NaN.
        infinite: numbers that are infinite.
        zeros: numbers that are 0.
        minimum: None without finite numbers, and so are the next four.
        maximum: see `minimum`.
        mean: in float64.
        std: deviation of the population, as `np.std`.
        quantiles: probability -> number, by linear interpolation, as `np.quantile`.
        quantiles_exact: whether they come from all numbers; else from a random sample.
        histogram: None if it was not asked for, or without finite numbers.
    """

    array: str
    position: int
    name: str
    count: int
    missing: int
    infinite: int
    zeros: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    quantiles: Mapping[float, float]
    quantiles_exact: bool
    histogram: Histogram | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self) | {
            "quantiles": {str(at): value for at, value in self.quantiles.items()}
        }


def column_statistics(
    array: str,
    summary: ArraySummary,
    *,
    names: Sequence[str] = (),
    histograms: Integers | None = None,
    edges: Sequence[NDArray[np.float64]] = (),
) -> list[ColumnStatistics]:
    """The statistics of each column; of `names`, `histograms` and `edges` each has one for each."""
    moments, sample = summary.moments, summary.sample
    known = list(names) if len(names) == moments.count.size else [""] * moments.count.size
    found: list[ColumnStatistics] = []
    for column, name in enumerate(known):
        some = bool(moments.count[column])
        numbers = sample.values[:, column].astype(np.float64)
        numbers = numbers[np.isfinite(numbers)]
        quantiles = np.quantile(numbers, QUANTILES).tolist() if numbers.size else []
        histogram = None
        if histograms is not None and some:
            histogram = Histogram(
                edges=tuple(edges[column].tolist()), counts=tuple(histograms[column].tolist())
            )
        figures = (moments.minimum, moments.maximum, moments.mean, moments.std)
        minimum, maximum, mean, std = (float(f[column]) if some else None for f in figures)
        missing, infinite, zeros = summary.counts[:, column].tolist()
        found.append(
            ColumnStatistics(
                array=array,
                position=column,
                name=name,
                count=int(moments.count[column]),
                missing=missing,
                infinite=infinite,
                zeros=zeros,
                minimum=minimum,
                maximum=maximum,
                mean=mean,
                std=std,
                quantiles=dict(zip(QUANTILES, quantiles, strict=False)),
                quantiles_exact=summary.rows <= sample.size,
                histogram=histogram,
            )
        )
    return found


def bin_edges(summary: ArraySummary, bins: int) -> list[NDArray[np.float64]]:
    """(bins + 1,) float64 edges of each column's histogram, from its smallest to its largest."""
    limits = zip(summary.moments.minimum.tolist(), summary.moments.maximum.tolist(), strict=True)
    none = np.zeros(0)
    return [
        np.histogram_bin_edges(none, bins, (low, high) if low <= high else (0.0, 1.0))
        for low, high in limits
    ]


def histogram_counts(
    chunk: DataSet, flat_name: str, edges: Sequence[NDArray[np.float64]], *, per: Per
) -> Integers:
    """(columns, bins) numbers of a chunk in each bin."""
    columns = np.ascontiguousarray(column_values(chunk, flat_name, per).T, np.float64)
    return np.stack(
        [
            # By number of bins and range, which is faster than by edges, and gives the same.
            np.histogram(column[np.isfinite(column)], len(e) - 1, (e[0], e[-1]))[0]
            for column, e in zip(columns, edges, strict=True)
        ]
    ).astype(np.int64)
