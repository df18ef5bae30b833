"""Arrow tables made DataSets by a schema, whole columns at a time; rows that do not fit, told."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._pieces import SkipLog
from sparkwright.data._skipped import Skipped
from sparkwright.errors import DataError

from ._table_schema import TableSchema, listed

Mask = NDArray[np.bool_]
_NAMED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Rows that do not fit for one reason.

    Attributes:
        reason: a few words.
        rows: their indices.
        message: index -> rule, what was received, remedy.
        is_wanted: left out on request (`missing="skip"`), so never an error.
    """

    reason: str
    rows: NDArray[np.int64]
    message: Callable[[int], str]
    is_wanted: bool = False


def to_dataset(
    table: Any, shown: Callable[[str, int], Any] | None = None, *, schema: TableSchema
) -> tuple[DataSet, list[Fault]]:
    """A DataSet of all rows of a table; those that faults name hold nothing of use.

    Args:
        table: `pyarrow.Table` or `RecordBatch` with at least the columns that the schema uses.
        shown: column, row -> the value as messages should show it; default None: as in the table.
        schema: what to make of it.

    Raises:
        DataError: if a column has a type that cannot be what the schema says.
    """
    columns = _Columns(table, schema, shown)
    features = {name: columns.input(names) for name, names in schema.features.items()}
    labels = {output: columns.output(output) for output in schema.labels}
    weights = None if schema.weights is None else columns.weights(schema.weights)
    return DataSet(features, labels, weights=weights), columns.faults


