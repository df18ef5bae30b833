"""What users ask of files with sequences, made a reader: columns, classes, length."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sparkwright.data._alignment import Alignment, check_alignment
from sparkwright.data._class_values import MOST_CLASSES, Classes, check_classes, found_text
from sparkwright.data._pieces import OnError, check_on_error
from sparkwright.data._tables._column_choice import in_order, select_columns
from sparkwright.data._tables._table_source import files_of
from sparkwright.data._wording import shortened
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._listing import StoredFile

from ._csv_steps import StepFormat, UnusableFile
from ._sequence_pairs import in_natural_order, paired
from ._sequence_reader import SequenceReader, Survey

_PACKED = ("", ".gz", ".bz2", ".zst")
_ENDINGS = tuple(f"{kind}{packed}" for kind in ("csv", "tsv", "txt") for packed in _PACKED)

Pairs = list[tuple[StoredFile, StoredFile | None]]


def prepared(
    url: str,
    *,
    layout: StepFormat,
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
    files = in_natural_order(files_of(url, _ENDINGS))
    label_files = None if labels_url is None else in_natural_order(files_of(labels_url, _ENDINGS))
    pairs = paired(files, label_files, pair_by)
    reader = _reader(
        layout, pairs, features=features, labels=labels, classes=classes, on_error=on_error,
        flat=labels is None or isinstance(labels, str | int),
    )  # fmt: skip
    reader = replace(
        reader, per_step=label_per == "step", one_hot=one_hot, align=align, length=length or 0,
        truncate=truncate, masked=length is not None,
    )  # fmt: skip
    return reader, pairs


def completed(reader: SequenceReader, found: Survey, url: str) -> SequenceReader:
    """`reader` with the length and the classes that a survey of all files has found.

    Raises:
        DataError: if it has found none.
    """
    if found.lengths.shortest is None:
        raise DataError(
            f"there must be a sequence that can be read. Received: none at {url}; all were skipped."
        )
    if reader.classes == "infer":
        if not 2 <= len(found.classes) <= MOST_CLASSES:
            raise DataError(
                f"labels must have from 2 to {MOST_CLASSES:,} different values to be classes. "
                f"Received: {found_text(found.classes)}, at {url}."
            )
        reader = replace(reader, classes=in_order(set(found.classes)))
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


def _reader(
    layout: StepFormat,
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
    if not feature_names:
        raise ConfigurationError(
            "`features` must leave a column at least. Received: none of "
            f"{shortened(format_.names)}, of which {shortened(own) or 'none'} are labels."
        )
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


def _first_format(layout: StepFormat, files: Sequence[StoredFile], on_error: OnError) -> StepFormat:
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
