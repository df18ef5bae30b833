"""The formats of a DataSource; their options come from the signatures of the readers."""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkwright.configuration import (
    Configuration,
    configuration,
    option,
    plain_options,
)
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._from_arrays import digits
from sparkwright.data._image_decoding import IMAGE_EXTENSIONS, ImageOptions
from sparkwright.data._image_labels import MaskFile, PatternLabel
from sparkwright.data._images import from_images
from sparkwright.data._minibatch_files import from_minibatches
from sparkwright.data._record_files import from_map_file, from_sequence_file
from sparkwright.data._sequences import from_csv_sequences
from sparkwright.data._table_files import TABLE_FORMATS, from_arrow, from_csv, from_parquet
from sparkwright.data._tfrecord import from_tfrecord
from sparkwright.data.from_spark import from_dataframe
from sparkwright.options import Option, option_of

SourceFormat = Literal[
    "digits",
    "csv",
    "parquet",
    "arrow",
    "images",
    "csv_sequences",
    "minibatches",
    "tfrecord",
    "sequence_file",
    "map_file",
    "table",
]


@configuration
class ImageChoice(Configuration):
    """Arguments `size` and `label` of `from_images` as options for forms."""

    height: int = option(
        default=64, minimum=1, unit="pixels", help="Images are resized to this size."
    )
    width: int = option(default=64, minimum=1, unit="pixels")
    label_from: Literal["folder", "name", "mask", "none"] = option(
        default="folder",
        label="Label source",
        help="The file's folder, a part of its name, a mask (an image beside it), or none.",
    )
    pattern: str = option(
        default="_",
        label="Name separator",
        help="Regular expression that splits names: cat_017.jpg has the class cat.",
        group="Labels",
    )
    position: int = option(
        default=0, label="Part of the name", help="0 is the first, -1 the last.", group="Labels"
    )
    mask_folder: str | None = option(
        default=None,
        label="Mask folder",
        help="Name of a folder next to the image folder.",
        none_text="the image's own",
        group="Labels",
    )
    mask_suffix: str = option(
        default="",
        label="Mask suffix",
        help="Such as _mask: a_mask.png is the mask of a.jpg.",
        group="Labels",
    )
    mask_binary: bool = option(
        default=False,
        label="Binary masks",
        help="Otherwise each pixel value is a class.",
        group="Labels",
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `from_images`; raises ConfigurationError if the pattern is invalid."""
        label: Any = "parent" if self.label_from == "folder" else None
        if self.label_from == "name":
            label = PatternLabel(pattern=self.pattern, position=self.position)
        elif self.label_from == "mask":
            label = MaskFile(
                folder=self.mask_folder, suffix=self.mask_suffix, binary=self.mask_binary
            )
        return {"size": (self.height, self.width), "label": label}


def _text(label: str = "", help: str = "", **more: Any) -> dict[str, Any]:
    return {"label": label, "help": help, **more}


IMAGE_OPTIONS = tuple(each.name for each in plain_options(ImageChoice))
_DECLARED = {
    each.name: each
    for declaring in (CsvFormat, ImageOptions, ImageChoice)
    for each in plain_options(declaring)
}
# Labels and help texts of reader arguments that no configuration declares.
_TEXTS: dict[str, dict[str, Any]] = {
    "align": _text(
        "Alignment of labels",
        "If lengths differ: raise an error, align the first steps, or align the last steps.",
    ),
    "label_per": _text("Label per", "sequence: the label of the last line."),
    "labels_url": _text(
        "Label files",
        "Folder with one label file per sequence.",
        none_text="in the same files",
    ),
    "length": _text(
        help="Shorter sequences are padded and masked.",
        minimum=1,
        none_text="the longest sequence",
        unit="steps",
    ),
    "missing": _text(
        "Missing values",
        "error: stop. skip: drop such rows. mean, median: fill with each column's statistic in the "
        "training data. A number: fill with it.",
    ),
    "on_error": _text("Invalid data", "raise: stop with an error. skip: drop and count it."),
    "one_hot": _text(
        "One-hot labels",
        "Required by categorical_crossentropy; the sparse loss takes class numbers.",
    ),
    "pair_by": _text("Pair files by", "Used with label files."),
    "recursive": _text("Include subfolders"),
    "truncate": _text("Truncate longer sequences", "Otherwise they are an error."),
    "weights": _text(
        "Sample weight column",
        "Examples with a larger weight count more in the loss.",
        none_text="none",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    """A format and the options that its form shows first (`names`) and further down (`further`)."""

    reader: Callable[..., Any]
    title: str
    advice: str
    names: tuple[str, ...] = ("on_error",)
    further: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    needs_url: bool = True
    columns: bool = False
    labeled: bool = False
    can_infer: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        """The reader's options that forms show."""
        return _options(self.reader, self.names, self.further)


@functools.cache
def _options(
    reader: Callable[..., Any], names: tuple[str, ...], further: tuple[str, ...]
) -> tuple[Option, ...]:
    arguments = inspect.signature(reader).parameters
    found: list[Option] = []
    for name in (*names, *further):
        declared = _DECLARED.get(name)
        if declared is None:
            argument = arguments[name]
            declared = option_of(name, argument.annotation, argument.default, **_TEXTS[name])
        elif name in arguments:  # readers may differ in their defaults
            declared = replace(declared, default=arguments[name].default)
        found.append(replace(declared, group="More options") if name in further else declared)
    return tuple(found)


_TABLE: dict[str, Any] = {"columns": True, "labeled": True, "can_infer": True}
_OF_COLUMNS: dict[str, Any] = {
    "advice": "Columnar files: a file, a folder or a pattern.",
    "names": ("missing", "on_error", "one_hot"),
    "further": ("weights",),
    **_TABLE,
}

FORMATS: dict[SourceFormat, FormatInfo] = {
    "digits": FormatInfo(
        reader=digits,
        title="Handwritten digits (bundled example)",
        advice="1,797 gray images of 28 x 28 pixels in ten classes. No download.",
        names=(),
        needs_url=False,
    ),
    "csv": FormatInfo(
        reader=from_csv,
        title="CSV (one example per line)",
        advice="Text files of columns: a file, a folder, or a pattern such as data/*.csv.",
        names=("header", "delimiter", "missing", "on_error", "one_hot"),
        further=(
            *("quote", "escape", "skip_lines", "newlines_in_values", "encoding", "missing_values"),
            "weights",
        ),
        endings=TABLE_FORMATS["csv"][0],
        **_TABLE,
    ),
    "parquet": FormatInfo(
        reader=from_parquet, title="Parquet", endings=TABLE_FORMATS["parquet"][0], **_OF_COLUMNS
    ),
    "arrow": FormatInfo(
        reader=from_arrow,
        title="Arrow or Feather",
        endings=TABLE_FORMATS["arrow"][0],
        **_OF_COLUMNS,
    ),
    "images": FormatInfo(
        reader=from_images,
        title="Images in folders",
        advice="Usually one folder per class: cats/1.jpg, dogs/2.jpg.",
        names=("height", "width", "channels", *IMAGE_OPTIONS[2:], "one_hot", "on_error"),
        further=("resize", "scale", "upright", "recursive"),
        endings=IMAGE_EXTENSIONS,
    ),
    "csv_sequences": FormatInfo(
        reader=from_csv_sequences,
        title="CSV sequences (one file per sequence)",
        advice="A folder with one file per sequence and one line per step.",
        names=(
            *("header", "delimiter", "label_per", "labels_url", "length", "truncate"),
            *("on_error", "one_hot"),
        ),
        further=("align", "pair_by", "skip_lines", "quote"),
        columns=True,
        can_infer=True,
    ),
    "minibatches": FormatInfo(
        reader=from_minibatches,
        title="Exported minibatches",
        advice="A folder written by data.export(…).",
    ),
    "tfrecord": FormatInfo(
        reader=from_tfrecord,
        title="TFRecord",
        advice="Files of tf.train.Example; select the keys of numbers that become features.",
        names=("on_error",),
        endings=("tfrecord", "tfrecords", "tfrecord.gz", "tfrecords.gz"),
        columns=True,
    ),
    "sequence_file": FormatInfo(
        reader=from_sequence_file,
        title="Hadoop SequenceFile",
        advice="Files written by write_sequence_file.",
        endings=("seq",),
    ),
    "map_file": FormatInfo(
        reader=from_map_file,
        title="Hadoop MapFile",
        advice="Folders written by write_map_file.",
    ),
    "table": FormatInfo(
        reader=from_dataframe,
        title="Spark table",
        advice="Name of a table or temporary view of numeric columns.",
        names=(),
        further=("weights",),
        columns=True,
        labeled=True,
    ),
}


def guess_format(url: str, names: Sequence[str] = (), folders: Sequence[str] = ()) -> SourceFormat:
    """Guess the format from the names of a folder's files and subfolders; the fallback is "csv"."""
    if named := _by_ending(url.rstrip("/").rpartition("/")[2]):
        return named
    if "manifest.json" in names:
        return "minibatches"
    if {"data", "index"} <= set(names):
        return "map_file"
    kinds: Counter[SourceFormat] = Counter()
    kinds.update(kind for kind in map(_by_ending, names) if kind is not None)
    if not kinds:
        return "images" if folders else "csv"
    # The majority decides, because folders may contain other files such as a readme.
    kind, count = kinds.most_common(1)[0]
    if kind == "csv" and count > 20 and _are_numbered(names):
        return "csv_sequences"
    return kind


def _by_ending(name: str) -> SourceFormat | None:
    for kind, info in FORMATS.items():
        if any(name.lower().endswith(f".{ending}") for ending in info.endings):
            return kind
    return None


def _are_numbered(names: Sequence[str]) -> bool:
    stems = [name.partition(".")[0] for name in names]
    return sum(stem[-1:].isdigit() and "part" not in stem for stem in stems) > 0.9 * len(stems)
