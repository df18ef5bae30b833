"""Browse folders, and preview a data source without Spark: run its reader and stop early."""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from sparkwright.data._csv_format import compression_of as is_packed
from sparkwright.data._csv_reader import ENDINGS
from sparkwright.data._data_preview import (
    ColumnPreview,
    DataPreview,
    DataProblem,
    ImageThumbnail,
    summarize_column,
)
from sparkwright.data._from_arrays import load_digits
from sparkwright.data._image_preview import image_preview, picture
from sparkwright.data._record_files import cut_files, read_sequences, sequence_files, some_files
from sparkwright.data._sequence_reader import natural_key
from sparkwright.data._table_preview import Findings, table_preview
from sparkwright.data._table_source import files_of
from sparkwright.data._tfrecord import parse_example, read_frames
from sparkwright.data.chunks import from_bytes
from sparkwright.data.dataset import DataSet
from sparkwright.data.formats import guess_format
from sparkwright.data.guessing import guess_csv, with_guessed_columns
from sparkwright.data.paths import find_files
from sparkwright.data.sources import DataSource
from sparkwright.data.wording import clipped
from sparkwright.errors import ConfigurationError, DataError, RunTimeoutError
from sparkwright.options import check_count
from sparkwright.storage.files import (
    absolute,
    is_folder,
    is_on_this_machine,
    on_thread,
    open_to_read,
    read_bytes,
    store_errors,
    system_of,
)
from sparkwright.storage.listing import HIDDEN, Entry, entries_of

_T = TypeVar("_T")
_GUESS_BYTES = 64 << 10
_EXAMPLES, _SHOWN_NUMBERS = 200, 6


def preview(
    source: DataSource,
    *,
    rows: int = 20,
    sample_bytes: int = 1 << 20,
    timeout_s: float = 60.0,
) -> DataPreview:
    """Preview the beginning of the data, without Spark.

    Args:
        source: the data source; label and features may be missing.
        rows: number of rows or images to show; default 20.
        sample_bytes: approximate number of bytes of text to read; default 1 MiB.
        timeout_s: time limit in seconds; default 60.

    Returns:
        Rows or images, statistics and problems. Unreadable data is reported as a problem.

    Raises:
        ConfigurationError: if `rows` or `sample_bytes` is invalid.
        RunTimeoutError: if the preview takes longer than `timeout_s`.
    """
    check_count("rows", rows, minimum=0)
    check_count("sample_bytes", sample_bytes)
    if source.info.needs_url and not source.url.strip():
        return DataPreview(source=source, note="Enter the location of the data.")
    what = source.url or "the bundled digits"
    return run_with_timeout(timeout_s, lambda: _checked_preview(source, rows, sample_bytes), what)


def guess_source(url: str, *, timeout_s: float = 20.0) -> DataSource:
    """Guess format, options, label and task of the data at `url`.

    Raises:
        FileNotFoundError: if `url` does not exist.
        OSError: from the file system, with the URL.
        RunTimeoutError: if the file system does not answer within `timeout_s` seconds.
    """
    place = url.strip()
    return run_with_timeout(timeout_s, lambda: _guessed(place), place)


def _guessed(url: str) -> DataSource:
    files = folders = ()
    if is_folder(url):
        entries = browse(url, most=2000).entries
        files = tuple(entry.name for entry in entries if not entry.is_folder)
        folders = tuple(entry.name for entry in entries if entry.is_folder)
    source = DataSource(format=guess_format(url, files, folders), url=url)
    if source.format == "csv":
        first, content = files_of(url, ENDINGS)[0].url, b""
        if is_packed(first) is None:
            with open_to_read(first) as opened:
                content = opened.read(_GUESS_BYTES)
        is_all = len(content) < _GUESS_BYTES
        source = replace(source, options=guess_csv(content, first, is_all=is_all))
    if source.info.labeled:
        return with_guessed_columns(source, _checked_preview(source, 0, 1 << 20).columns)
    return source


def _checked_preview(source: DataSource, rows: int, sample_bytes: int) -> DataPreview:
    try:
        found = _preview(source, rows, sample_bytes)
    except (ConfigurationError, DataError, OSError) as error:
        sentence = " ".join(str(error).split())
        found = DataPreview(source=source, problems=(DataProblem.error(sentence),))
    skips = source.options.get("on_error") == "skip"
    problems = (
        replace(problem, severity="warning") if skips and problem.can_skip else problem
        for problem in found.problems
    )
    return replace(found, problems=tuple(sorted(problems, key=lambda each: each.severity)))


