"""Examples as SequenceFiles and MapFiles: from one machine, or from all executors at once."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet

from ._part_jobs import write_parts
from ._record_parts import RecordOptions, write_part
from ._sequence_file import Compression


def write_sequence_file(
    datasets: DistributedDataSet | DataSet | tuple[Any, ...] | Iterable[DataSet],
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    compression: Compression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as SequenceFiles `part-r-00000`, `part-r-00001`, … in a folder.

    A record is one example: its number as LongWritable, its arrays as BytesWritable. Numbers start
    at 0 without gaps; those of distributed data are only different from each other, unless
    `examples_per_part` is given: so its examples need not be counted first.

    Args:
        datasets: distributed, written by the executors; or here, without Spark: DataSets, or a
            (features, labels) or (features, labels, weights) tuple of arrays.
        url: the folder, which the executors must reach too.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; default None:
            one part, or one for each partition.
        max_files: at most so many, of distributed data; default None: no limit.
        compression: None (default), "record": each example by itself, or "block": many together.
        overwrite: whether what is in the folder is replaced, once all is written; default False:
            an error.

    Returns:
        How many examples there are.

    Raises:
        ConfigurationError: if an option cannot be meant that way, or the folder is not empty.
        DataError: if examples differ in columns, dtypes or numbers of axes.
        OSError: whatever the store says, naming the file.
    """
    options = RecordOptions(kind="sequence", compression=compression)
    return write_parts(
        datasets,
        url,
        partial(write_part, options=options),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
        numbered=False,
    )


def write_map_file(
    datasets: DistributedDataSet | DataSet | tuple[Any, ...] | Iterable[DataSet],
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    index_interval: int = 1,
    compression: Compression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as MapFiles `part-r-00000`, `part-r-00001`, … in a folder.

    As `write_sequence_file`, with an index: `MapFileReader` finds any example. Numbers start at 0
    without gaps, also those of distributed data, which is counted first.

    Args:
        datasets: distributed, written by the executors; or here, without Spark: DataSets, or a
            (features, labels) or (features, labels, weights) tuple of arrays.
        url: the folder, which the executors must reach too.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; default None:
            one part, or one for each partition.
        max_files: at most so many parts, of distributed data; default None: no limit.
        index_interval: every so many examples are in the index; default 1: the quickest to find.
        compression: None (default), "record" or "block"; reading one example unpacks its block.
        overwrite: whether what is in the folder is replaced, once all is written; default False:
            an error.

    Returns:
        How many examples there are.

    Raises:
        ConfigurationError: if an option cannot be meant that way, or the folder is not empty.
        DataError: if examples differ in columns, dtypes or numbers of axes.
        OSError: whatever the store says, naming the file.
    """
    options = RecordOptions(kind="map", index_interval=index_interval, compression=compression)
    return write_parts(
        datasets,
        url,
        partial(write_part, options=options),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
        numbered=True,
    )
