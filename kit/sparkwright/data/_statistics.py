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

from .classes import add_counts, class_counts, class_output, named_counts
from .column_statistics import (
    QUANTILES,
    SAMPLE_ROWS,
    ArraySummary,
    ColumnStatistics,
    bin_edges,
    column_statistics,
    histogram_counts,
    summaries_of,
)
from .dataset import DataSet, added

if TYPE_CHECKING:
    from ._distributed import DistributedDataSet

Summaries = Mapping[str, Mapping[Per, ArraySummary]]
Counts = dict[str, NDArray[np.int64]]  # flat name -> (columns, bins)
Edges = Mapping[str, Sequence[NDArray[np.float64]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataStatistics:
    """The result of `DistributedDataSet.statistics`, displayed as a table in notebooks.

    Attributes:
        columns: statistics of each position on the last axis of each feature and label array.

    Example:
        statistics = data.statistics()
        statistics["features/features", 3].mean
        statistics.to_frame().sort_values("missing")
    """

    columns: tuple[ColumnStatistics, ...]

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
        """Return a pandas.DataFrame with one row per column, without histograms."""
        import pandas as pd

        return pd.DataFrame([_row(column) for column in self.columns])

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types."""
        return {"columns": [column.to_dict() for column in self.columns]}

    def __repr__(self) -> str:
        table = self.to_frame().to_string(max_rows=40, float_format=number_text)
        return f"DataStatistics of {len(self)} columns\n{table}"

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(max_rows=40, index=False, float_format=number_text)


def statistics_of(data: "DistributedDataSet", *, bins: int, seed: int) -> DataStatistics:
    """See `DistributedDataSet.statistics`."""
    check_count("bins", bins, minimum=0)
    found: Summaries | None = data.reduce_chunks(
        partial(_summary, seed=seed), merge_readings, description="statistics of columns"
    )
    if found is None:
        raise DataError("the data must have at least one example for statistics. Received: none.")
    pers: dict[str, Per] = {name: next(iter(each)) for name, each in found.items()}
    edges: Edges = {name: bin_edges(found[name][per], bins) for name, per in pers.items() if bins}
    bars: Counts | None = None
    if bins:
        bars = data.reduce_chunks(
            partial(_histograms, edges=edges, pers=pers),
            added,
            description="histograms of columns",
        )
    names = _column_names(data.schema)
    return DataStatistics(
        columns=tuple(
            column
            for name, per in pers.items()
            for column in column_statistics(
                name,
                found[name][per],
                names=names.get(name, ()),
                histograms=None if bars is None else bars[name],
                edges=edges.get(name, ()),
            )
        )
    )


def label_balance_of(data: "DistributedDataSet", label: str | None) -> dict[Any, int]:
    """See `DistributedDataSet.label_balance`."""
    total = data.reduce_chunks(
        lambda chunk, *_: class_counts(chunk, class_output(chunk, label)),
        add_counts,
        description="count labels",
    )
    names = data.class_names
    found = names.get(label) if label else next(iter(names.values()), None)
    return named_counts(total or {}, total or {}, found)


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
    options = {"partition": partition, "start": start, "size": SAMPLE_ROWS, "seed": seed}
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
