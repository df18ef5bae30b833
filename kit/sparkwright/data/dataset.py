"""Examples in memory: named feature and label arrays that share their first axis."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._alignment import align_columns
from ._tensors import columns_of_batches, to_table
from .texts import as_texts, size_bytes

Array = NDArray[Any]
Summary = TypeVar("Summary")
# (chunk, partition, index of the chunk's first example in the partition) -> summary.
Summarize = Callable[["DataSet", int, int], Summary]
Merge = Callable[[Summary, Summary], Summary]
GROUPS = ("features", "labels", "features_masks", "labels_masks")
# Large enough that Spark's overhead per record is negligible, small enough to stream.
CHUNK_BYTES = 1 << 20


class DataSet:
    """Examples for a network with one or several inputs and outputs.

    The first axis of every array is the example axis. Arrays are not copied, unless their byte
    order is not the native one; treat them as read-only. Text features become object arrays of
    `str`.

    Attributes:
        features: input name -> (n, ...) array.
        labels: output name -> (n, ...) array; empty without labels.
        features_masks: input name -> (n, time) array, 0 where a step is padding.
        labels_masks: output name -> (n,) or (n, time) array, 0 where a label is ignored.
        weights: (n,) float32 weight of each example in the loss, or None.

    Example:
        >>> ds = DataSet(np.zeros((3, 2)), np.array([0, 1, 0]))
        >>> len(ds), sorted(ds.columns())
        (3, ['features/features', 'labels/labels'])
    """

    __slots__ = ("_length", "features", "features_masks", "labels", "labels_masks", "weights")

    def __init__(
        self,
        features: Mapping[str, Any] | Any,
        labels: Mapping[str, Any] | Any | None = None,
        *,
        features_masks: Mapping[str, Any] | Any | None = None,
        labels_masks: Mapping[str, Any] | Any | None = None,
        weights: Any | None = None,
    ) -> None:
        """Validate the arrays.

        Raises:
            DataError: if the arrays differ in their number of examples, if `features` is empty, if
                an array is not numeric (features may also be text without missing values), or if
                an axis other than the first has length 0.
        """
        self.features = _named(features, "features", texts=True)
        self.labels = _named(labels, "labels")
        self.features_masks = _named(features_masks, _only_name(self.features, "features"))
        self.labels_masks = _named(labels_masks, _only_name(self.labels, "labels"))
        self.weights = None if weights is None else _checked("weights", np.asarray(weights))
        if not self.features:
            raise DataError("a DataSet needs at least one feature array. Received: features={}.")
        sizes = {name: array.shape[0] for name, array in self.columns().items()}
        if len(set(sizes.values())) != 1:
            raise DataError(
                "all arrays of a DataSet must have the same number of examples on their first "
                f"axis. Received: {sizes}."
            )
        self._length = next(iter(sizes.values()))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name}: {array.dtype}{list(array.shape[1:])}"
            for name, array in self.columns().items()
        )
        return f"DataSet({len(self)} examples; {shapes})"

    @property
    def layout(self) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
        """Flat column name -> (dtype, shape of one example); `concatenate` needs equal layouts."""
        return {name: (a.dtype, a.shape[1:]) for name, a in self.columns().items()}

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Flat column name -> shape of the array, including the example axis."""
        return {name: a.shape for name, a in self.columns().items()}

    @property
    def size_bytes(self) -> int:
        """Total size of all arrays in bytes; a text counts as its UTF-8 bytes plus 8."""
        return sum(map(size_bytes, self.columns().values()))

    def columns(self) -> dict[str, Array]:
        """Return all arrays under flat names such as `features/image`, in a fixed order."""
        flat: dict[str, Array] = {}
        for group in GROUPS:
            for name, array in getattr(self, group).items():
                flat[f"{group}/{name}"] = array
        if self.weights is not None:
            flat["weights"] = self.weights
        return flat

    @classmethod
    def from_columns(cls, columns: Mapping[str, Array]) -> "DataSet":
        """Create a DataSet from flat names and arrays; the inverse of `columns`.

        Raises:
            DataError: if a name does not start with a group such as `features/`.
        """
        groups: dict[str, Any] = {group: {} for group in GROUPS}
        for flat, array in columns.items():
            group, _, name = flat.partition("/")
            if flat == "weights":
                groups[flat] = array
            elif group in groups and name:
                groups[group][name] = array
            else:
                raise DataError(
                    f"a column name must be `weights` or start with one of {list(GROUPS)} and a "
                    f"slash. Received: {flat!r}."
                )
        return cls(**groups)

    def take(self, rows: Array | slice) -> "DataSet":
        """Return the examples selected by `rows`: indices, a boolean mask or a slice."""
        return DataSet.from_columns({name: a[rows] for name, a in self.columns().items()})

    @classmethod
    def concatenate(cls, parts: "Sequence[DataSet]") -> "DataSet":
        """Concatenate the examples of `parts`, in order.

        Raises:
            DataError: if `parts` is empty or the parts differ in columns, dtypes or shapes.
        """
        if not parts:
            raise DataError("`concatenate` needs at least one DataSet. Received: parts=[].")
        if len(parts) == 1:
            return parts[0]
        columns = [part.columns() for part in parts]
        first = parts[0].layout
        for number, part in enumerate(parts[1:], start=1):
            found = part.layout
            if found != first:
                raise DataError(
                    "DataSets can be joined only when their columns, dtypes and shapes agree. "
                    f"Received: part 0 has {first}, part {number} has {found}."
                )
        return cls.from_columns({n: np.concatenate([c[n] for c in columns]) for n in columns[0]})

    @classmethod
    def merge(cls, parts: "Sequence[DataSet]") -> "DataSet":
        """Concatenate `parts`, padding sequences to the longest length.

        Shorter sequences get zeros at their end and a mask that is True at real steps. If only some
        parts have a mask or weights, the other parts get ones. `concatenate` does not pad.

        Raises:
            DataError: if `parts` is empty, or the parts differ in names, dtypes, or shapes other
                than the sequence length.

        Example:
            >>> short, long = DataSet(np.ones((1, 2, 3))), DataSet(np.ones((1, 4, 3)))
            >>> merged = DataSet.merge([short, long])
            >>> merged.shapes["features/features"]
            (2, 4, 3)
            >>> merged.features_masks["features"].tolist()
            [[True, True, False, False], [True, True, True, True]]
        """
        if all(part.layout == parts[0].layout for part in parts):
            return cls.concatenate(parts)
        columns = [part.columns() for part in parts]
        align_columns(columns)
        return cls.concatenate(list(map(cls.from_columns, columns)))

    def batches(self, size: int) -> "Iterator[DataSet]":
        """Yield consecutive DataSets of `size` examples; the last one may be smaller.

        Raises:
            ConfigurationError: if `size` is below 1.
        """
        check_integer("size", size)
        for start in range(0, len(self), size):
            yield self.take(slice(start, start + size))

    def reduce_chunks(
        self, summarize: Summarize[Summary], merge: Merge[Summary], *, description: str = ""
    ) -> Summary | None:
        """Reduce all examples to a summary, as `DistributedDataSet.reduce_chunks`.

        Args:
            summarize: (chunk of about 1 MiB, 0, index of its first example) -> summary.
            merge: (earlier summary, later summary) -> summary of both.
            description: not used.

        Returns:
            The summary, merged in the order of the examples; None without examples.
        """
        del description
        return fold([self], summarize, merge)

    def shuffle(self, seed: int) -> "DataSet":
        """Return the examples in a random order determined by `seed`.

        Raises:
            ConfigurationError: if `seed` is not an integer of at least 0.
        """
        check_integer("seed", seed, minimum=0)
        return self.take(np.random.default_rng(seed).permutation(len(self)))

    def equals(self, other: "DataSet") -> bool:
        """Whether both have equal columns, dtypes and values; NaN equals NaN."""
        mine, theirs = self.columns(), other.columns()
        return list(mine) == list(theirs) and all(
            array.dtype == theirs[name].dtype
            and np.array_equal(array, theirs[name], equal_nan=array.dtype.kind == "f")
            for name, array in mine.items()
        )

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table with one column per array; its rows are fixed-shape tensors.

        Row-major numeric arrays are shared without copying; text is copied as strings.
        """
        return to_table(self.columns(), len(self))

    @classmethod
    def from_arrow(cls, table: Any) -> "DataSet":
        """Create a DataSet from Arrow; shares memory if the table has a single chunk.

        Args:
            table: a pyarrow.Table or RecordBatch. Its columns are numbers, fixed-size lists of
                numbers, fixed-shape tensors, strings or fixed-size lists of strings. Their names
                are flat names, as in `columns`.

        Raises:
            DataError: naming the column, if a value is missing or is neither a number nor text.
        """
        return cls.concatenate([cls.from_columns(c) for c in columns_of_batches(table)])


# One class serves networks with one input and output and those with several.
MultiDataSet = DataSet


def cut(dataset: DataSet, size_bytes: int = CHUNK_BYTES) -> Iterator[DataSet]:
    """Cut into consecutive DataSets of about `size_bytes`, each of at least one example."""
    row_bytes = dataset.size_bytes / max(1, len(dataset))
    yield from dataset.batches(max(1, int(size_bytes / max(row_bytes, 1))))


def fold(
    chunks: Iterable[DataSet],
    summarize: Summarize[Summary],
    merge: Merge[Summary],
    *,
    partition: int | None = None,
) -> Summary | None:
    """Summarize the chunks of a partition; large ones are cut. None without examples."""
    total: Summary | None = None
    start = 0
    try:
        for chunk in (piece for whole in chunks for piece in cut(whole)):
            found = summarize(chunk, partition or 0, start)
            total = found if total is None else merge(total, found)
            start += len(chunk)
    except DataError as error:
        where = "" if partition is None else f" The error is in partition {partition}."
        raise DataError(f"{error}{where}") from None
    return total


def added(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Merge summaries by name, for `fold`."""
    return {name: summary + second[name] for name, summary in first.items()}


