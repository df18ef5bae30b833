"""The first examples of files that hold arrays: exported minibatches, TFRecord."""

import io
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from sparkwright.data._arrow import from_bytes
from sparkwright.data._dataset import Array
from sparkwright.data._exported import find_export
from sparkwright.data._paths import find_files
from sparkwright.data._sources._data_source import DataSource
from sparkwright.data._tf_example import parse_example
from sparkwright.data._tfrecord import compression_of, read_frames
from sparkwright.storage._files import open_to_read, read_bytes
from sparkwright.storage._listing import StoredFile

from ._browsing import still_wanted
from ._data_preview import ColumnLook, DataPreview, ImageLook, look_at
from ._image_beginning import picture

_EXAMPLES = 200
_SHOWN = 6


def export_preview(source: DataSource, rows: int) -> DataPreview:
    """What the manifest of an export says, and the examples of its first file.

    Raises:
        DataError: if there is no minibatch.
        OSError: whatever the store says, naming the file.
    """
    found = find_files(source.url, ours=True)
    export = None if source.url.endswith((".txt", ".arrow")) else find_export(source.url)
    data = from_bytes(read_bytes(found.files[0].url))
    arrays = data.columns()
    names = next(iter(export.manifest.class_names.values()), ()) if export is not None else ()
    counts = _class_counts(arrays, names)
    features = [name for name in arrays if name.startswith("features/")]
    return DataPreview(
        source=source,
        unit="example",
        looked_at=len(next(iter(arrays.values()))),
        in_all=None if export is None else export.manifest.examples,
        columns=_looks(arrays),
        rows=_rows(arrays, rows),
        images=_pictures(arrays, features, rows),
        labels=tuple(sorted(counts.items(), key=lambda item: -item[1])),
        class_count=len(names) or None,
        feature_shape=arrays[features[0]].shape[1:] if len(features) == 1 else None,
        files=len(found.files),
        size_bytes=None if export is None else export.manifest.size_bytes,
    )


def tfrecord_preview(source: DataSource, files: Sequence[StoredFile], rows: int) -> DataPreview:
    """The first Examples of the first TFRecord file.

    Raises:
        DataError: if it is damaged, naming the byte.
        OSError: whatever the store says, naming the file.
    """
    file = files[0]
    asked = {"none": None}.get(source.all_options["compression"], source.all_options["compression"])
    compression = compression_of(file.url, asked)
    with open_to_read(file.url) as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        frames = read_frames(stream, size_bytes=size, source=file.url, compression=compression)
        records: list[Mapping[str, Any]] = []
        for _, _, content in islice(frames, _EXAMPLES):
            still_wanted()
            records.append(parse_example(content))
    names = tuple(dict.fromkeys(name for record in records for name in record))
    shown = [[_text(record.get(name)) for name in names] for record in records]
    columns = [
        _with_shape(look_at(name, [row[i] for row in shown]), records, name)
        for i, name in enumerate(names)
    ]
    is_all = len(files) == 1 and len(records) < _EXAMPLES
    return DataPreview(
        source=source,
        unit="example",
        looked_at=len(records),
        in_all=len(records) if is_all else None,
        columns=tuple(columns),
        rows=tuple(tuple(cell or "" for cell in row) for row in shown[:rows]),
        files=len(files),
        size_bytes=sum(other.size_bytes for other in files),
    )


def _class_counts(arrays: Mapping[str, Array], names: Sequence[str]) -> dict[str, int]:
    """How often each class occurs; nothing if there is no output of class numbers, or several."""
    labels = [array for name, array in arrays.items() if name.startswith("labels/")]
    if len(labels) != 1 or labels[0].dtype.kind not in "iu" or labels[0].ndim != 1:
        return {}
    counts: dict[str, int] = {}
    numbers: list[int] = labels[0].tolist()
    for number in numbers:
        text = names[number] if 0 <= number < len(names) else str(number)
        counts[text] = counts.get(text, 0) + 1
    return counts


def _looks(arrays: Mapping[str, Array]) -> tuple[ColumnLook, ...]:
    found: list[ColumnLook] = []
    for name, array in arrays.items():
        still_wanted()
        if array.ndim == 1 and array.dtype.kind in "biuf":
            found.append(look_at(name, [str(value) for value in array.tolist()]))
        else:
            found.append(
                ColumnLook(name=name, kind="array", count=len(array), shape=array.shape[1:])
            )
    return tuple(found)


def _rows(arrays: Mapping[str, Array], rows: int) -> tuple[tuple[str, ...], ...]:
    count = min(rows, *(len(array) for array in arrays.values()))
    return tuple(
        tuple(_text(array[row]) or "" for array in arrays.values()) for row in range(count)
    )


def _pictures(
    arrays: Mapping[str, Array], features: Sequence[str], rows: int
) -> tuple[ImageLook, ...]:
    if len(features) != 1:
        return ()
    array = arrays[features[0]]
    if array.ndim != 4 or array.shape[-1] not in (1, 3) or array.dtype.kind not in "uf":
        return ()
    return tuple(
        ImageLook(
            png=picture(array[row]), label="", name=f"example {row + 1}", size=array.shape[1:3]
        )
        for row in range(min(rows, len(array)))
    )


def _with_shape(look: ColumnLook, records: Sequence[Mapping[str, Any]], name: str) -> ColumnLook:
    sizes = {np.size(record[name]) for record in records if name in record}
    if sizes == {1} or look.kind == "empty":
        return look
    shape = (sizes.pop(),) if len(sizes) == 1 else None
    return ColumnLook(name=name, kind="array", count=look.count, missing=look.missing, shape=shape)


def _text(value: Any) -> str | None:
    """A number, or the beginning of an array."""
    if value is None:
        return None
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return f"{sum(map(len, items)):,} bytes"
    flat = np.asarray(value).reshape(-1)
    if flat.size == 1:
        return f"{flat[0]:g}" if flat.dtype.kind == "f" else str(flat[0])
    shown = ", ".join(f"{number:g}" for number in flat[:_SHOWN].tolist())
    return f"[{shown}{', …' if flat.size > _SHOWN else ''}]"
