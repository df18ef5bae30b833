"""Examples as TFRecord files, with their shapes and dtypes noted beside them."""

import json
import zlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from sparkwright._yaml import strict_json
from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import join, write_atomically

from ._part_jobs import WrittenPart, write_parts
from ._tf_example import key_of, serialised_examples
from ._tfrecord import WINDOW_BITS, FileCompression, framed

LAYOUT = "_layout.json"
_FORMAT = 1
_WRITE_BYTES = 1 << 20
_ENDING = {None: "", "gzip": ".gz", "zlib": ".zlib"}


def write_tfrecord(
    datasets: DistributedDataSet | DataSet | tuple[Any, ...] | Iterable[DataSet],
    url: str,
    *,
    examples_per_part: int | None = None,
    max_files: int | None = None,
    compression: FileCompression | None = None,
    overwrite: bool = False,
) -> int:
    """Write examples as TFRecord files `part-r-00000.tfrecord`, … in a folder.

    A record is one tf.train.Example. Features and labels have their own names as keys, masks and
    weights those of `DataSet.columns`. float32 and float16 are a float_list, whole numbers and
    booleans an int64_list, and float64, uint8 and uint64 their bytes, as `tf.io.decode_raw` reads
    them. Shapes and dtypes lie beside the files, for `from_tfrecord`.

    Args:
        datasets: distributed, written by the executors; or here, without Spark: DataSets, or a
            (features, labels) or (features, labels, weights) tuple of arrays.
        url: the folder, which the executors must reach too.
        examples_per_part: part i holds the examples from `i * examples_per_part` on; default None:
            one file, or one for each partition.
        max_files: at most so many, of distributed data; default None: no limit.
        compression: of each file: None (default), "gzip" or "zlib".
        overwrite: whether what is in the folder is replaced, once all is written; default False:
            an error.

    Returns:
        How many examples there are.

    Raises:
        ConfigurationError: if an option cannot be meant that way, or the folder is not empty.
        DataError: if examples differ in columns, dtypes, or more than one axis of a column.
        OSError: whatever the store says, naming the file.
    """
    if compression not in (None, "gzip", "zlib"):
        raise ConfigurationError(
            f'`compression` must be "gzip", "zlib" or None. Received: compression={compression!r}.'
        )
    return write_parts(
        datasets,
        url,
        partial(_write_part, compression=compression),
        examples_per_part=examples_per_part,
        max_files=max_files,
        overwrite=overwrite,
        numbered=False,
        finish=_write_layout,
    )


# Flat column name -> dtype, and the shape that all examples have, -1 for an axis that varies.
Layout = dict[str, tuple[str, tuple[int, ...]]]


def _write_part(
    datasets: Iterable[DataSet],
    url: str,
    first_key: int,
    key_step: int,
    *,
    compression: FileCompression | None,
) -> WrittenPart:
    del first_key, key_step  # records of a TFRecord file have no keys
    stream = iter(datasets)
    first = next((dataset for dataset in stream if len(dataset)), None)
    if first is None:
        return WrittenPart(count=0)
    layout, count = _layout_of(first), 0
    file_url = f"{url}.tfrecord{_ENDING[compression]}"
    with write_atomically(file_url) as file:
        packer = zlib.compressobj(wbits=WINDOW_BITS[compression]) if compression else None
        waiting: list[bytes] = []
        size_bytes = 0
        dataset: DataSet | None = first
        while dataset is not None:
            layout = merged_layout(layout, _layout_of(dataset))
            columns = {key_of(name): array for name, array in dataset.columns().items()}
            for example in serialised_examples(columns) if len(dataset) else ():
                waiting.append(framed(example))
                size_bytes += len(example)
                if size_bytes >= _WRITE_BYTES:
                    content = b"".join(waiting)
                    file.write(packer.compress(content) if packer else content)
                    waiting, size_bytes = [], 0
            count += len(dataset)
            dataset = next(stream, None)
        content = b"".join(waiting)
        file.write(packer.compress(content) + packer.flush() if packer else content)
    return WrittenPart(count=count, entry=file_url.rpartition("/")[2], layout=layout)


def _layout_of(dataset: DataSet) -> Layout:
    columns = dataset.columns()
    if len({key_of(name) for name in columns}) < len(columns):
        raise DataError(
            "features and labels must have different names in a TFRecord file. "
            f"Received: {list(columns)}. Rename one of those that are named alike."
        )
    return {name: (array.dtype.name, array.shape[1:]) for name, array in columns.items()}


def merged_layout(one: Layout, other: Layout) -> Layout:
    """What both have in common; -1 for the axis in which they differ.

    Raises:
        DataError: if they differ in more.

    Example:
        >>> merged_layout({"features/x": ("int8", (3, 2))}, {"features/x": ("int8", (5, 2))})
        {'features/x': ('int8', (-1, 2))}
    """
    if one == other:
        return one
    found: Layout = {}
    for name, (dtype, shape) in one.items():
        dtype_too, shape_too = other.get(name, ("", ()))
        axes = zip(shape, shape_too, strict=False)
        merged = tuple(a if a == b else -1 for a, b in axes)
        if dtype != dtype_too or len(shape) != len(shape_too) or merged.count(-1) > 1:
            break
        found[name] = dtype, merged
    if found.keys() != one.keys() or found.keys() != other.keys():
        raise DataError(
            "all examples of TFRecord files must have the same columns and dtypes, and the same "
            f"shapes but for one axis. Received: {other} after {one}. Pad or resize them first."
        )
    return found


def layout_from_json(content: bytes, *, source: str) -> tuple[Layout, dict[str, int]]:
    """What `write_tfrecord` noted; nothing in `content` is believed unchecked.

    Returns:
        The layout; and name of a file -> examples, empty where an earlier version wrote it.

    Raises:
        DataError: if it is none of ours, or of a later format, naming `source`.
    """
    try:
        noted: Any = strict_json(content)
        if noted["format"] != _FORMAT or not noted["columns"]:
            raise ValueError
        layout = {
            str(name): (str(dtype), tuple(int(size) for size in shape))
            for name, dtype, shape in noted["columns"]
        }
        return layout, {str(name): int(n) for name, n in noted.get("examples", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise DataError(
            f"the notes beside TFRecord files must hold a layout of format {_FORMAT}. "
            f"Received: {content[:200]!r} in {source}. "
            "It was written by a later version of Sparkwright, or is damaged."
        ) from None


def _write_layout(url: str, parts: list[WrittenPart]) -> None:
    layout: Layout = parts[0].layout
    for part in parts[1:]:
        layout = merged_layout(layout, part.layout)
    columns = [[name, dtype, list(shape)] for name, (dtype, shape) in layout.items()]
    with write_atomically(join(url, LAYOUT)) as file:
        noted = {
            "format": _FORMAT,
            "columns": columns,
            "examples": {part.entry: part.count for part in parts},
        }
        file.write(json.dumps(noted).encode())
