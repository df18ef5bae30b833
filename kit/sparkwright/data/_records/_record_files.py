"""SequenceFiles and MapFiles as distributed data: files cut into byte ranges, read on executors."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError, SkipLog, check_on_error, from_pieces
from sparkwright.data._session_first import session_first
from sparkwright.data._tables._csv_format import CsvFormat
from sparkwright.data._tables._table_schema import TableSchema
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import open_to_read
from sparkwright.storage._listing import StoredFile, list_files

from ._map_files import DATA, INDEX
from ._record_conversion import Convert, Decoders, RecordConversion, check_functions, in_order
from ._record_lines import TextLines
from ._sequence_file_reader import Record, SequenceFileReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LARGEST_PIECE_BYTES = 64 << 20
_SMALLEST_PIECE_BYTES = 256 << 10


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordPiece:
    """A range of bytes of a SequenceFile.

    Attributes:
        url: the file.
        size_bytes: its length.
        start: first byte of the range.
        end: the byte behind it.
    """

    url: str
    size_bytes: int
    start: int
    end: int


@session_first
def from_sequence_file(
    spark: "SparkSession",
    url: str,
    *,
    convert: Convert | None = None,
    schema: TableSchema | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    decoders: Decoders | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Examples from SequenceFiles: those of `write_sequence_file`, or any with `convert`.

    Args:
        spark: the session.
        url: a file, a folder or a pattern. Of MapFiles among them the data is read.
        convert: key, value -> a DataSet, or (features, label) of one example, on executors. A
            Text comes as str, a BytesWritable as bytes, numbers as int or float. Default None:
            the files are Sparkwright's own.
        schema: instead of `convert`, where each value is a line of a table: which columns become
            what, as `from_csv` leaves it in `data.schema`; default None.
        delimiter: between the fields of such a line; default a comma.
        quote: around fields that hold delimiters, or None; default a double quote.
        decoders: Java class name -> function of a key's or value's bytes, for classes that are
            not known; default none.
        on_error: "raise" (default), or "skip": what is damaged or cannot be converted is left out
            and counted; reading goes on at the next sync mark.
        partitions: how many; default None: as many as fit the data and the cluster.

    Raises:
        FileNotFoundError: if there is nothing at `url`.
        ConfigurationError: if an option cannot be meant that way.
        DataError: when the data is read, if a file or record cannot be.
    """
    files = list_files(url)
    folders = {_folder(file.url) for file in files if _name(file.url) == DATA}
    kept = [f for f in files if not (_name(f.url) == INDEX and _folder(f.url) in folders)]
    return _from_files(
        spark,
        kept,
        url,
        Meaning.of(convert, schema, delimiter, quote, decoders),
        on_error,
        partitions,
        ordered=False,
    )


