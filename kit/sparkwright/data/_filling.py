"""Impute missing numbers of tables with the mean or median of the training data."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.normalizers.moments import Moments
from sparkwright.options import check_choice

from ._distributed import DistributedDataSet
from ._local_data import LocalData
from ._table_schema import Statistic, TableSchema
from ._table_source import LocalTable
from .column_statistics import RowSample, priorities_of, sample_size
from .dataset import DataSet, added
from .wording import listed

Table = TypeVar("Table", DistributedDataSet, LocalTable)


def fill_missing(train: Table, *others: Table, by: Statistic) -> tuple[Table, ...]:
    """Fill missing feature values with the column's mean or median of the training data.

    First read the table with `missing=float("nan")`, and split it. The fill values are stored in
    the `schema` of the results and with the model, so later data is filled with the same values.

    Args:
        train: training data; one pass over it finds the fill values.
        others: further parts of the same table, such as test data.
        by: "mean" or "median" of the present values of each column; beyond 10,000 rows, the median
            is that of a random sample of as many rows, fewer beyond 200 columns.

    Returns:
        `train` and `others` without missing numbers.

    Raises:
        DataError: if the data does not come from a table, or a column has no numbers.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": [20.0, None, 50.0, 23.0], "label": [0, 1, 0, 1]})
        >>> from sparkwright.data import read_pandas
        >>> read = read_pandas(frame, labels="label", missing=float("nan"))
        >>> (filled,) = fill_missing(read, by="median")
        >>> filled.data.features["features"].ravel().tolist(), dict(filled.schema.fills)
        ([20.0, 23.0, 50.0, 23.0], {'age': 23.0})
    """
    check_choice("by", by, get_args(Statistic))
    schema = train.schema
    if schema is None:
        raise DataError(
            "only tables can be filled. Received: data without a schema. Read it with "
            "`from_csv`, `from_parquet`, `from_arrow` or `read_pandas`."
        )
    wanted = {name: columns for name in schema.features if (columns := schema.numbers(name))}
    data = train.data if isinstance(train, LocalData) else train
    summary = data.reduce_chunks(
        partial(_summary, inputs=tuple(wanted), by=by), added, description="fill missing values"
    )
    if not summary:
        raise DataError("there must be at least one example to train on. Received: none.")
    numbers = {name: _numbers(found) for name, found in summary.items()}
    fills = {
        column: float(numbers[name][place])
        for name, columns in wanted.items()
        for place, column in columns.items()
    }
    empty = [column for column, number in fills.items() if np.isnan(number)]
    if empty:
        raise DataError(
            f"a column that is filled with its {by} must hold a number. Received: none in "
            f"{listed(empty)}. Exclude it."
        )
    known = replace(schema, missing=by, fills=fills)
    return tuple(_filled(part, known) for part in (train, *others))


def _filled(part: Any, schema: TableSchema) -> Any:
    function = partial(filled, schema=schema)
    if isinstance(part, LocalData):
        return replace(part, data=function(part.data), schema=schema)
    found = part.map_chunks(function, step=f"fill missing values {dict(schema.fills)}")
    found.schema = schema
    return found


def filled(data: DataSet, *, schema: TableSchema) -> DataSet:
    """Replace NaN among the features by the schema's fill values."""
    columns = data.columns()
    for name in schema.features:
        names = schema.numbers(name)
        array = columns[f"features/{name}"]
        if names and np.isnan(array).any():
            columns[f"features/{name}"] = array = array.copy()
            flat = array.reshape(len(array), -1)
            for place, column in names.items():
                flat[np.isnan(flat[:, place]), place] = schema.fills[column]
    return DataSet.from_columns(columns)


def _summary(
    chunk: DataSet, partition: int, start: int, *, inputs: Sequence[str], by: Statistic
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in inputs:
        array = chunk.features[name]
        array = array.reshape(len(array), -1)
        if by == "mean":
            found[name] = Moments.of(array, ~np.isnan(array))
        else:
            rows = np.arange(start, start + len(array))
            priorities = priorities_of(rows, seed=0, partition=partition)
            found[name] = RowSample.of(array, priorities, sample_size(array.shape[1]))
    return found


def _numbers(found: Any) -> NDArray[np.float64]:
    """Return the mean or median of each column, NaN without numbers."""
    if isinstance(found, Moments):
        return np.where(found.count > 0, found.mean, np.nan)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "All-NaN slice")
        return np.nanmedian(found.values.astype(np.float64), axis=0)
