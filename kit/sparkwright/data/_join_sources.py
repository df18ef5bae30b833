"""What `join` puts together: sources of records and of sequences, columns that mean classes."""

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
    """A table with a key: one row a key, or the steps of one sequence a key.

    Attributes:
        where: a Spark DataFrame, or the URL of CSV files.
        key: its columns that say what belongs together: names, or indices.
        order: columns that sort the steps of a sequence; empty for records.
        form: how CSV files are written.
    """

    where: Any
    key: tuple[Any, ...]
    order: tuple[Any, ...] = ()
    form: CsvFormat = field(default_factory=CsvFormat)

    @property
    def is_sequence(self) -> bool:
        """Whether a key has many rows, its steps."""
        return bool(self.order)

    def of_columns(self, columns: Sequence[str], name: str) -> "Source":
        """This source, called `name`, with the names of its columns in place of their indices.

        Raises:
            ConfigurationError: if there is no such column.
        """
        key, order = (
            select_columns(columns, given, option=f"sources[{name!r}].{option}")
            for option, given in (("key", self.key), ("order", self.order))
        )
        return replace(self, key=key, order=order)


def records(where: Any, *, key: Columns, header: bool = True, delimiter: str = ",") -> Source:
    """A table with one row a key, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files.
        key: the column that says what belongs together, or several: names, or indices from 0, or
            from -1 at the end.
        header: whether CSV files have a line with names; default True. Otherwise columns are
            `column_0`, `column_1`, …
        delimiter: between the fields of CSV files; default a comma.

    Raises:
        ConfigurationError: naming the option.
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
    """A table with many rows a key, the steps of its sequence, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files.
        key: the column that says what belongs together, or several: names, or indices from 0, or
            from -1 at the end.
        order: the column by which steps are sorted, or several, likewise. Steps that are alike in
            it stay in the order in which they are read. In CSV files: numbers, dates or times; a
            DataFrame's text sorts as text.
        header: whether CSV files have a line with names; default True.
        delimiter: between the fields of CSV files; default a comma.

    Raises:
        ConfigurationError: naming the option.
    """
    names = {"key": _names("key", key), "order": _names("order", order)}
    return _source(where, header, delimiter, **names)


@dataclass(frozen=True, slots=True)
class ClassColumn:
    """A column of classes: its name or index, and which classes there are."""

    column: str | int
    classes: Classes = "infer"

    def __post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.column, bool) or not isinstance(self.column, str | int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"`{type(self).__name__}` takes the name or the index of one column. "
                f"Received: column={self.column!r}."
            )
        check_classes("classes", self.classes)


class OneHot(ClassColumn):
    """A column of classes as a vector of zeros with a one at the class.

    Attributes:
        column: its name, or its index.
        classes: how many (the column then holds numbers from 0), their names as they stand in the
            column, or "infer" (default): the values found, in order.

    Example:
        >>> OneHot("segment", ["basic", "gold"])
        OneHot(column='segment', classes=['basic', 'gold'])
    """

    __slots__ = ()


class ClassIndex(ClassColumn):
    """A column of classes as int32 numbers of the classes, from 0.

    Attributes:
        column: its name, or its index.
        classes: as for `OneHot`.
    """

    __slots__ = ()


def _names(option: str, value: Any) -> tuple[str | int, ...]:
    alone = isinstance(value, str | int)
    names: tuple[Any, ...] = (value,) if alone else tuple(value or ())
    if not names or not all(n if isinstance(n, str) else type(n) is int for n in names):
        raise ConfigurationError(
            f"`{option}` must be the name or the index of a column, or several. "
            f"Received: {option}={value!r}."
        )
    return names


def _source(where: Any, header: Any, delimiter: Any, **names: tuple[str | int, ...]) -> Source:
    if not (isinstance(where, str) or hasattr(where, "mapInArrow")):
        raise ConfigurationError(
            "a source must be a Spark DataFrame or the URL of CSV files. "
            f"Received: a {type(where).__name__}. A pandas table becomes a DataFrame by "
            "`spark.createDataFrame`."
        )
    form = CsvFormat(header=header, delimiter=delimiter)
    return Source(where=where, form=form, **names)