@session_first
def from_map_file(
    spark: "SparkSession",
    url: str,
    *,
    convert: Convert | None = None,
    schema: TableSchema | None = None,
    delimiter: str = ",",
    quote: str | None = '"',
    decoders: Decoders | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Examples from MapFiles, one part after another, in the order of their names.

    The options are those of `from_sequence_file`; keys that are out of order are an error too. To
    reach single examples by number, use `MapFileReader`.

    Raises:
        FileNotFoundError: if there is nothing at `url`.
        ConfigurationError: if an option cannot be meant that way.
        DataError: if there is no MapFile at `url`; when the data is read, if a record cannot be.
    """
    kept = [file for file in list_files(url) if _name(file.url) == DATA]
    if not kept:
        raise DataError(
            f"a MapFile must be a folder with a file `{DATA}`. "
            f"Received: {url} without any. For SequenceFiles use `from_sequence_file`."
        )
    return _from_files(
        spark,
        kept,
        url,
        Meaning.of(convert, schema, delimiter, quote, decoders),
        on_error,
        partitions,
        ordered=True,
    )


def _from_files(
    spark: "SparkSession",
    files: Sequence[StoredFile],
    url: str,
    meaning: "Meaning",
    on_error: OnError,
    partitions: int | None,
    *,
    ordered: bool,
) -> DistributedDataSet:
    check_on_error(on_error)
    if not files:
        raise DataError(f"there must be at least one file. Received: {url} without any.")
    wanted = partitions or spark.sparkContext.defaultParallelism
    pieces = cut_files(files, wanted)
    data = from_pieces(
        spark,
        pieces,
        partial(
            read_records,
            convert=meaning.convert,
            lines=meaning.lines,
            decoders=meaning.decoders,
            ordered=ordered,
        ),
        sizes=[piece.end - piece.start for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=_fingerprint(files, meaning, [ordered, on_error, wanted]),
        class_names=None if meaning.lines is None else meaning.lines.schema.class_names,
    )
    if meaning.lines is not None:
        data.schema = meaning.lines.schema
    return data


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """What the records of foreign files mean.

    Attributes:
        convert: key, value -> DataSet or (features, label); None without.
        lines: how a text becomes an example; None without.
        decoders: Java class name -> function of bytes; None without.
    """

    convert: Convert | None
    lines: TextLines | None
    decoders: Decoders | None

    @classmethod
    def of(
        cls,
        convert: Convert | None,
        schema: TableSchema | None,
        delimiter: str,
        quote: str | None,
        decoders: Decoders | None,
    ) -> "Meaning":
        """From the options of `from_sequence_file`.

        Raises:
            ConfigurationError: if one cannot be meant that way.
        """
        check_functions(convert, decoders)
        if schema is None:
            return cls(convert=convert, lines=None, decoders=decoders)
        if convert is not None or not isinstance(schema, TableSchema):
            raise ConfigurationError(
                "`schema` must be a TableSchema, as `data.schema` of `from_csv`, and instead of "
                f"`convert`. Received: schema={schema!r}, convert={convert!r}."
            )
        form = CsvFormat(
            header=False, column_names=schema.columns, delimiter=delimiter, quote=quote
        )
        return cls(convert=None, lines=TextLines(schema=schema, form=form), decoders=decoders)


def cut_files(files: Sequence[StoredFile], partitions: int) -> list[RecordPiece]:
    """Ranges of at most 64 MiB, and about as many as `partitions` where files are not tiny."""
    total = sum(file.size_bytes for file in files)
    size = min(max(-(-total // partitions), _SMALLEST_PIECE_BYTES), _LARGEST_PIECE_BYTES)
    return [
        RecordPiece(
            url=file.url,
            size_bytes=file.size_bytes,
            start=start,
            end=min(start + size, file.size_bytes),
        )
        for file in files
        for start in range(0, max(file.size_bytes, 1), size)
    ]


def read_records(
    piece: RecordPiece,
    log: SkipLog,
    *,
    convert: Convert | None = None,
    lines: TextLines | None = None,
    decoders: Decoders | None = None,
    ordered: bool = False,
) -> Iterator[DataSet]:
    """The examples of one range.

    Args:
        piece: the range.
        log: gets what cannot be read.
        convert: as for `from_sequence_file`.
        lines: how texts become examples, instead of `convert`.
        decoders: as for `from_sequence_file`.
        ordered: whether keys must not fall, as in a MapFile; default False.
    """
    try:
        with open_to_read(piece.url) as file:
            try:
                reader = SequenceFileReader(file, size_bytes=piece.size_bytes, source=piece.url)
                conversion = RecordConversion(
                    reader.header,
                    source=piece.url,
                    convert=convert if lines is None else _never,
                    decoders=decoders,
                )
            except DataError as error:
                if piece.start == 0 or log.raises:  # all pieces find the same, one counts it
                    log.skip("unusable file", str(error))
                return
            records: Iterable[Record] = reader.records(
                piece.start,
                piece.end,
                on_damage=lambda error: log.skip("damaged part of a file", str(error)),
            )
            if ordered:
                records = in_order(records, conversion, log.skip)
            if lines is None:
                yield from conversion.datasets(records, log.skip)
            else:
                yield from lines.datasets(records, conversion, log)
    except OSError as error:
        log.skip("unreadable file", f"a file must be readable. Received: {error}.")


def _never(key: Any, value: Any) -> Any:
    raise AssertionError(key, value)


def _fingerprint(files: Sequence[StoredFile], meaning: Meaning, more: Sequence[Any]) -> str | None:
    """Changes with any file or option; None if examples are made by what cannot be compared."""
    if meaning.convert is not None or meaning.decoders is not None:
        return None
    lines = meaning.lines
    described = [
        [[file.url, file.size_bytes, file.version] for file in files],
        None if lines is None else [lines.schema.to_dict(), lines.form.delimiter, lines.form.quote],
        *more,
    ]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _folder(url: str) -> str:
    return url.rpartition("/")[0]


def _name(url: str) -> str:
    return url.rpartition("/")[2]
