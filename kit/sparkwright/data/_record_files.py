"""Distributed data from SequenceFiles and MapFiles; executors read byte ranges of the files."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict, Unpack

from sparkwright.cluster.connect import context_of
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.files import open_to_read
from sparkwright.storage.listing import StoredFile, list_files

from ._csv_format import CsvFormat
from ._distributed import DistributedDataSet
from ._map_file import map_folders
from ._record_bytes import Decoders
from ._record_conversion import Convert, RecordConversion, TextLines, check_functions
from ._record_writing import DATA, INDEX
from ._sequence_file import Record, SequenceFileReader
from ._table_schema import TableSchema
from .dataset import DataSet
from .pieces import OnError, SkipLog, from_pieces
from .wording import session_first, with_options_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGEST_PIECE_BYTES = 64 << 20
_SMALLEST_PIECE_BYTES = 256 << 10


class RecordOptions(TypedDict, total=False):
    """Options for reading records; see `from_sequence_file`."""

    convert: Convert | None
    schema: TableSchema | None
    delimiter: str
    quote: str | None
    decoders: Decoders | None
    on_error: OnError
    partitions: int | None


def _sequence_files(
    spark: "SparkSession",
    files: Sequence[StoredFile],
    ordered: bool,
    *,
    convert: Convert | None = None,
    schema: TableSchema | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    decoders: Decoders | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    check_functions(convert, decoders)
    lines = text_lines(schema, delimiter, quote, convert)
    options = {"convert": convert, "decoders": decoders, "ordered": ordered}
    data = from_records(
        spark,
        cut_files(files, partitions or context_of(spark).defaultParallelism),
        partial(sequence_records, lines=lines, **options),
        on_error=on_error,
        partitions=partitions,
        class_names=None if schema is None else schema.class_names,
    )
    data.schema = schema
    return data


@session_first
@with_options_of(_sequence_files)
def from_sequence_file(
    spark: "SparkSession",
    url: str,
    **options: Unpack[RecordOptions],
) -> DistributedDataSet:
    """Read examples from SequenceFiles.

    Without `convert` and `schema`, the files must have been written by `write_sequence_file`.

    Args:
        spark: the session.
        url: a file, a folder or a pattern. For MapFiles, only the data files are read.
        convert: function (key, value) -> DataSet, or (features, label) of one example, run on the
            executors. A Text is passed as str, a BytesWritable as bytes, numbers as int or float.
            Default None.
        schema: schema for values that are lines of a table, such as `data.schema` of `from_csv`;
            cannot be combined with `convert`. Default None.
        delimiter: separator of the fields of a line; default a comma.
        quote: quote character of fields that contain delimiters, or None; default a double quote.
        decoders: Java class name -> function that decodes the bytes of a key or value, for other
            classes than Hadoop's types; default None.
        on_error: "raise" (default), or "skip": skip and count damaged or invalid records, and
            continue at the next sync mark.
        partitions: number of partitions; default None: chosen from the data and the cluster.

    Raises:
        FileNotFoundError: if `url` does not exist.
        ConfigurationError: if an option is invalid.
        DataError: when the data is read, if a file or record is invalid.
    """
    places = {file: file.url.rpartition("/") for file in list_files(url)}
    folders = {folder for folder, _, name in places.values() if name == DATA}
    files = [f for f, (folder, _, name) in places.items() if name != INDEX or folder not in folders]
    if not files:
        raise DataError(f"`url` must have at least one file. Received: {url}, without any.")
    return _sequence_files(spark, files, False, **options)


@session_first
@with_options_of(_sequence_files)
def from_map_file(
    spark: "SparkSession",
    url: str,
    **options: Unpack[RecordOptions],
) -> DistributedDataSet:
    """Read examples from MapFiles, part by part in the order of their names.

    The options are those of `from_sequence_file`. Keys out of order are invalid too. For random
    access to single examples, use `MapFileReader`.

    Raises:
        FileNotFoundError: if `url` does not exist.
        ConfigurationError: if an option is invalid.
        DataError: if there is no MapFile at `url`; or, when the data is read, if a record is
            invalid.
    """
    files = [found[DATA] for found in map_folders(url).values()]
    return _sequence_files(spark, files, True, **options)


def text_lines(
    schema: TableSchema | None, delimiter: str, quote: str | None, convert: Convert | None
) -> TextLines | None:
    """Return schema and CSV dialect of lines of text; None without a schema."""
    if schema is None:
        return None
    if convert is not None or not isinstance(schema, TableSchema):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            "`schema` must be a TableSchema, such as `data.schema` of `from_csv`, without "
            f"`convert`. Received: schema={schema!r}, convert={convert!r}."
        )
    form = CsvFormat(header=False, column_names=schema.columns, delimiter=delimiter, quote=quote)
    return schema, form


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordPiece:
    """The bytes [start, end) of a record file."""

    file: StoredFile
    start: int
    end: int


# (open file, range, log) -> (records, conversion); DataError if the file is unusable.
Prepare = Callable[[BinaryIO, RecordPiece, SkipLog], tuple[Iterable[Record], RecordConversion]]


def from_records(
    spark: "SparkSession",
    pieces: Sequence[RecordPiece],
    prepare: "partial[tuple[Iterable[Record], RecordConversion]]",
    *,
    on_error: OnError,
    partitions: int | None,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> DistributedDataSet:
    """Distribute the examples of `pieces`; `prepare` is a `Prepare` function with its options."""
    options = prepare.keywords
    fingerprint = None  # with user functions: changes of their code cannot be detected
    if options.get("convert") is None and options.get("decoders") is None:
        described = repr((prepare.func.__name__, sorted(options.items()), pieces, on_error))
        fingerprint = hashlib.sha256(described.encode()).hexdigest()
    return from_pieces(
        spark,
        pieces,
        partial(read_records, prepare=prepare),
        sizes=[piece.end - piece.start for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=fingerprint,
        class_names=class_names,
    )


def cut_files(files: Sequence[StoredFile], partitions: int) -> list[RecordPiece]:
    """Cut files into about `partitions` ranges of 256 KiB to 64 MiB; smaller files stay whole."""
    total = sum(file.size_bytes for file in files)
    size = min(max(-(-total // partitions), _SMALLEST_PIECE_BYTES), _LARGEST_PIECE_BYTES)
    return [
        RecordPiece(file=file, start=start, end=min(start + size, file.size_bytes))
        for file in files
        for start in range(0, max(file.size_bytes, 1), size)
    ]


def sequence_records(
    content: BinaryIO, piece: RecordPiece, log: SkipLog, *, ordered: bool = False, **options: Any
) -> tuple[Iterable[Record], RecordConversion]:
    """Prepare a range of a SequenceFile; with `ordered`, keys must be ascending."""
    url = piece.file.url
    reader = SequenceFileReader(content, size_bytes=piece.file.size_bytes, source=url)
    conversion = RecordConversion.of(reader.header, source=url, **options)
    records = reader.records(piece.start, piece.end, log)
    return conversion.in_order(records, log) if ordered else records, conversion


def read_records(piece: RecordPiece, log: SkipLog, *, prepare: Prepare) -> Iterator[DataSet]:
    """Yield the examples of one range; report invalid records to `log`."""
    begun = False
    try:
        with open_to_read(piece.file.url) as content:
            records, conversion = prepare(content, piece, log)
            begun = True
            yield from conversion.datasets(records, log)
    except OSError as error:
        log.skip("unreadable file", f"a file must be readable. Received: {error}.")
    except DataError as error:
        if begun:
            raise
        if piece.start == 0 or log.raises:  # counted once, not by every piece of the file
            log.skip("unusable file", str(error))
