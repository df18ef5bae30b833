"""What a person would guess from names and first lines: format, delimiter, header, label, task."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sparkwright.data._sources._data_source import DataTask
from sparkwright.data._sources._formats import FORMATS, SourceFormat
from sparkwright.data._tables._csv_format import CsvFormat
from sparkwright.data._tables._csv_records import records

from ._column_look import ColumnLook, number_of

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


def guess_csv(content: bytes, name: str = "") -> dict[str, Any]:
    r"""Options of a DataSource for the beginning of a CSV file: encoding, delimiter and header.

    Args:
        content: whole lines, as stored.
        name: of the file; `.tsv` means tabs.

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
    delimiter = "\t" if ".tsv" in name.lower() else guess_delimiter(block)
    if delimiter != ",":
        found["delimiter"] = {"\t": "tab", " ": "space"}.get(delimiter, delimiter)
    form = CsvFormat(delimiter=delimiter)
    starts, ends, _ = records(block, delimiter=form.delimiter_byte, quote=b'"', multiline=False)
    lines = [block[a:b].decode() for a, b in zip(starts[:_LINES], ends[:_LINES], strict=True)]
    if lines and not has_header([form.fields(line) for line in lines]):
        found["header"] = False
    return found


def guess_delimiter(block: bytes) -> str:
    """The sign that cuts most lines into the same number of fields, at least two."""
    best, best_score = ",", (0.0, 0)
    for sign in _DELIMITERS:
        _, _, fields = records(block, delimiter=sign.encode(), quote=b'"', multiline=False)
        counts = Counter(fields[:_LINES].tolist())
        if not counts:
            continue
        usual, lines = counts.most_common(1)[0]
        score = (lines / min(_LINES, len(fields)), usual)
        # Text has commas and spaces too; only what cuts nearly all lines alike counts.
        if usual > 1 and score[0] >= 0.8 and score > best_score:
            best, best_score = sign, score
    return best


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
        >>> from sparkwright.data._preview._column_look import look_at
        >>> guess_task(look_at("price", ["1.5", "2.25"])), guess_task(look_at("y", ["a", "b"]))
        ('regression', 'classification')
    """
    if column.kind == "text":
        return "classification"
    few = column.distinct <= _MOST_CLASSES and column.distinct <= max(2, column.count // 3)
    return "classification" if column.kind == "integer" and few else "regression"
