"""Guess CSV format, label and task from the first rows, and report suspicious columns."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.data._column_choice import UNNAMED
from sparkwright.data._csv_format import CsvFormat, number_of
from sparkwright.data._data_preview import ColumnPreview, DataProblem
from sparkwright.data.wording import clipped

if TYPE_CHECKING:
    from sparkwright.data.sources import DataSource

_LABEL_NAMES = ("label", "target", "class", "y", "outcome", "species", "category", "diagnosis")
# On a tie the first one wins: numbers may contain commas.
_DELIMITERS = (";", "\t", "|", ",", " ")
_LINES = 50
_MOST_CLASSES = 50
_MANY_CLASSES, _MANY_CATEGORIES = 100, 200
_error, _warning = DataProblem.error, DataProblem.warning


def guess_csv(content: bytes, name: str = "", *, is_all: bool = True) -> dict[str, Any]:
    """Guess the options of a DataSource from the first bytes of a CSV file; without defaults."""
    found: dict[str, Any] = {}
    try:
        content.decode()
    except UnicodeDecodeError as error:
        # A multi-byte character may be cut at the end.
        if error.start < len(content) - 4:
            found["encoding"] = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
    block = content.decode(found.get("encoding", "utf-8"), errors="replace").encode()
    form, rows = _best_format(block, "\t" if ".tsv" in name.lower() else None, is_all=is_all)
    if form.delimiter != ",":
        found["delimiter"] = form.delimiter
    if form.newlines_in_values:
        found["newlines_in_values"] = True
    if rows and not has_header([fields or [""] for fields in rows]):
        found["header"] = False
    return found


def _best_format(
    block: bytes, delimiter: str | None, *, is_all: bool
) -> tuple[CsvFormat, list[list[str]]]:
    """Return the format that gives most records the same number of fields, and the records."""
    best, best_score, best_rows = CsvFormat(delimiter=delimiter or ","), (0.0, 0), None
    for sign in [delimiter] if delimiter else _DELIMITERS:
        for multiline in (False, True) if b'"' in block else (False,):
            form = CsvFormat(delimiter=sign, newlines_in_values=multiline)
            rows = _rows(block, form, is_all=is_all)
            if best_rows is None and form == best:
                best_rows = rows
            counts = Counter(len(row) for row in rows if row)
            if not counts:
                continue
            usual, records = counts.most_common(1)[0]
            score = (records / len(rows), usual)
            # Text contains commas and spaces too, so nearly all lines must have equal field counts.
            if (usual > 1 or delimiter) and score[0] >= 0.8 and score > best_score:
                best, best_score, best_rows = form, score, rows
    return best, (best_rows or [])[:_LINES]


def _rows(block: bytes, form: CsvFormat, *, is_all: bool) -> list[list[str]]:
    """Return the fields of each complete record; none where a quote is left open."""
    lines = (block if is_all else block[: form.complete_end(block)]).splitlines(keepends=True)
    found: list[list[str]] = []
    for record in form.records(lines):
        # An unclosed quote may explain the line breaks.
        if form.newlines_in_values and record.end - record.begin > 1:
            text = b"".join(lines[record.begin : record.end])
            if not record.is_closed or form.well_formed_quotes(text) is None:
                return []
        found.append(record.fields if record.is_closed else [])
    return found


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is a header."""
    first, rest = rows[0], rows[1:]
    names = [name.strip() for name in first]
    if any(number_of(name) is not None for name in names):
        return False
    # The first may be the index that pandas writes, the last come from a delimiter at the end.
    if len(set(names)) < len(names) or "" in names[1:-1] or names == [""]:
        return False
    if not rest:
        return True
    # A text above numbers is a column name. Without numbers, column names are unique values.
    width = len(first)
    below = [[row[i] for row in rest if len(row) == width] for i in range(width)]
    pairs = list(zip(names, below, strict=True))
    if any(name and column and number_of(column[0]) is not None for name, column in pairs):
        return True
    return not any(name in column for name, column in pairs)


def guess_label(columns: Sequence[ColumnPreview]) -> str | None:
    """Guess the label column: by its name, or the last column."""
    usable = [column for column in columns if column.kind in ("integer", "number", "text")]
    for name in _LABEL_NAMES:
        for column in usable:
            if column.name.strip().lower() == name:
                return column.name
    return usable[-1].name if len(usable) > 1 else None


