"""Convert Arrow tables to DataSets by a schema, one column at a time."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._arrow_columns import Mask, arrays, column_of, distinct, numbers, texts
from sparkwright.data._skipped import Fault
from sparkwright.data._table_schema import Missing, TableSchema
from sparkwright.data.classes import one_hot
from sparkwright.data.dataset import Array, DataSet
from sparkwright.data.wording import listed


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A file, or a half-open range of its bytes, row groups or record batches."""

    url: str
    parts: tuple[int, int] | None = None
    is_whole: bool = True
    rows_before: int | None = 0  # rows of the file before the piece; None: unknown
    size_bytes: int = 0

    @property
    def is_first(self) -> bool:
        """Whether the piece is at the start of its file."""
        return self.parts is None or self.parts[0] == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """How to convert one column to numbers; `option` lists the classes, for messages."""

    column: str
    classes: int | tuple[str, ...] | Literal["infer"] | None = None  # "infer" keeps the text
    hot: bool = False
    shape: tuple[int, ...] | None = None
    is_integer: bool = False
    option: Literal["classes", "categories"] = "classes"


# Column, row -> the original value in the file, for messages.
Shown = Callable[[str, int], Any]
# Table, original values -> an object with a `take` method, and the faults of its rows.
Convert = Callable[[Any, Shown | None], tuple[Any, list[Fault]]]


def to_dataset(
    table: Any, shown: Shown | None = None, *, schema: TableSchema
) -> tuple[DataSet, list[Fault]]:
    """Convert all rows of an Arrow table; rows listed in the faults hold arbitrary values."""
    columns = Columns(table, schema.missing, shown, schema.fills)
    features = {
        name: columns.side_by_side([_feature(schema, column) for column in names], fill=True)
        for name, names in schema.features.items()
    }
    labels: dict[str, Array] = {}
    for output, names in schema.labels.items():
        classes = schema.classes.get(output)
        hot = schema.one_hot and classes is not None
        made = columns.side_by_side(
            [Part(column=n, classes=classes, hot=hot, shape=schema.shapes.get(n)) for n in names]
        )
        holds_arrays = classes is None and names[0] in schema.shapes
        is_flat = len(names) == 1 and not (hot or holds_arrays)
        labels[output] = made[:, 0] if is_flat else made
    weights = None if schema.weights is None else columns.weights(schema.weights)
    return DataSet(features, labels, weights=weights), columns.faults


def _feature(schema: TableSchema, column: str) -> Part:
    categories = schema.categories.get(column)
    hot, shape = categories is not None, schema.shapes.get(column)
    classes = "infer" if column in schema.text else categories
    return Part(column=column, classes=classes, hot=hot, shape=shape, option="categories")


