"""What `join` puts together: sources of records and of sequences, columns that mean classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright.data._classes import Classes, check_classes
from sparkwright.data._csv_format import CsvFormat
from sparkwright.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A table with a key: one row a key, or the steps of one sequence a key.

    Attributes:
        where: a Spark DataFrame, or the URL of CSV files.
        key: its columns that say what belongs together.
        order: columns that sort the steps of a sequence; empty for records.
        form: how CSV files are written.
    """

    where: Any
    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    form: CsvFormat = field(default_factory=CsvFormat)

    @property
    def is_sequence(self) -> bool:
        """Whether a key has many rows, its steps."""
        return bool(self.order)


def records(
    where: Any, *, key: str | Sequence[str], header: bool = True, delimiter: str = ","
) -> Source:
    """A table with one row a key, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files.
        key: name of the column that says what belongs together, or several names.
        header: whether CSV files have a line with names; default True. Otherwise columns are
            `column_0`, `column_1`, …
        delimiter: between the fields of CSV files; default a comma.

    Raises:
        ConfigurationError: naming the option.
    """
    form = _form(where, header, delimiter)
    return Source(where=where, key=_names("key", key), form=form)


def sequences(
    where: Any,
    *,
    key: str | Sequence[str],
    order: str | Sequence[str],
    header: bool = True,
    delimiter: str = ",",
) -> Source:
    """A table with many rows a key, the steps of its sequence, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files.
        key: name of the column that says what belongs together, or several names.
        order: name of the column by which steps are sorted, or several. Steps that are alike in it
            stay in the order in which they are read. In CSV files: numbers, dates or times; a
            DataFrame's text sorts as text.
        header: whether CSV files have a line with names; default True.
        delimiter: between the fields of CSV files; default a comma.

    Raises:
        ConfigurationError: naming the option.
    """
    form = _form(where, header, delimiter)
    return Source(where=where, key=_names("key", key), order=_names("order", order), form=form)


@dataclass(frozen=True, slots=True)
class OneHot:
    """A column of classes as a vector of zeros with a one at the class.

    Attributes:
        column: its name, or its index.
        classes: how many (the column then holds numbers from 0), their names as they stand in the
            column, or "infer" (default): the values found, in order.

    Example:
        >>> OneHot("segment", ["basic", "gold"])
        OneHot(column='segment', classes=['basic', 'gold'])
    """

    column: str | int
    classes: Classes = "infer"

    def __post_init__(self) -> None:
        """Check the options."""
        _check_class_column("OneHot", self.column, self.classes)


@dataclass(frozen=True, slots=True)
class ClassIndex:
    """A column of classes as int32 numbers of the classes, from 0.

    Attributes:
        column: its name, or its index.
        classes: as for `OneHot`.
    """

    column: str | int
    classes: Classes = "infer"

    def __post_init__(self) -> None:
        """Check the options."""
        _check_class_column("ClassIndex", self.column, self.classes)


def _check_class_column(what: str, column: Any, classes: Any) -> None:
    if isinstance(column, bool) or not isinstance(column, str | int):
        raise ConfigurationError(
            f"`{what}` takes the name or the index of one column. Received: column={column!r}."
        )
    check_classes("classes", classes)


def _names(option: str, value: Any) -> tuple[str, ...]:
    names: tuple[Any, ...] = (value,) if isinstance(value, str) else tuple(value or ())
    if not names or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(
            f"`{option}` must be the name of a column, or several. Received: {option}={value!r}."
        )
    return names


def _form(where: Any, header: Any, delimiter: Any) -> CsvFormat:
    if not (isinstance(where, str) or hasattr(where, "mapInArrow")):
        raise ConfigurationError(
            "a source must be a Spark DataFrame or the URL of CSV files. "
            f"Received: a {type(where).__name__}. A pandas table becomes a DataFrame by "
            "`spark.createDataFrame`."
        )
    return CsvFormat(header=header, delimiter=delimiter)