def _preview(source: DataSource, rows: int, sample_bytes: int) -> DataPreview:
    match source.format:
        case "digits":
            data = _each_class_first(load_digits())
            found = _of_examples(source, data, rows, in_all=len(data), class_count=10)
            return replace(found, unit="image", columns=(), rows=())
        case "images":
            return image_preview(source, rows)
        case "minibatches":
            return _of_minibatches(source, rows)
        case "sequence_file" | "map_file" | "tfrecord":
            return _of_records(source, rows)
        case "table":
            return DataPreview(source=source, note="Spark tables have no preview.")
        case _:
            return table_preview(source, rows, sample_bytes)


def _each_class_first(data: DataSet) -> DataSet:
    """Sort examples so that classes alternate and a few rows show all classes."""
    labels = data.labels["labels"]
    place = np.zeros(len(labels), np.int64)
    for number in np.unique(labels):
        place[labels == number] = np.arange(np.count_nonzero(labels == number))
    return data.take(np.lexsort((labels, place)))


def _of_examples(
    source: DataSource, data: DataSet, rows: int, *, names: Sequence[str] = (), **known: Any
) -> DataPreview:
    """Preview the first examples as the reader yields them."""
    arrays = data.columns()
    labels = [array for name, array in arrays.items() if name.startswith("labels/")]
    texts: list[str] = []
    if len(labels) == 1 and labels[0].dtype.kind in "iu" and labels[0].ndim == 1:
        numbers: list[int] = labels[0].tolist()
        texts = [names[n] if 0 <= n < len(names) else str(n) for n in numbers]
    features = [array for name, array in arrays.items() if name.startswith("features/")]
    pixels = features[0] if len(features) == 1 else np.empty(0)
    images: list[ImageThumbnail] = []
    if pixels.ndim == 4 and pixels.shape[-1] in (1, 3) and pixels.dtype.kind in "uf":
        for row, each in enumerate(pixels[:rows]):
            label, name = texts[row] if texts else "", f"example {row + 1}"
            height, width, _ = each.shape
            look = ImageThumbnail(png=picture(each), label=label, name=name, size=(height, width))
            images.append(look)
    return DataPreview(
        source=source,
        unit="example",
        looked_at=len(data),
        images=tuple(images),
        labels=tuple(Counter(texts).most_common()),
        feature_shape=pixels.shape[1:] if len(features) == 1 else None,
        **_table_of({name: list(array) for name, array in arrays.items()}, rows),
        **known,
    )


def _table_of(columns: Mapping[str, Sequence[Any]], rows: int) -> dict[str, Any]:
    """Summarize columns of numbers, arrays or bytes (None: missing); format their first rows."""
    looks: list[ColumnPreview] = []
    for name, values in columns.items():
        shapes = {np.shape(value) for value in values if value is not None}
        missing = sum(value is None for value in values)
        if all(math.prod(shape) == 1 for shape in shapes):
            look = summarize_column(
                name, [None if value is None else _text(value) for value in values]
            )
        else:
            shape = shapes.pop() if len(shapes) == 1 else None
            count = len(values) - missing
            look = ColumnPreview(name=name, kind="array", count=count, missing=missing, shape=shape)
        looks.append(look)
    shown = zip(*(values[:rows] for values in columns.values()), strict=True)
    return {"columns": tuple(looks), "rows": tuple(tuple(map(_text, row)) for row in shown)}


def _of_minibatches(source: DataSource, rows: int) -> DataPreview:
    found = find_files(source.url, ours=True)
    names: Sequence[str] = ()
    known: dict[str, Any] = {"files": len(found.files)}
    if manifest := found.manifest:
        names = next(iter(manifest.class_names.values()), ())
        known |= {"in_all": manifest.examples, "size_bytes": manifest.size_bytes}
    data = from_bytes(read_bytes(found.files[0].url))
    return _of_examples(source, data, rows, names=names, class_count=len(names) or None, **known)


