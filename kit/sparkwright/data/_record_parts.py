"""Write examples as the parts of a folder, from the driver or from all executors."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.cluster.jobs import collect
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_count
from sparkwright.storage.files import absolute, exists, join, write_atomically, write_folder
from sparkwright.storage.listing import list_entries

from ._distributed import DistributedDataSet
from ._record_examples import MAX_AXES, Layout, layout_of, merged_layout
from .chunks import cut, from_bytes
from .dataset import DataSet
from .paths import check_complete, check_reached
from .shuffling import place

_DONE = "_SUCCESS"  # as Hadoop's jobs write it; readers ignore names that start with "_"

Examples = DistributedDataSet | DataSet | tuple[Any, ...] | Iterable[DataSet]


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenPart:
    """A written part: number of examples, name of its file or folder, layout."""

    count: int
    entry: str
    layout: Layout


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordFormat:
    """A file format for parts.

    Attributes:
        encode: function of a DataSet that returns the value of each example.
        write: function (URL, layout, (key, value) pairs) -> name of the written file or folder.
        numbered: whether keys must be 0, 1, 2 and so on; otherwise they are only unique.
        varying_axes: maximum number of axes of a column that may vary between examples.
        finish: function that completes a folder of parts; default None.
    """

    encode: Callable[[DataSet], Iterable[bytes]]
    write: Callable[[str, Layout, Iterable[tuple[int, bytes]]], str]
    numbered: bool = False
    varying_axes: int = MAX_AXES
    finish: Callable[[str, list[WrittenPart]], None] | None = None


def write_parts(
    datasets: Examples,
    url: str,
    form: RecordFormat,
    *,
    examples_per_part: int | None,
    max_files: int | None,
    overwrite: bool,
) -> int:
    """Write examples as parts of a folder, atomically; see `write_sequence_file`."""
    for name, value in (("examples_per_part", examples_per_part), ("max_files", max_files)):
        check_count(name, value, optional=True)
    here = not isinstance(datasets, DistributedDataSet)
    if max_files is not None and (here or examples_per_part is not None):
        raise ConfigurationError(
            "`max_files` needs distributed data, without `examples_per_part`. Received: "
            f"max_files={max_files}, examples_per_part={examples_per_part}, "
            f"datasets={type(datasets).__name__}."
        )
    url = absolute(url)  # executors may have other working directories
    if not overwrite and exists(url) and (entries := list_entries(url)):
        raise ConfigurationError(
            f"the output folder must be empty or missing. Received: {url} with "
            f"{', '.join(entries[:5])}. Use another folder, or `overwrite=True`."
        )
    with write_folder(url) as new:
        if isinstance(datasets, DistributedDataSet):
            check_reached(datasets.spark, new)
            parts = _distributed(datasets, new, form, examples_per_part, max_files)
        else:
            parts = _written_here(_datasets(datasets), new, form, examples_per_part)
        if not parts:
            raise DataError(
                "the data to write must have at least one example, which defines the columns. "
                "Received: none."
            )
        check_complete(new, {part.entry for part in parts})
        if form.finish is not None:
            form.finish(new, parts)
    # Last, because object stores copy the folder part by part.
    with write_atomically(join(url, _DONE)):
        pass
    return sum(part.count for part in parts)


def _datasets(data: Any) -> Iterator[DataSet]:
    """Yield the DataSets of a DataSet, of arrays, or of an iterable of DataSets."""
    if isinstance(data, tuple) and not any(isinstance(part, DataSet) for part in data):  # pyright: ignore[reportUnknownVariableType]
        parts: list[Any] = list(data)  # pyright: ignore[reportUnknownArgumentType]
        if 1 <= len(parts) <= 3:
            data = DataSet(*parts[:2], weights=parts[2] if len(parts) == 3 else None)
    if isinstance(data, DataSet):
        yield data
        return
    for dataset in data if isinstance(data, Iterable) else [data]:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(dataset, DataSet):
            kind = type(dataset).__name__  # pyright: ignore[reportUnknownArgumentType]
            raise ConfigurationError(
                "the data to write must be a DataSet, a DistributedDataSet, a (features, labels) "
                f"tuple of arrays, or an iterable of DataSets. Received: {kind} in "
                f"{type(data).__name__}. For the result of `read_csv`, pass its `data`."  # pyright: ignore[reportUnknownArgumentType]
            )
        yield dataset


def _written_here(
    datasets: Iterable[DataSet], url: str, form: RecordFormat, size: int | None
) -> list[WrittenPart]:
    return [
        _write_part((dataset for _, dataset in group), url, form, number, number * (size or 0), 1)
        for number, group in groupby(_numbered(datasets, size), key=itemgetter(0))
    ]


def _numbered(datasets: Iterable[DataSet], size: int | None) -> Iterator[tuple[int, DataSet]]:
    """Yield (number of the part, examples); DataSets are cut at the ends of parts."""
    first = 0
    for dataset in datasets:
        start = 0
        while start < len(dataset):
            number = 0 if size is None else (first + start) // size
            end = len(dataset) if size is None else min(len(dataset), (number + 1) * size - first)
            yield number, dataset.take(slice(start, end))
            start = end
        first += len(dataset)


def _write_part(
    datasets: Iterator[DataSet], url: str, form: RecordFormat, number: int, first: int, step: int
) -> WrittenPart:
    """Write one part with keys `first`, `first + step` and so on; needs at least one DataSet."""
    head = next(datasets)
    layout, count = layout_of(head), 0

    def records() -> Iterator[tuple[int, bytes]]:
        nonlocal layout, count
        for dataset in chain([head], datasets):
            layout = merged_layout(layout, layout_of(dataset), varying=form.varying_axes)
            for value in chain.from_iterable(map(form.encode, cut(dataset))):
                yield first + count * step, value
                count += 1

    entry = form.write(join(url, f"part-r-{number:05d}"), layout, records())
    return WrittenPart(count=count, entry=entry, layout=layout)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parts:
    """Placement of examples in parts of `size`; `offsets` holds the first example per partition."""

    offsets: list[int]
    size: int

    def destinations(self, source: int, start: int, stop: int) -> NDArray[np.int32]:
        first = self.offsets[source]
        return (np.arange(first + start, first + stop) // self.size).astype(np.int32)


def _distributed(
    data: DistributedDataSet, url: str, form: RecordFormat, size: int | None, max_files: int | None
) -> list[WrittenPart]:
    rdd: Any = data.rdd
    counts: list[int] = []  # examples per part; empty if not needed
    if size is None and not form.numbered:
        rdd = rdd if max_files is None else rdd.coalesce(max_files)
        # Unique keys without counting: partition p of n uses p, p + n, p + 2n and so on.
        step = rdd.getNumPartitions()
        numbers = offsets = list(range(step))
    else:
        counts, step = list(data.partition_counts()), 1
        total = sum(counts)
        if max_files is not None and max_files < sum(map(bool, counts)):
            size = -(-total // max_files)
        if size is not None and total:
            parts = _Parts(offsets=[0, *accumulate(counts)], size=size)
            ends = [*range(size, total, size), total]
            rdd = place(rdd, parts, source_counts=counts, partitions=len(ends))
            counts = np.diff([0, *ends]).tolist()
        offsets = [0, *accumulate(counts)]
        numbers = [0, *accumulate(map(bool, counts))]

    def write(index: int, chunks: Iterable[bytes]) -> Iterator[WrittenPart]:
        datasets = (dataset for dataset in map(from_bytes, chunks) if len(dataset))
        if (head := next(datasets, None)) is not None:
            datasets = chain([head], datasets)
            yield _write_part(datasets, url, form, numbers[index], offsets[index], step)

    written = collect(data.spark, rdd.mapPartitionsWithIndex(write), description="write records")
    found = [part.count for part in written]
    if counts and found != (expected := [count for count in counts if count]):
        raise DataError(
            "distributed data must have the same examples each time it is computed. "
            f"Received: {sum(found)} in {len(found)} parts, but {sum(expected)} in "
            f"{len(expected)} in the count before. Persist it, or make its computation "
            "deterministic."
        )
    return written
