"""One part of a record file: examples of any source, written by whoever has them."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from sparkwright.data._dataset import DataSet
from sparkwright.storage._files import join, write_atomically

from ._example_records import RecordLayout, encode_examples, notes_of
from ._hadoop_types import BYTES, LONG
from ._map_files import DATA, INDEX, MapFileWriter, check_interval
from ._part_jobs import WrittenPart
from ._sequence_file import SYNC_BYTES, Compression, SequenceFileWriter, check_compression

Kind = Literal["sequence", "map"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordOptions:
    """How examples are written.

    Attributes:
        kind: "sequence" or "map".
        index_interval: of a MapFile.
        compression: None, "record" or "block".
    """

    kind: Kind
    index_interval: int = 1
    compression: Compression | None = None

    def __post_init__(self) -> None:
        check_interval(self.index_interval)
        check_compression(self.compression)


def write_part(
    datasets: Iterable[DataSet],
    url: str,
    first_key: int,
    key_step: int,
    *,
    options: RecordOptions,
) -> WrittenPart:
    """Write one part.

    Args:
        datasets: its examples; without any nothing is written.
        url: the file of a SequenceFile, the folder of a MapFile.
        first_key: of the first example.
        key_step: from one key to the next.
        options: how.

    Raises:
        DataError: if they differ in columns, dtypes or numbers of axes.
        OSError: whatever the store says, naming the file.
    """
    with ExitStack() as files:
        writer: SequenceFileWriter | MapFileWriter | None = None
        layout: RecordLayout | None = None
        count = 0
        for dataset in datasets:
            if writer is None or layout is None:
                layout = RecordLayout.of(dataset)
                writer = _writer(url, options, layout, files)
            for value in encode_examples(dataset, layout):
                key = first_key + count * key_step
                writer.append(key.to_bytes(8, "big"), value)
                count += 1
        if writer is not None:
            writer.finish()
    return WrittenPart(count=count, entry=url.rpartition("/")[2] if count else "")


def _writer(
    url: str, options: RecordOptions, layout: RecordLayout, files: ExitStack
) -> SequenceFileWriter | MapFileWriter:
    kept: dict[str, Any] = {
        "key_class": LONG,
        "value_class": BYTES,
        "compression": options.compression,
        "notes": notes_of(layout),
    }
    if options.kind == "sequence":
        file = files.enter_context(write_atomically(url))
        return SequenceFileWriter(file, sync=os.urandom(SYNC_BYTES), **kept)
    # The data appears last: where it is, its index is too.
    data = files.enter_context(write_atomically(join(url, DATA)))
    index = files.enter_context(write_atomically(join(url, INDEX)))
    return MapFileWriter(data, index, index_interval=options.index_interval, **kept)
