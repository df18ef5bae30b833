"""Labels as class numbers, whichever way they are written."""

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._dataset import Array, DataSet

# More different numbers than this are no classes.
_MAX_CLASSES = 100_000


def class_output(dataset: DataSet, output: str | None) -> str:
    """The name of the labels that are meant.

    Raises:
        DataError: if there are none of this name, or several and no name.
    """
    names = list(dataset.labels)
    if output is None and len(names) == 1:
        return names[0]
    if output not in names:
        raise DataError(
            f"`label` must name one of the outputs of the data, {names}. Received: {output!r}."
        )
    return output


def class_numbers(dataset: DataSet, output: str) -> tuple[NDArray[np.int64], int | None]:
    """The class of each label of an output; masked ones are left out.

    Integers, and floats that are whole numbers in an axis of length 1 or none, are class numbers.
    Other floats are one-hot along the last axis.

    Args:
        dataset: the examples.
        output: its name.

    Returns:
        (labels,) int64: one for each example, or for each step of sequences; the number of classes
        if they are one-hot, else None.

    Raises:
        DataError: if the labels are no classes.
    """
    labels = dataset.labels[output]
    mask = dataset.labels_masks.get(output)
    one_hot = labels.dtype.kind == "f" and _is_one_hot(labels, mask)
    numbers = _one_hot_numbers(labels, output, mask) if one_hot else _whole(labels, output, mask)
    return numbers, labels.shape[-1] if one_hot else None


def counted(numbers: NDArray[np.int64]) -> dict[int, int]:
    """Class -> how often it occurs."""
    classes, counts = np.unique(numbers, return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def added(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    """The counts of both together.

    Raises:
        DataError: if there are too many different numbers for classes.
    """
    total = dict(first)
    for number, count in second.items():
        total[number] = total.get(number, 0) + count
    if len(total) > _MAX_CLASSES:
        raise DataError(
            f"labels with more than {_MAX_CLASSES:,} different values are no classes. Received: "
            f"at least {len(total):,}."
        )
    return total


def class_of_each_example(dataset: DataSet, output: str) -> NDArray[np.int64]:
    """(n,) int64 class of each example.

    Raises:
        DataError: if an example has several labels, or the labels are no classes.
    """
    bare = DataSet(dataset.features, {output: dataset.labels[output]})
    numbers, _ = class_numbers(bare, output)
    if len(numbers) != len(dataset):
        raise DataError(
            "a stratified split needs one class an example. Received: output "
            f"{output!r} with shape {dataset.labels[output].shape[1:]} an example."
        )
    return numbers


def _is_one_hot(labels: Array, mask: Array | None) -> bool:
    steps = mask is not None and mask.ndim == labels.ndim
    return labels.ndim > 1 and labels.shape[-1] > 1 and not steps


def _one_hot_numbers(labels: Array, output: str, mask: Array | None) -> NDArray[np.int64]:
    rows = labels.reshape(-1, labels.shape[-1]) if mask is None else _kept(labels, mask)
    hot = rows == 1
    if not (np.count_nonzero(hot, axis=1) == 1).all() or np.count_nonzero(rows) != len(rows):
        raise _no_classes(output, labels, "rows that are not one-hot")
    return hot.argmax(axis=1).astype(np.int64)


def _whole(labels: Array, output: str, mask: Array | None) -> NDArray[np.int64]:
    numbers = labels.reshape(-1) if mask is None else _kept(labels, mask).reshape(-1)
    if numbers.dtype.kind == "f":
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
        if not whole.all():
            raise _no_classes(output, labels, f"the number {numbers[~whole][0]}")
    return numbers.astype(np.int64)


def _kept(labels: Array, mask: Array) -> Array:
    kept = labels[mask != 0]
    return kept.reshape(-1, labels.shape[-1]) if labels.ndim > 1 else kept


def _no_classes(output: str, labels: Array, found: str) -> DataError:
    return DataError(
        f"labels must be classes here: whole numbers, or one-hot. Received: {found} in output "
        f"{output!r} of dtype {labels.dtype} and shape {labels.shape[1:]} an example."
    )
