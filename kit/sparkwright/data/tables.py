"""Arrow tables made DataSets by a schema, whole columns at a time; rows that do not fit, told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._arrow_columns import Mask, arrays, column_of, numbers, texts
from sparkwright.data._classes import one_hot
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._pieces import SkipLog
from sparkwright.data._skipped import Skipped
from sparkwright.data._table_schema import Missing, TableSchema, listed

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


# Column, row -> the value as it stands in the file, for messages.
Shown = Callable[[str, int], Any]
# A table and what messages show of it -> anything that has `take`, and what is wrong with its rows.
Convert = Callable[[Any, Shown | None], tuple[Any, list[Fault]]]


def to_dataset(
    table: Any, shown: Shown | None = None, *, schema: TableSchema
) -> tuple[DataSet, list[Fault]]:
    """A DataSet of all rows of a table; those that faults name hold nothing of use.

    Args:
        table: `pyarrow.Table` or `RecordBatch` with at least the columns that the schema uses.
        shown: the values as messages should show them; default None: as in the table.
        schema: what to make of it.

    Raises:
        DataError: if a column has a type that cannot be what the schema says.
    """
    columns = Columns(table, schema.missing, shown)
    features = {name: _input(columns, names, schema) for name, names in schema.features.items()}
    labels = {output: _output(columns, output, schema) for output in schema.labels}
    weights = None if schema.weights is None else columns.weights(schema.weights)
    return DataSet(features, labels, weights=weights), columns.faults


def _input(columns: "Columns", names: tuple[str, ...], schema: TableSchema) -> Array:
    if len(names) == 1 and len(schema.shapes.get(names[0], ())) > 1:
        return columns.arrays(names[0], schema.shapes[names[0]], fill=True)
    if not any(name in schema.categories or name in schema.shapes for name in names):
        return columns.numbers(names, fill=True)
    widths = [schema.width(name) for name in names]
    matrix = np.empty((columns.rows, sum(widths)), np.float32)
    at = 0
    for name, width in zip(names, widths, strict=True):
        target = matrix[:, at : at + width]
        if name in schema.categories:
            codes = columns.codes(name, schema.categories[name], "category")
            target[...] = 0
            target[np.arange(columns.rows), codes] = 1
        elif name in schema.shapes:
            found = columns.arrays(name, schema.shapes[name], fill=True)
            target[...] = found.reshape(columns.rows, width)
        else:
            columns.fill_numbers(name, matrix[:, at], fill=True)
        at += width
    columns.check_finite(names, widths, matrix)
    return matrix


def _output(columns: "Columns", output: str, schema: TableSchema) -> Array:
    names = schema.labels[output]
    if output not in schema.classes:
        if len(names) == 1 and names[0] in schema.shapes:
            return columns.arrays(names[0], schema.shapes[names[0]], fill=False)
        matrix = columns.numbers(names)
        return matrix[:, 0] if len(names) == 1 else matrix
    classes = schema.classes[output]
    codes = [columns.classes(name, classes) for name in names]
    if schema.one_hot:
        return one_hot(codes[0], classes if isinstance(classes, int) else len(classes))
    return codes[0] if len(codes) == 1 else np.stack(codes, axis=1)


class Columns:
    """The columns of one table as arrays; `faults` collects what is wrong with them."""

    def __init__(
        self, table: Any, missing: Missing | None = None, shown: Shown | None = None
    ) -> None:
        """Look at nothing yet.

        Args:
            table: of Arrow.
            missing: what becomes of missing values, as in a `TableSchema`; default None: as
                "error", where users have no choice.
            shown: the values as messages should show them; default None: as in the table.
        """
        self._table, self._instead = table, missing
        self._value = shown or (lambda name, row: column_of(table, name)[row].as_py())
        self._numbers: dict[str, tuple[Array, Mask | None]] = {}
        self.rows = int(table.num_rows)
        self.faults: list[Fault] = []

    def numbers(self, names: tuple[str, ...], *, fill: bool = False) -> Array:
        """(n, columns) float32; with `fill`, a number may stand in for missing values."""
        matrix = np.empty((self.rows, len(names)), np.float32)
        columns = [self._column(name) for name in names]
        if all(str(column.type) == "double" and not column.null_count for column in columns):
            with np.errstate(over="ignore", invalid="ignore"):
                for index, column in enumerate(columns):
                    matrix[:, index] = column.to_numpy()
                # The sum is finite if all are, unless they are huge: then look closer.
                if np.isfinite(matrix.sum()):
                    return matrix
        for index, name in enumerate(names):
            self.fill_numbers(name, matrix[:, index], fill=fill)
        self.check_finite(names, [1] * len(names), matrix)
        return matrix

    def weights(self, name: str) -> Array:
        """(n,) float32 of at least 0."""
        found = self.numbers((name,))[:, 0]
        self._fault(
            "weight below 0",
            found < 0,
            lambda row: (
                f"column {name!r} must hold weights of at least 0. Received: {found[row]!s}."
            ),
        )
        return found

    def integers(self, name: str) -> NDArray[np.int32]:
        """(n,) int32 without missing values."""
        values, missing = self._number(name)
        if missing is not None:
            self._missing(name, missing)
            values = np.where(missing, 0, values)
        limits = np.iinfo(np.int32)
        fits = (values >= limits.min) & (values <= limits.max)
        self._fault(
            "integer out of range",
            ~fits,
            lambda row: (
                f"column {name!r} must hold 32-bit integers. Received: {self._shown(name, row)}."
            ),
        )
        return np.where(fits, values, 0).astype(np.int32)

    def classes(self, name: str, classes: int | tuple[str, ...]) -> NDArray[np.int32]:
        """(n,) numbers of classes, which are integers below a count, or names."""
        if not isinstance(classes, int):
            return self.codes(name, classes, "class")
        values, missing = self._number(name)
        if missing is not None:
            self._missing(name, missing)
            values = np.where(missing, 0, values)
        with np.errstate(invalid="ignore"):
            fits = (values >= 0) & (values < classes) & (values == np.floor(values))
        self._fault(
            "class out of range",
            ~fits,
            lambda row: (
                f"column {name!r} must hold integer classes from 0 to {classes - 1}. "
                f"Received: {self._shown(name, row)}. For other labels give their names: "
                '`classes=["…", …]` or `classes="infer"`; for regression, no `classes`.'
            ),
        )
        return np.where(fits, values, 0).astype(np.int32)

    def codes(self, name: str, values: tuple[str, ...], what: str) -> NDArray[np.int32]:
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

    def fill_numbers(self, name: str, target: Array, *, fill: bool) -> None:
        """Write a column of numbers; missing ones as NaN, or as what stands in for them."""
        values, missing = self._number(name)
        with np.errstate(over="ignore", invalid="ignore"):
            target[...] = values
        if missing is None:
            return
        stand_in = self._instead
        if fill and isinstance(stand_in, int | float):
            target[missing] = stand_in
        else:
            self._missing(name, missing)
            target[missing] = 0

    def check_finite(self, names: tuple[str, ...], widths: list[int], matrix: Array) -> None:
        """Note rows with an infinite number; `widths` columns of the matrix are of a name."""
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

    def _number(self, name: str) -> tuple[Array, Mask | None]:
        """A column as numbers, with a mask of the missing ones (which are NaN), if any."""
        if name not in self._numbers:
            self._numbers[name] = numbers(self._column(name), name)
        return self._numbers[name]

    def arrays(self, name: str, shape: tuple[int, ...], *, fill: bool) -> Array:
        """A column of arrays as (n, …) float32; missing values as `fill_numbers` has them."""
        values, faulty, missing, absent = arrays(self._column(name), shape, name)
        with np.errstate(over="ignore", invalid="ignore"):
            found = values.astype(np.float32)
        stand_in = self._instead
        if fill and isinstance(stand_in, int | float):
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
        flat = found.reshape(self.rows, -1)
        flat[faulty | missing] = 0
        self.check_finite((name,), [flat.shape[1]], flat)
        return found

    def _missing(self, name: str, mask: Mask) -> None:
        remedy = ""
        if self._instead is not None:
            remedy = ' Leave such rows out (`missing="skip"`), or give a number for features.'
        self._fault(
            "missing value",
            mask,
            lambda row: (
                f"column {name!r} must hold a value. Received: {self._shown(name, row)}.{remedy}"
            ),
            is_wanted=self._instead == "skip",
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
