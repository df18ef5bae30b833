"""One CSV file a sequence: features, labels and masks, of one length over the whole data set."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import StoredFile, list_files

from ._alignment import Alignment, check_alignment
from ._class_values import MOST_CLASSES, Classes, check_classes
from ._column_choice import in_order, select_columns
from ._csv_steps import CsvFormat, UnusableFile
from ._distributed import DistributedDataSet
from ._pieces import OnError, check_on_error, from_pieces, group_by_size
from ._sequence_pairs import in_natural_order, paired
from ._sequence_reader import Pair, SequenceReader, Survey
from ._wording import shortened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIECE_FILES, _PIECE_BYTES = 256, 8 << 20


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
        url: a folder, a file, or a pattern, of the files with features.
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
    check_on_error(on_error)
    check_alignment(align, length)
    _check_options(label_per, pair_by, classes, labels, labels_url)
    layout = CsvFormat(delimiter=delimiter, quote=quote, skip_lines=skip_lines, header=header)
    files = in_natural_order(list_files(url))
    label_files = None if labels_url is None else in_natural_order(list_files(labels_url))
    if not files:
        raise DataError(f"there must be a file at least. Received: none at {url}.")
    pairs = paired(files, label_files, pair_by)
    reader = _reader(
        layout, pairs, features=features, labels=labels, classes=classes, on_error=on_error,
        flat=labels is None or isinstance(labels, str | int),
    )  # fmt: skip
    reader = replace(
        reader, per_step=label_per == "step", one_hot=one_hot, align=align, length=length or 0,
        truncate=truncate, masked=length is not None,
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


def _check_options(
    label_per: Any, pair_by: Any, classes: Any, labels: Any, labels_url: str | None
) -> None:
    for option, value, allowed in (
        ("label_per", label_per, ("step", "sequence")),
        ("pair_by", pair_by, ("name", "order")),
    ):
        if value not in allowed:
            raise ConfigurationError(
                f"`{option}` must be {allowed[0]!r} or {allowed[1]!r}. Received: {value!r}."
            )
    if classes is not None:
        check_classes("classes", classes)
        if labels is None and labels_url is None:
            raise ConfigurationError(
                "`classes` needs labels: give `labels`, `labels_url` or both. "
                f"Received: classes={classes!r}, labels=None."
            )


def _reader(
    layout: CsvFormat,
    pairs: Sequence[tuple[StoredFile, StoredFile | None]],
    *,
    features: Any,
    labels: Any,
    classes: Classes | None,
    on_error: OnError,
    flat: bool,
) -> SequenceReader:
    """Which columns are which, from the first file that can be read."""
    format_ = _first_format(layout, [file for file, _ in pairs], on_error)
    label_format = None
    label_names: tuple[str, ...] = ()
    separate = [file for _, file in pairs if file is not None]
    if separate:
        label_format = _first_format(layout, separate, on_error)
        choice = slice(None) if labels is None else labels
        label_names = select_columns(label_format.names, choice, option="labels")
    elif labels is not None:
        label_names = select_columns(format_.names, labels, option="labels")
    own = [] if separate else label_names
    rest = [name for name in format_.names if name not in own] if features is None else features
    feature_names = select_columns(format_.names, rest, option="features")
    if classes is not None and len(label_names) != 1:
        raise ConfigurationError(
            "`classes` needs one column of labels. "
            f"Received: {len(label_names)}, {shortened(label_names)}."
        )
    kinds: Any = classes
    if classes is not None and not isinstance(classes, int | str):
        kinds = tuple(map(str, classes))
    named = isinstance(kinds, str | tuple)
    texts = label_names if named else ()
    both = sorted(set(feature_names) & set(texts))
    if both and not separate:
        raise ConfigurationError(
            "a column of class names cannot be a feature. "
            f"Received: {shortened(both)} in both `features` and `labels`."
        )
    numbers = () if named else label_names
    if label_format is None:
        every = tuple(dict.fromkeys([*feature_names, *numbers]))
        format_ = replace(format_, numbers=every, texts=texts)
    else:
        format_ = replace(format_, numbers=feature_names)
        label_format = replace(label_format, numbers=numbers, texts=texts)
    return SequenceReader(
        features=format_,
        labels=label_format,
        feature_names=feature_names,
        label_names=label_names,
        flat=flat and len(label_names) == 1,
        per_step=True,
        classes=kinds,
        one_hot=False,
        align="equal_length",
    )


def _first_format(layout: CsvFormat, files: Sequence[StoredFile], on_error: OnError) -> CsvFormat:
    for file in files:
        try:
            return layout.of_file(file.url)
        except UnusableFile as error:
            if on_error == "raise":
                raise DataError(error.message) from None
    raise DataError(
        f"there must be a file that can be read. Received: none of {len(files)}, beginning with "
        f"{files[0].url}."
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
    from sparkwright.spark._jobs import run_job

    context = spark.sparkContext
    survey = partial(reader.survey, on_error=on_error)
    rdd = context.parallelize(pieces, min(len(pieces), context.defaultParallelism * 4)).map(survey)
    found = sum(run_job(spark, rdd.collect, description="find the longest sequence"), Survey())
    if found.lengths.shortest is None:
        raise DataError(
            f"there must be a sequence that can be read. Received: none at {url}; all were skipped."
        )
    if reader.classes == "infer":
        if not 2 <= len(found.classes) <= MOST_CLASSES:
            raise DataError(
                f"labels must have from 2 to {MOST_CLASSES:,} different values to be classes. "
                f"Received: {len(found.classes)}, {shortened(sorted(found.classes))}, at {url}."
            )
        reader = replace(reader, classes=in_order(set(found.classes)))
    if reader.length:
        return reader
    return replace(reader, length=found.lengths.longest, masked=not found.lengths.is_uniform)


def _fingerprint(
    pairs: Iterable[tuple[StoredFile, StoredFile | None]], reader: SequenceReader, on_error: str
) -> str:
    files = [(f.url, f.size_bytes, f.version) for pair in pairs for f in pair if f is not None]
    return hashlib.sha256(repr((files, reader, on_error)).encode()).hexdigest()
