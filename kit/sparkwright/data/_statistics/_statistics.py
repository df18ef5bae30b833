"""Statistics and label balance of distributed data, in one or two passes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._classes import added, class_numbers, class_output, counted
from sparkwright.data._dataset import DataSet
from sparkwright.data._folding import Merge, Summarise, Summary, merge_all
from sparkwright.data._reducing import reduce_all, reduce_partitions
from sparkwright.errors import ConfigurationError, DataError

from ._column_statistics import (
    QUANTILES,
    ArraySummary,
    ColumnStatistics,
    bin_edges,
    column_statistics,
    histogram_counts,
    summaries_of,
)
from ._moments import Per, agreed

if TYPE_CHECKING:
    from sparkwright.data._distributed import DistributedDataSet

_SAMPLE_ROWS = 10_000
Readings = dict[str, dict[Per, ArraySummary]]  # flat name -> of the array, the best first
Summaries = dict[str, ArraySummary]  # flat name -> of the array
Counts = dict[str, NDArray[np.int64]]  # flat name -> (columns, bins)
Edges = Mapping[str, Sequence[NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataStatistics:
    """What `DistributedDataSet.statistics` found; shown as a table in notebooks.

    Attributes:
        columns: of each position on the last axis of each feature and label array.
        partitions: the same for each partition, empty ones without columns; () unless asked for.

    Example:
        statistics = data.statistics()
        statistics["features/features", 3].mean
        statistics.to_frame().sort_values("missing")
    """

    columns: tuple[ColumnStatistics, ...]
    partitions: tuple["DataStatistics", ...] = ()

    def __getitem__(self, key: str | tuple[str, int]) -> ColumnStatistics:
        """By name of the column, name of an array of one column, or (array, position).

        Raises:
            KeyError: if there is none, or more than one.
        """
        found = [
            column
            for column in self.columns
            if key in ((column.array, column.position), column.name, column.array)
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} columns are called {key!r}; see `to_frame`")
        return found[0]

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[ColumnStatistics]:
        return iter(self.columns)

    def to_frame(self) -> Any:
        """A pandas.DataFrame: a row for each column, without histograms.

        With statistics of partitions, a row for each column of each, and `partition` first.
        """
        import pandas as pd

        if not self.partitions:
            return pd.DataFrame([_row(column) for column in self.columns])
        return pd.DataFrame(
            [
                {"partition": number, **_row(column)}
                for number, partition in enumerate(self.partitions)
                for column in partition.columns
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "columns": [column.to_dict() for column in self.columns],
            "partitions": [partition.to_dict() for partition in self.partitions],
        }

    def __repr__(self) -> str:
        import pandas as pd

        frame = pd.DataFrame([_row(column) for column in self.columns])
        return f"DataStatistics of {len(self)} columns\n{frame.to_string(max_rows=40)}"

    def _repr_html_(self) -> str:
        import pandas as pd

        frame = pd.DataFrame([_row(column) for column in self.columns])
        return frame.to_html(max_rows=40, index=False, float_format="{:.6g}".format)


def statistics_of(
    data: "DistributedDataSet", *, bins: int, per_partition: bool, seed: int
) -> DataStatistics:
    """See `DistributedDataSet.statistics`."""
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 0:
        raise ConfigurationError(
            f"`bins` must be an integer of at least 0. Received: bins={bins!r}."
        )
    readings = _reduced(
        data,
        partial(_summary, seed=seed),
        _merged,
        per_partition=per_partition,
        description="statistics of columns",
    )
    merged = merge_all(readings, _merged)
    if merged is None:
        raise DataError("statistics need at least one example. Received: none.")
    pers: dict[str, Per] = {name: next(iter(found)) for name, found in merged.items()}
    total = _settled(merged, pers)
    edges: Edges = {name: bin_edges(found, bins) for name, found in total.items()} if bins else {}
    counts: list[Counts | None] = [None] * len(readings)
    if bins:
        counts = _reduced(
            data,
            partial(_histograms, edges=edges, pers=pers),
            _summed,
            per_partition=per_partition,
            description="histograms of columns",
        )
    names = _column_names(data, total)
    told = partial(_told, names=names, edges=edges)
    whole = told(total, merge_all(counts, _summed))
    if not per_partition:
        return whole
    return DataStatistics(
        columns=whole.columns,
        partitions=tuple(
            told(None if found is None else _settled(found, pers), counted_there)
            for found, counted_there in zip(readings, counts, strict=True)
        ),
    )


def label_balance_of(
    data: "DistributedDataSet", *, label: str | None, per_partition: bool
) -> dict[Any, int] | list[dict[Any, int]]:
    """See `DistributedDataSet.label_balance`."""
    found = _reduced(
        data,
        partial(_class_counts, label=label),
        added,
        per_partition=per_partition,
        description="count labels",
    )
    names = data.class_names.get(label) if label else next(iter(data.class_names.values()), None)
    total = merge_all(found, added) or {}
    if names is None or any(not 0 <= number < len(names) for number in total):
        titles: dict[int, Any] = {number: number for number in sorted(total)}
    else:
        titles = dict(enumerate(names))

    def told(counts: dict[int, int] | None) -> dict[Any, int]:
        # A class that some partition lacks is told with 0.
        return {title: (counts or {}).get(number, 0) for number, title in titles.items()}

    return [told(counts) for counts in found] if per_partition else told(total)


def _reduced(
    data: "DistributedDataSet",
    summarise: Summarise[Summary],
    merge: Merge[Summary],
    *,
    per_partition: bool,
    description: str,
) -> list[Summary | None]:
    if per_partition:
        return reduce_partitions(data, summarise, merge, description=description)
    return [reduce_all(data, summarise, merge, description=description)]


def _row(column: ColumnStatistics) -> dict[str, Any]:
    quantiles = {f"{at:.0%}": column.quantiles.get(at) for at in QUANTILES}
    names = ("array", "position", "name", "count", "missing", "infinite", "zeros")
    figures = {"min": column.minimum, "max": column.maximum, "mean": column.mean, "std": column.std}
    known = {name: getattr(column, name) for name in names}
    return {**known, **figures, **quantiles, "quantiles_exact": column.quantiles_exact}


def _arrays(chunk: DataSet) -> list[str]:
    return [name for name in chunk.columns() if name.startswith(("features/", "labels/"))]


def _summary(chunk: DataSet, partition: int, start: int, *, seed: int) -> Readings:
    return {
        name: summaries_of(
            chunk, name, partition=partition, start=start, size=_SAMPLE_ROWS, seed=seed
        )
        for name in _arrays(chunk)
    }


def _merged(first: Readings, second: Readings) -> Readings:
    if set(first) != set(second):
        raise DataError(
            "all chunks of the data must have the same arrays. Received: "
            f"{sorted(first)} and {sorted(second)}."
        )
    merged: Readings = {}
    for name, found in first.items():
        merged[name] = agreed(
            found,
            second[name],
            fit=lambda one, other: one.missing.size == other.missing.size,
            merge=ArraySummary.merge,
        )
        if not merged[name]:
            sizes = [list(side[name].values())[-1].missing.size for side in (first, second)]
            raise DataError(
                "all chunks of the data must have the same columns. Received: "
                f"{sizes[0]} and {sizes[1]} columns in {name!r}."
            )
    return merged


def _settled(found: Readings, pers: Mapping[str, Per]) -> Summaries:
    return {name: found[name][per] for name, per in pers.items()}


def _histograms(
    chunk: DataSet, partition: int, start: int, *, edges: Edges, pers: Mapping[str, Per]
) -> Counts:
    del partition, start
    return {
        name: histogram_counts(chunk, name, edges[name], per=pers[name]) for name in _arrays(chunk)
    }


def _summed(first: Counts, second: Counts) -> Counts:
    return {name: counts + second[name] for name, counts in first.items()}


def _told(
    summaries: Summaries | None,
    counts: Counts | None,
    *,
    names: Mapping[str, Sequence[str]],
    edges: Edges,
) -> DataStatistics:
    return DataStatistics(
        columns=tuple(
            column
            for name, summary in (summaries or {}).items()
            for column in column_statistics(
                name,
                summary,
                names=names.get(name, ()),
                histograms=None if counts is None else counts[name],
                edges=edges.get(name, ()),
            )
        )
    )


def _column_names(data: "DistributedDataSet", found: Summaries) -> dict[str, Sequence[str]]:
    """Names of a table's columns, for arrays that still have one number for each."""
    schema = data.schema
    if schema is None:
        return {}
    known = {f"features/{name}": schema.feature_names(name) for name in schema.features}
    known |= {f"labels/{name}": tuple(columns) for name, columns in schema.labels.items()}
    sizes = {name: summary.missing.size for name, summary in found.items()}
    return {name: names for name, names in known.items() if sizes.get(name) == len(names)}


def _class_counts(
    chunk: DataSet, partition: int, start: int, *, label: str | None
) -> dict[int, int]:
    del partition, start
    numbers, one_hot = class_numbers(chunk, class_output(chunk, label))
    return dict.fromkeys(range(one_hot or 0), 0) | counted(numbers)
