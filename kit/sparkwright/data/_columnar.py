"""Parquet and Arrow files: columns that have types, arrays in rows, places of rows."""

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkwright.data._pieces import SkipLog
from sparkwright.data._table_schema import listed
from sparkwright.data.tables import Convert, report, unreadable
from sparkwright.errors import DataError
from sparkwright.storage._files import is_on_this_machine, open_to_read
from sparkwright.storage._listing import StoredFile

T = TypeVar("T")
# Rows converted at a time are about so many bytes.
_SLICE_BYTES = 4 << 20
_FIRST_ROWS = 1024
_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 64 << 10
_FILE_MAGIC = b"ARROW1"
# Number of the part, rows of it before, table.
Batches = Iterator[tuple[int, int, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnarPiece:
    """A file, or a part of it.

    Attributes:
        url: the file.
        parts: first row group or record batch, and the one after the last; None: all.
        is_whole: whether that is the whole file.
        rows_before: rows of the file before them, or None if nobody knows.
        size_bytes: about how many.
    """

    url: str
    parts: tuple[int, int] | None = None
    is_whole: bool = True
    rows_before: int | None = 0
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTable:
    """A file, opened.

    Attributes:
        names: of its columns.
        types: of its columns.
        parts: bytes and rows of each of its parts; rows -1 if unknown.
        tables: used columns, parts -> number of the part, rows of it before, table.
    """

    names: tuple[str, ...]
    types: tuple[Any, ...]
    parts: Sequence[tuple[int, int]]
    tables: Callable[[Sequence[str], tuple[int, int] | None], Batches]


# Opens a file; raises OSError naming its URL, or an error of PyArrow.
Open = Callable[[str], contextlib.AbstractContextManager[OpenTable]]


class _UnfitFileError(Exception):
    """A file with columns that do not fit the schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnarReader:
    """Reads pieces of files that know their columns.

    Attributes:
        open_table: opens a file.
        columns: all columns of the files.
        used: those to take.
        is_exact: whether every file must have just `columns`.
    """

    open_table: Open
    columns: tuple[str, ...]
    used: tuple[str, ...]
    is_exact: bool

    def read(self, piece: ColumnarPiece, log: SkipLog, convert: Convert) -> Iterator[Any]:
        """What `convert` makes of the tables of a piece.

        Raises:
            DataError: naming file and row, with `on_error="raise"`.
        """
        trouble = None
        try:
            with self.open_table(piece.url) as opened:
                self._check(opened.names)
                for part, before, table in opened.tables(self.used, piece.parts):
                    for at, rows in _slices(table):
                        made, faults = _fitting(convert, rows)
                        place = _place(piece, part, before + at)
                        good = report(faults, rows.num_rows, place, log)
                        if good is None or good.all():
                            yield made
                        elif good.any():
                            yield made.take(good)
        except _UnfitFileError as error:
            # All parts of a file have its columns: the first speaks for the others.
            if piece.parts is None or piece.parts[0] == 0 or log.raises:
                trouble = "unfit file", f"{piece.url}: {error}"
        except Exception as error:
            if not is_damage(error):
                raise
            trouble = unreadable(is_whole=piece.is_whole), damage(piece.url, error)
        if trouble is not None:
            log.skip(*trouble)

    def _check(self, found: tuple[str, ...]) -> None:
        if self.is_exact and found != self.columns:
            raise _UnfitFileError(
                f"all files must have the columns of the first, {listed(self.columns)}. "
                f"Received: {listed(found)}."
            )
        absent = [name for name in self.used if found.count(name) != 1]
        if absent:
            raise _UnfitFileError(
                f"the file must have each of the columns {listed(self.used)} once. "
                f"Received: {listed(found)}."
            )


class ColumnarSource:
    """Files of one format; their columns are those of the first."""

    def __init__(self, kind: str, files: Sequence[StoredFile], open_table: Open) -> None:
        """Look into the first file.

        Args:
            kind: of the format, for the fingerprint.
            files: which.
            open_table: opens one.

        Raises:
            DataError: if it cannot be read.
        """
        self.files = files
        self.options: Mapping[str, Any] = {"kind": kind}
        self._open = open_table
        trouble = ""
        for file in files:
            # What is damaged is reported by its reader, unless there is no other file.
            names, said = self._look(file.url, lambda opened: opened.names)
            if names:
                self.columns: tuple[str, ...] = names
                return
            trouble = trouble or said
        raise DataError(trouble or f"{files[0].url} must have columns. Received: none.")

    def _look(self, url: str, look: Callable[[OpenTable], T]) -> tuple[T | None, str]:
        """What `look` finds in a file; None and a sentence if it cannot be read."""
        try:
            with self._open(url) as opened:
                return look(opened), ""
        except Exception as error:
            if not is_damage(error):
                raise
            return None, damage(url, error)

    def shapes(self, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Shape of the first array of each column of arrays; left out where there is none."""
        found: dict[str, tuple[int, ...]] = {}

        def look(opened: OpenTable) -> bool:
            types = zip(opened.names, opened.types, strict=True)
            nested = [n for n, kind in types if n in names and is_nested(kind)]
            # Lists have a length only where there are rows.
            for name, shape in _shapes(opened, [n for n in nested if n not in found]).items():
                found[name] = shape
            return all(name in found for name in nested)

        for file in self.files:
            is_known, _ = self._look(file.url, look)
            if is_known:
                break
        return found

    def pieces(self, piece_bytes: int) -> list[ColumnarPiece]:
        """Files, and parts of large ones."""
        found: list[ColumnarPiece] = []
        for file in self.files:
            parts: list[ColumnarPiece] | None = None
            if file.size_bytes > piece_bytes:
                parts, _ = self._look(
                    file.url, lambda o, file=file: list(_parts(file, o.parts, piece_bytes))
                )
            whole = ColumnarPiece(url=file.url, size_bytes=file.size_bytes)
            found += [whole] if parts is None else parts
        return found

    def reader(
        self, used: Sequence[str], texts: Iterable[str], *, is_exact: bool
    ) -> ColumnarReader:
        """A reader of some columns; types are in the files."""
        del texts
        return ColumnarReader(
            open_table=self._open, columns=self.columns, used=tuple(used), is_exact=is_exact
        )


def damage(url: str, error: Exception) -> str:
    """What PyArrow or the store says of a file that cannot be read, in one line."""
    said = " ".join(str(error).split())[:300]
    said = said if url in said else f"{url} could not be read: {said}"
    return f"{said.rstrip('.')}. Is it whole, and of this format?"


def is_damage(error: Exception) -> bool:
    """Whether PyArrow or the store raises `error` for a file that cannot be read."""
    # Of many kinds; names of columns that are no UTF-8 among them.
    kinds = OSError | EOFError | UnicodeDecodeError
    return isinstance(error, kinds) or type(error).__module__.startswith("pyarrow")


def _parts(
    file: StoredFile, parts: Sequence[tuple[int, int]], piece_bytes: int
) -> Iterator[ColumnarPiece]:
    begin = rows = rows_before = size = 0
    known = all(count >= 0 for _, count in parts)
    for index, (part_bytes, part_rows) in enumerate(parts):
        size, rows = size + part_bytes, rows + part_rows
        if size >= piece_bytes or index == len(parts) - 1:
            yield ColumnarPiece(
                url=file.url,
                parts=(begin, index + 1),
                is_whole=begin == 0 and index == len(parts) - 1,
                rows_before=rows_before if known else None,
                size_bytes=size,
            )
            begin, rows_before, size = index + 1, rows, 0


def _slices(table: Any) -> Iterator[tuple[int, Any]]:
    rows = int(table.num_rows)
    count = max(1, int(_SLICE_BYTES / max(1.0, table.nbytes / max(1, rows))))
    for at in range(0, rows, count):
        yield at, table.slice(at, count)


def _fitting(convert: Convert, rows: Any) -> Any:
    try:
        return convert(rows, None)
    except DataError as error:
        raise _UnfitFileError(str(error)) from None


def _place(piece: ColumnarPiece, part: int, before: int) -> Callable[[int], str]:
    def place(row: int) -> str:
        if piece.rows_before is None:
            return f"{piece.url}, record batch {part + 1}, row {before + row + 1}"
        return f"{piece.url}, row {piece.rows_before + before + row + 1}"

    return place


def is_nested(kind: Any) -> bool:
    """Whether the values of a column of this type are arrays."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return True
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _shapes(opened: OpenTable, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Shape of the first array of each column; columns without any are left out."""
    found: dict[str, tuple[int, ...]] = {}
    if not names:
        return found
    for _, _, table in opened.tables(names, None):
        for name in names:
            for value in table.column(name).slice(0, _FIRST_ROWS):
                shape = shape_of(value)
                if shape is not None:
                    found[name] = shape
                    break
        if table.num_rows:
            break
    return found


def shape_of(value: Any) -> tuple[int, ...] | None:
    """The shape of an array in a column; None if it is missing."""
    import pyarrow as pa

    if not value.is_valid:
        return None
    if isinstance(value.type, pa.FixedShapeTensorType):
        return tuple(value.type.shape)
    shape: list[int] = []
    level: Any = value.as_py()
    while isinstance(level, list):
        shape.append(len(level))  # pyright: ignore[reportUnknownArgumentType]
        level = level[0] if level else None  # pyright: ignore[reportUnknownVariableType]
    return tuple(shape)


@contextlib.contextmanager
def open_parquet(url: str, /) -> Generator[OpenTable]:
    """Open a Parquet file; its parts are row groups.

    Raises:
        OSError: naming `url`; or an error of PyArrow.
    """
    import pyarrow.parquet as pq

    with open_to_read(url) as stream:
        # Without a buffer, all that a row group has of a column would be in memory. In stores each
        # small read would fetch some MiB ahead, so there it is.
        buffer_size = _BUFFER_BYTES if is_on_this_machine(url) else 0
        file: Any = pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=buffer_size,
            page_checksum_verification=True,  # of pages that have a checksum
        )
        metadata = file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]

        def tables(used: Sequence[str], parts: tuple[int, int] | None) -> Batches:
            chosen = range(*(parts or (0, len(groups))))
            before = 0
            for index in chosen:
                rows = max(1, groups[index].num_rows)
                count = max(1, int(_BATCH_BYTES / max(1.0, groups[index].total_byte_size / rows)))
                for batch in file.iter_batches(
                    batch_size=min(rows, count),
                    row_groups=[index],
                    columns=list(used),
                    use_threads=False,
                ):
                    yield index, before, batch
                    before += batch.num_rows

        yield OpenTable(
            names=tuple(file.schema_arrow.names),
            types=tuple(file.schema_arrow.types),
            parts=[(group.total_byte_size, group.num_rows) for group in groups],
            tables=tables,
        )


