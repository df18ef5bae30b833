"""Convert in-memory data to examples: arrays, pandas DataFrames, and tuples of them."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack, get_args

import numpy as np

from sparkwright.errors import DataError

from ._arrow_columns import distinct
from ._column_choice import schema_of
from ._columnar import is_nested, shape_of
from ._filling import fill_missing
from ._local_data import LocalData, of_pipeline
from ._skipped import SkipLog, Skipped, plain_error
from ._table_files import ColumnOptions
from ._table_schema import Statistic, TableSchema
from ._table_source import LocalTable, check_no_choice
from .dataset import Array, DataSet
from .frames import (
    FrameColumns,
    examples_of,
    refuse_missing,
    refuse_unsuitable,
    schema_of_frame,
)
from .wording import listed, with_options_of

# Options that choose columns.
_COLUMNS = {"features", "labels", "text", "weights"}
_FRAME_COLUMNS = ("features", "label", "weights")


@with_options_of(schema_of)
def read_pandas(
    frame: Any, *, schema: TableSchema | None = None, **options: Unpack[ColumnOptions]
) -> LocalTable:
    """Read examples from a pandas DataFrame, one per row.

    The options are those of `from_csv`. If columns have integers as names, 2 is the column called
    2, otherwise the third one. Integers in a label column stay integers. `classes` and
    `categories` apply to columns of text, category and bool.

    Args:
        frame: the DataFrame; its index is ignored.
        schema: schema of earlier data (`train.schema`), instead of all options.

    Returns:
        A table with `data`, `schema` and `skipped`.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: naming the column that is missing, has an unsupported type or has missing
            values.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"size": [1.5, 2.0], "color": ["red", "blue"], "kind": [1, 0]})
        >>> read_pandas(frame, labels="kind", categories={"color": "infer"}).data
        DataSet(2 examples; features/features: float32[3], labels/labels: int64[])
    """
    check_no_choice(options, schema)
    choices: Any = options
    choices |= {o: _by_name(frame, choices[o]) for o in _COLUMNS.intersection(options)}
    table, kinds, shown = _columns_of(frame)
    if schema is None:

        def shapes(names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
            refuse_unsuitable({n: None for n in names if kinds[n] is None}, shown, library="pandas")
            return _shapes(table, kinds, names)

        schema = schema_of(list(kinds), partial(distinct, table), shapes, **options)
    found = _read(table, schema)
    by: Any = options.get("missing")
    return fill_missing(found, by=by)[0] if by in get_args(Statistic) else found


def in_memory(
    data: Any,
    *,
    option: str = "data",
    chosen: FrameColumns | None = None,
    schema: TableSchema | None = None,
) -> LocalData | None:
    """Return in-memory data as examples, None for other data; `schema` is of earlier data."""
    if isinstance(data, LocalData):
        return data
    if isinstance(data, DataSet):
        return LocalData(data=data, skipped=Skipped())
    if is_pandas(data):
        return _of_frame(data, chosen or FrameColumns(), schema)
    if isinstance(data, tuple):
        return _of_tuple(data, option, schema)  # pyright: ignore[reportUnknownArgumentType]
    return of_pipeline(data, option)


def conversion_of(data: Any) -> str:
    """Return a sentence on converting data that `fit` does not take; empty if there is none."""
    if hasattr(data, "to_spark"):
        return " Convert it: `.to_spark()`."
    if hasattr(data, "to_pandas"):
        return " Convert it: `.to_pandas()`."
    if isinstance(data, Iterator):
        return (
            " Collect batches of arrays: `x, y = map(np.concatenate, zip(*batches))`, then "
            "`fit(x, y)`; or let each worker read its part with `sw.data.TfData`."
        )
    return ""


def is_pandas(data: Any, *kinds: str) -> bool:
    """Whether `data` is an instance of one of the named pandas classes; default: DataFrame."""
    pandas: Any = sys.modules.get("pandas")
    return pandas is not None and isinstance(
        data, tuple(getattr(pandas, kind) for kind in kinds or ("DataFrame",))
    )


def _of_frame(frame: Any, chosen: FrameColumns, schema: TableSchema | None) -> LocalTable:
    chosen = replace(chosen, **{o: _by_name(frame, getattr(chosen, o)) for o in _FRAME_COLUMNS})
    table, kinds, shown = _columns_of(frame)
    for known in [] if schema is None else [schema, schema.without_labels()]:
        if chosen.is_default and set(known.used) <= set(kinds):
            unreadable = {name: None for name in known.used if kinds[name] is None}
            refuse_unsuitable(unreadable, shown, library="pandas")
            return _read(table, known)
    return _read(
        table,
        schema_of_frame(
            kinds,
            shown,
            chosen,
            library="pandas",
            values=lambda names: distinct(table, names),
            shapes=_shapes(table, kinds, list(kinds)),
        ),
    )


def _of_tuple(parts: Sequence[Any], option: str, schema: TableSchema | None) -> LocalData:
    if not 1 <= len(parts) <= 3:
        raise DataError(
            f"`{option}` must be (features,), (features, labels) or (features, labels, weights). "
            f"Received: a tuple of {len(parts)}. Pass several inputs as a dict by name."
        )
    given: Any = (*parts, None, None)
    x, y, weights = given[:3]
    if isinstance(y, str):
        raise DataError(
            f"labels must be an array. Received: {y!r}. To name a column of a DataFrame: "
            "`fit(frame, label=…)`."
        )
    weights = None if weights is None else _array("weights", weights)
    if not is_pandas(x):
        data = DataSet(_arrays_of("features", x), _arrays_of("labels", y), weights=weights)
        return LocalData(data=data, skipped=Skipped())
    is_text = y is not None and np.asarray(y).dtype.kind in "OSU"
    if not (is_text or is_pandas(y, "DataFrame", "Series")):
        read = _of_frame(x, FrameColumns(label=()), schema and schema.without_labels())
        data = DataSet(read.data.features, _arrays_of("labels", y), weights=weights)
        return replace(read, data=data)
    import pandas as pd

    labels: Any = y if is_pandas(y) else pd.Series(y).to_frame(_label_name(y, x, schema))
    if len(labels) != len(x):
        raise DataError(
            "features and labels must have the same number of examples. Received: "
            f"{len(x)} features and {len(labels)} labels."
        )
    both = pd.concat([x.reset_index(drop=True), labels.reset_index(drop=True)], axis=1)
    known = schema if schema is not None and set(schema.used) <= set(map(str, both)) else None
    chosen = FrameColumns(label=None if known else tuple(map(str, labels.columns)))
    read = _of_frame(both, chosen, known)
    if weights is None:
        return read
    return replace(read, data=DataSet(read.data.features, read.data.labels, weights=weights))


def _label_name(y: Any, x: Any, schema: TableSchema | None) -> str:
    """Return a name for the label column that no feature column has."""
    known = [name for names in schema.labels.values() for name in names] if schema else []
    name = known[0] if len(known) == 1 else getattr(y, "name", None)
    taken = set(map(str, x.columns))
    return str(name) if name is not None and str(name) not in taken else "label"


def _arrays_of(group: str, value: Any) -> dict[str, Array] | None:
    if value is None:
        return None
    items = value.items() if isinstance(value, Mapping) else [(group, value)]  # pyright: ignore[reportUnknownVariableType]
    return {str(name): _array(str(name), each) for name, each in items}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _array(name: str, value: Any) -> Array:
    """Convert numbers, text or pandas columns to a NumPy array."""
    try:
        array = value.to_numpy() if is_pandas(value, "DataFrame", "Series") else np.asarray(value)
    except ValueError as error:
        raise DataError(
            f"{name!r} must be an array: each example of the same shape. Received: {error}. For "
            "sequences of different lengths see `DataSet.merge`."
        ) from None
    if array.dtype == object:
        kinds = sorted({type(each).__name__ for each in array.ravel().tolist()})
        if kinds != ["str"]:
            raise DataError(
                f"{name!r} must hold numbers. Received: an array of Python objects (dtype object): "
                f'{", ".join(kinds[:5])}. Convert it: `.astype("float32")`; of a DataFrame choose '
                "columns of numbers, and fill missing values first."
            )
    if array.dtype.kind == "f" and array.ndim and (absent := np.isnan(array)).any():
        rows = int(absent.reshape(len(array), -1).any(axis=1).sum())
        raise DataError(
            f"{name!r} must have no missing values. Received: NaN in {rows} of {len(array)} "
            "examples. Fill them or leave these examples out; padded steps are masked "
            "in a `DataSet`."
        )
    if array.dtype.kind == "f" and array.ndim and (endless := np.isinf(array)).any():
        rows = int(endless.reshape(len(array), -1).any(axis=1).sum())
        raise DataError(
            f"{name!r} must be finite. Received: infinite numbers in {rows} of {len(array)} "
            "examples. Replace them, such as with `np.clip`, or leave these examples out."
        )
    return array


def _by_name(frame: Any, choice: Any) -> Any:
    """Return a choice of columns in which names that are integers are texts, like all names."""
    integers = {name for name in frame.columns if isinstance(name, int | np.integer)}

    def named(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: named(each) for key, each in part.items()}  # pyright: ignore
        if isinstance(part, list | tuple | range | np.ndarray):
            return [named(each) for each in part]  # pyright: ignore
        whole = isinstance(part, int | np.integer) and not isinstance(part, bool)
        if not whole or part < 0:
            return part
        if part not in integers:
            raise DataError(
                f"a column must be one of {listed(map(str, frame.columns))}. Received: {part}, "
                "which is a name, because other names are integers, too."
            )
        return str(part)

    return named(choice) if integers else choice


def _columns_of(frame: Any) -> tuple[Any, dict[str, Any], dict[str, str]]:
    """Return the supported columns as a table, Arrow types (None: unsupported) and type names."""
    import pyarrow as pa

    names = list(map(str, frame.columns))
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(
            f"the columns of a DataFrame must have different names. Received: {listed(repeated)} "
            "more than once. Rename them: `frame.columns = […]`."
        )
    columns: dict[str, Any] = {}
    shown: dict[str, str] = {}
    for place, name in enumerate(names):
        series = frame.iloc[:, place]
        shown[name] = str(series.dtype)
        try:
            columns[name] = pa.array(series, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            found = sorted({type(each).__name__ for each in series.tolist()})
            shown[name] += f" ({', '.join(found[:5])})"
    return pa.table(columns), {n: getattr(columns.get(n), "type", None) for n in names}, shown


def _shapes(table: Any, kinds: Mapping[str, Any], names: Sequence[str]) -> Any:
    found: dict[str, tuple[int, ...]] = {}
    for name in names:
        if kinds[name] is not None and is_nested(kinds[name]):
            shapes = map(shape_of, table.column(name))
            found[name] = next((shape for shape in shapes if shape is not None), ())
    return found


def _read(table: Any, schema: TableSchema) -> LocalTable:
    refuse_missing(table, schema, library="pandas")
    log = SkipLog("raise", plain_error)
    found = (
        None
        if not table.num_rows
        else examples_of(table, schema, lambda row: f"the DataFrame, row {row + 1}", log)
    )
    if found is None:
        raise DataError("there must be at least one example. Received: none in the DataFrame.")
    names = schema.class_names
    return LocalTable(data=found, skipped=log.skipped, class_names=names, schema=schema)