class _Columns:
    """The columns of one table; collects what is wrong with them."""

    def __init__(
        self, table: Any, schema: TableSchema, shown: Callable[[str, int], Any] | None
    ) -> None:
        self._table, self._schema = table, schema
        self._value = shown or (lambda name, row: column_of(table, name)[row].as_py())
        self._rows = int(table.num_rows)
        self._numbers: dict[str, tuple[Array, Mask | None]] = {}
        self.faults: list[Fault] = []

    def input(self, names: tuple[str, ...]) -> Array:
        schema = self._schema
        if len(names) == 1 and len(schema.shapes.get(names[0], ())) > 1:
            return self._arrays(names[0], fill=True)
        widths = [schema.width(name) for name in names]
        matrix = np.empty((self._rows, sum(widths)), np.float32)
        at = 0
        for name, width in zip(names, widths, strict=True):
            if name in schema.categories:
                self._one_hot(name, matrix[:, at : at + width])
            elif name in schema.shapes:
                arrays_of = self._arrays(name, fill=True)
                matrix[:, at : at + width] = arrays_of.reshape(self._rows, width)
            else:
                self._fill_numbers(name, matrix[:, at], fill=True)
            at += width
        self._check_finite(names, widths, matrix)
        return matrix

    def output(self, output: str) -> Array:
        schema = self._schema
        names = schema.labels[output]
        if output not in schema.classes:
            if len(names) == 1 and names[0] in schema.shapes:
                return self._arrays(names[0], fill=False)
            matrix = np.empty((self._rows, len(names)), np.float32)
            for index, name in enumerate(names):
                self._fill_numbers(name, matrix[:, index], fill=False)
            self._check_finite(names, [1] * len(names), matrix)
            return matrix[:, 0] if len(names) == 1 else matrix
        classes = schema.classes[output]
        if isinstance(classes, int):
            codes = [self._class_numbers(name, classes) for name in names]
        else:
            codes = [self._codes(name, classes, "class") for name in names]
        if not schema.one_hot:
            return codes[0] if len(codes) == 1 else np.stack(codes, axis=1)
        count = classes if isinstance(classes, int) else len(classes)
        hot = np.zeros((self._rows, count), np.float32)
        hot[np.arange(self._rows), np.maximum(codes[0], 0)] = 1
        return hot

    def weights(self, name: str) -> Array:
        found = np.empty(self._rows, np.float32)
        self._fill_numbers(name, found, fill=False)
        self._check_finite((name,), [1], found[:, None])
        self._fault(
            "weight below 0",
            found < 0,
            lambda row: (
                f"column {name!r} must hold weights of at least 0. Received: {found[row]!s}."
            ),
        )
        return found

    def _fill_numbers(self, name: str, target: Array, *, fill: bool) -> None:
        """Write a column of numbers; missing ones as NaN, or as what stands in for them."""
        values, missing = self._number(name)
        with np.errstate(over="ignore", invalid="ignore"):
            target[...] = values
        if missing is None:
            return
        stand_in = self._schema.missing
        if fill and not isinstance(stand_in, str):
            target[missing] = stand_in
        else:
            self._missing(name, missing)
            target[missing] = 0

    def _check_finite(self, names: tuple[str, ...], widths: list[int], matrix: Array) -> None:
        # The sum is finite if all are, unless they are huge: one pass less in nearly all cases.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(matrix.sum()):
                return
        bad = np.isinf(matrix)
        if not bad.any():
            return
        owners = np.repeat(np.arange(len(names)), widths)
        for index in sorted({int(owners[column]) for column in np.flatnonzero(bad.any(axis=0))}):
            name = names[index]
            self._fault(
                "not a finite number",
                np.any(bad[:, owners == index], axis=1),
                lambda row, name=name: (
                    f"column {name!r} must hold finite numbers within the range of float32. "
                    f"Received: {self._shown(name, row)}."
                ),
            )

    def _class_numbers(self, name: str, count: int) -> NDArray[np.int32]:
        values, missing = self._number(name)
        if missing is not None:
            self._missing(name, missing)
            values = np.where(missing, 0, values)
        with np.errstate(invalid="ignore"):
            fits = (values >= 0) & (values < count) & (values == np.floor(values))
        self._fault(
            "class out of range",
            ~fits,
            lambda row: (
                f"column {name!r} must hold integer classes from 0 to {count - 1}. "
                f"Received: {self._shown(name, row)}. For other labels give their names: "
                '`classes=["…", …]` or `classes="infer"`; for regression, no `classes`.'
            ),
        )
        return np.where(fits, values, 0).astype(np.int32)

    def _codes(self, name: str, values: tuple[str, ...], what: str) -> NDArray[np.int32]:
        """Index of each row's text among `values`; 0 where it is none of them."""
        encoded = texts(self._column(name), name)
        places = {value: index for index, value in enumerate(values)}
        known: list[str] = encoded.dictionary.to_pylist()
        table = np.array([places.get(value, -1) for value in known] + [-2], np.int32)
        indices = encoded.indices
        if indices.null_count:
            indices = indices.fill_null(len(known))
        codes = table[indices.to_numpy(zero_copy_only=False)]
        if (codes == -2).any():
            self._missing(name, codes == -2)
        option = "classes" if what == "class" else "categories"
        self._fault(
            f"unknown {what}",
            codes == -1,
            lambda row: (
                f"column {name!r} must hold one of {listed(values)}. "
                f"Received: {self._shown(name, row)}. Add it to `{option}`."
            ),
        )
        return np.maximum(codes, 0)

    def _one_hot(self, name: str, target: Array) -> None:
        codes = self._codes(name, self._schema.categories[name], "category")
        target[...] = 0
        target[np.arange(self._rows), codes] = 1

    def _number(self, name: str) -> tuple[Array, Mask | None]:
        """A column as numbers, with a mask of the missing ones (which are NaN), if any."""
        if name not in self._numbers:
            self._numbers[name] = numbers(self._column(name), name)
        return self._numbers[name]

    def _arrays(self, name: str, *, fill: bool) -> Array:
        """A column of arrays as (n, …) float32; missing values as `_fill_numbers` has them."""
        column, shape = self._column(name), self._schema.shapes[name]
        values, faulty, missing, absent = arrays(column, shape, name)
        with np.errstate(over="ignore", invalid="ignore"):
            found = values.astype(np.float32)
        stand_in = self._schema.missing
        if fill and not isinstance(stand_in, str):
            if missing.any():
                found[absent] = stand_in
                missing[:] = False
        else:
            faulty &= ~missing
        self._fault(
            "array of another shape",
            faulty,
            lambda row: (
                f"column {name!r} must hold arrays of shape {list(shape)}. "
                f"Received: {self._shown(name, row)}. Training needs one shape an example."
            ),
        )
        if missing.any():
            self._missing(name, missing)
        flat = found.reshape(self._rows, -1)
        flat[faulty | missing] = 0
        self._check_finite((name,), [flat.shape[1]], flat)
        return found

    def _missing(self, name: str, mask: Mask) -> None:
        wanted = self._schema.missing == "skip"
        self._fault(
            "missing value",
            mask,
            lambda row: (
                f"column {name!r} must hold a value. Received: {self._shown(name, row)}. "
                'Leave such rows out (`missing="skip"`), or give a number for missing features.'
            ),
            is_wanted=wanted,
        )

    def _fault(
        self, reason: str, mask: Mask, message: Callable[[int], str], *, is_wanted: bool = False
    ) -> None:
        rows = np.flatnonzero(mask)
        if rows.size:
            fault = Fault(reason=reason, rows=rows, message=message, is_wanted=is_wanted)
            self.faults.append(fault)

    def _column(self, name: str) -> Any:
        return column_of(self._table, name)

    def _shown(self, name: str, row: int) -> str:
        return repr(self._value(name, row))[:80]