@contextlib.contextmanager
def open_arrow(url: str, /) -> Generator[OpenTable]:
    """Open an Arrow file; its parts are record batches.

    Raises:
        OSError: naming `url`; or an error of PyArrow.
    """
    import pyarrow as pa

    with open_to_read(url) as stream:
        magic = stream.read(len(_FILE_MAGIC))
        size = stream.seek(0, 2)
        stream.seek(0)
        source: Any = pa.PythonFile(stream, mode="r")
        if magic == _FILE_MAGIC:
            yield _file(source, size)
        else:
            yield _stream(source, size)


def _file(source: Any, size: int) -> OpenTable:
    import pyarrow as pa

    # The footer says which columns there are; a second reader then reads only some.
    schema = pa.ipc.open_file(source).schema
    count = int(pa.ipc.open_file(source).num_record_batches)

    def tables(used: Sequence[str], parts: tuple[int, int] | None) -> Batches:
        included = [schema.get_field_index(name) for name in used]
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
        reader: Any = pa.ipc.open_file(source, options=options)
        before = 0
        for index in range(*(parts or (0, count))):
            batch = _checked(reader.get_batch(index))
            yield index, before if parts is None else 0, batch
            before += batch.num_rows

    return OpenTable(
        names=tuple(schema.names),
        types=tuple(schema.types),
        parts=[(size // max(1, count), -1)] * count,
        tables=tables,
    )


def _checked(batch: Any) -> Any:
    """Offsets in a damaged file may point anywhere."""
    batch.validate(full=True)
    return batch


def _stream(source: Any, size: int) -> OpenTable:
    import pyarrow as pa

    reader: Any = pa.ipc.open_stream(source)
    names = tuple(reader.schema.names)

    def tables(used: Sequence[str], parts: tuple[int, int] | None) -> Batches:
        del parts  # a stream is one part
        before = 0
        for batch in reader:
            yield 0, before, _checked(batch.select(list(used)))
            before += batch.num_rows

    return OpenTable(
        names=names, types=tuple(reader.schema.types), parts=[(size, 0)], tables=tables
    )