def guess_task(column: ColumnPreview) -> Literal["classification", "regression"]:
    """Guess classification for texts and few distinct integers, else regression."""
    if column.has_decimal_commas:
        return "regression"
    if column.kind == "text":
        return "classification"
    few = column.distinct <= _MOST_CLASSES and column.distinct <= max(2, column.count // 3)
    return "classification" if column.kind == "integer" and few else "regression"


def feature_columns(source: "DataSource", columns: Sequence[ColumnPreview]) -> list[ColumnPreview]:
    """Return the feature columns: the selected ones, or all but label and weights."""
    if source.features:
        return [column for column in columns if column.name in source.features]
    other = {source.label, source.options.get("weights")}
    return [column for column in columns if column.name not in other]


def with_guessed_columns(source: "DataSource", columns: Sequence[ColumnPreview]) -> "DataSource":
    """Return `source` with label, task and categories guessed from its columns."""
    if not columns or not source.info.labeled:
        return source
    known = {column.name: column for column in columns}
    label = source.label if source.label in known else guess_label(columns)
    task = "other" if label is None else guess_task(known[label])
    features = tuple(name for name in source.features if name in known and name != label)
    if not features and any(map(UNNAMED.fullmatch, known)):
        others = (label, source.options.get("weights"))
        features = tuple(n for n in known if n not in others and not UNNAMED.fullmatch(n))
    kept = replace(source, label=label, features=features, categories=(), task=task)
    categories = tuple(
        column.name
        for column in feature_columns(kept, columns)
        if column.kind == "text" and not column.has_decimal_commas
    )
    return replace(kept, categories=categories)


def verdict(source: "DataSource", column: ColumnPreview) -> DataProblem | None:
    """Return the problem of a column; None for a valid or unused column."""
    is_label, is_category = column.name == source.label, column.name in source.categories
    if not is_label and not feature_columns(source, [column]):
        return None
    count, several, low = column.count, column.distinct, column.minimum
    is_class = is_label and source.task == "classification"
    example = clipped(column.most_frequent[0][0], limit=40) if column.most_frequent else ""
    is_row_number = low is not None and several == count > 9 and column.maximum == low + count - 1
    for applies, problem, code, rest in (
        (not count, _error, "empty column", "has no values. Exclude it."),
        (
            column.has_decimal_commas and not is_class,
            _error,
            "decimal comma",
            f"holds numbers with a decimal comma, such as {example!r}, which are read as text. "
            "Write the file with decimal points, or exclude the column.",
        ),
        (
            column.kind == "text" and is_label and not is_class,
            _error,
            "label of text",
            f"holds text, such as {example!r}. Use classification.",
        ),
        (
            column.kind == "text" and not is_label and not is_category,
            _error,
            "feature of text",
            f"holds text, such as {example!r}. Treat it as categorical, or exclude it.",
        ),
        (
            is_class and several > (20 if column.kind == "number" else _MANY_CLASSES),
            _warning,
            "many classes",
            f"has {several:,} distinct values in {count:,} rows. If it is a quantity, use "
            "regression.",
        ),
        (
            not is_label and several == 1 < count,
            _warning,
            "constant column",
            f"has the constant value {example!r}. Exclude it.",
        ),
        (
            is_category and several > max(20, min(_MANY_CATEGORIES, count // 2)),
            _warning,
            "many categories",
            f"has {several:,} distinct values in {count:,} rows. If it identifies the row, exclude "
            "it.",
        ),
        (
            not is_label and column.kind == "integer" and is_row_number,
            _warning,
            "row numbers",
            "contains only row numbers. Exclude it.",
        ),
    ):
        if applies:
            what = "label" if is_label else "category" if is_category else "column"
            sentence = f"The {what} {column.name!r} {rest}"
            return problem(sentence, code=code, column=column.name)
    return None


def copies(
    source: "DataSource",
    columns: Sequence[ColumnPreview],
    values: Mapping[str, Sequence[str | None]],
) -> Iterator[DataProblem]:
    """Yield a warning for each duplicate column; a duplicate of the label leaks the label."""
    first: dict[tuple[str | None, ...], str] = {}
    label = [column for column in columns if column.name == source.label]
    for column in label + feature_columns(source, columns):
        other = first.setdefault(tuple(values[column.name]), column.name)
        if other != column.name and column.distinct > 1:
            what = "the label" if other == source.label else "the column"
            yield _warning(
                f"The column {column.name!r} duplicates {what} {other!r}. Exclude it.",
                code="repeated column",
                column=column.name,
            )


def label_problems(
    labels: Sequence[tuple[str, int]], *, unit: str, is_all: bool
) -> list[DataProblem]:
    """Warn of a single class or rare ones; `labels` are (class, count) pairs, the largest first."""
    if len(labels) == 1:
        name, count = labels[0]
        sentence = (
            f"All {count:,} {unit}s in the preview have the class {name!r}. "
            "Classification needs at least two classes."
        )
        if is_all:
            return [_error(sentence)]
        return [_warning(f"{sentence} Data sorted by class may have other classes later.")]
    once = [name for name, count in labels if count == 1]
    if is_all and once:
        more = f" and {len(once) - 1} more occur" if len(once) > 1 else " occurs"
        return [
            _warning(
                f"The class {once[0]!r}{more} only once. It cannot be in every part of the split."
            )
        ]
    if labels and labels[0][1] > 20 * labels[-1][1]:
        most, least = labels[0], labels[-1]
        return [
            _warning(
                f"The class {most[0]!r} occurs {most[1] / least[1]:,.0f} times as often as "
                f"{least[0]!r}. Accuracy can be misleading; check the metrics of each class."
            )
        ]
    return []
