"""Statistics and label balance of distributed data, in one or two passes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.evaluation.numbers import number_text
from sparkwright.normalizers.moments import Per, merge_readings, numeric_names
from sparkwright.options import check_count

from ._reducing import merge_all, reduced
from .classes import add_counts, class_counts, class_output, named_counts
from .column_statistics import (
    QUANTILES,
    ArraySummary,
    ColumnStatistics,
    bin_edges,
    column_statistics,
    histogram_counts,
    summaries_of,
)
from .dataset import DataSet, added

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_SAMPLE_ROWS = 10_000
Summaries = Mapping[str, Mapping[Per, ArraySummary]]
Counts = dict[str, NDArray[np.int64]]  # flat name -> (columns, bins)
Edges = Mapping[str, Sequence[NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataStatistics:
    """The result of `DistributedDataSet.statistics`, displayed as a table in notebooks.

    Attributes:
        columns: statistics of each position on the last axis of each feature and label array.
        partitions: statistics of each partition, without columns for empty ones; () unless
            requested.

    Example:
        statistics = data.statistics()
        statistics["features/features", 3].mean
        statistics.to_frame().sort_values("missing")
    """

    columns: tuple[ColumnStatistics, ...]
    partitions: tuple["DataStatistics", ...] = ()

    def __getitem__(self, key: str | tuple[str, int]) -> ColumnStatistics:
        """Return the column with this column name, array name or (array, position).

        Raises:
            KeyError: if no column or several columns match.
        """
        found = [
            column
            for column in self.columns
            if key in ((column.array, column.position), column.name, column.array)
        ]
        if len(found) != 1:
            raise KeyError(f"{len(found)} columns match {key!r}; see `to_frame`")
        return found[0]

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[ColumnStatistics]:
        return iter(self.columns)

    def to_frame(self) -> Any:
        """Return a pandas.DataFrame with one row per column, without histograms.

        With statistics of partitions, it has one row per partition and column, and `partition` is
        the first column.
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
        """Convert to JSON types."""
        return {
            "columns": [column.to_dict() for column in self.columns],
            "partitions": [partition.to_dict() for partition in self.partitions],
        }

    def __repr__(self) -> str:
        frame = DataStatistics(columns=self.columns).to_frame()
        table = frame.to_string(max_rows=40, float_format=number_text)
        return f"DataStatistics of {len(self)} columns\n{table}"

    def _repr_html_(self) -> str:
        frame = DataStatistics(columns=self.columns).to_frame()
        return frame.to_html(max_rows=40, index=False, float_format=number_text)


def statistics_of(
    spark: "SparkSession",
    rdd: "RDD[bytes]",
    schema: Any,
    *,
    bins: int,
    per_partition: bool,
    seed: int,
) -> DataStatistics:
    """See `DistributedDataSet.statistics`."""
    check_count("bins", bins, minimum=0)
    parts = reduced(
        spark,
        rdd,
        partial(_summary, seed=seed),
        merge_readings,
        per_partition=per_partition,
        description="statistics of columns",
    )
    whole = merge_all(parts, merge_readings)
    if whole is None:
        raise DataError("the data must have at least one example for statistics. Received: none.")
    pers: dict[str, Per] = {name: next(iter(found)) for name, found in whole.items()}
    edges: Edges = {name: bin_edges(whole[name][per], bins) for name, per in pers.items() if bins}
    counts: list[Counts | None] = [None] * len(parts)
    if bins:
        counts = reduced(
            spark,
            rdd,
            partial(_histograms, edges=edges, pers=pers),
            added,
            per_partition=per_partition,
            description="histograms of columns",
        )
    names = _column_names(schema)

    def shown(found: Summaries | None, bars: Counts | None) -> tuple[ColumnStatistics, ...]:
        return tuple(
            column
            for name, per in (pers.items() if found is not None else ())
            for column in column_statistics(
                name,
                (found or {})[name][per],
                names=names.get(name, ()),
                histograms=None if bars is None else bars[name],
                edges=edges.get(name, ()),
            )
        )

    return DataStatistics(
        columns=shown(whole, merge_all(counts, added)),
        partitions=tuple(
            DataStatistics(columns=shown(found, bars))
            for found, bars in zip(parts, counts, strict=True)
            if per_partition
        ),
    )


def label_balance_of(
    spark: "SparkSession",
    rdd: "RDD[bytes]",
    class_names: Mapping[str, Sequence[str]],
    *,
    label: str | None,
    per_partition: bool,
) -> dict[Any, int] | list[dict[Any, int]]:
    """See `DistributedDataSet.label_balance`."""
    found = reduced(
        spark,
        rdd,
        lambda chunk, *_: class_counts(chunk, class_output(chunk, label)),
        add_counts,
        per_partition=per_partition,
        description="count labels",
    )
    names = class_names.get(label) if label else next(iter(class_names.values()), None)
    total = merge_all(found, add_counts) or {}
    if not per_partition:
        return named_counts(total, total, names)
    # Classes that do not occur in a partition have count 0.
    return [named_counts(counts or {}, total, names) for counts in found]


def _row(column: ColumnStatistics) -> dict[str, Any]:
    known = asdict(column)
    names = ("array", "position", "name", "count", "missing", "infinite", "zeros")
    return {
        **{name: known[name] for name in names},
        **{"min": column.minimum, "max": column.maximum, "mean": column.mean, "std": column.std},
        **{f"{at:.0%}": column.quantiles.get(at) for at in QUANTILES},
        "quantiles_exact": column.quantiles_exact,
    }


def _summary(chunk: DataSet, partition: int, start: int, *, seed: int) -> Summaries:
    options = {"partition": partition, "start": start, "size": _SAMPLE_ROWS, "seed": seed}
    arrays = chunk.columns()
    return {name: summaries_of(arrays, name, **options) for name in numeric_names(arrays)}


def _histograms(
    chunk: DataSet, partition: int, start: int, *, edges: Edges, pers: Mapping[str, Per]
) -> Counts:
    del partition, start
    arrays = chunk.columns()
    return {
        name: histogram_counts(arrays, name, edges[name], per=pers[name])
        for name in numeric_names(arrays)
    }


def _column_names(schema: Any) -> Mapping[str, Sequence[str]]:
    """Return flat array name -> column names of a table."""
    if schema is None:
        return {}
    names = {f"features/{name}": schema.feature_names(name) for name in schema.features}
    names |= {f"labels/{name}": tuple(labels) for name, labels in schema.labels.items()}
    return names
