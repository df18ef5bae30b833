"""Impute missing numbers of tables with the mean or median of the training data."""

from collections.abc import Mapping, Sequence
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
from ._table_schema import Statistic, TableSchema, listed
from ._table_source import LocalTable
from .dataset import Array, DataSet, added

Table = TypeVar("Table", DistributedDataSet, LocalTable)
Numbers = Mapping[str, NDArray[np.float64]]
# (width, shift) in bits of the three radix digits of a float32 key, the highest first.
_DIGITS = ((11, 21), (11, 10), (10, 0))


def fill_missing(train: Table, *others: Table, by: Statistic) -> tuple[Table, ...]:
    """Fill missing feature values with the column's mean or median of the training data.

    First read the table with `missing=float("nan")`, and split it. The fill values are stored in
    the `schema` of the results and with the model, so later data is filled with the same values.

    Args:
        train: training data; the mean needs one pass over it, the median three.
        others: further parts of the same table, such as test data.
        by: "mean" or "median", computed exactly from the present values of each column.

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
    numbers = (_means if by == "mean" else _medians)(train, tuple(wanted))
    if not numbers:
        raise DataError("there must be at least one example to train on. Received: none.")
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


def _reduce(table: Any, summarize: Any, merge: Any) -> Any:
    data = table.data if isinstance(table, LocalData) else table
    return data.reduce_chunks(summarize, merge, description="fill missing values")


def _flat(chunk: DataSet, name: str) -> Array:
    array = chunk.features[name]
    return array.reshape(len(array), -1)


def _means(data: Any, inputs: Sequence[str]) -> Numbers:
    def summary(chunk: DataSet, _partition: int, _start: int) -> dict[str, Moments]:
        arrays = {name: _flat(chunk, name) for name in inputs}
        return {name: Moments.of(array, ~np.isnan(array)) for name, array in arrays.items()}

    moments = _reduce(data, summary, added) or {}
    return {name: np.where(each.count > 0, each.mean, np.nan) for name, each in moments.items()}


def _medians(data: Any, inputs: Sequence[str]) -> Numbers:
    """Find the exact medians by radix selection of the two middle numbers."""
    chosen: dict[str, Any] = {}  # the digits so far, as numbers, (2, columns)
    ranks: dict[str, Any] = {}  # of the middle numbers among those with these digits
    for width, shift in _DIGITS:
        counts = _reduce(data, partial(_digits, inputs, dict(chosen), width, shift), added) or {}
        for name, found in counts.items():
            if name not in ranks:
                total = found[0].sum(axis=1)
                ranks[name] = np.stack([(total - 1) // 2, total // 2])
                chosen[name] = np.zeros_like(ranks[name])
            before = np.cumsum(found, axis=2)
            digit = (before <= ranks[name][..., None]).sum(axis=2).clip(max=(1 << width) - 1)
            taken = np.take_along_axis(before - found, digit[..., None], axis=2)[..., 0]
            ranks[name] = ranks[name] - taken
            chosen[name] = (chosen[name] << width) | digit
    numbers = {name: _from_keys(keys).mean(axis=0) for name, keys in chosen.items()}
    # For a column without numbers, the result is the largest key, which is NaN.
    return numbers


def _digits(
    inputs: Sequence[str],
    chosen: Mapping[str, Any],
    width: int,
    shift: int,
    chunk: DataSet,
    _partition: int,
    _start: int,
) -> dict[str, NDArray[np.int64]]:
    """Return input -> (2, columns, 2**width) counts of each next digit after the chosen ones."""
    found: dict[str, NDArray[np.int64]] = {}
    for name in inputs:
        array = _flat(chunk, name)
        keys, columns = _keys(array), array.shape[1]
        places = np.arange(columns) << width | (keys >> shift & (1 << width) - 1)
        counts: list[Any] = []
        for rank in range(2):
            begins = chosen[name][rank] if name in chosen else 0
            fits = ~np.isnan(array) & (keys >> shift + width == begins)
            counts.append(np.bincount(places[fits], minlength=columns << width))
        found[name] = np.stack(counts).reshape(2, columns, 1 << width)
    return found


def _keys(numbers: Array) -> NDArray[np.int64]:
    """Convert float32 numbers to 32-bit integers with the same sort order."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32).astype(np.int64)
    return np.where(bits >> 31, (1 << 32) - 1 - bits, bits | 1 << 31)


def _from_keys(keys: NDArray[np.int64]) -> NDArray[np.float64]:
    bits = np.where(keys >> 31, keys ^ 1 << 31, (1 << 32) - 1 - keys)
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)
