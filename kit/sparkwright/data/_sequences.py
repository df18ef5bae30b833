"""One CSV file a sequence: features, labels and masks, of one length over the whole data set."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.cluster.jobs import collect
from sparkwright.data._alignment import Alignment, check_alignment
from sparkwright.data._classes import MOST_CLASSES, Classes, check_classes, found_text
from sparkwright.data._column_choice import in_order, select_columns
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import ENDINGS, CsvColumns, CsvReader, columns_of
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.data._pieces import (
    OnError,
    check_on_error,
    check_partitions,
    from_pieces,
    group_by_size,
)
from sparkwright.data._sequence_reader import (
    Pair,
    SequenceReader,
    StepFiles,
    Survey,
    in_natural_order,
    paired,
)
from sparkwright.data._table_source import files_of
from sparkwright.data._wording import session_first, shortened
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._listing import StoredFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE_FILES, _PIECE_BYTES = 256, 8 << 20

Pairs = list[tuple[StoredFile, StoredFile | None]]


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
            the files at `labels_url`. A single column, not in a list, gives (n, time), or (n,) per
            sequence; a list of columns has an axis more.
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
        header: whether files have a line with names of columns; default False: these are
            `column_0`, `column_1`, …
        skip_lines: lines to leave out at the top, before the header; default 0.
        delimiter: between fields; default a comma.
        quote: around fields; default a double quote; None for none.
        on_error: "raise" (default), or "skip": leave bad sequences out and count them.
        partitions: how many; default None: Spark's default parallelism, or more if they are large.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: naming file and line; a label file that is missing.
        FileNotFoundError: nothing is at a URL.
    """
    check_partitions(partitions)
    reader, pairs = prepared(
        url,
        form=CsvFormat(
            delimiter=delimiter,
            quote=quote,
            skip_lines=skip_lines,
            header=header,
            newlines_in_values=True,
        ),
        labels=labels,
        labels_url=labels_url,
        pair_by=pair_by,
        label_per=label_per,
        classes=classes,
        one_hot=one_hot,
        features=features,
        align=align,
        length=length,
        truncate=truncate,
        on_error=on_error,
    )
    sizes = [f.size_bytes + (0 if g is None else g.size_bytes) + 1024 for f, g in pairs]
    pieces = _pieces(sizes, partitions or spark.sparkContext.defaultParallelism)
    grouped = [
        tuple((f.url, None if g is None else g.url) for f, g in (pairs[i] for i in piece))
        for piece in pieces
    ]
    if length is None or reader.to_infer:
        reader = _surveyed(spark, reader, grouped, on_error, url)
    names = None if reader.labels is None else reader.labels.classes
    files = [(f.url, f.size_bytes, f.version) for pair in pairs for f in pair if f is not None]
    return from_pieces(
        spark,
        grouped,
        reader,
        sizes=[sum(sizes[i] for i in piece) for piece in pieces],
        partitions=partitions,
        on_error=on_error,
        fingerprint=hashlib.sha256(repr((files, reader, on_error)).encode()).hexdigest(),
        class_names={"labels": names} if isinstance(names, tuple) else None,
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


def prepared(
    url: str,
    *,
    form: CsvFormat,
    labels: Any = None,
    labels_url: str | None = None,
    pair_by: str = "name",
    label_per: str = "step",
    classes: Classes | None = None,
    one_hot: bool = False,
    features: Any = None,
    align: Alignment = "equal_length",
    length: int | None = None,
    truncate: bool = False,
    on_error: OnError = "raise",
) -> tuple[SequenceReader, Pairs]:
    """The reader as far as it is known before a survey, and what it is to read.

    Args: as of `from_csv_sequences`.

    Raises:
        ConfigurationError, DataError, FileNotFoundError: as that does.
    """
    check_on_error(on_error)
    check_alignment(align, length)
    _check_options(label_per, pair_by, classes, one_hot, labels, labels_url)
    files = in_natural_order(files_of(url, ENDINGS))
    label_files = None if labels_url is None else in_natural_order(files_of(labels_url, ENDINGS))
    pairs = paired(files, label_files, pair_by)
    names = columns_of(_of_use(files, on_error), form)
    own_names = names if label_files is None else columns_of(_of_use(label_files, on_error), form)
    label_names: tuple[str, ...] = ()
    if labels is not None or label_files is not None:
        choice = slice(None) if labels is None else labels
        label_names = select_columns(own_names, choice, option="labels")
    own = label_names if label_files is None else ()
    rest = [name for name in names if name not in own] if features is None else features
    feature_names = select_columns(names, rest, option="features")
    kinds: Any = classes
    if classes is not None and not isinstance(classes, int | str):
        kinds = tuple(map(str, classes))
    is_text = isinstance(kinds, str | tuple)
    _check_columns(names, feature_names, label_names, own if is_text else (), own, classes)
    feature_files = StepFiles(reader=_reader(form, names, feature_names), features=feature_names)
    label_reader: StepFiles | None = None
    if label_names:
        texts = frozenset(label_names if is_text else ())
        used = label_names if label_files else tuple(dict.fromkeys(feature_names + label_names))
        label_reader = StepFiles(
            reader=_reader(form, own_names, used, texts),
            features=() if label_files else feature_names,
            labels=label_names,
            classes=kinds,
            one_hot=one_hot,
        )
    reader = SequenceReader(
        features=label_reader if label_reader and not label_files else feature_files,
        labels=label_reader,
        flat=(labels is None or isinstance(labels, str | int))
        and len(label_names) == 1
        and not one_hot,
        per_step=label_per == "step",
        align=align,
        length=length or 0,
        truncate=truncate,
        masked=length is not None,
    )
    return reader, pairs


def _of_use(files: Sequence[StoredFile], on_error: OnError) -> Sequence[StoredFile]:
    """The files of which the first that can be read names the columns."""
    return files if on_error == "skip" else files[:1]


def _reader(
    form: CsvFormat,
    names: tuple[str, ...],
    used: tuple[str, ...],
    texts: frozenset[str] = frozenset(),
) -> CsvReader:
    columns = CsvColumns(names=names, used=used, texts=texts)
    return CsvReader(form=form, columns=columns, is_exact=True)


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
            "`features` must leave a column at least. Received: none of "
            f"{shortened(names)}, of which {shortened(own) or 'none'} are labels."
        )
    if classes is not None and len(labels) != 1:
        raise ConfigurationError(
            f"`classes` needs one column of labels. Received: {len(labels)}, {shortened(labels)}."
        )
    both = sorted(set(features) & set(texts))
    if both:
        raise ConfigurationError(
            "a column of class names cannot be a feature. "
            f"Received: {shortened(both)} in both `features` and `labels`."
        )


