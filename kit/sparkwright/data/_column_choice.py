"""Resolve the user's choice of columns (names, positions, ranges, classes) to a schema."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np

from sparkwright.data._table_schema import Missing, Statistic, TableSchema, check_missing, listed
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_flag

# A name, a position, a range of either, or a sequence of these.
Columns = str | int | slice | range | Sequence["str | int | slice | range"]
Classes = int | Sequence[Any] | Literal["infer"] | None


def select_columns(columns: Sequence[str], choice: Any, *, option: str) -> tuple[str, ...]:
    """Return the names of the selected columns, in the order of `choice`.

    Args:
        columns: names of all columns.
        choice: a name; a position, from the end if negative; a range such as `range(2, 5)`,
            `slice(2, 5)` (without 5) or `slice("a", "c")` (with "c"); or a sequence of these.
        option: name of the option in messages.

    Raises:
        ConfigurationError: if a column does not exist, or is selected twice.

    Example:
        >>> select_columns(["a", "b", "c", "d"], [slice("b", "c"), 0], option="features")
        ('b', 'c', 'a')
    """
    positions = {name: index for index, name in enumerate(columns)}
    parts = choice if isinstance(choice, list | tuple | np.ndarray) else [choice]
    found = [n for part in cast(Sequence[Any], parts) for n in _selected(positions, part, option)]
    repeated = [name for name, count in Counter(found).items() if count > 1]
    if repeated:
        raise ConfigurationError(
            f"`{option}` must select each column once. Received: {option}={choice!r}, with "
            f"{listed(repeated)} more than once."
        )
    return tuple(found)


def _selected(positions: Mapping[str, int], part: Any, option: str) -> list[str]:
    if isinstance(part, str):
        name = part if part in positions else current_name(part)
        if name in positions:
            return [name]
        received = f"{part!r}, of the columns {listed(positions)}"
    elif isinstance(part, int | np.integer) and not isinstance(part, bool):
        if -len(positions) <= part < len(positions):
            return [list(positions)[int(part)]]
        received = f"{part}, of {len(positions)} columns"
    elif isinstance(part, range):
        return [name for index in part for name in _selected(positions, index, option)]
    elif isinstance(part, slice):
        return _sliced(positions, part, option)
    else:
        raise ConfigurationError(
            f"`{option}` must be names, positions or ranges of columns. "
            f"Received: {option}={part!r}."
        )
    raise ConfigurationError(f"`{option}` must select existing columns. Received: {received}.")


def current_name(name: str) -> str:
    """Convert a headerless column's name of earlier versions, such as `f3` or `_c3`.

    Example:
        >>> current_name("f3"), current_name("age")
        ('column_3', 'age')
    """
    return re.sub(r"^(?:f|_c)(\d+)$", r"column_\1", name)


def _sliced(positions: Mapping[str, int], part: slice, option: str) -> list[str]:
    first, last = (
        positions[_selected(positions, end, option)[0]] + after if isinstance(end, str) else end
        for end, after in ((part.start, 0), (part.stop, 1))
    )
    try:
        return list(positions)[first : last : part.step]
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"a range of `{option}` must run from a name or position to another. "
            f"Received: {part!r}."
        ) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnChoice:
    """The column options of `from_csv`; resolved to a `TableSchema` by a table's columns."""

    features: Columns | Mapping[str, Columns] | None = None
    labels: Columns | Mapping[str, Columns] | None = None
    classes: Classes | Mapping[str, Classes] = None
    one_hot: bool = False
    categories: Mapping[str, Any] | None = field(default=None)
    text: Columns = ()
    weights: str | int | None = None
    missing: Missing = "error"

    def __post_init__(self) -> None:
        """Validate the options that do not depend on the table's columns."""
        check_flag("one_hot", self.one_hot)
        if self.categories is not None and not isinstance(self.categories, Mapping):
            raise ConfigurationError(
                '`categories` must be a dict, such as {"color": "infer"} or {"color": ["red", '
                f'"blue"]}}. Received: categories={self.categories!r}.'
            )
        if self.classes is not None and self.labels is None:
            raise ConfigurationError(
                "`classes` needs `labels`, the columns of the classes. "
                f"Received: classes={self.classes!r}, labels=None."
            )
        check_missing(self.missing)

    def to_infer(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns whose distinct values the schema needs."""
        labels = self._labels(columns)
        found = [n for o, c in self._classes(labels) if _is_infer(c) for n in labels.get(o, ())]
        found += [name for name, values in self._categories(columns) if _is_infer(values)]
        return tuple(dict.fromkeys(found))

    def inputs(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return input name -> its columns."""
        return self._features(columns, self._labels(columns), self._weights(columns))

    def used(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of features, labels and weights, each once."""
        labels, weights = self._labels(columns), self._weights(columns)
        groups = [*self.inputs(columns).values(), *labels.values()]
        names = [name for group in groups for name in group]
        return tuple(dict.fromkeys(names + ([] if weights is None else [weights])))

    def schema(
        self,
        columns: Sequence[str],
        *,
        values: Mapping[str, Iterable[str]],
        shapes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> TableSchema:
        """Return a table's schema, given the values of the `to_infer` columns and array shapes."""
        labels, weights = self._labels(columns), self._weights(columns)
        classes: dict[str, Any] = {}
        for output, given in self._classes(labels):
            names = labels.get(output, ())
            found = {value for name in names for value in values.get(name, ())}
            fixed = _inferred(found, names) if _is_infer(given) else _fixed(given)
            if fixed is not None:
                classes[output] = fixed
        categories: dict[str, Any] = {
            name: sort_values(values[name]) if _is_infer(given) else _fixed(given)
            for name, given in self._categories(columns)
        }
        used = self.used(columns)
        return TableSchema(
            columns=tuple(columns),
            features=self.inputs(columns),
            labels=labels,
            classes=classes,
            one_hot=self.one_hot,
            categories=categories,
            text=select_columns(columns, self.text, option="text"),
            shapes={name: shape for name, shape in (shapes or {}).items() if name in used},
            weights=weights,
            # Values to be filled with a statistic are NaN at first.
            missing=math.nan if self.missing in get_args(Statistic) else self.missing,
        )

    def _labels(self, columns: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {} if self.labels is None else _groups(columns, self.labels, option="labels")

    def _features(
        self, columns: Sequence[str], labels: Mapping[str, tuple[str, ...]], weights: str | None
    ) -> dict[str, tuple[str, ...]]:
        if self.features is not None:
            return _groups(columns, self.features, option="features")
        taken = {name for group in labels.values() for name in group} | {weights}
        return {"features": tuple(name for name in columns if name not in taken)}

    def _weights(self, columns: Sequence[str]) -> str | None:
        if self.weights is None:
            return None
        return select_columns(columns, [self.weights], option="weights")[0]

    def _classes(self, labels: Iterable[str]) -> Iterable[tuple[str, Any]]:
        classes: Any = self.classes
        return classes.items() if isinstance(classes, Mapping) else ((o, classes) for o in labels)

    def _categories(self, columns: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for name, values in (self.categories or {}).items():
            yield select_columns(columns, [name], option="categories")[0], values


def sort_values(values: Iterable[str]) -> tuple[str, ...]:
    """Sort as numbers if all values are finite numbers, otherwise as text.

    Example:
        >>> sort_values({"10", "9"}), sort_values({"10", "9", "x"})
        (('9', '10'), ('10', '9', 'x'))
    """
    try:
        numbers = {value: float(value) for value in values}
    except ValueError:
        return tuple(sorted(values))
    # NaN cannot be sorted.
    if not all(map(math.isfinite, numbers.values())):
        return tuple(sorted(values))
    return tuple(sorted(values, key=lambda value: (numbers[value], value)))


def _inferred(found: set[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return sorted classes; raise DataError if they look like regression targets."""
    classes = sort_values(found)
    try:
        fractions = [text for text in classes if not float(text).is_integer()]
    except (ValueError, OverflowError):
        return classes
    if fractions:
        raise DataError(
            'labels with `classes="infer"` must be text or whole numbers. Received: '
            f"{fractions[0]} in {listed(names)}. For regression, omit `classes`; for class names, "
            "list them: `classes=[…]`."
        )
    return classes


def _is_infer(values: Any) -> bool:
    return isinstance(values, str) and values == "infer"


def _fixed(values: Any) -> Any:
    """Return a sequence as a tuple of text, any other value unchanged for the schema to check."""
    several = isinstance(values, list | tuple | range | np.ndarray)
    return tuple(str(value) for value in cast(Sequence[Any], values)) if several else values


def _groups(columns: Sequence[str], choice: Any, *, option: str) -> dict[str, tuple[str, ...]]:
    if isinstance(choice, Mapping):
        named = cast(Mapping[Any, Any], choice)
        return {str(n): select_columns(columns, c, option=option) for n, c in named.items()}
    return {option: select_columns(columns, choice, option=option)}
