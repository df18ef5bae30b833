"""Minibatch files written by one machine, without Spark; a cluster reads them like any export."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sparkwright.data._chunks import cut
from sparkwright.data._dataset import DataSet
from sparkwright.errors import DataError
from sparkwright.storage._files import absolute

from ._export import new_manifest
from ._exported import ExportedDataSet, new_export, reusable_export
from ._minibatch_writer import FILES_PER_FOLDER, MinibatchWriter, check_sizes, common_columns


def to_minibatch_files(
    data: Any,
    url: str | os.PathLike[str],
    *,
    batch_size: int,
    overwrite: bool = False,
    files_per_folder: int = FILES_PER_FOLDER,
    class_names: Mapping[str, Sequence[str]] | None = None,
) -> ExportedDataSet:
    """Write examples as files of exactly `batch_size`, as `DistributedDataSet.export` does.

    Only the last file may be smaller; order is kept. Holds a minibatch and a batch at a time.

    Args:
        data: a DataSet, a (features, labels) or (features, labels, weights) tuple of arrays, or
            anything that yields them batch by batch: a list, a generator, a `tf.data.Dataset`, a
            `keras.utils.PyDataset`. Features and labels may be dicts: name -> array. A tuple of
            DataSets counts as a list; a list of two or three bare arrays, which may be meant in
            either way, is refused.
        url: a folder of its own, local or of any store.
        batch_size: examples a file.
        overwrite: replace an export that is there; default False.
        files_per_folder: at most so many files in a sub-folder; default 1000.
        class_names: output name -> names of its classes; default none.

    Raises:
        ConfigurationError: if something is at `url` already.
        DataError: if the batches do not fit together, or there is none.
        OSError: whatever the store says, naming the URL.

    Example:
        sw.data.to_minibatch_files((images, labels), "exports/train", batch_size=32)
    """
    check_sizes(batch_size, files_per_folder)
    place = absolute(os.fspath(url)).rstrip("/")
    reusable_export(
        place, fingerprint=None, batch_size=batch_size, reuse=False, overwrite=overwrite
    )
    with new_export(place) as writing:
        writer = MinibatchWriter(
            writing.folder, "part-00000", batch_size=batch_size, files_per_folder=files_per_folder
        )
        rest = writer.write(_datasets(data))
        if rest is not None:
            writer.write_file(rest)
        return writing.publish(
            new_manifest(
                writing,
                columns=common_columns([writer.columns]),
                batch_size=batch_size,
                files=writer.files,
                class_names={name: tuple(names) for name, names in (class_names or {}).items()},
            )
        )


def _datasets(data: Any) -> Iterator[DataSet]:
    if isinstance(data, DataSet):
        yield from cut(data)
    elif isinstance(data, tuple) and data and all(isinstance(part, DataSet) for part in data):
        yield from data
    elif isinstance(data, (tuple, np.ndarray, Mapping)):
        yield from cut(_dataset(data, 0))
    else:
        _refuse_ambiguous(data)
        for number, batch in enumerate(_batches(data)):
            yield _dataset(batch, number)


def _refuse_ambiguous(data: Any) -> None:
    if not isinstance(data, list) or len(data) not in (2, 3):
        return
    if any(isinstance(part, (DataSet, tuple, Mapping)) for part in data):
        return
    raise DataError(
        "a list is of batches, each a DataSet or a tuple. Received: a list of "
        f"{len(data)} bare arrays. Give a tuple, `(features, labels)`, for one batch; or an "
        "iterator, `iter([…])`, for batches of features alone."
    )


def _batches(data: Any) -> Iterable[Any]:
    if hasattr(data, "__iter__"):
        return data
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        # Without `__iter__` Python would ask for items until there is an IndexError, which
        # something that has a length need not raise.
        return (data[number] for number in range(len(data)))
    raise DataError(
        "minibatch files are written from a DataSet, arrays, or something that yields them. "
        f"Received: {type(data).__name__}."
    )


def _dataset(batch: Any, number: int) -> DataSet:
    if isinstance(batch, DataSet):
        return batch
    parts = batch if isinstance(batch, tuple) else (batch,)
    if not 1 <= len(parts) <= 3:
        raise DataError(
            "a batch must be (features,), (features, labels) or (features, labels, weights). "
            f"Received: {len(parts)} parts in batch {number}."
        )
    arrays = [_arrays(part) for part in parts]
    features, labels, weights = (*arrays, None, None)[:3]
    try:
        return DataSet(features, labels, weights=weights)
    except DataError as error:
        raise DataError(f"batch {number}: {error}") from None


def _arrays(part: Any) -> Any:
    if part is None:
        return None
    if isinstance(part, Mapping):
        return {str(name): np.asarray(array) for name, array in part.items()}
    return np.asarray(part)
