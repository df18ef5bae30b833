"""Statistics of the columns of an array: summarized per chunk, then merged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation.pair_sample import mixed
from sparkwright.normalizers.moments import (
    Array,
    Arrays,
    Moments,
    Per,
    column_values,
    mask_of,
    readings_of,
)

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SAMPLE_ROWS = 10_000
# Limits the sample of very wide rows to about this many numbers, but at least 100 rows.
_SAMPLE_NUMBERS = 2_000_000
Integers = NDArray[np.int64]
Priorities = NDArray[np.uint64]


@dataclass(frozen=True, eq=False, slots=True)
class RowSample:
    """At most `size` rows, those with the smallest seeded priorities of their positions.

    E. Cohen, H. Kaplan, "Summarizing data using bottom-k sketches", PODC 2007.
    """

    size: int
    priorities: Priorities  # (rows,) increasing
    values: Array  # (rows, columns)

    @classmethod
    def of(cls, values: Array, priorities: Priorities, size: int) -> "RowSample":
        """Keep the rows of (n, columns) `values` with the smallest (n,) priorities."""
        if len(priorities) > size:
            chosen = np.argpartition(priorities, size - 1)[:size]
            values, priorities = values[chosen], priorities[chosen]
        order = np.argsort(priorities, kind="stable")
        return cls(size, priorities[order], values[order])

    def __add__(self, other: "RowSample") -> "RowSample":
        """Return the sample of the union of both."""
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


def sample_size(columns: int, most: int = SAMPLE_ROWS) -> int:
    """Return the number of rows of a sample, fewer for very wide rows."""
    return min(most, max(100, _SAMPLE_NUMBERS // columns))


def priorities_of(numbers: Integers, *, seed: int, partition: int) -> Priorities:
    """Return (n,) pseudo-random priorities of rows, given their numbers in the partition."""
    start = np.array([seed & 0xFFFF_FFFF_FFFF_FFFF], np.uint64)
    stream = split_mix(split_mix(start) + np.uint64(partition))
    return split_mix(stream + numbers.astype(np.uint64))


def split_mix(state: Priorities) -> Priorities:
    """Return the next pseudo-random number of each state of SplitMix64."""
    return mixed(state + np.uint64(0x9E3779B97F4A7C15))


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ArraySummary:
    """A mergeable summary of one array's columns."""

    rows: int  # numbers in each column
    counts: Integers  # (3, columns) counts of NaN, infinite numbers and zeros
    moments: Moments  # of the finite numbers
    sample: RowSample

    @property
    def shape(self) -> tuple[int, ...]:
        """(columns,)."""
        return self.moments.shape

    def __add__(self, other: "ArraySummary") -> "ArraySummary":
        """Return the summary of the union of both, which must have the same columns."""
        return ArraySummary(
            rows=self.rows + other.rows,
            counts=self.counts + other.counts,
            moments=self.moments + other.moments,
            sample=self.sample + other.sample,
        )


def summaries_of(
    chunk: Arrays, flat_name: str, *, partition: int, start: int, size: int, seed: int
) -> dict[Per, ArraySummary]:
    """Summarize each reading of an array, the preferred first; masked steps are excluded."""
    array, mask = chunk[flat_name], mask_of(chunk, flat_name)
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
        priorities = priorities_of(numbers, seed=seed, partition=partition)
        found[per] = ArraySummary(
            rows=len(values),
            counts=np.stack([missing, infinite, _counted(values == 0)]),
            moments=Moments.of(values, valid),
            sample=RowSample.of(values, priorities, sample_size(columns, size)),
        )
    return found


def _counted(which: NDArray[np.bool_]) -> Integers:
    """Count the True values of each column: (n, columns) -> (columns,)."""
    return np.count_nonzero(np.ascontiguousarray(which.T), axis=1).astype(np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Counts of numbers in bins of equal width.

    Attributes:
        edges: bins + 1 increasing numbers; a bin includes its left edge, the last bin both edges.
        counts: numbers in each bin.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnStatistics:
    """Statistics of one column, over its finite numbers unless noted.

    Attributes:
        array: "features/..." or "labels/..." with the name of the input or output.
        position: position on the last axis; 0 for an array without one.
        name: name of the column if known; else "".
        count: number of finite numbers.
        missing: number of NaN.
        infinite: number of infinite numbers.
        zeros: number of zeros.
        minimum: smallest number; None without finite numbers.
        maximum: largest number; None without finite numbers.
        mean: computed in float64; None without finite numbers.
        std: population standard deviation, as `np.std`; None without finite numbers.
        quantiles: probability -> number, by linear interpolation as in `np.quantile`; empty
            without finite numbers.
        quantiles_exact: whether the quantiles use all numbers; else a random sample.
        histogram: None if not requested, or without finite numbers.
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
        """Return a JSON-serializable dict."""
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
    """Return the statistics of each column; `names`, `histograms`, `edges` have one per column."""
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
    """Return the (bins + 1,) float64 histogram edges of each column, from minimum to maximum."""
    limits = zip(summary.moments.minimum.tolist(), summary.moments.maximum.tolist(), strict=True)
    none = np.zeros(0)
    return [
        np.histogram_bin_edges(none, bins, (low, high) if low <= high else (0.0, 1.0))
        for low, high in limits
    ]


def histogram_counts(
    chunk: Arrays, flat_name: str, edges: Sequence[NDArray[np.float64]], *, per: Per
) -> Integers:
    """Count the numbers of a chunk in each bin, (columns, bins)."""
    columns = np.ascontiguousarray(column_values(chunk, flat_name, per).T, np.float64)
    return np.stack(
        [
            # Passing bins and range is faster than passing edges, with the same result.
            np.histogram(column[np.isfinite(column)], len(e) - 1, (e[0], e[-1]))[0]
            for column, e in zip(columns, edges, strict=True)
        ]
    ).astype(np.int64)
