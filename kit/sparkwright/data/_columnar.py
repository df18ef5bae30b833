"""Read Parquet and Arrow files: typed columns, nested arrays, row numbers in messages."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sparkwright.data._skipped import SkipLog, UnusableItem, report, taken
from sparkwright.data._table_schema import check_columns
from sparkwright.data.tables import Convert, Piece, unreadable
from sparkwright.errors import DataError
from sparkwright.storage.files import is_on_this_machine, open_to_read
from sparkwright.storage.listing import StoredFile

T = TypeVar("T")
# Approximate size of the rows converted at a time.
_SLICE_BYTES = 4 << 20
_FIRST_ROWS = 1024
_BATCH_BYTES = 8 << 20
_BUFFER_BYTES = 64 << 10
_FILE_MAGIC = b"ARROW1"
_UNFIT = "unfit file"
# (number of the part, rows of the part before the table, table)
Batches = Iterator[tuple[int, int, Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTable:
    """An open Parquet or Arrow file."""

    names: tuple[str, ...]
    types: tuple[Any, ...]
    parts: Sequence[tuple[int, int]]  # (bytes, rows) of each; rows is -1 if unknown
    tables: Callable[[Sequence[str], tuple[int, int] | None], Batches]  # of columns and parts


# Opens a file; raises OSError naming its URL, or an error of PyArrow.
Open = Callable[[str], contextlib.AbstractContextManager[OpenTable]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnarReader:
    """Reader of files with a schema; the parts of a `Piece` are those of its `OpenTable`."""

    open_table: Open
    names: tuple[str, ...]  # all columns of the files
    used: tuple[str, ...] = ()  # columns to read
    is_exact: bool = True  # every file must have exactly the columns `names`

    @classmethod
    def of(
        cls, files: Sequence[StoredFile], open_table: Open, *, is_exact: bool = True
    ) -> "ColumnarReader":
        """Create a reader of all columns, taken from the first readable file."""
        trouble = ""
        for file in files:
            # Damaged files are reported when they are read, unless all files are damaged.
            names, message = _try_file(open_table, file.url, lambda opened: opened.names)
            if names:
                return cls(open_table=open_table, names=names, used=names, is_exact=is_exact)
            trouble = trouble or message
        raise DataError(trouble or f"{files[0].url} must have columns. Received: none.")

    def taking(self, used: Sequence[str], _texts: object) -> "ColumnarReader":
        """Return a reader of the columns `used`; the types are those of the files."""
        return replace(self, used=tuple(used))

    def shapes(
        self, files: Sequence[StoredFile], names: Sequence[str]
    ) -> dict[str, tuple[int, ...]]:
        """Return the shape of the first array of each array column; columns without are omitted."""
        found: dict[str, tuple[int, ...]] = {}

        def look(opened: OpenTable) -> bool:
            types = zip(opened.names, opened.types, strict=True)
            nested = [n for n, kind in types if n in names and is_nested(kind)]
            # The length of lists is known only from rows.
            found.update(_shapes(opened, [n for n in nested if n not in found]))
            return all(name in found for name in nested)

        any(_try_file(self.open_table, file.url, look)[0] for file in files)
        return found

    def pieces(self, files: Sequence[StoredFile], piece_bytes: int) -> list[Piece]:
        """Split large files into pieces; small files are one piece."""
        found: list[Piece] = []
        for file in files:
            parts: list[Piece] | None = None
            if file.size_bytes > piece_bytes:
                parts, _ = _try_file(
                    self.open_table,
                    file.url,
                    lambda o, url=file.url: list(_parts(url, o.parts, piece_bytes)),
                )
            whole = Piece(url=file.url, size_bytes=file.size_bytes)
            found += [whole] if parts is None else parts
        return found

    def read(self, piece: Piece, log: SkipLog, convert: Convert) -> Iterator[Any]:
        """Yield the converted tables of a piece; DataErrors name the file and row."""
        trouble = None
        try:
            with self.open_table(piece.url) as opened:
                check_columns(self, opened.names, piece.url, reason=_UNFIT)
                for part, before, table in opened.tables(self.used, piece.parts):
                    for at, rows in _slices(table):
                        made, faults = _fitting(convert, rows, piece.url)
                        place = _place(piece, part, before + at)
                        made = taken(made, report(faults, rows.num_rows, place, log))
                        if made is not None:
                            yield made
        except UnusableItem as error:
            # All parts of a file have the same columns, so only the first reports the error.
            if piece.is_first or log.raises:
                trouble = error.reason, error.message
        except Exception as error:
            if not is_damage(error):
                raise
            trouble = unreadable(piece), damage(piece.url, error)
        if trouble is not None:
            log.skip(*trouble)


def _try_file(open_table: Open, url: str, look: Callable[[OpenTable], T]) -> tuple[T | None, str]:
    """Return the result of `look` on a file; None and a message if the file is unreadable."""
    try:
        with open_table(url) as opened:
            return look(opened), ""
    except Exception as error:
        if not is_damage(error):
            raise
        return None, damage(url, error)


def damage(url: str, error: Exception) -> str:
    """Return a one-line message for an error of PyArrow or the store on an unreadable file."""
    message = " ".join(str(error).split())[:300]
    message = message if url in message else f"{url} could not be read: {message}"
    return f"{message.rstrip('.')}. Check that the file is complete and in this format."


def is_damage(error: Exception) -> bool:
    """Whether `error` means that PyArrow or the store cannot read a file."""
    # UnicodeDecodeError: column names that are not UTF-8.
    kinds = OSError | EOFError | UnicodeDecodeError
    return isinstance(error, kinds) or type(error).__module__.startswith("pyarrow")


def _parts(url: str, parts: Sequence[tuple[int, int]], piece_bytes: int) -> Iterator[Piece]:
    begin = rows = rows_before = size = 0
    known = all(count >= 0 for _, count in parts)
    for index, (part_bytes, part_rows) in enumerate(parts):
        size, rows = size + part_bytes, rows + part_rows
        if size >= piece_bytes or index == len(parts) - 1:
            yield Piece(
                url=url,
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


def _fitting(convert: Convert, rows: Any, url: str) -> Any:
    try:
        return convert(rows, None)
    except DataError as error:
        raise UnusableItem(_UNFIT, f"{url}: {error}") from None


def _place(piece: Piece, part: int, before: int) -> Callable[[int], str]:
    def place(row: int) -> str:
        if piece.rows_before is None:
            return f"{piece.url}, record batch {part + 1}, row {before + row + 1}"
        return f"{piece.url}, row {piece.rows_before + before + row + 1}"

    return place


def is_nested(kind: Any) -> bool:
    """Whether a column type holds arrays."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return True
    return (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _shapes(opened: OpenTable, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shape of the first array of each column; columns without arrays are omitted."""
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
    """Return the shape of an array value; None if it is missing."""
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
    """Open a Parquet file; its parts are row groups."""
    import pyarrow.parquet as pq

    with open_to_read(url) as stream:
        # Without a buffer, a whole column of a row group is held in memory. Remote stores need
        # that, because they fetch some MiB ahead at each small read.
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
    """Open an Arrow file, whose parts are record batches, or a stream, which has one part."""
    import pyarrow as pa

    with open_to_read(url) as stream:
        is_file = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        size = stream.seek(0, 2)
        stream.seek(0)
        source: Any = pa.PythonFile(stream, mode="r")
        reader: Any = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        count = int(reader.num_record_batches) if is_file else 1

        def batches(used: Sequence[str], parts: tuple[int, int] | None) -> Iterator[Any]:
            if not is_file:
                return (batch.select(list(used)) for batch in reader)
            # The footer lists the columns; a second reader reads only the used ones.
            included = [reader.schema.get_field_index(name) for name in used]
            options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
            some: Any = pa.ipc.open_file(source, options=options)
            return map(some.get_batch, range(*(parts or (0, count))))

        def tables(used: Sequence[str], parts: tuple[int, int] | None) -> Batches:
            first, before = parts[0] if parts and is_file else 0, 0
            for index, batch in enumerate(batches(used, parts), start=first):
                batch.validate(full=True)  # offsets in a damaged file may be out of bounds
                yield index, before if parts is None or not is_file else 0, batch
                before += batch.num_rows

        yield OpenTable(
            names=tuple(reader.schema.names),
            types=tuple(reader.schema.types),
            parts=[(size // max(1, count), -1 if is_file else 0)] * count,
            tables=tables,
        )
