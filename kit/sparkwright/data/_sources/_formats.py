"""The formats that a DataSource may have."""

from dataclasses import dataclass
from typing import Literal

from sparkwright.options import Option

from ._reader_options import COLUMNAR, CSV, IMAGES, ON_ERROR, SEQUENCES, TABLE, TFRECORD

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


@dataclass(frozen=True, kw_only=True, slots=True)
class FormatInfo:
    """What is to be known of a format.

    Attributes:
        title: a few words for a form.
        advice: one sentence: what lies there.
        options: of its reader.
        endings: of file names that tell the format, without the dot.
        needs_url: whether it lies somewhere.
        columns: whether there are columns to choose from: "named" (with names), "keys" (features
            of TFRecords), or "" (none: the files say it themselves).
        labelled: whether features and label are told apart by columns, and must be chosen.
        can_infer: whether a class label may be text, whose classes are then found.
    """

    title: str
    advice: str
    options: tuple[Option, ...] = ()
    endings: tuple[str, ...] = ()
    needs_url: bool = True
    columns: Literal["named", "keys", ""] = ""
    labelled: bool = False
    can_infer: bool = False


FORMATS: dict[SourceFormat, FormatInfo] = {
    "digits": FormatInfo(
        title="Handwritten digits (bundled, to try things out)",
        advice="1,797 grey images of 28 x 28 pixels in ten classes. Nothing to download.",
        needs_url=False,
    ),
    "csv": FormatInfo(
        title="CSV: an example a line",
        advice="Text files of columns: a file, a folder, or a pattern such as data/*.csv.",
        options=CSV,
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
        title="Parquet",
        advice="Tables that know their columns: a file, a folder or a pattern.",
        options=COLUMNAR,
        endings=("parquet", "pq"),
        columns="named",
        labelled=True,
        can_infer=True,
    ),
    "arrow": FormatInfo(
        title="Arrow or Feather",
        advice="Tables that know their columns: a file, a folder or a pattern.",
        options=COLUMNAR,
        endings=("arrow", "feather", "ipc"),
        columns="named",
        labelled=True,
        can_infer=True,
    ),
    "images": FormatInfo(
        title="Images in folders",
        advice="A folder for each class is the usual way: cats/1.jpg, dogs/2.jpg.",
        options=IMAGES,
        endings=("bmp", "gif", "jpeg", "jpg", "png", "tif", "tiff", "webp"),
    ),
    "csv_sequences": FormatInfo(
        title="Sequences: a CSV file each",
        advice="A folder with one file for each sequence, a line a step.",
        options=SEQUENCES,
        columns="named",
        can_infer=True,
    ),
    "minibatches": FormatInfo(
        title="Exported minibatches",
        advice="A folder that data.export(…) has written.",
        options=(ON_ERROR,),
    ),
    "tfrecord": FormatInfo(
        title="TFRecord",
        advice="Files of tf.train.Example; those of write_tfrecord need no choice of features.",
        options=TFRECORD,
        endings=("tfrecord", "tfrecords", "tfrecord.gz", "tfrecords.gz"),
        columns="keys",
    ),
    "sequence_file": FormatInfo(
        title="Hadoop SequenceFile",
        advice="Files that write_sequence_file has written.",
        options=(ON_ERROR,),
        endings=("seq",),
    ),
    "map_file": FormatInfo(
        title="Hadoop MapFile",
        advice="Folders that write_map_file has written.",
        options=(ON_ERROR,),
    ),
    "table": FormatInfo(
        title="Table of the Spark session",
        advice="The name of a table or temporary view; its columns must be numbers.",
        options=TABLE,
        columns="named",
        labelled=True,
    ),
}
