"""Columns from names of folders such as `day=3`, as Hive and Spark write them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from sparkwright.data._skipped import SkipLog
from sparkwright.data.tables import Convert, Piece
from sparkwright.data.wording import listed
from sparkwright.errors import DataError
from sparkwright.storage.listing import StoredFile

from ._columnar import ColumnarReader
from ._csv_reader import CsvReader

_FOLDER = re.compile(r"(?<=/)([^/=]+)=([^/]*)(?=/)")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")  # of 64 bits
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, kw_only=True, slots=True)
class FolderColumns:
    """A reader of files whose folders have the values of further columns.

    As in Spark, these columns are the last, hide columns of the files, and hold integers, other
    numbers or text, whichever fits the names of all folders.
    """

    reader: ColumnarReader | CsvReader
    kinds: Mapping[str, type]  # of the columns of folders: int, float or str
    names: tuple[str, ...]
    used: tuple[str, ...]
    texts: frozenset[str] = frozenset()

    def taking(self, used: Sequence[str], texts: Iterable[str]) -> "FolderColumns":
        """Return a reader of the columns `used`; CSV files have those in `texts` as text."""
        # A reader of no columns would not know how many rows there are.
        inner = [name for name in used if name not in self.kinds] or self.reader.names[:1]
        texts = frozenset(texts)
        as_text = texts if isinstance(self.reader, CsvReader) else frozenset[str]()
        reader = self.reader.taking(inner, texts.intersection(inner))
        return replace(self, reader=reader, used=tuple(used), texts=as_text)

    def shapes(
        self, files: Sequence[StoredFile], names: Sequence[str]
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of array columns, which folders cannot have."""
        return self.reader.shapes(files, [name for name in names if name not in self.kinds])

    def pieces(self, files: Sequence[StoredFile], piece_bytes: int) -> list[Piece]:
        """Split the files as their reader does."""
        return self.reader.pieces(files, piece_bytes)

    def read(self, piece: Piece, log: SkipLog, convert: Convert) -> Iterator[Any]:
        """Yield the converted tables of a piece, with the columns of its folders."""
        import pyarrow as pa

        found = _folders(piece.url)
        columns: dict[str, Any] = {}
        for name in self.used:
            if (kind := self.kinds.get(name)) is not None:
                value = None if found[name] is None else kind(found[name])
                text = value is None or name not in self.texts
                columns[name] = pa.array([value if text else found[name]])

        def with_folders(table: Any, shown: Any) -> Any:
            rows = pa.array([0] * table.num_rows, pa.int64())
            own = {n: column for n, column in zip(table.schema.names, table.columns, strict=True)}
            given = own | {name: column.take(rows) for name, column in columns.items()}
            return convert(type(table).from_arrays([*given.values()], names=[*given]), shown)

        return self.reader.read(piece, log, with_folders)


def with_folders(
    reader: ColumnarReader | CsvReader, files: Sequence[StoredFile], given: Sequence[str]
) -> ColumnarReader | CsvReader | FolderColumns:
    """Return a reader that adds the columns of folders below the `given` URLs, if there are any."""
    above = {pair for url in given for pair in _folders(f"{url}/").items()}
    found = [
        {name: value for name, value in _folders(file.url).items() if (name, value) not in above}
        for file in files
    ]
    first = found[0]
    for file, other in zip(files, found, strict=True):
        if other.keys() != first.keys():
            raise DataError(
                "all files must lie in folders of the same columns. Received: "
                f"{listed(first) or 'none'} for {files[0].url} and {listed(other) or 'none'} for "
                f"{file.url}. Pass the folders one by one."
            )
    if not first:
        return reader
    kinds = {name: _kind({each[name] for each in found} - {None}) for name in first}
    names = (*(name for name in reader.names if name not in kinds), *kinds)
    return FolderColumns(reader=reader, kinds=kinds, names=names, used=names)


def _folders(url: str) -> dict[str, str | None]:
    """Return column -> value of the folders of a file, from the outermost."""
    pairs = [(unquote(name), unquote(value)) for name, value in _FOLDER.findall(url)]
    return {name: None if value == _NULL else value for name, value in pairs}


def _kind(values: Iterable[Any]) -> type:
    """Return the first of int, float and str that reads all values."""
    known = list(values)
    for kind, form in ((int, _INTEGER), (float, _NUMBER)):
        if known and all(form.fullmatch(value) for value in known):
            return kind
    return str
