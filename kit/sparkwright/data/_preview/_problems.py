"""What is wrong or odd in the columns of a table, each in a sentence that says where."""

import math
from collections.abc import Callable, Mapping, Sequence

from sparkwright.data._sources._data_source import DataSource

from ._column_look import ColumnLook, number_of
from ._data_preview import DataProblem

Place = Callable[[int], str]
_MANY_CLASSES = 100
_MANY_CATEGORIES = 200
_NAMED = 8


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
    categories = frozenset(source.categories)
    found = _absent(source, known)
    label = known.get(source.label or "")
    features = feature_columns(source, columns)
    if label is not None and not features and not source.features:
        found.append(DataProblem.error("There is no column left for the features."))
    for column in features:
        found += _feature_problems(source, column, place, is_category=column.name in categories)
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
        wanted = set(source.features)
        return [column for column in columns if column.name in wanted]
    other = {source.label, source.options.get("weights")}
    return [column for column in columns if column.name not in other]


def label_problems(
    labels: Sequence[tuple[str, int]], *, unit: str, is_all: bool
) -> list[DataProblem]:
    """What the classes of a classification show: only one, or some that are rare.

    Args:
        labels: class -> how often.
        unit: what one item is called.
        is_all: whether these are all items.
    """
    if not labels:
        return []
    if len(labels) == 1:
        name, count = labels[0]
        return [
            DataProblem(
                severity="error" if is_all else "warning",
                sentence=f"All {count:,} {unit}s that were looked at are of one class, {name!r}. "
                "A classification needs two at least."
                + ("" if is_all else " If the data is sorted by class, others may follow."),
            )
        ]
    once = [name for name, count in labels if count == 1]
    if is_all and once:
        more = f" and {len(once) - 1} more occur" if len(once) > 1 else " occurs"
        return [
            DataProblem.warning(
                f"The class {once[0]!r}{more} only once. It cannot be in every part."
            )
        ]
    most, least = labels[0], labels[-1]
    if most[1] > 20 * least[1]:
        return [
            DataProblem.warning(
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
        DataProblem.error(f"{what} {name!r} is none of the columns: {there}.", name)
        for what, name in dict.fromkeys(wanted)
        if name is not None and name not in known
    ]


def _feature_problems(
    source: DataSource, column: ColumnLook, place: Place, *, is_category: bool
) -> list[DataProblem]:
    name = column.name
    found: list[DataProblem] = []
    if column.kind == "empty":
        return [DataProblem.error(f"The column {name!r} holds no value. Leave it out.", name)]
    if column.has_decimal_commas:
        found.append(DataProblem.error(_decimal_comma(column), name))
    elif is_category:
        if column.distinct > _MANY_CATEGORIES or column.distinct > max(20, column.count // 2):
            found.append(
                DataProblem.warning(
                    f"The category {name!r} has {column.distinct:,} different values in "
                    f"{column.count:,} rows: is it a name or a number of the row? Leave it out.",
                    name,
                )
            )
    elif column.kind == "text":
        text = column.most_frequent[0][0] if column.most_frequent else ""
        found.append(
            DataProblem.error(
                f"The column {name!r} holds text, such as {_quoted(text)}. Make it a category, or "
                "leave it out.",
                name,
            )
        )
    if not is_category:
        found += _number_problems(source, column, place)
    if column.is_constant:
        found.append(
            DataProblem.warning(
                f"The column {name!r} is always {_quoted(column.most_frequent[0][0])}. It says "
                "nothing; leave it out.",
                name,
            )
        )
    elif column.kind == "integer" and column.is_counting and column.count > 9:
        found.append(
            DataProblem.warning(f"The column {name!r} only counts the rows. Leave it out.", name)
        )  # fmt: skip
    return found


def _number_problems(source: DataSource, column: ColumnLook, place: Place) -> list[DataProblem]:
    name, looked_at = column.name, column.count + column.missing
    found: list[DataProblem] = []
    if column.first_wrong is not None:
        row, text = column.first_wrong
        found.append(
            DataProblem.error(
                f"The column {name!r} holds {_quoted(text)} in {place(row)}, which is no number"
                f"{_more(column.wrong, looked_at)}. If it means that there is none, add it to the "
                "texts for a missing value.",
                name,
                can_skip=True,
            )
        )
    if column.first_missing is not None:
        where = f"in {place(column.first_missing)}{_more(column.missing, looked_at)}"
        sentence = f"The column {name!r} lacks a value {where}."
        missing = source.options.get("missing", "error")
        if missing == "error":
            remedy = " Choose what becomes of missing values: skip such rows, or fill in a number."
            found.append(DataProblem.error(sentence + remedy, name, can_skip=True))
        elif missing == "skip":
            found.append(DataProblem.warning(f"{sentence} Such rows are left out.", name))
    if column.first_infinite is not None:
        found.append(
            DataProblem.error(
                f"The column {name!r} holds an infinite number in {place(column.first_infinite)}"
                f"{_more(column.infinite, looked_at)}. Training needs finite ones.",
                name,
                can_skip=True,
            )
        )
    return found


def _label_problems(
    source: DataSource, label: ColumnLook, place: Place, texts: Sequence[str | None]
) -> list[DataProblem]:
    name = label.name
    if label.kind == "empty":
        return [DataProblem.error(f"The label {name!r} holds no value.", name)]
    if source.task != "classification":
        if label.has_decimal_commas:
            return [DataProblem.error(_decimal_comma(label), name)]
        if label.kind == "text":
            text = label.most_frequent[0][0]
            return [
                DataProblem.error(
                    f"The label {name!r} holds text, such as {_quoted(text)}. Choose the task "
                    "classification.",
                    name,
                )
            ]
        others = [p for p in _number_problems(source, label, place) if "lacks" not in p.sentence]
        return others + _missing_label(source, label, place)
    found = _missing_label(source, label, place)
    if label.has_decimal_commas:
        found.append(DataProblem.warning(_decimal_comma(label), name))
    if label.distinct > _MANY_CLASSES or (label.kind == "number" and label.distinct > 20):
        found.append(
            DataProblem.warning(
                f"The label {name!r} has {label.distinct:,} different values in {label.count:,} "
                "rows. Is it a number to predict? Choose the task regression.",
                name,
            )
        )
    found += _class_problems(source, label, texts)
    return found


def _missing_label(source: DataSource, label: ColumnLook, place: Place) -> list[DataProblem]:
    if label.first_missing is None:
        return []
    where = f"in {place(label.first_missing)}{_more(label.missing, label.count + label.missing)}"
    sentence = f"The label {label.name!r} is missing {where}."
    if source.options.get("missing") == "skip":
        return [DataProblem.warning(f"{sentence} Such rows are left out.", label.name)]
    # A number that stands in is for features only.
    remedy = "Choose what becomes of missing values: skip such rows."
    return [DataProblem.error(f"{sentence} {remedy}", label.name, can_skip=True)]


def _class_problems(
    source: DataSource, label: ColumnLook, texts: Sequence[str | None]
) -> list[DataProblem]:
    classes = source.classes
    if isinstance(classes, int):
        low, high = label.minimum, label.maximum
        fits = label.kind == "integer" and not label.wrong and low is not None and high is not None
        if not fits or low < 0 or high >= classes:  # pyright: ignore[reportOptionalOperand]
            return [
                DataProblem.error(
                    f"The label {label.name!r} must hold whole numbers from 0 to {classes - 1}. "
                    "Let the classes be found, or give their names.",
                    label.name,
                )
            ]
        return []
    if classes == "infer":
        return []
    if label.kind == "array":
        return []
    # NaN counts as missing, as the readers have it.
    strangers = [
        text
        for text in dict.fromkeys(texts)
        if text is not None and text not in classes and not _is_nan(text)
    ]
    if not strangers:
        return []
    return [
        DataProblem.error(
            f"The label {label.name!r} holds {_quoted(strangers[0])}, which is none of the "
            "classes. Add it, or let the classes be found.",
            label.name,
        )
    ]


def _equal_columns(
    features: Sequence[ColumnLook],
    label: ColumnLook | None,
    values: Mapping[str, Sequence[str | None]],
) -> list[DataProblem]:
    """Columns that say the same in every row; a label among them gives the answer away."""
    first: dict[tuple[str | None, ...], str] = {}
    found: list[DataProblem] = []
    for column in [*([label] if label is not None else []), *features]:
        if column.count < 2 or column.is_constant or column.kind == "array":
            continue
        if column.name not in values:
            continue
        key = tuple(values[column.name])
        other = first.setdefault(key, column.name)
        if other == column.name:
            continue
        if label is not None and other == label.name:
            what = f"The column {column.name!r} is the label {other!r} once more. Leave it out."
        else:
            what = f"The columns {other!r} and {column.name!r} are the same. Leave one out."
        found.append(DataProblem.warning(what, column.name))
    return found


def _decimal_comma(column: ColumnLook) -> str:
    return (
        f"The column {column.name!r} holds numbers with a decimal comma, such as "
        f"{_quoted(column.most_frequent[0][0])}, which are read as text. Write the file anew with "
        "decimal points, or leave the column out."
    )


def _is_nan(text: str) -> bool:
    number = number_of(text)
    return number is not None and math.isnan(number)


def _more(count: int, looked_at: int) -> str:
    return f" ({count:,} of {looked_at:,} rows)" if count > 1 else ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")
