"""Distributed data from SequenceFiles and MapFiles; executors read byte ranges of the files."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.listing import StoredFile, list_files

from ._distributed import DistributedDataSet
from ._record_values import (
    BYTES,
    DECODERS,
    NOTE,
    Decoders,
    Row,
    example_decoder,
    example_of,
    from_rows,
    read_columns_note,
)
from ._sequence_file import SequenceHeader, opened
from .chunks import CHUNK_BYTES
from .dataset import DataSet
from .pieces import OnError, SkipLog, from_pieces
from .wording import clipped, session_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA, INDEX = "data", "index"
_LARGEST_PIECE_BYTES = 64 << 20
_SMALLEST_PIECE_BYTES = 256 << 10
Convert = Callable[[Any, Any], Any]
# (offset, *content) of a record -> examples, or the row of one.
Make = Callable[[Any], DataSet | Row]


@session_first
def from_sequence_file(
    spark: "SparkSession",
    url: str,
    *,
    convert: Convert | None = None,
    decoders: Decoders | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Read examples from SequenceFiles, or from the data of MapFiles.

    Without `convert`, the files must have been written by `write_sequence_file`.

    Args:
        spark: the session.
        url: a file, a folder or a pattern. For MapFiles, only the data files are read.
        convert: function (key, value) -> DataSet, or (features, label) of one example, run on the
            executors. A Text is passed as str, a BytesWritable as bytes, numbers as int or float.
            Default None.
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
    options = {"convert": convert, "decoders": decoders}
    check_functions(**options)
    pieces = cut_files(sequence_files(url), partitions or context_of(spark).defaultParallelism)
    read = partial(read_sequences, **options)
    return from_records(spark, pieces, read, on_error=on_error, partitions=partitions)


@session_first
def from_map_file(
    spark: "SparkSession",
    url: str,
    *,
    convert: Convert | None = None,
    decoders: Decoders | None = None,
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Read examples from MapFiles, part by part in the order of their names.

    For random access to single examples, use `MapFileReader`.

    Args:
        spark: the session.
        url: the folder of a MapFile, a folder of several, or a pattern.
        convert: as for `from_sequence_file`; so are the following options.
        decoders: for other classes than Hadoop's types; default None.
        on_error: "raise" (default) or "skip".
        partitions: number of partitions; default None.

    Raises:
        FileNotFoundError: if `url` does not exist.
        ConfigurationError: if an option is invalid.
        DataError: if there is no MapFile at `url`; or, when the data is read, if a record is
            invalid.
    """
    map_folders(url)
    return from_sequence_file(
        spark, url, convert=convert, decoders=decoders, on_error=on_error, partitions=partitions
    )


def map_folders(url: str) -> dict[str, dict[str, StoredFile]]:
    """Return folder -> name -> file of each MapFile at `url`, sorted by URL."""
    found = {folder: files for folder, files in _folders(url).items() if DATA in files}
    if not found:
        raise DataError(
            f"a MapFile must be a folder with a file `{DATA}`. "
            f"Received: {url} without one. For SequenceFiles use `from_sequence_file`."
        )
    return found


def sequence_files(url: str) -> list[StoredFile]:
    """Return the files of records at `url`; of MapFiles, which may have more files, the data."""
    return [
        file
        for files in _folders(url).values()
        for name, file in files.items()
        if name == DATA or not {DATA, INDEX} <= files.keys()
    ]


def some_files(url: str) -> list[StoredFile]:
    """Return the files at `url`; DataError if there are none."""
    if not (files := list_files(url)):
        raise DataError(f"`url` must have at least one file. Received: {url}, without any.")
    return files


def _folders(url: str) -> dict[str, dict[str, StoredFile]]:
    folders: dict[str, dict[str, StoredFile]] = {}
    for file in some_files(url):
        folder, _, name = file.url.rpartition("/")
        folders.setdefault(folder, {})[name] = file
    return folders


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordPiece:
    """The bytes [start, end) of a record file."""

    file: StoredFile
    start: int
    end: int


