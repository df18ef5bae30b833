"""The formats that a DataSource may have; their options are those of the readers' signatures."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sparkwright.configuration import option_of
from sparkwright.data._image_labels import MaskFile, PatternLabel
from sparkwright.options import Option

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


def image_arguments(
    *,
    height: int = 64,
    width: int = 64,
    label_from: Literal["folder", "name", "mask", "none"] = "folder",
    pattern: str = "_",
    position: int = 0,
    mask_folder: str | None = None,
    mask_suffix: str = "",
    mask_binary: bool = False,
) -> dict[str, Any]:
    """The size and the label of `from_images`, made of options that forms can show.

    Raises:
        ConfigurationError: if the pattern is no regular expression.
    """
    label: Any = "parent"
    if label_from == "name":
        label = PatternLabel(pattern=pattern, position=position)
    elif label_from == "mask":
        label = MaskFile(folder=mask_folder, suffix=mask_suffix, binary=mask_binary)
    elif label_from == "none":
        label = None
    return {"size": (height, width), "label": label}


IMAGE_OPTIONS = tuple(inspect.signature(image_arguments).parameters)


def _text(label: str = "", help: str = "", **more: Any) -> dict[str, Any]:
    return {"label": label, "help": help, **more}


_FURTHER, _LABELS = {"group": "More options"}, {"group": "Labels"}
# What forms say of an argument, beside its type and default.
_TEXTS: dict[str, dict[str, Any]] = {
    "align": _text(
        "Features and labels",
        "Where their lengths differ: refuse, begin together, or end together.",
        **_FURTHER,
    ),
    "channels": _text(help="3: color. 1: grey.", choices=(3, 1)),
    "compression": _text(
        help="auto: as the names end.", choices=("auto", "gzip", "zlib"), none_text="none"
    ),
    "delimiter": _text(
        "Between values",
        "One character, or the word tab or space.",
        words=(("tab", "\t"), ("space", " ")),
    ),
    "encoding": _text(help="Of the text; older files are often latin-1.", **_FURTHER),
    "header": _text(
        "First line names the columns",
        "Otherwise they are column_0, column_1, and so on.",
    ),
    "height": _text(help="All images get this size.", minimum=1, unit="pixels"),
    "label_from": _text(
        "Label comes from",
        "The file's folder, a part of its name, a mask (an image beside it), or none.",
    ),
    "label_per": _text("A label for each", "sequence: the last line's label counts for all of it."),
    "labels_url": _text(
        "Files with the labels",
        "A folder of their own, one file for each sequence.",
        none_text="in the same files",
    ),
    "length": _text(
        help="Shorter sequences are filled up, and masked.",
        minimum=1,
        none_text="that of the longest",
        unit="steps",
    ),
    "mask_binary": _text(
        "Masks are yes or no", "Otherwise the value of a pixel is its class.", **_LABELS
    ),
    "mask_folder": _text(
        "Folder of masks",
        "Its name, beside the image's folder.",
        none_text="the image's own",
        **_LABELS,
    ),
    "mask_suffix": _text(
        "End of masks' names", "As in a_mask.png, which belongs to a.jpg.", **_LABELS
    ),
    "missing": _text(
        "Missing values",
        "error: stop. skip: leave such rows out. A number: takes their place in features.",
    ),
    "missing_values": _text(
        "Texts for a missing value", "Separated by spaces; '' is an empty field.", **_FURTHER
    ),
    "newlines_in_values": _text(
        "Values in quotes may go over several lines",
        "Such files cannot be read in parts.",
        **_FURTHER,
    ),
    "on_error": _text("Invalid data", "raise: stop and name it. skip: leave it out and count it."),
    "one_hot": _text(
        "Classes as vectors of 0 and 1",
        "Needed by the loss categorical_crossentropy; the sparse one takes numbers.",
    ),
    "pair_by": _text("Files belong together by", "Used with files of labels.", **_FURTHER),
    "pattern": _text(
        "Split names at",
        "A regular expression; used with name: cat_017.jpg is a cat.",
        **_LABELS,
    ),
    "position": _text("Part of the name", "0 is the first, -1 the last.", **_LABELS),
    "quote": _text(
        "Around values",
        "The sign around values that hold the delimiter.",
        none_text="no quotes",
        **_FURTHER,
    ),
    "recursive": _text("With sub-folders", **_FURTHER),
    "resize": _text(
        "Filter",
        "How pixels are mixed when the size changes.",
        choices=("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"),
        **_FURTHER,
    ),
    "scale": _text(
        "Numbers from 0 to 1", "Otherwise from 0 to 255, in a quarter of the memory.", **_FURTHER
    ),
    "skip_lines": _text("Lines to leave out at the top", minimum=0, unit="lines", **_FURTHER),
    "truncate": _text("Cut longer ones", "Otherwise they are an error."),
    "upright": _text("Turn photos upright", "As their camera says.", **_FURTHER),
    "weights": _text(
        "Column of example weights",
        "Examples with a larger weight count more in the loss.",
        none_text="none",
        **_FURTHER,
    ),
    "width": _text(minimum=1, unit="pixels"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    """A format.

    Attributes:
        reader: the function of `sparkwright.data` that reads it.
        title: a few words for a form.
        advice: one sentence: what lies there.
        names: of the options, in the order of forms.
        endings: of file names that tell the format, without the dot.
        needs_url: whether it lies somewhere.
        columns: whether there are columns to choose from: "named" (with names), "keys" (features
            of TFRecords), or "" (none: the files say it themselves).
        labelled: whether features and label are told apart by columns, and must be chosen.
        can_infer: whether a class label may be text, whose classes are then found.
    """

    reader: str
    title: str
    advice: str
    names: tuple[str, ...] = ("on_error",)
    endings: tuple[str, ...] = ()
    needs_url: bool = True
    columns: Literal["named", "keys", ""] = ""
    labelled: bool = False
    can_infer: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of the reader that forms show."""
        return _options(self.reader, self.names)


