"""Sources of `join`: records, sequences and columns of classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparkwright.data._column_choice import select_columns
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data.classes import Classes, check_classes
from sparkwright.errors import ConfigurationError

Columns = str | int | Sequence[str | int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A table with a key: one row per key, or one sequence of steps per key.

    Attributes:
        where: a Spark DataFrame, or the URL of CSV files.
        key: names or indices of the key columns.
        order: columns that sort the steps of a sequence; empty for records.
        form: dialect of the CSV files.
    """

    where: Any
    key: tuple[Any, ...]
    order: tuple[Any, ...] = ()
    form: CsvFormat = field(default_factory=CsvFormat)

    @property
    def is_sequence(self) -> bool:
        """Whether each key has a sequence of rows."""
        return bool(self.order)

    def of_columns(self, columns: Sequence[str], name: str) -> "Source":
        """Return a copy with column names instead of indices; `name` is used in messages.

        Raises:
            ConfigurationError: if a column does not exist.
        """
        key, order = (
            select_columns(columns, given, option=f"sources[{name!r}].{option}")
            for option, given in (("key", self.key), ("order", self.order))
        )
        return replace(self, key=key, order=order)


def records(where: Any, *, key: Columns, header: bool = True, delimiter: str = ",") -> Source:
    """Describe a table with one row per key, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files.
        key: the key column or columns: names, or indices from 0, or from -1 at the end.
        header: whether CSV files have a header line; default True. Otherwise columns are named
            `column_0`, `column_1`, …
        delimiter: delimiter of CSV files; default a comma.

    Raises:
        ConfigurationError: if an option is invalid.
    """
    return _source(where, header, delimiter, key=_names("key", key))


def sequences(
    where: Any,
    *,
    key: Columns,
    order: Columns,
    header: bool = True,
    delimiter: str = ",",
) -> Source:
    """Describe a table with a sequence of rows (steps) per key, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files.
        key: the key column or columns: names, or indices from 0, or from -1 at the end.
        order: the column or columns that sort the steps, as `key`; equal steps keep their reading
            order. In CSV files: numbers, dates or times; text of a DataFrame sorts as text.
        header: whether CSV files have a header line; default True.
        delimiter: delimiter of CSV files; default a comma.

    Raises:
        ConfigurationError: if an option is invalid.
    """
    names = {"key": _names("key", key), "order": _names("order", order)}
    return _source(where, header, delimiter, **names)


@dataclass(frozen=True, slots=True)
class ClassColumn:
    """A column of classes, by name or index, with its classes."""

    column: str | int
    classes: Classes = "infer"

    def __post_init__(self) -> None:
        """Validate the options."""
        if isinstance(self.column, bool) or not isinstance(self.column, str | int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"`{type(self).__name__}` takes the name or the index of one column. "
                f"Received: column={self.column!r}."
            )
        check_classes("classes", self.classes)


class OneHot(ClassColumn):
    """A column of classes, one-hot encoded.

    Attributes:
        column: name or index of the column.
        classes: number of classes (the column then holds class numbers from 0), list of class
            names, or "infer" (default): the sorted values of the column.

    Example:
        >>> OneHot("segment", ["basic", "gold"])
        OneHot(column='segment', classes=['basic', 'gold'])
    """

    __slots__ = ()


class ClassIndex(ClassColumn):
    """A column of classes, encoded as int32 class numbers from 0.

    Attributes:
        column: name or index of the column.
        classes: as for `OneHot`.
    """

    __slots__ = ()


def _names(option: str, value: Any) -> tuple[str | int, ...]:
    alone = isinstance(value, str | int)
    names: tuple[Any, ...] = (value,) if alone else tuple(value or ())
    if not names or not all(n if isinstance(n, str) else type(n) is int for n in names):
        raise ConfigurationError(
            f"`{option}` must be the name or index of a column, or a list of these. "
            f"Received: {option}={value!r}."
        )
    return names


def _source(where: Any, header: Any, delimiter: Any, **names: tuple[str | int, ...]) -> Source:
    if not (isinstance(where, str) or hasattr(where, "mapInArrow")):
        raise ConfigurationError(
            "a source must be a Spark DataFrame or the URL of CSV files. "
            f"Received: a {type(where).__name__}. Convert a pandas DataFrame with "
            "`spark.createDataFrame`."
        )
    form = CsvFormat(header=header, delimiter=delimiter)
    return Source(where=where, form=form, **names)