def completed(reader: SequenceReader, found: Survey, url: str) -> SequenceReader:
    """`reader` with the length and the classes that a survey of all files has found.

    Raises:
        DataError: if it has found none.
    """
    if found.lengths.shortest is None:
        raise DataError(
            f"there must be a sequence that can be read. Received: none at {url}; all were skipped."
        )
    if reader.labels is not None and reader.to_infer:
        if not 2 <= len(found.classes) <= MOST_CLASSES:
            raise DataError(
                f"labels must have from 2 to {MOST_CLASSES:,} different values to be classes. "
                f"Received: {found_text(found.classes)}, at {url}."
            )
        labels = replace(reader.labels, classes=in_order(set(found.classes)))
        together = reader.features is reader.labels
        reader = replace(reader, labels=labels, features=labels if together else reader.features)
    if reader.length:
        return reader
    return replace(reader, length=found.lengths.longest, masked=not found.lengths.is_uniform)


def _check_options(
    label_per: Any,
    pair_by: Any,
    classes: Any,
    one_hot: bool,
    labels: Any,
    labels_url: str | None,
) -> None:
    for option, value, allowed in (
        ("label_per", label_per, ("step", "sequence")),
        ("pair_by", pair_by, ("name", "order")),
    ):
        if value not in allowed:
            raise ConfigurationError(
                f"`{option}` must be {allowed[0]!r} or {allowed[1]!r}. Received: {value!r}."
            )
    if one_hot and classes is None:
        raise ConfigurationError("`one_hot` needs `classes`. Received: one_hot=True, classes=None.")
    if classes is not None:
        check_classes("classes", classes)
        if labels is None and labels_url is None:
            raise ConfigurationError(
                "`classes` needs labels: give `labels`, `labels_url` or both. "
                f"Received: classes={classes!r}, labels=None."
            )
