"""Sources of `join`: records, sequences and columns of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.data._table_schema import check_classes
from sparkwright.data.classes import Classes
from sparkwright.errors import ConfigurationError

Columns = str | int | Sequence[str | int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A table with a key, made by `records` or `sequences`."""

    where: Any
    key: Any
    order: Any = ()
    is_sequence: bool = False
    optional: bool = False
    header: bool
    delimiter: str

    def __post_init__(self) -> None:
        if not (isinstance(self.where, str) or hasattr(self.where, "mapInArrow")):
            raise ConfigurationError(
                "a source must be a Spark DataFrame or the URL of CSV files. Received: a "
                f"{type(self.where).__name__}. Convert a pandas DataFrame with "
                "`spark.createDataFrame`."
            )


def records(
    where: Any,
    *,
    key: Columns,
    optional: bool = False,
    header: bool = True,
    delimiter: str = ",",
) -> Source:
    """Describe a table with one row per key, for `join`.

    Args:
        where: a Spark DataFrame, or the URL (a file, folder or pattern) of CSV files, which Spark
            reads.
        key: the key column or columns: names, or indices from 0, or from -1 at the end.
        optional: whether keys of other sources that are missing here get zeros; default False: see
            `missing` of `join`.
        header: whether CSV files have a header line; default True. Otherwise columns are named
            `column_0`, `column_1`, …
        delimiter: delimiter of CSV files; default a comma.

    Raises:
        ConfigurationError: if `where` is neither.
    """
    return Source(where=where, key=key, optional=optional, header=header, delimiter=delimiter)


def sequences(
    where: Any,
    *,
    key: Columns,
    order: Columns,
    optional: bool = False,
    header: bool = True,
    delimiter: str = ",",
) -> Source:
    """Describe a table with a sequence of rows (steps) per key, for `join`.

    Args:
        where: as for `records`.
        key: as for `records`.
        order: the column or columns that sort the steps, as `key`. In CSV files: numbers, dates or
            times; text of a DataFrame sorts as text.
        optional: whether keys of other sources that are missing here get a sequence without steps,
            whose mask is 0; default False: see `missing` of `join`.
        header: as for `records`.
        delimiter: as for `records`.

    Raises:
        ConfigurationError: if `where` is neither.
    """
    form: dict[str, Any] = {"optional": optional, "header": header, "delimiter": delimiter}
    return Source(where=where, key=key, order=order, is_sequence=True, **form)


@dataclass(frozen=True, slots=True)
class ClassColumn:
    """A column of classes, by name or index, with its classes."""

    column: str | int
    classes: Classes = "infer"

    def __post_init__(self) -> None:
        """Validate the classes."""
        check_classes(self.classes)


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
    """A column of classes, encoded as int32 class numbers from 0; attributes as for `OneHot`."""

    __slots__ = ()