class Columns:
    """Convert the columns of one table to arrays; collect invalid rows in `faults`."""

    def __init__(
        self,
        table: Any,
        missing: Missing | None = None,
        shown: Shown | None = None,
        fills: Mapping[str, float] | None = None,
    ) -> None:
        """Keep the table; `missing` is that of a `TableSchema`, or None if it is not an option."""
        self._table, self._missing, self._fill_by = table, missing, fills or {}
        self._value = shown or (lambda name, row: column_of(table, name)[row].as_py())
        self.rows = int(table.num_rows)
        self.faults: list[Fault] = []

    def side_by_side(self, parts: Sequence[Part], *, fill: bool = False) -> Array:
        """Return columns as (n, width) float32, or int32 if all are; one of arrays as (n, …)."""
        if all(p.classes is None and p.shape is None and not p.is_integer for p in parts):
            return self._numbers([part.column for part in parts], fill=fill)
        made = [self._part(part, fill=fill) for part in parts]
        if len(made) == 1:
            return made[0]
        flat = [array.reshape(self.rows, math.prod(array.shape[1:])) for array in made]
        dtypes = {array.dtype for array in flat}
        dtype = dtypes.pop() if len(dtypes) == 1 else np.float32
        return np.concatenate(flat, axis=1, dtype=dtype)

    def _part(self, part: Part, *, fill: bool) -> Array:
        if part.shape is not None and part.classes is None:
            return self._arrays(part.column, part.shape, fill=fill)
        if part.is_integer:
            return self._integers(part.column)
        if part.classes is None:
            return self._numbers([part.column], fill=fill)
        if part.classes == "infer":
            (values,) = distinct(self._table, [part.column]).values()
            codes = self._codes(part.column, tuple(values), part.option)
            return np.array([*values, ""], object)[codes, None]
        if isinstance(part.classes, int):
            codes, count = self._class_numbers(part.column, part.classes), part.classes
        else:
            codes = self._codes(part.column, part.classes, part.option)
            count = len(part.classes)
        return one_hot(codes, count) if part.hot else codes[:, None]

    def weights(self, name: str) -> Array:
        """Return a column as (n,) float32 weights of at least 0."""
        found = self._numbers([name])[:, 0]
        self._fault("weight below 0", found < 0, name, "weights of at least 0", found.__getitem__)
        return found

    def _numbers(self, names: Sequence[str], *, fill: bool = False) -> Array:
        """(n, columns) float32."""
        matrix = np.empty((self.rows, len(names)), np.float32)
        columns = [column_of(self._table, name) for name in names]
        with np.errstate(over="ignore", invalid="ignore"):
            if all(str(column.type) == "double" and not column.null_count for column in columns):
                for index, column in enumerate(columns):
                    matrix[:, index] = column.to_numpy()
                if _are_finite(matrix):
                    return matrix
            for index, (name, column) in enumerate(zip(names, columns, strict=True)):
                matrix[:, index], missing = numbers(column, name)
                if missing is not None:
                    self._fill(name, matrix[:, index], missing, missing, fill=fill)
        if not _are_finite(matrix):
            for index, name in enumerate(names):
                self._check_finite(name, matrix[:, index : index + 1])
        return matrix

    def _class_numbers(self, name: str, classes: int) -> NDArray[np.int32]:
        """Return a column as (n,) int32 from 0 to `classes - 1`."""
        values = self._without_missing(name)
        with np.errstate(invalid="ignore"):
            fits = (values >= 0) & (values < classes) & (values == np.floor(values))
        self._fault(
            "class out of range",
            ~fits,
            name,
            f"integer classes from 0 to {classes - 1}",
            remedy=' For other labels give their names: `classes=["…", …]` or `classes="infer"`; '
            "for regression, no `classes`.",
        )
        return np.where(fits, values, 0).astype(np.int32)

    def _integers(self, name: str) -> NDArray[np.int32]:
        """(n, 1) integers."""
        values, limits = self._without_missing(name), np.iinfo(np.int32)
        fits = (values >= limits.min) & (values <= limits.max)
        self._fault("integer out of range", ~fits, name, "32-bit integers")
        return np.where(fits, values, 0).astype(np.int32)[:, None]

    def _codes(self, name: str, values: tuple[str, ...], option: str) -> NDArray[np.int32]:
        """Return the (n,) int32 index in `values` of each row's text; 0 for unknown text."""
        encoded = texts(column_of(self._table, name), name)
        places = {value: index for index, value in enumerate(values)}
        known: list[str] = encoded.dictionary.to_pylist()
        table = np.array([places.get(value, -1) for value in known] + [-2], np.int32)
        indices = encoded.indices
        if indices.null_count:
            indices = indices.fill_null(len(known))
        codes = table[indices.to_numpy(zero_copy_only=False)]
        self._absent(name, codes == -2)
        self._fault(
            "unknown class" if option == "classes" else "unknown category",
            codes == -1,
            name,
            f"one of {listed(values)}",
            remedy=f" Add it to `{option}`.",
        )
        return np.maximum(codes, 0)

    def _arrays(self, name: str, shape: tuple[int, ...], *, fill: bool) -> Array:
        """Return a column of arrays as (n, …) float32."""
        values, faulty, missing, absent = arrays(column_of(self._table, name), shape, name)
        with np.errstate(over="ignore", invalid="ignore"):
            found = values.astype(np.float32)
        flat = found.reshape(self.rows, math.prod(shape))
        fills = self._fills(fill)
        if not fills:
            faulty &= ~missing
        self._fault(
            "array of another shape",
            faulty,
            name,
            f"arrays of shape {list(shape)}",
            remedy=" All examples must have the same shape.",
        )
        self._fill(name, flat, missing, absent.reshape(flat.shape), fill=fill)
        flat[faulty if fills else faulty | missing] = 0
        self._check_finite(name, flat)
        return found

    def _without_missing(self, name: str) -> Array:
        """Return a column of numbers; missing values become 0 and are added to the faults."""
        values, missing = numbers(column_of(self._table, name), name)
        if missing is None:
            return values
        self._absent(name, missing)
        return np.where(missing, 0, values)

    def _fills(self, fill: bool) -> bool:
        return fill and (isinstance(self._missing, int | float) or bool(self._fill_by))

    def _fill(self, name: str, target: Array, rows: Mask, absent: Mask, *, fill: bool) -> None:
        """Fill the `absent` values; without a fill value use 0 and add `rows` to the faults."""
        if not self._fills(fill):
            self._absent(name, rows)
            target[absent] = 0
        elif not self._fill_by:
            target[absent] = self._missing
        elif target.ndim == 1:
            target[absent] = self._fill_by[name]
        else:
            numbers = [self._fill_by[f"{name}[{index}]"] for index in range(target.shape[1])]
            target[absent] = np.broadcast_to(numbers, target.shape)[absent]

    def _check_finite(self, name: str, values: Array) -> None:
        """Add rows of (n, width) values with infinite numbers to the faults."""
        rule = "finite numbers within the range of float32"
        self._fault("not a finite number", np.any(np.isinf(values), axis=1), name, rule)

    def _absent(self, name: str, mask: Mask) -> None:
        remedy = ""
        if self._missing is not None:
            remedy = (
                ' Leave such rows out (`missing="skip"`), or fill features in with the mean, the '
                'median or a number (`missing="median"`).'
            )
        is_wanted = self._missing == "skip"
        self._fault("missing value", mask, name, "a value", remedy=remedy, is_wanted=is_wanted)

    def _fault(
        self,
        reason: str,
        mask: Mask,
        name: str,
        rule: str,
        value: Callable[[int], Any] | None = None,
        *,
        remedy: str = "",
        is_wanted: bool = False,
    ) -> None:
        def message(row: int) -> str:
            shown = repr(self._value(name, row))[:80] if value is None else str(value(row))
            return f"column {name!r} must hold {rule}. Received: {shown}.{remedy}"

        if mask.any():
            rows = np.flatnonzero(mask)
            self.faults.append(
                Fault(reason=reason, rows=rows, message=message, is_wanted=is_wanted, column=name)
            )


def _are_finite(values: Array) -> bool:
    """Whether the sum is finite; False means that single values must be checked."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def unreadable(piece: Piece) -> str:
    """Return the reason under which an unreadable piece is counted."""
    return "unreadable file" if piece.is_whole else "unreadable part of a file"
