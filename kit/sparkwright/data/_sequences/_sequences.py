"""One CSV file a sequence: features, labels and masks, of one length over the whole data set."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.data._alignment import Alignment
from sparkwright.data._class_values import Classes
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import OnError, check_partitions, from_pieces, group_by_size
from sparkwright.data._session_first import session_first
from sparkwright.storage._listing import StoredFile

from ._csv_steps import StepFormat
from ._sequence_options import completed, prepared
from ._sequence_reader import Pair, SequenceReader, Survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE_FILES, _PIECE_BYTES = 256, 8 << 20


@session_first
def from_csv_sequences(
    spark: "SparkSession",
    url: str,
    *,
    labels: Any = None,
    labels_url: str | None = None,
    pair_by: Literal["name", "order"] = "name",
    label_per: Literal["step", "sequence"] = "step",
    classes: Classes | None = None,
    one_hot: bool = False,
    features: Any = None,
    align: Alignment = "equal_length",
    length: int | None = None,
    truncate: bool = False,
    header: bool = False,
    skip_lines: int = 0,
    delimiter: str = ",",
    quote: str | None = '"',
    on_error: OnError = "raise",
    partitions: int | None = None,
) -> DistributedDataSet:
    """Sequences of which each is one CSV file, a line a step.

    Files come in the natural order of their URLs: `2.csv` before `10.csv`. Features are
    (n, time, columns) float32. Where a sequence is shorter than the others, zeros fill it up and
    masks, (n, time), tell; with `length` given there are always masks, otherwise only if lengths
    differ. With `length=None` or `classes="infer"` a first pass reads all files.

    Args:
        spark: the session.
        url: a folder (its files ending in csv, tsv or txt, packed or not), a file, or a pattern, of
            the files with features.
        labels: columns of the labels: names, indices, ranges. Default None: none, or all columns of
            the files at `labels_url`. One column by itself gives (n, time), or (n,) per sequence; a
            list of columns has an axis more.
        labels_url: files with the labels, if these are not in those at `url`.
        pair_by: "name" (default): files whose names are the same but for the ending belong
            together; "order": the first with the first, in natural order.
        label_per: "step" (default), or "sequence": the last line's, of files at `labels_url` the
            only line's.
        classes: default None: labels are numbers (float32). Otherwise int32 class numbers: how many
            classes there are, or their names as they stand in the files, or "infer": the values
            found, in order.
        one_hot: class labels as float32 vectors; default False.
        features: columns; default None: all but the labels.
        align: where features and labels differ in length: "equal_length" (default) refuses,
            "start" lets both begin together, "end" lets both end together. "end" pads at the start.
        length: steps of every example; default None: as many as the longest sequence has.
        truncate: cut what is longer than `length`: at its end, with `align="end"` at its start.
            Default False: an error.
        header: whether files have a line with names of columns; default False: these are `f0`,
            `f1`, …
        skip_lines: lines to leave out at the top, before the header; default 0.
        delimiter: between fields; default a comma.
        quote: around fields; default a double quote; None for none.
        on_error: "raise" (default), or "skip": leave bad sequences out and count them.
        partitions: how many; default None: Spark's default parallelism, or more if they are large.

    Raises:
        ConfigurationError: an option that cannot be meant so.
        DataError: naming file and line; a label file that is missing.
        FileNotFoundError: nothing is at a URL.
    """
    check_partitions(partitions)
    reader, pairs = prepared(
        url, labels=labels, labels_url=labels_url, pair_by=pair_by, label_per=label_per,
        classes=classes, one_hot=one_hot, features=features, align=align, length=length,
        truncate=truncate, on_error=on_error,
        layout=StepFormat(delimiter=delimiter, quote=quote, skip_lines=skip_lines, header=header),
    )  # fmt: skip
    sizes = [f.size_bytes + (0 if g is None else g.size_bytes) + 1024 for f, g in pairs]
    pieces = _pieces(sizes, partitions or spark.sparkContext.defaultParallelism)
    grouped = [
        tuple((f.url, None if g is None else g.url) for f, g in (pairs[i] for i in piece))
        for piece in pieces
    ]
    if length is None or reader.classes == "infer":
        reader = _surveyed(spark, reader, grouped, on_error, url)
    names = reader.classes if isinstance(reader.classes, tuple) else None
    return from_pieces(
        spark,
        grouped,
        reader,
        sizes=[sum(sizes[i] for i in piece) for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=_fingerprint(pairs, reader, on_error),
        class_names=None if names is None else {"labels": names},
    )


def _pieces(sizes: Sequence[int], partitions: int) -> list[list[int]]:
    """Little files many at a time: a Spark record for each would cost more than reading it."""
    most = max(-(-len(sizes) // _PIECE_FILES), sum(sizes) // _PIECE_BYTES, partitions * 4)
    return group_by_size(sizes, min(most, len(sizes)))


def _surveyed(
    spark: "SparkSession",
    reader: SequenceReader,
    pieces: Sequence[tuple[Pair, ...]],
    on_error: OnError,
    url: str,
) -> SequenceReader:
    from sparkwright.spark._jobs import collect

    context = spark.sparkContext
    slices = min(len(pieces), context.defaultParallelism * 4)
    # Summed up on executors: classes of a thousand pieces would fill the driver.
    rdd = context.parallelize(pieces, slices).mapPartitions(
        partial(_survey, reader=reader, on_error=on_error)
    )
    found = sum(collect(spark, rdd, description="find the longest sequence"), Survey())
    return completed(reader, found, url)


def _survey(
    pieces: Iterable[tuple[Pair, ...]], *, reader: SequenceReader, on_error: OnError
) -> Iterator[Survey]:
    yield sum((reader.survey(piece, on_error) for piece in pieces), Survey())


def _fingerprint(
    pairs: Iterable[tuple[StoredFile, StoredFile | None]], reader: SequenceReader, on_error: str
) -> str:
    files = [(f.url, f.size_bytes, f.version) for pair in pairs for f in pair if f is not None]
    return hashlib.sha256(repr((files, reader, on_error)).encode()).hexdigest()
