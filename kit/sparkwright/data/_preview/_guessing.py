"""What a person would guess from names and first lines: format, delimiter, header, label, task."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._sources._data_source import DataTask
from sparkwright.data._sources._formats import FORMATS, SourceFormat

from ._data_preview import ColumnLook, number_of

_LABEL_NAMES = ("label", "target", "class", "y", "outcome", "species", "category", "diagnosis")
# The first of two that do equally well: where numbers have commas, others are between them.
_DELIMITERS = (";", "\t", "|", ",", " ")
_LINES = 50
_MOST_CLASSES = 50


def guess_format(url: str, names: Sequence[str] = (), folders: Sequence[str] = ()) -> SourceFormat:
    """The format of what lies at `url`.

    Args:
        url: a file, a folder or a pattern.
        names: of the files in the folder.
        folders: names of the folders in it.

    Returns:
        The most likely format; "images" for folders of folders of which nothing else is known,
        "csv" where there is nothing to go by.

    Example:
        >>> guess_format("s3://bucket/pets/", ["a.jpg", "b.jpg", "readme.txt"])
        'images'
    """
    own = url.rstrip("/").rpartition("/")[2].lower()
    if named := _by_ending(own):
        return named
    if "manifest.json" in names:
        return "minibatches"
    if {"data", "index"} <= set(names):
        return "map_file"
    every = map(_by_ending, map(str.lower, names))
    kinds: list[SourceFormat] = [kind for kind in every if kind is not None]
    if kinds:
        # A readme beside the data is no data.
        kind, count = Counter(kinds).most_common(1)[0]
        if kind == "csv" and count > 20 and _are_numbered(names):
            return "csv_sequences"
        return kind
    return "images" if folders else "csv"


def _by_ending(name: str) -> SourceFormat | None:
    for kind, info in FORMATS.items():
        if any(name.endswith(f".{ending}") for ending in info.endings):
            return kind
    return None


def _are_numbered(names: Sequence[str]) -> bool:
    stems = [name.partition(".")[0] for name in names]
    return sum(stem[-1:].isdigit() and "part" not in stem for stem in stems) > 0.9 * len(stems)


def guess_csv(content: bytes, name: str = "", *, is_all: bool = True) -> dict[str, Any]:
    r"""Options of a DataSource for the first bytes of a CSV file; those at defaults are left out.

    Args:
        content: as stored.
        name: of the file; `.tsv` means tabs.
        is_all: whether it is the whole file; else its last line may be cut. Default True.

    Example:
        >>> guess_csv(b"name;age\nAnn;31\nBob;40\n")
        {'delimiter': ';'}
    """
    found: dict[str, Any] = {}
    try:
        content.decode()
    except UnicodeDecodeError as error:
        # A letter cut in half at the end is no other encoding.
        if error.start < len(content) - 4:
            found["encoding"] = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
    text = content.decode(found.get("encoding", "utf-8"), errors="replace")
    block = text.encode()
    delimiter = "\t" if ".tsv" in name.lower() else guess_delimiter(block, is_all=is_all)
    if delimiter != ",":
        found["delimiter"] = {"\t": "tab", " ": "space"}.get(delimiter, delimiter)
    form = CsvFormat(delimiter=delimiter)
    if has_line_breaks(block, form, is_all=is_all):
        found["newlines_in_values"] = True
        form = _with_line_breaks(form)
    rows = _rows(block, form, is_all=is_all)[:_LINES]
    if rows and not has_header([fields or [""] for fields in rows]):
        found["header"] = False
    return found


def guess_delimiter(block: bytes, *, is_all: bool = True) -> str:
    """The sign that cuts most records into the same number of fields, at least two.

    Args:
        block: text.
        is_all: whether it is the whole text; else its last record may be cut. Default True.
    """
    best, best_score = ",", (0.0, 0)
    for sign in _DELIMITERS:
        form = CsvFormat(delimiter=sign)
        if has_line_breaks(block, form, is_all=is_all):
            form = _with_line_breaks(form)
        rows = _rows(block, form, is_all=is_all)[:_LINES]
        if not rows:
            continue
        usual, lines = Counter(map(len, rows)).most_common(1)[0]
        score = (lines / len(rows), usual)
        # Text has commas and spaces too; only what cuts nearly all lines alike counts.
        if usual > 1 and score[0] >= 0.8 and score > best_score:
            best, best_score = sign, score
    return best


def first_line_break(content: bytes, form: CsvFormat) -> int | None:
    r"""Where the first record that holds a line break in quotes begins.

    Args:
        content: text that begins with a record.
        form: how it is written, but for line breaks.

    Returns:
        None if there is none, or if it may be a quote that is just not closed.

    Example:
        >>> first_line_break(b'1,a\n2,"b\nc"\n', CsvFormat())
        4
        >>> first_line_break(b'1,"a\n2,"b\n', CsvFormat()) is None
        True
    """
    form = _with_line_breaks(form)
    first: int | None = None
    starts, ends, closed = (found.tolist() for found in form.records(content))
    for start, end, is_closed in zip(starts, ends, closed, strict=True):
        record = content[start:end]
        if is_closed and (b"\n" in record or b"\r" in record):
            if not form.is_plain(record, 1):
                return None
            first = start if first is None else first
    return first


def has_line_breaks(content: bytes, form: CsvFormat, *, is_all: bool) -> bool:
    r"""Whether records fit much better when values in quotes go over several lines.

    Args:
        content: text that begins with a record.
        form: how it is written, but for line breaks.
        is_all: whether that is the whole text; else its last record may be cut.

    Example:
        >>> has_line_breaks(b'a,b\n1,x\n2,"y\nz"\n', CsvFormat(), is_all=True)
        True
    """
    if form.quote is None or form.quote.encode() not in content:
        return False
    misfits = _misfits(_rows(content, form, is_all=is_all))
    together = _rows(content, _with_line_breaks(form), is_all=is_all)
    if not misfits or not together or 2 * _misfits(together) > misfits:
        return False
    return first_line_break(content, form) is not None


def _with_line_breaks(form: CsvFormat) -> CsvFormat:
    return replace(form, newlines_in_values=True)


def _rows(content: bytes, form: CsvFormat, *, is_all: bool) -> list[list[str]]:
    """The fields of each record but the last one that may be cut; none where a quote is open."""
    text = content if is_all else content[: form.complete_end(content)]
    return [
        form.fields(text[start:end].decode()) if is_closed else []
        for start, end, is_closed in zip(*form.records(text), strict=True)
    ]


def _misfits(rows: Sequence[Sequence[str]]) -> int:
    """Records with another number of fields than most have."""
    counts = Counter(len(row) for row in rows if row)
    return len(rows) - (counts.most_common(1)[0][1] if counts else 0)


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first of some rows names the columns rather than being one of them.

    Example:
        >>> has_header([["age", "name"], ["31", "Ann"]]), has_header([["31", "Ann"], ["4", "Bo"]])
        (True, False)
    """
    first, rest = rows[0], rows[1:]
    names = [name.strip() for name in first]
    if any(number_of(name) is not None for name in names):
        return False
    if len(set(names)) < len(names) or "" in names:
        return False
    if not rest:
        return True
    # Numbers below a text say that it is a name. Without numbers, names occur once.
    width = len(first)
    below = [[row[i] for row in rest if len(row) == width] for i in range(width)]
    if any(column and number_of(column[0]) is not None for column in below):
        return True
    return not any(name in column for name, column in zip(names, below, strict=True))


def guess_label(columns: Sequence[ColumnLook]) -> str | None:
    """The column that is most likely to be predicted: by its name, or the last one."""
    usable = [column for column in columns if column.kind in ("integer", "number", "text")]
    for name in _LABEL_NAMES:
        for column in usable:
            if column.name.strip().lower() == name:
                return column.name
    return usable[-1].name if len(usable) > 1 else None


def guess_task(column: ColumnLook) -> DataTask:
    """Classification for texts and for few different whole numbers, else regression.

    Example:
        >>> from sparkwright.data._preview._data_preview import look_at
        >>> guess_task(look_at("price", ["1.5", "2.25"])), guess_task(look_at("y", ["a", "b"]))
        ('regression', 'classification')
    """
    if column.has_decimal_commas:
        return "regression"
    if column.kind == "text":
        return "classification"
    few = column.distinct <= _MOST_CLASSES and column.distinct <= max(2, column.count // 3)
    return "classification" if column.kind == "integer" and few else "regression"