def _of_records(source: DataSource, rows: int) -> DataPreview:
    is_tfrecord = source.format == "tfrecord"
    files = some_files(source.url) if is_tfrecord else sequence_files(source.url)
    size_bytes = sum(file.size_bytes for file in files)
    known: dict[str, Any] = {"files": len(files), "size_bytes": size_bytes}
    log = Findings()
    if is_tfrecord:
        # All keys, because the user selects some of them.
        with open_to_read(files[0].url) as stream:
            frames = islice(read_frames(stream, files[0].url, log), _EXAMPLES)
            records = [parse_example(content) for _, content in frames]
        names = sorted({name for record in records for name in record})
        columns = {name: [record.get(name) for record in records] for name in names}
        count = len(records)
        is_all = len(files) == 1 and count < _EXAMPLES
        known |= {"in_all": count if is_all else None, **_table_of(columns, rows)}
        known |= {"unit": "example", "looked_at": count, "problems": tuple(log.problems)}
        return DataPreview(source=source, **known)
    data = next(read_sequences(cut_files(files[:1], 1)[0], log), None)
    if data is None:
        problems = log.problems or [DataProblem.error("The data has no examples.")]
        return DataPreview(source=source, problems=tuple(problems), **known)
    return _of_examples(source, data, rows, problems=tuple(log.problems), **known)


def _text(value: Any) -> str:
    """Format a number or the beginning of an array; an empty string for None."""
    if value is None:
        return ""
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return f"{sum(map(len, items)):,} bytes"
    flat = np.asarray(value).reshape(-1)
    if flat.size == 1:
        return clipped(str(flat[0]))
    shown = ", ".join(
        clipped(each) if isinstance(each, str) else f"{each:g}"
        for each in flat[:_SHOWN_NUMBERS].tolist()
    )
    return f"[{shown}{', …' if flat.size > _SHOWN_NUMBERS else ''}]"


# -- folders


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """The content of a folder.

    Attributes:
        url: URL of the folder.
        parent: URL of the parent folder; None at the root of a store.
        entries: folders, then files, in natural order, without hidden ones.
        left_out: number of entries beyond the limit.
    """

    url: str
    parent: str | None
    entries: tuple[Entry, ...]
    left_out: int = 0


def browse(url: str = "", *, most: int = 500, timeout_s: float = 20.0) -> Folder:
    """List a folder, or the folder of a file.

    Args:
        url: a path or URL in any file system that fsspec supports; default "": the working folder.
        most: largest number of entries; default 500.
        timeout_s: time limit in seconds; default 20.

    Raises:
        FileNotFoundError: if `url` does not exist.
        OSError: if the store fails, naming the URL.
        RunTimeoutError: if the store does not respond in time.
    """
    place = url.strip() or os.getcwd()
    return run_with_timeout(timeout_s, lambda: _browse(place, most), place)


def _browse(url: str, most: int) -> Folder:
    system, path = system_of(url)
    with store_errors(url, "listed"):
        is_file = system.isfile(path)
    place = absolute(url).rstrip("/") or "/"
    if is_file:
        place = parent_of(place) or place
    elif is_on_this_machine(url) and not system.exists(path):
        with store_errors(url, "listed"):
            raise FileNotFoundError(url)
    # Some stores keep an empty object for the folder itself.
    shown = (
        entry
        for entry in entries_of(place)
        if not entry.name.startswith(HIDDEN) and entry.url.rstrip("/") != place.rstrip("/")
    )
    entries = sorted(shown, key=lambda each: (not each.is_folder, natural_key(each.name)))
    return Folder(
        url=place,
        parent=parent_of(place),
        entries=tuple(entries[:most]),
        left_out=max(0, len(entries) - most),
    )


def parent_of(url: str) -> str | None:
    """Return the parent folder; None at the root."""
    scheme, sign, rest = url.rpartition("://")
    above, slash, _ = rest.rstrip("/").rpartition("/")
    if not slash:
        return None
    is_top = not above or (sign and "/" not in above)
    return f"{scheme}{sign}{above}{'/' if is_top else ''}"


def run_with_timeout(timeout_s: float, function: Callable[[], _T], url: str) -> _T:
    """Return the result of `function`, run on a thread that continues after a timeout."""
    answer = on_thread(function, timeout_s, name="sparkwright-browse")
    if answer.done():
        return answer.result()
    raise RunTimeoutError(
        f"a store or file must be read within {timeout_s:g} s. Received: no result from "
        f"{url}. Check the connection to the store, read less, or increase `timeout_s`."
    )