def check_integer(name: str, value: Any, *, minimum: int = 1) -> None:
    """Raise unless `value` is a Python or NumPy integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < minimum:
        raise ConfigurationError(
            f"`{name}` must be an integer of at least {minimum}. Received: {name}={value!r}."
        )


def _named(
    value: Mapping[str, Any] | Any | None, default: str, *, texts: bool = False
) -> dict[str, Array]:
    if value is None:
        return {}
    items = value.items() if isinstance(value, Mapping) else [(default, value)]
    return {str(n): _checked(str(n), np.asarray(array), texts=texts) for n, array in items}


def _checked(name: str, array: Array, *, texts: bool = False) -> Array:
    is_text = array.dtype.kind in "OSTU"
    if texts and is_text and array.ndim and 0 not in array.shape[1:]:
        return as_texts(name, array)
    if array.ndim == 0 or array.dtype.kind not in "biuf" or 0 in array.shape[1:]:
        raise DataError(
            "each array of a DataSet must be numeric, or text among the features, with at least "
            "one axis (the examples), and other axes longer than 0. Received: "
            f"{name!r} with shape {array.shape} and dtype {array.dtype}."
            + (
                " Convert classes to integers: `np.unique(labels, return_inverse=True)`."
                if is_text and not texts
                else ""
            )
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _only_name(arrays: Mapping[str, Array], default: str) -> str:
    return next(iter(arrays)) if len(arrays) == 1 else default
