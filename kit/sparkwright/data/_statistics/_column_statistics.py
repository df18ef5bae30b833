"""Statistics of the columns of an array: counted by chunk, merged, then told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import DataSet

from ._moments import Moments, Per, column_values, mask_of, readings_of
from ._row_sample import RowSample, priorities_of

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
# A sample of very wide rows is smaller: about this many numbers, 100 rows at least.
_SAMPLE_NUMBERS = 2_000_000
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ArraySummary:
    """What is known of one array's columns, so far.

    Attributes:
        rows: numbers in each column.
        missing: (columns,) of them NaN.
        infinite: (columns,) of them infinite.
        zeros: (columns,) of them 0.
        moments: of the finite ones.
        sample: of the rows.
    """

    rows: int
    missing: Integers
    infinite: Integers
    zeros: Integers
    moments: Moments
    sample: RowSample

    @classmethod
    def of(
        cls,
        chunk: DataSet,
        flat_name: str,
        *,
        per: Per,
        partition: int,
        start: int,
        size: int,
        seed: int,
    ) -> "ArraySummary":
        """Summarise one array of a chunk; masked steps and labels do not count.

        Args:
            chunk: the examples.
            flat_name: of the array, such as "features/features".
            per: what a column is.
            partition: number of the chunk's partition.
            start: number of its first example there.
            size: most rows of the sample.
            seed: of the sample.
        """
        array, mask = chunk.columns()[flat_name], mask_of(chunk, flat_name)
        values = column_values(chunk, flat_name, per)
        places = array.shape if per == "value" else array.shape[:-1]
        numbers = np.arange(int(np.prod(places)), dtype=np.int64).reshape(places)
        if mask is not None:
            numbers = numbers[mask != 0]
        numbers = numbers.reshape(-1) + start * int(np.prod(places[1:]))
        priorities = priorities_of(numbers, seed=seed, partition=partition)
        rows = max(100, _SAMPLE_NUMBERS // values.shape[1])
        sample = RowSample.of(values, priorities, min(size, rows))
        columns = values.shape[1]
        missing = infinite = np.zeros(columns, np.int64)
        valid = None
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                valid = finite
                missing = _counted(np.isnan(values))
                infinite = _counted(np.isinf(values))
        return cls(
            rows=len(values),
            missing=missing,
            infinite=infinite,
            zeros=_counted(values == 0),
            moments=Moments.of(values, valid),
            sample=sample,
        )

    def merge(self, other: "ArraySummary") -> "ArraySummary":
        """The summary of both together, which have the same columns."""
        return ArraySummary(
            rows=self.rows + other.rows,
            missing=self.missing + other.missing,
            infinite=self.infinite + other.infinite,
            zeros=self.zeros + other.zeros,
            moments=self.moments.merge(other.moments),
            sample=self.sample.merge(other.sample),
        )


def summaries_of(chunk: DataSet, flat_name: str, **options: int) -> dict[Per, ArraySummary]:
    """A summary for each reading of an array, the best first; see `ArraySummary.of`."""
    return {
        per: ArraySummary.of(chunk, flat_name, per=per, **options)
        for per in readings_of(chunk, flat_name, "feature")
    }


def _counted(which: NDArray[np.bool_]) -> Integers:
    """(columns,) True values of each column."""
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
        histogram = self.histogram
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "quantiles": {str(at): value for at, value in self.quantiles.items()},
            "histogram": None
            if histogram is None
            else {"edges": list(histogram.edges), "counts": list(histogram.counts)},
        }


def column_statistics(
    array: str,
    summary: ArraySummary,
    *,
    names: Sequence[str] = (),
    histograms: Integers | None = None,
    edges: Sequence[NDArray[np.float64]] = (),
) -> list[ColumnStatistics]:
    """What a summary says of each column.

    Args:
        array: flat name.
        summary: of the array.
        names: of the columns; ignored unless there is one for each.
        histograms: (columns, bins) counts; default None: none.
        edges: (bins + 1,) of each column.
    """
    moments, sample = summary.moments, summary.sample
    columns = summary.missing.size
    known = list(names) if len(names) == columns else [""] * columns
    exact = summary.rows <= sample.size
    found: list[ColumnStatistics] = []
    for column in range(columns):
        some = bool(moments.count[column])
        numbers = sample.values[:, column].astype(np.float64)
        numbers = numbers[np.isfinite(numbers)]
        quantiles = np.quantile(numbers, QUANTILES).tolist() if numbers.size else []
        found.append(
            ColumnStatistics(
                array=array,
                position=column,
                name=known[column],
                count=int(moments.count[column]),
                missing=int(summary.missing[column]),
                infinite=int(summary.infinite[column]),
                zeros=int(summary.zeros[column]),
                minimum=float(moments.minimum[column]) if some else None,
                maximum=float(moments.maximum[column]) if some else None,
                mean=float(moments.mean[column]) if some else None,
                std=float(moments.std[column]) if some else None,
                quantiles=dict(zip(QUANTILES, quantiles, strict=False)),
                quantiles_exact=exact,
                histogram=Histogram(
                    edges=tuple(edges[column].tolist()), counts=tuple(histograms[column].tolist())
                )
                if histograms is not None and some
                else None,
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
    values = column_values(chunk, flat_name, per)
    columns = np.ascontiguousarray(values.T, np.float64)
    return np.stack(
        [
            # By number of bins and range, which is faster than by edges, and gives the same.
            np.histogram(column[np.isfinite(column)], len(e) - 1, (e[0], e[-1]))[0]
            for column, e in zip(columns, edges, strict=True)
        ]
    ).astype(np.int64)