def cut_files(files: Sequence[StoredFile], partitions: int) -> list[RecordPiece]:
    """Cut files into about `partitions` ranges of 256 KiB to 64 MiB; smaller files stay whole."""
    total = sum(file.size_bytes for file in files)
    size = min(max(-(-total // partitions), _SMALLEST_PIECE_BYTES), _LARGEST_PIECE_BYTES)
    return [
        RecordPiece(file=file, start=start, end=min(start + size, file.size_bytes))
        for file in files
        for start in range(0, max(file.size_bytes, 1), size)
    ]


def from_records(
    spark: "SparkSession",
    pieces: Sequence[RecordPiece],
    read: "partial[Iterator[DataSet]]",
    *,
    on_error: OnError,
    partitions: int | None,
) -> DistributedDataSet:
    """Distribute the examples of `pieces`; `read` is a function (piece, log) with its options."""
    fingerprint = None  # with user functions: changes of their code cannot be detected
    if not any(map(read.keywords.get, ("convert", "decoders"))):
        described = repr((read.func.__name__, sorted(read.keywords.items()), pieces, on_error))
        fingerprint = hashlib.sha256(described.encode()).hexdigest()
    return from_pieces(
        spark,
        pieces,
        read,
        sizes=[piece.end - piece.start for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=fingerprint,
    )


def read_sequences(
    piece: RecordPiece,
    log: SkipLog,
    *,
    convert: Convert | None = None,
    decoders: Decoders | None = None,
) -> Iterator[DataSet]:
    """Yield the examples of a range of a SequenceFile; report invalid records to `log`."""
    source = piece.file.url
    make = None
    try:
        with opened(piece.file) as reader:
            make = maker_of(reader.header, source, convert, decoders)
            yield from examples_of(reader.records(piece.start, piece.end, log), make, source, log)
    except OSError as error:
        log.skip("unreadable file", f"a file must be readable. Received: {source}: {error}.")
    except DataError as error:
        if make is not None:
            raise
        if piece.start == 0 or log.raises:  # counted once, not by every piece of the file
            log.skip("unusable file", str(error))


def maker_of(
    header: SequenceHeader, source: str, convert: Convert | None, decoders: Decoders | None
) -> Make:
    """Return a function that converts key and value of a record of `source` to examples."""
    value_of = decoder_of(header.value_class, decoders, source)
    key_of = decoder_of(header.key_class, decoders, source)
    if convert is not None:
        return lambda record: example_of(convert(key_of(record[1]), value_of(record[2])))
    if NOTE not in header.notes or header.value_class != BYTES:
        raise DataError(
            "without `convert`, a record file must be written by Sparkwright. "
            f"Received: {source} with keys of {header.key_class} and values of "
            f"{header.value_class}. Pass `convert`, a function "
            "(key, value) -> DataSet or (features, label)."
        )
    try:
        return example_decoder(read_columns_note(header.notes[NOTE]))
    except DataError as error:
        raise DataError(f"{error} It is in {source}.") from None


def decoder_of(class_name: str, decoders: Decoders | None, source: str) -> Callable[[bytes], Any]:
    """Return the decoder of a class; its name is only looked up and never imports code."""
    found = (decoders or {}).get(class_name) or DECODERS.get(class_name)
    if found is None:
        known = ", ".join(sorted(name.rpartition(".")[2] for name in DECODERS))
        raise DataError(
            f"the classes of a record file must be of {known}. Received: {class_name!r} in "
            f"{source}. Pass a function that decodes its bytes: "
            f"`decoders={{{class_name!r}: function}}`."
        )
    return found


def examples_of(
    records: Iterable[tuple[int, *tuple[bytes, ...]]], make: Make, source: str, log: SkipLog
) -> Iterator[DataSet]:
    """Yield the examples of (offset, *record); report the offsets where `make` fails to `log`."""

    def each() -> Iterator[tuple[Any, Any]]:
        for record in records:
            try:
                made = make(record)
            except Exception as error:  # also of the user's functions
                text = str(error)
                if not isinstance(error, DataError):
                    text = f"`convert` must not fail. Received: {clipped(repr(error), limit=200)}."
                at = f"the record at byte {record[0]} of {source}"
                log.skip("unusable record", f"{text} It is {at}.")
            else:
                yield (None, made) if isinstance(made, DataSet) else made

    # Joined before they become DataSets, of which one takes longer than reading an example.
    for kind, alike in groupby(each(), key=itemgetter(0)):
        found = map(itemgetter(1), alike)
        if kind is None:
            yield from found
            continue
        count = CHUNK_BYTES // kind.itemsize + 1
        while content := b"".join(islice(found, count)):
            yield from_rows(content, kind)


def check_functions(convert: Any, decoders: Any) -> None:
    """Raise ConfigurationError unless `convert` and all `decoders` are callable or None."""
    if convert is not None and not callable(convert):
        raise ConfigurationError(
            f"`convert` must be a function or None. Received: convert={convert!r}."
        )
    if decoders is not None and not (
        isinstance(decoders, dict) and all(map(callable, decoders.values()))
    ):
        raise ConfigurationError(
            "`decoders` must be a dict of Java class name -> function of bytes. "
            f"Received: decoders={decoders!r}."
        )
