"""Resolve the user's choice of columns (names, positions, ranges, classes) to a schema."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast, get_args

import numpy as np

from sparkwright.data._table_schema import Missing, Statistic, TableSchema, check_missing
from sparkwright.data.wording import listed
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_flag

# A name, a position, a range of either, or a sequence of these.
Columns = str | int | slice | range | Sequence["str | int | slice | range"]
Classes = int | Sequence[Any] | Literal["infer"] | None
# In CSV files; in Parquet files by pandas; in DataFrames that pandas read from CSV files.
UNNAMED = re.compile(r"|__index_level_\d+__|Unnamed: \d+")


def select_columns(columns: Sequence[str], choice: Any, *, option: str) -> tuple[str, ...]:
    """Return the names of the selected columns, in the order of `choice`."""
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
        if part in positions:
            return [part]
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


def column_groups(
    columns: Sequence[str], choice: Any, *, option: str
) -> dict[str, tuple[str, ...]]:
    """Return input or output name -> its columns; without names, the only one is `option`."""
    if isinstance(choice, Mapping):
        named = cast(Mapping[Any, Any], choice)
        return {str(n): select_columns(columns, c, option=option) for n, c in named.items()}
    return {option: select_columns(columns, choice, option=option)}


def schema_of(
    columns: Sequence[str],
    values: Callable[[tuple[str, ...]], Mapping[str, Iterable[str]]],
    shapes: Callable[[tuple[str, ...]], Mapping[str, tuple[int, ...]]],
    *,
    features: Columns | Mapping[str, Columns] | None = None,
    labels: Columns | Mapping[str, Columns] | None = None,
    classes: Classes | Mapping[str, Classes] = None,
    one_hot: bool = False,
    categories: Mapping[str, Any] | None = None,
    text: Columns = (),
    weights: str | int | None = None,
    missing: Missing = "error",
) -> TableSchema:
    """Return the schema of a table, given the column options of `from_csv`.

    `shapes` takes the used columns, `values` those with "infer"; `shapes` may raise and runs first.
    """
    check_flag("one_hot", one_hot)
    check_missing(missing)
    if categories is not None and not isinstance(categories, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            '`categories` must be a dict, such as {"color": "infer"} or {"color": ["red", '
            f'"blue"]}}. Received: categories={categories!r}.'
        )
    if classes is not None and labels is None:
        raise ConfigurationError(
            "`classes` needs `labels`, the columns of the classes. "
            f"Received: classes={classes!r}, labels=None."
        )
    outputs = {} if labels is None else column_groups(columns, labels, option="labels")
    weight = None
    if weights is not None:
        weight = select_columns(columns, [weights], option="weights")[0]
    if features is None:
        taken = {weight}.union(*outputs.values())
        inputs = {"features": tuple(name for name in columns if name not in taken)}
        _refuse_unnamed(inputs["features"])
    else:
        inputs = column_groups(columns, features, option="features")
    known = TableSchema(columns=tuple(columns), features=inputs, labels=outputs, weights=weight)
    found_shapes = shapes(known.used)
    given: Any = classes if isinstance(classes, Mapping) else dict.fromkeys(outputs, classes)
    kinds = {
        select_columns(columns, [name], option="categories")[0]: kind
        for name, kind in (categories or {}).items()
    }
    inferred = [n for o, kind in given.items() if _is_infer(kind) for n in outputs.get(o, ())]
    inferred += [name for name, kind in kinds.items() if _is_infer(kind)]
    found = values(tuple(dict.fromkeys(inferred))) if inferred else {}
    names = {
        output: _inferred(outputs.get(output, ()), found) if _is_infer(kind) else _fixed(kind)
        for output, kind in given.items()
    }
    return replace(
        known,
        classes={output: kind for output, kind in names.items() if kind is not None},
        one_hot=one_hot,
        categories={
            name: sort_values(found[name]) if _is_infer(kind) else _fixed(kind)
            for name, kind in kinds.items()
        },
        text=select_columns(columns, text, option="text"),
        shapes={name: shape for name, shape in found_shapes.items() if name in known.used},
        # Values to be filled with a statistic are NaN at first.
        missing=math.nan if missing in get_args(Statistic) else missing,
    )


def _refuse_unnamed(names: Sequence[str]) -> None:
    if unnamed := [name for name in names if UNNAMED.fullmatch(name)]:
        named = [name for name in names if name not in unnamed]
        raise ConfigurationError(
            "a column without a name must be selected to be a feature: it may be the index of a "
            "pandas DataFrame, or come from a delimiter at the end of each line. Received: "
            f"{listed(unnamed)} beside {listed(named)}. Select columns: `features=[…]`."
        )


# Name of each column option -> its default.
COLUMN_OPTIONS = {
    name: parameter.default
    for name, parameter in inspect.signature(schema_of).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
}


def sort_values(values: Iterable[str]) -> tuple[str, ...]:
    """Sort as numbers if all values are finite numbers, otherwise as text."""
    try:
        numbers = {value: float(value) for value in values}
    except ValueError:
        return tuple(sorted(values))
    # NaN cannot be sorted.
    if not all(map(math.isfinite, numbers.values())):
        return tuple(sorted(values))
    return tuple(sorted(values, key=lambda value: (numbers[value], value)))


def _inferred(names: Sequence[str], found: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return sorted classes; raise DataError if they look like regression targets."""
    classes = sort_values({value for name in names for value in found.get(name, ())})
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