def column_of(table: Any, name: str) -> Any:
    """One column as one `pyarrow.Array`."""
    import pyarrow as pa

    column = table.column(name)
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def numbers(column: Any, name: str) -> tuple[Array, Mask | None]:
    """A column as NumPy numbers, NaN where `missing` says that there is none.

    Raises:
        DataError: if it does not hold numbers.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        column = column.cast(pa.uint8() if pa.types.is_boolean(kind) else pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataError(
            f"column {name!r} must hold numbers. Received: the type {kind}. Columns of text go "
            "into `categories`, or into labels with `classes`."
        )
    missing = None
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        if not pa.types.is_floating(column.type):
            column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        empty = np.isnan(values)
        if empty.any():
            missing = empty
    return values, missing


def texts(column: Any, name: str) -> Any:
    """A column of text, or of integers or booleans as text, as a `pyarrow.DictionaryArray`.

    Raises:
        DataError: if it holds anything else.
    """
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if pa.types.is_dictionary(column.type) and is_text:
        return column
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        is_text = str(kind) == "string_view"
        if not (is_text or pa.types.is_null(kind)):
            raise DataError(
                f"column {name!r} must hold text, integers or truth values to be classes or "
                f"categories. Received: the type {kind}."
            )
    return column.cast(pa.string()).dictionary_encode()


def arrays(column: Any, shape: tuple[int, ...], name: str) -> tuple[Array, Mask, Mask, Mask]:
    """A column of lists or tensors as (n, …) numbers.

    Returns:
        The numbers, which rows have another shape, which rows lack some or all of their values,
        and (n, …) which values are missing where the shape is right.

    Raises:
        DataError: if the innermost values are no numbers.
    """
    import pyarrow as pa

    rows = len(column)
    nothing = column.is_null().to_numpy(zero_copy_only=False)
    missing = nothing.copy()
    faulty = np.zeros(rows, np.bool_)
    levels = shape
    if isinstance(column.type, pa.FixedShapeTensorType):
        if column.type.permutation not in (None, list(range(len(column.type.shape)))):
            raise DataError(
                f"column {name!r} must hold tensors in the order of their axes. Received: "
                f"permutation={column.type.permutation}."
            )
        faulty[:] = tuple(column.type.shape) != shape
        column, levels = column.storage, (math.prod(shape),)
    level = column
    owners = np.arange(rows)
    for length in levels:
        if pa.types.is_fixed_size_list(level.type):
            if level.type.list_size != length:
                faulty[owners] = True
            lengths = np.full(len(level), level.type.list_size, np.int64)
        else:
            lengths = level.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        wrong = (lengths != length) | level.is_null().to_numpy(zero_copy_only=False)
        faulty[owners[wrong]] = True
        if pa.types.is_fixed_size_list(level.type):
            inner = level.values.slice(level.offset * level.type.list_size, int(lengths.sum()))
        else:
            inner = level.flatten()
            lengths = np.where(level.is_null().to_numpy(zero_copy_only=False), 0, lengths)
        owners = np.repeat(owners, lengths)
        level = inner
    faulty &= ~nothing
    values, absent = numbers(level, name)
    if absent is not None:
        missing[owners[absent]] = True
    good = ~(faulty | nothing)
    gaps = np.zeros((rows, *shape), np.bool_)
    gaps[nothing] = True
    if absent is not None:
        gaps[good] = absent[good[owners]].reshape(int(good.sum()), *shape)
    if good.all():
        return values.reshape(gaps.shape), faulty, missing, gaps
    found = np.zeros(gaps.shape, values.dtype if values.dtype.kind == "f" else np.float32)
    found[good] = values[good[owners]].reshape(int(good.sum()), *shape)
    return found, faulty, missing, gaps


def report(
    faults: list[Fault], rows: int, where: Callable[[int], str], log: SkipLog
) -> Mask | None:
    """Tell the log of all faults, in the order of the rows; which rows are good, None if all.

    Args:
        faults: what is wrong.
        rows: how many there are.
        where: row -> file and line, or another place.
        log: raises, or counts.

    Raises:
        DataError: with `on_error="raise"`, for the first row that has a fault.
    """
    if not faults:
        return None
    # A row that is left out on request is no error, whatever else is wrong with it.
    faults = sorted(faults, key=lambda fault: not fault.is_wanted)
    first = np.full(rows, len(faults), np.int64)
    for index in reversed(range(len(faults))):
        first[faults[index].rows] = index
    bad = np.flatnonzero(first < len(faults))
    named = bad[: max(0, _NAMED - len(log.skipped.first))]
    if log.raises:
        errors = bad[[not faults[index].is_wanted for index in first[bad].tolist()]]
        named = errors[:1] if len(errors) else named
    for row in named.tolist():
        fault = faults[first[row]]
        _tell(fault, f"{where(row)}: {fault.message(row)}", 1, log)
    rest = first[bad[len(named) :]]
    for index in np.unique(rest).tolist():
        _tell(faults[index], faults[index].reason, int((rest == index).sum()), log)
    good = np.ones(rows, np.bool_)
    good[bad] = False
    return good


def _tell(fault: Fault, message: str, count: int, log: SkipLog) -> None:
    if fault.is_wanted:
        log.skipped = log.skipped + Skipped.of(fault.reason, message, count=count)
    else:
        log.skip(fault.reason, message, count=count)


def unreadable(*, is_whole: bool) -> str:
    """The reason under which something that cannot be read is counted."""
    return "unreadable file" if is_whole else "unreadable part of a file"


def distinct(table: Any, names: Iterable[str]) -> dict[str, set[str]]:
    """The different values of each column, as text; missing ones do not count."""
    found: dict[str, set[str]] = {}
    for name in names:
        encoded = texts(column_of(table, name), name)
        # A dictionary may hold values that no row has.
        used = encoded.dictionary.take(encoded.indices.unique().drop_null())
        found[name] = {value for value in used.to_pylist() if value is not None}
    return found
