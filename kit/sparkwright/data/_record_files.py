"""SequenceFiles and MapFiles as distributed data: files cut into byte ranges, read on executors."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sparkwright.errors import DataError
from sparkwright.storage._files import StoredFile, list_files, open_to_read

from ._dataset import DataSet
from ._distributed import DistributedDataSet
from ._map_files import DATA, INDEX
from ._pieces import OnError, SkipLog, check_on_error, from_pieces
from ._record_conversion import Convert, Decoders, RecordConversion, check_functions, in_order
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


def from_sequence_file(
    spark: "SparkSession",
    url: str,
    *,
    convert: Convert | None = None,
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
    return _from_files(spark, kept, url, convert, decoders, on_error, partitions, ordered=False)


def from_map_file(
    spark: "SparkSession",
    url: str,
    *,
    convert: Convert | None = None,
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
    return _from_files(spark, kept, url, convert, decoders, on_error, partitions, ordered=True)


def _from_files(
    spark: "SparkSession",
    files: Sequence[StoredFile],
    url: str,
    convert: Convert | None,
    decoders: Decoders | None,
    on_error: OnError,
    partitions: int | None,
    *,
    ordered: bool,
) -> DistributedDataSet:
    check_on_error(on_error)
    check_functions(convert, decoders)
    if not files:
        raise DataError(f"there must be at least one file. Received: {url} without any.")
    wanted = partitions or spark.sparkContext.defaultParallelism
    pieces = cut_files(files, wanted)
    return from_pieces(
        spark,
        pieces,
        partial(read_records, convert=convert, decoders=decoders, ordered=ordered),
        sizes=[piece.end - piece.start for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=_fingerprint(files, ordered, on_error) if not (convert or decoders) else None,
    )


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
    decoders: Decoders | None = None,
    ordered: bool = False,
) -> Iterator[DataSet]:
    """The examples of one range.

    Args:
        piece: the range.
        log: gets what cannot be read.
        convert: as for `from_sequence_file`.
        decoders: likewise.
        ordered: whether keys must not fall, as in a MapFile; default False.
    """
    try:
        with open_to_read(piece.url) as file:
            try:
                reader = SequenceFileReader(file, size_bytes=piece.size_bytes, source=piece.url)
                conversion = RecordConversion(
                    reader.header, source=piece.url, convert=convert, decoders=decoders
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
            yield from conversion.datasets(records, log.skip)
    except OSError as error:
        log.skip("unreadable file", f"a file must be readable. Received: {error}.")


def _fingerprint(files: Sequence[StoredFile], ordered: bool, on_error: str) -> str:
    described = [[f.url, f.size_bytes, f.version] for f in files]
    return hashlib.sha256(json.dumps([described, ordered, on_error]).encode()).hexdigest()


def _folder(url: str) -> str:
    return url.rpartition("/")[0]


def _name(url: str) -> str:
    return url.rpartition("/")[2]
