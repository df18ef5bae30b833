"""Sequences from CSV files, one file per sequence, padded to one length with masks."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import collect
from sparkwright.data._alignment import Alignment, check_alignment
from sparkwright.data._column_choice import select_columns, sort_values
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import ENDINGS, CsvReader
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._local_data import LocalData
from sparkwright.data._sequence_reader import (
    Pair,
    SequenceReader,
    StepFiles,
    in_natural_order,
    paired,
)
from sparkwright.data._skipped import OnError, SkipLog, check_on_error
from sparkwright.data._survey import Survey
from sparkwright.data._table_schema import check_classes
from sparkwright.data._table_source import check_inferred, files_of
from sparkwright.data.classes import Classes
from sparkwright.data.pieces import check_partitions, from_pieces, group_by_size
from sparkwright.data.tables import Part
from sparkwright.data.wording import listed, session_first, with_options_of
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice
from sparkwright.storage.listing import StoredFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE_FILES, _PIECE_BYTES = 256, 8 << 20

Pairs = list[tuple[StoredFile, StoredFile | None]]


class SequenceOptions(TypedDict, total=False):
    """Options of sequences; see `from_csv_sequences`."""

    labels: Any
    labels_url: str | None
    pair_by: Literal["name", "order"]
    label_per: Literal["step", "sequence"]
    classes: Classes | None
    one_hot: bool
    features: Any
    align: Alignment
    length: int | None
    truncate: bool
    header: bool
    skip_lines: int
    delimiter: str
    quote: str | None


def prepared(
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
) -> tuple[SequenceReader, Pairs]:
    """Create the reader of `from_csv_sequences`, except what a survey finds; pair the files."""
    form = CsvFormat(
        delimiter=delimiter,
        quote=quote,
        skip_lines=skip_lines,
        header=header,
        newlines_in_values=True,
    )
    check_on_error(on_error)
    check_alignment(align, length)
    check_choice("label_per", label_per, ("step", "sequence"))
    check_choice("pair_by", pair_by, ("name", "order"))
    _check_classes(classes, one_hot, has_labels=labels is not None or labels_url is not None)
    files = in_natural_order(files_of(url, ENDINGS))
    label_files = None if labels_url is None else in_natural_order(files_of(labels_url, ENDINGS))
    pairs = paired(files, label_files, pair_by)
    # The first readable file defines the columns.
    several = None if on_error == "skip" else 1
    reader = CsvReader.of(files[:several], form)
    label_reader = reader if label_files is None else CsvReader.of(label_files[:several], form)
    label_names: tuple[str, ...] = ()
    if labels is not None or label_files is not None:
        choice = slice(None) if labels is None else labels
        label_names = select_columns(label_reader.names, choice, option="labels")
    own = label_names if label_files is None else ()
    rest = [name for name in reader.names if name not in own] if features is None else features
    feature_names = select_columns(reader.names, rest, option="features")
    kinds: Any = classes
    if classes is not None and not isinstance(classes, int | str):
        kinds = tuple(map(str, classes))
    is_text = isinstance(kinds, str | tuple)
    _check_columns(reader.names, feature_names, label_names, own if is_text else (), own, classes)
    texts = label_names if is_text else ()
    parts = {"features": [Part(column=name) for name in feature_names]}
    label_parts = [Part(column=n, classes=kinds, hot=one_hot) for n in label_names]
    others = None
    if label_files is not None:
        taking = label_reader.taking(label_names, texts)
        others = StepFiles(reader=taking, parts={"labels": label_parts})
    elif label_names:
        parts["labels"] = label_parts
    used = tuple(dict.fromkeys(feature_names + own))
    return SequenceReader(
        files=StepFiles(reader=reader.taking(used, texts if own else ()), parts=parts),
        label_files=others,
        flat=(labels is None or isinstance(labels, str | int))
        and len(label_names) == 1
        and not one_hot,
        per_step=label_per == "step",
        align=align,
        length=length or 0,
        truncate=truncate,
        masked=length is not None,
    ), pairs


@session_first
@with_options_of(prepared)
def from_csv_sequences(
    spark: "SparkSession",
    url: str,
    *,
    on_error: OnError = "raise",
    partitions: int | None = None,
    **options: Unpack[SequenceOptions],
) -> DistributedDataSet:
    """Read sequences from CSV files: one file per sequence, one line per step.

    Files are sorted in the natural order of their URLs: `2.csv` before `10.csv`. Features are
    (n, time, columns) float32. Shorter sequences are padded with zeros, and (n, time) masks mark
    the real steps. Masks are created if lengths differ or `length` is given. With `length=None` or
    `classes="infer"`, a first pass reads all files.

    Args:
        spark: the session.
        url: the files with features: a folder (files with the extension csv, tsv or txt, compressed
            or not), a file or a pattern.
        labels: columns of the labels: names, indices, ranges. Default None: no labels, or all
            columns of the files at `labels_url`. A single column outside a list gives (n, time),
            or (n,) with `label_per="sequence"`; a list adds an axis for the columns.
        labels_url: the files with labels; default None: labels are in the files at `url`.
        pair_by: "name" (default) pairs files with the same name except for the extension; "order"
            pairs them in natural order.
        label_per: "step" (default) or "sequence". "sequence" uses the last line of a file at `url`,
            or the only line of a file at `labels_url`.
        classes: default None: labels are float32 numbers. Otherwise labels become int32 class
            numbers: the number of classes, their names in the files, or "infer" (the sorted values
            found).
        one_hot: whether class labels become float32 vectors; default False.
        features: columns; default None: all except the labels.
        align: alignment of features and labels of different lengths. "equal_length" (default)
            makes them invalid, "start" aligns the first steps, "end" aligns the last steps. "end"
            also pads at the start.
        length: number of steps of every example; default None: that of the longest sequence.
        truncate: whether to truncate sequences longer than `length`, at the end, or at the start
            with `align="end"`. Default False: they are invalid.
        header: whether files have a header with column names; default False: the columns are
            `column_0`, `column_1` and so on.
        skip_lines: number of lines to skip before the header; default 0.
        delimiter: separator of fields; default a comma.
        quote: quote character of fields, or None; default a double quote.
        on_error: "raise" (default), or "skip": skip and count invalid sequences.
        partitions: number of partitions; default None: Spark's default parallelism, or more for
            large data.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: if a file is invalid (names file and line) or a label file is missing.
        FileNotFoundError: if a URL does not exist.
    """
    check_partitions(partitions)
    reader, pairs = prepared(url, on_error=on_error, **options)
    sizes = [f.size_bytes + (0 if g is None else g.size_bytes) + 1024 for f, g in pairs]
    # Group small files: a Spark record per file would cost more than reading the file.
    wanted = (partitions or context_of(spark).defaultParallelism) * 4
    most = max(-(-len(sizes) // _PIECE_FILES), sum(sizes) // _PIECE_BYTES, wanted)
    urls = [(f.url, None if g is None else g.url) for f, g in pairs]
    sized = group_by_size(list(zip(urls, sizes, strict=True)), sizes, min(most, len(sizes)))
    pieces = [tuple(pair for pair, _ in group) for group in sized]
    if not reader.length or reader.to_infer:
        context = context_of(spark)
        # Summed on the executors: the classes of a thousand pieces may not fit on the driver.
        rdd = context.parallelize(
            pieces, min(len(pieces), context.defaultParallelism * 4)
        ).mapPartitions(partial(_survey, reader=reader, on_error=on_error))
        found = collect(spark, rdd, description="find the longest sequence")
        reader = completed(reader, sum(found, Survey()), url)
    files = [(f.url, f.size_bytes, f.version) for pair in pairs for f in pair if f is not None]
    return from_pieces(
        spark,
        pieces,
        reader,
        sizes=[sum(size for _, size in group) for group in sized],
        partitions=partitions,
        on_error=on_error,
        fingerprint=hashlib.sha256(repr((files, reader, on_error)).encode()).hexdigest(),
        class_names=_class_names(reader),
    )


@with_options_of(prepared)
def read_csv_sequences(
    url: str, *, on_error: OnError = "raise", **options: Unpack[SequenceOptions]
) -> LocalData:
    """Read the same examples as `from_csv_sequences`, with its arguments, without Spark.

    `ParallelWrapper` accepts the result; `data` is the DataSet.

    Raises:
        Exception: as for `from_csv_sequences`.
    """
    reader, pairs = prepared(url, on_error=on_error, **options)
    named = [(f.url, None if g is None else g.url) for f, g in pairs]
    if not reader.length or reader.to_infer:
        reader = completed(reader, reader.survey(named, SkipLog(on_error)), url)
    log = SkipLog(on_error)
    return LocalData.of(reader(named, log), log, url, class_names=_class_names(reader))


def _class_names(reader: SequenceReader) -> dict[str, Sequence[str]]:
    names = [part.classes for part in reader.label_parts if isinstance(part.classes, tuple)]
    return {"labels": names[0]} if names else {}


def _survey(
    pieces: Iterable[tuple[Pair, ...]], *, reader: SequenceReader, on_error: OnError
) -> Iterator[Survey]:
    yield sum((reader.survey(piece, SkipLog(on_error)) for piece in pieces), Survey())


def _check_columns(
    names: Sequence[str],
    features: Sequence[str],
    labels: Sequence[str],
    texts: Sequence[str],
    own: Sequence[str],
    classes: Classes | None,
) -> None:
    if not features:
        raise ConfigurationError(
            "`features` must select at least one column. Received: none of "
            f"{listed(names)}; labels are {listed(own)}."
        )
    if classes is not None and len(labels) != 1:
        raise ConfigurationError(
            "`classes` needs exactly one column of labels. Received: "
            f"{len(labels)}, {listed(labels)}."
        )
    both = sorted(set(features) & set(texts))
    if both:
        raise ConfigurationError(
            "a column of class names cannot be a feature. "
            f"Received: {listed(both)} in both `features` and `labels`."
        )


def completed(reader: SequenceReader, found: Survey, url: str) -> SequenceReader:
    """Add length and classes of a survey to `reader`; DataError if it found no examples."""
    if not found.examples:
        raise DataError(
            "the data must have at least one valid sequence. "
            f"Received: none at {url}; all were skipped."
        )
    if reader.to_infer:
        classes = found.classes["labels"]
        check_inferred("labels", classes, url, least=2)
        reader = reader.with_classes(sort_values(classes))
    if reader.length:
        return reader
    lengths = found.length_of([""])
    return replace(reader, length=lengths.longest, masked=not lengths.is_uniform)


def _check_classes(classes: Any, one_hot: bool, *, has_labels: bool) -> None:
    if one_hot and classes is None:
        raise ConfigurationError("`one_hot` needs `classes`. Received: one_hot=True, classes=None.")
    if classes is not None:
        check_classes(classes)
        if not has_labels:
            raise ConfigurationError(
                "`classes` needs labels: set `labels` or `labels_url`. "
                f"Received: classes={classes!r}, labels=None."
            )