def reader_of(name: str) -> Callable[..., Any]:
    """The function of `sparkwright.data` with this name."""
    import sparkwright.data

    return getattr(sparkwright.data, name)


@functools.cache
def _options(reader: str, names: tuple[str, ...]) -> tuple[Option, ...]:
    arguments = {
        **inspect.signature(reader_of(reader)).parameters,
        **inspect.signature(image_arguments).parameters,
    }
    return tuple(
        option_of(name, arguments[name].annotation, arguments[name].default, **_TEXTS[name])
        for name in names
    )


_OF_COLUMNS = ("missing", "on_error", "one_hot", "weights")

FORMATS: dict[SourceFormat, FormatInfo] = {
    "digits": FormatInfo(
        reader="digits",
        title="Handwritten digits (bundled, to try things out)",
        advice="1,797 grey images of 28 x 28 pixels in ten classes. Nothing to download.",
        names=(),
        needs_url=False,
    ),
    "csv": FormatInfo(
        reader="from_csv",
        title="CSV: an example a line",
        advice="Text files of columns: a file, a folder, or a pattern such as data/*.csv.",
        names=(
            *("header", "delimiter", "missing", "on_error", "one_hot", "quote", "skip_lines"),
            *("newlines_in_values", "encoding", "missing_values", "weights"),
        ),
        endings=tuple(
            f"{kind}{packed}"
            for kind in ("csv", "tsv", "txt")
            for packed in ("", ".gz", ".bz2", ".zst")
        ),
        columns="named",
        labelled=True,
        can_infer=True,
    ),
    "parquet": FormatInfo(
        reader="from_parquet",
        title="Parquet",
        advice="Tables that know their columns: a file, a folder or a pattern.",
        names=_OF_COLUMNS,
        endings=("parquet", "pq"),
        columns="named",
        labelled=True,
        can_infer=True,
    ),
    "arrow": FormatInfo(
        reader="from_arrow",
        title="Arrow or Feather",
        advice="Tables that know their columns: a file, a folder or a pattern.",
        names=_OF_COLUMNS,
        endings=("arrow", "feather", "ipc"),
        columns="named",
        labelled=True,
        can_infer=True,
    ),
    "images": FormatInfo(
        reader="from_images",
        title="Images in folders",
        advice="A folder for each class is the usual way: cats/1.jpg, dogs/2.jpg.",
        names=(
            *("height", "width", "channels", *IMAGE_OPTIONS[2:], "one_hot", "on_error"),
            *("resize", "scale", "upright", "recursive"),
        ),
        endings=("bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp"),
    ),
    "csv_sequences": FormatInfo(
        reader="from_csv_sequences",
        title="Sequences: a CSV file each",
        advice="A folder with one file for each sequence, a line a step.",
        names=(
            *("header", "delimiter", "label_per", "labels_url", "length", "truncate"),
            *("on_error", "one_hot", "align", "pair_by", "skip_lines", "quote"),
        ),
        columns="named",
        can_infer=True,
    ),
    "minibatches": FormatInfo(
        reader="from_minibatches",
        title="Exported minibatches",
        advice="A folder that data.export(…) has written.",
    ),
    "tfrecord": FormatInfo(
        reader="from_tfrecord",
        title="TFRecord",
        advice="Files of tf.train.Example; those of write_tfrecord need no choice of features.",
        names=("compression", "on_error"),
        endings=("tfrecord", "tfrecords", "tfrecord.gz", "tfrecords.gz"),
        columns="keys",
    ),
    "sequence_file": FormatInfo(
        reader="from_sequence_file",
        title="Hadoop SequenceFile",
        advice="Files that write_sequence_file has written.",
        endings=("seq",),
    ),
    "map_file": FormatInfo(
        reader="from_map_file",
        title="Hadoop MapFile",
        advice="Folders that write_map_file has written.",
    ),
    "table": FormatInfo(
        reader="from_dataframe",
        title="Table of the Spark session",
        advice="The name of a table or temporary view; its columns must be numbers.",
        names=("weights",),
        columns="named",
        labelled=True,
    ),
}
