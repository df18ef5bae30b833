"""What is wrong or odd in the columns of a table, each in a sentence that says where. Pure."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from sparkwright.data._sources._data_source import DataSource

from ._data_preview import ColumnLook, DataProblem, number_of

Place = Callable[[int], str]
_MANY_CLASSES = 100
_MANY_CATEGORIES = 200
_NAMED = 8
_error, _warning = DataProblem.error, DataProblem.warning


def column_problems(
    source: DataSource,
    columns: Sequence[ColumnLook],
    place: Place,
    *,
    values: Mapping[str, Sequence[str | None]] | None = None,
) -> list[DataProblem]:
    """What the columns that `source` uses show.

    Args:
        source: which columns are used for what.
        columns: what was seen of each.
        place: row -> file and line.
        values: of the columns, to find equal ones and labels that are no class; default None:
            equal ones are not looked for, and only the most frequent labels are.
    """
    known = {column.name: column for column in columns}
    found = _absent(source, known)
    label = known.get(source.label or "")
    features = feature_columns(source, columns)
    if label is not None and not features and not source.features:
        found.append(_error("There is no column left for the features."))
    for column in features:
        found += _feature_problems(source, column, place)
    if label is not None:
        texts = [text for text, _ in label.most_frequent]
        every = texts if values is None else values.get(label.name, texts)
        found += _label_problems(source, label, place, every)
    if values is not None:
        found += _equal_columns(features, label, values)
    return found


def feature_columns(source: DataSource, columns: Sequence[ColumnLook]) -> list[ColumnLook]:
    """The columns that become features: those that are named, or all but label and weights."""
    if source.features:
        return [column for column in columns if column.name in source.features]
    other = {source.label, source.options.get("weights")}
    return [column for column in columns if column.name not in other]


def label_problems(
    labels: Sequence[tuple[str, int]], *, unit: str, is_all: bool
) -> list[DataProblem]:
    """What the classes of a classification show: only one, or some that are rare.

    Args:
        labels: class -> how often, the most frequent first.
        unit: what one item is called.
        is_all: whether these are all items.
    """
    if len(labels) == 1:
        name, count = labels[0]
        sentence = (
            f"All {count:,} {unit}s that were looked at are of one class, {name!r}. "
            "A classification needs two at least."
        )
        if is_all:
            return [_error(sentence)]
        return [_warning(f"{sentence} If the data is sorted by class, others may follow.")]
    once = [name for name, count in labels if count == 1]
    if is_all and once:
        more = f" and {len(once) - 1} more occur" if len(once) > 1 else " occurs"
        return [_warning(f"The class {once[0]!r}{more} only once. It cannot be in every part.")]
    if labels and labels[0][1] > 20 * labels[-1][1]:
        most, least = labels[0], labels[-1]
        return [
            _warning(
                f"The class {most[0]!r} occurs {most[1] / least[1]:,.0f} times as often as "
                f"{least[0]!r}. Accuracy will say little; look at each class."
            )
        ]
    return []


def _absent(source: DataSource, known: Mapping[str, ColumnLook]) -> list[DataProblem]:
    there = ", ".join(list(known)[:_NAMED]) + (", …" if len(known) > _NAMED else "")
    wanted = [("The label", source.label), ("The weights", source.options.get("weights"))]
    wanted += [("The feature", name) for name in (*source.features, *source.categories)]
    return [
        _error(f"{what} {name!r} is none of the columns: {there}.", name)
        for what, name in dict.fromkeys(wanted)
        if name is not None and name not in known
    ]


def _feature_problems(
    source: DataSource, column: ColumnLook, place: Place
) -> Iterator[DataProblem]:
    name, is_category = column.name, column.name in source.categories
    text = _quoted(column.most_frequent[0][0]) if column.most_frequent else "''"
    if column.kind == "empty":
        yield _error(f"The column {name!r} holds no value. Leave it out.", name)
        return
    if column.has_decimal_commas:
        yield _error(_decimal_comma(column), name)
    elif is_category:
        if column.distinct > _MANY_CATEGORIES or column.distinct > max(20, column.count // 2):
            yield _warning(
                f"The category {name!r} has {column.distinct:,} different values in "
                f"{column.count:,} rows: is it a name or a number of the row? Leave it out.",
                name,
            )
    elif column.kind == "text":
        yield _error(
            f"The column {name!r} holds text, such as {text}. Make it a category, or leave it out.",
            name,
        )
    if not is_category:
        yield from _missing_numbers(source, column, place)
        yield from _wrong_numbers(column, place)
    if column.is_constant:
        yield _warning(
            f"The column {name!r} is always {text}. It says nothing; leave it out.", name
        )
    elif column.kind == "integer" and column.is_counting and column.count > 9:
        yield _warning(f"The column {name!r} only counts the rows. Leave it out.", name)


def _wrong_numbers(column: ColumnLook, place: Place) -> Iterator[DataProblem]:
    name = column.name
    if column.first_wrong is not None:
        row, text = column.first_wrong
        yield _error(
            f"The column {name!r} holds {_quoted(text)} in {place(row)}, which is no number"
            f"{_more(column.wrong, column)}. If it means that there is none, add it to the texts "
            "for a missing value.",
            name,
            can_skip=True,
        )
    if column.first_infinite is not None:
        yield _error(
            f"The column {name!r} holds an infinite number in {place(column.first_infinite)}"
            f"{_more(column.infinite, column)}. Training needs finite ones.",
            name,
            can_skip=True,
        )


def _missing_numbers(source: DataSource, column: ColumnLook, place: Place) -> Iterator[DataProblem]:
    if column.first_missing is None:
        return
    where = f"in {place(column.first_missing)}{_more(column.missing, column)}"
    sentence = f"The column {column.name!r} lacks a value {where}."
    missing = source.options.get("missing", "error")
    if missing == "error":
        remedy = " Choose what becomes of missing values: skip such rows, or fill in a number."
        yield _error(sentence + remedy, column.name, can_skip=True)
    elif missing == "skip":
        yield _warning(f"{sentence} Such rows are left out.", column.name)


def _label_problems(
    source: DataSource, label: ColumnLook, place: Place, texts: Sequence[str | None]
) -> Iterator[DataProblem]:
    name, is_number = label.name, source.task != "classification"
    if label.kind == "empty":
        yield _error(f"The label {name!r} holds no value.", name)
        return
    if label.has_decimal_commas:
        yield (_error if is_number else _warning)(_decimal_comma(label), name)
    elif is_number and label.kind == "text":
        text = _quoted(label.most_frequent[0][0])
        yield _error(
            f"The label {name!r} holds text, such as {text}. Choose the task classification.", name
        )
    elif is_number:
        yield from _wrong_numbers(label, place)
    if label.first_missing is not None:
        where = f"in {place(label.first_missing)}{_more(label.missing, label)}"
        sentence = f"The label {name!r} is missing {where}."
        if source.options.get("missing") == "skip":
            yield _warning(f"{sentence} Such rows are left out.", name)
        else:
            # A number that stands in is for features only.
            remedy = "Choose what becomes of missing values: skip such rows."
            yield _error(f"{sentence} {remedy}", name, can_skip=True)
    if is_number:
        return
    if label.distinct > _MANY_CLASSES or (label.kind == "number" and label.distinct > 20):
        yield _warning(
            f"The label {name!r} has {label.distinct:,} different values in {label.count:,} rows. "
            "Is it a number to predict? Choose the task regression.",
            name,
        )
    yield from _class_problems(source.classes, label, texts)


def _class_problems(
    classes: int | str | tuple[str, ...], label: ColumnLook, texts: Sequence[str | None]
) -> Iterator[DataProblem]:
    if isinstance(classes, int):
        low, high = label.minimum, label.maximum
        fits = label.kind == "integer" and not label.wrong and low is not None and high is not None
        if not fits or low < 0 or high >= classes:  # pyright: ignore[reportOptionalOperand]
            yield _error(
                f"The label {label.name!r} must hold whole numbers from 0 to {classes - 1}. Let "
                "the classes be found, or give their names.",
                label.name,
            )
    elif classes != "infer" and label.kind != "array":
        # NaN counts as missing, as the readers have it.
        for text in texts:
            if text is not None and text not in classes and not math.isnan(number_of(text) or 0):
                yield _error(
                    f"The label {label.name!r} holds {_quoted(text)}, which is none of the "
                    "classes. Add it, or let the classes be found.",
                    label.name,
                )
                return


def _equal_columns(
    features: Sequence[ColumnLook],
    label: ColumnLook | None,
    values: Mapping[str, Sequence[str | None]],
) -> Iterator[DataProblem]:
    """Columns that say the same in every row; a label among them gives the answer away."""
    first: dict[tuple[str | None, ...], str] = {}
    for column in [*([label] if label is not None else []), *features]:
        name = column.name
        if column.count < 2 or column.is_constant or column.kind == "array" or name not in values:
            continue
        other = first.setdefault(tuple(values[name]), name)
        if label is not None and other == label.name != name:
            sentence = f"The column {name!r} is the label {other!r} once more. Leave it out."
            yield _warning(sentence, name)
        elif other != name:
            yield _warning(f"The columns {other!r} and {name!r} are the same. Leave one out.", name)


def _decimal_comma(column: ColumnLook) -> str:
    return (
        f"The column {column.name!r} holds numbers with a decimal comma, such as "
        f"{_quoted(column.most_frequent[0][0])}, which are read as text. Write the file anew with "
        "decimal points, or leave the column out."
    )


def _more(count: int, column: ColumnLook) -> str:
    return f" ({count:,} of {column.count + column.missing:,} rows)" if count > 1 else ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
