"""Files of exactly one minibatch each, written one after another."""

from collections.abc import Iterable

from sparkwright.data._arrow import to_bytes
from sparkwright.data._chunks import batched
from sparkwright.data._dataset import DataSet
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import join, write_bytes

from ._loaders import crc32c_of
from ._manifest import Columns, MinibatchFile, columns_of, columns_text

FILES_PER_FOLDER = 1000
MAX_EXAMPLES = 2**31 - 1


class MinibatchWriter:
    """Writes DataSets of one layout as files of exactly `batch_size` examples.

    Attributes:
        files: what has been written, in order.
        columns: of all examples; None before the first.
    """

    def __init__(self, folder: str, part: str, *, batch_size: int, files_per_folder: int) -> None:
        """Write to `folder/part/0000/minibatch-000000.arrow` and so on."""
        self.files: list[MinibatchFile] = []
        self.columns: Columns | None = None
        self._folder, self._part = folder, part
        self._batch_size, self._files_per_folder = batch_size, files_per_folder

    def write(self, datasets: Iterable[DataSet]) -> DataSet | None:
        """Write all full minibatches; returns what is left.

        Raises:
            DataError: if the layouts differ.
            OSError: whatever the store says.
        """
        for minibatch in batched(map(self._checked, datasets), self._batch_size):
            if len(minibatch) < self._batch_size:
                return minibatch
            self.write_file(minibatch)
        return None

    def write_file(self, minibatch: DataSet) -> None:
        """Write one more file, of any size."""
        number = len(self.files)
        path = minibatch_path(self._part, number, self._files_per_folder)
        content = to_bytes(minibatch)
        write_bytes(join(self._folder, path), content)
        self.files.append(written_file(path, content, examples=len(minibatch)))

    def _checked(self, dataset: DataSet) -> DataSet:
        if not len(dataset):
            return dataset
        found = columns_of(dataset.layout)
        if self.columns is None:
            self.columns = found
        elif found != self.columns:
            raise _differing(self.columns, found)
        return dataset


def written_file(path: str, content: bytes, *, examples: int) -> MinibatchFile:
    """What a manifest says of a file of these bytes."""
    return MinibatchFile(
        path=path, examples=examples, size_bytes=len(content), crc32c=crc32c_of(content)
    )


def minibatch_path(part: str, number: int, files_per_folder: int) -> str:
    """Where the `number`-th minibatch of a part lies.

    Example:
        >>> minibatch_path("part-00003", 1017, 1000)
        'part-00003/0001/minibatch-001017.arrow'
    """
    return f"{part}/{number // files_per_folder:04d}/minibatch-{number:06d}.arrow"


def check_sizes(batch_size: int, files_per_folder: int) -> None:
    """Refuse sizes that a manifest cannot hold.

    Raises:
        ConfigurationError: naming the option.
    """
    for name, value in (("batch_size", batch_size), ("files_per_folder", files_per_folder)):
        if type(value) is not int or not 1 <= value <= MAX_EXAMPLES:
            raise ConfigurationError(
                f"`{name}` must be a whole number of at least 1, and at most {MAX_EXAMPLES}. "
                f"Received: {name}={value!r}."
            )


def common_columns(found: Iterable[Columns | None]) -> Columns:
    """The columns that all parts have; parts without examples do not count.

    Raises:
        DataError: if they differ, or if there are no examples at all.
    """
    columns: Columns | None = None
    for other in found:
        if columns is None:
            columns = other
        elif other is not None and other != columns:
            raise _differing(columns, other)
    if columns is None:
        raise DataError("an export needs at least one example. Received: none.")
    return columns


def _differing(one: Columns, other: Columns) -> DataError:
    return DataError(
        "all examples of an export must have the same columns, dtypes and shapes. Received: "
        f"{columns_text(one)} and {columns_text(other)}. Bring sequences to one length first: "
        "`data.padded()`."
    )
