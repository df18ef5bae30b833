"""Convert labels and column values to class numbers, and weight the loss of examples."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

from ._survey import MOST_CLASSES
from .dataset import Array, DataSet

Classes = int | Sequence[str] | Literal["infer"]

# -- labels of data sets


def class_output(dataset: DataSet, output: str | None) -> str:
    """Return `output`, or the name of the only output if `output` is None."""
    names = list(dataset.labels)
    if output is None and len(names) == 1:
        return names[0]
    if output not in names:
        raise DataError(
            f"`label` must name one of the outputs of the data, {names}. Received: {output!r}."
        )
    return output


def label_classes(dataset: DataSet, output: str) -> tuple[NDArray[np.int64], int | None]:
    """Return (labels,) int64 classes without masked labels, and the number of one-hot classes."""
    # Integers are class numbers, and integral floats without a last axis or with one of length 1.
    labels = dataset.labels[output]
    mask = dataset.labels_masks.get(output)
    width = labels.shape[-1] if labels.ndim > 1 else 1
    per_step = mask is not None and mask.ndim == labels.ndim
    rows = labels if mask is None else labels[mask != 0]
    if labels.dtype.kind == "f" and width > 1 and not per_step:
        rows = rows.reshape(-1, width)
        hot = rows == 1
        if not (np.count_nonzero(hot, axis=1) == 1).all() or np.count_nonzero(rows) != len(rows):
            raise _no_classes(output, labels, "rows that are not one-hot")
        return hot.argmax(axis=1).astype(np.int64), width
    numbers = rows.reshape(-1)
    if numbers.dtype.kind == "f":
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)
        if not whole.all():
            raise _no_classes(output, labels, f"the number {numbers[~whole][0]}")
    return numbers.astype(np.int64), None


def class_of_each_example(dataset: DataSet, output: str) -> NDArray[np.int64]:
    """Return the class of each example, (n,) int64."""
    numbers, _ = label_classes(DataSet(dataset.features, {output: dataset.labels[output]}), output)
    if len(numbers) != len(dataset):
        raise DataError(
            "a stratified split needs one class per example. Received: output "
            f"{output!r} with shape {dataset.labels[output].shape[1:]} per example."
        )
    return numbers


def class_counts(dataset: DataSet, output: str) -> dict[int, int]:
    """Return class -> number of labels; one-hot classes that do not occur count 0."""
    numbers, one_hot = label_classes(dataset, output)
    return dict.fromkeys(range(one_hot or 0), 0) | count_classes(numbers)


def count_classes(numbers: NDArray[np.int64]) -> dict[int, int]:
    """Return class -> number of occurrences."""
    classes, counts = np.unique(numbers, return_counts=True)
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def add_counts(first: dict[int, int], second: dict[int, int]) -> dict[int, int]:
    """Return the sum of both counts."""
    total = {number: first.get(number, 0) + second.get(number, 0) for number in first | second}
    if len(total) > MOST_CLASSES:
        raise DataError(
            f"labels with more than {MOST_CLASSES:,} different values cannot be classes. Received: "
            f"at least {len(total):,}."
        )
    return total


def named_counts(
    counts: Mapping[int, int], known: Iterable[int], names: Sequence[str] | None
) -> dict[Any, int]:
    """Return the counts of the `known` classes by name, or by number if a name is missing."""
    numbers = sorted(known)
    if names is None or any(not 0 <= number < len(names) for number in numbers):
        return {number: counts.get(number, 0) for number in numbers}
    return {name: counts.get(number, 0) for number, name in enumerate(names)}


def _no_classes(output: str, labels: Array, found: str) -> DataError:
    return DataError(
        f"labels must be classes here: whole numbers, or one-hot. Received: {found} in output "
        f"{output!r} of dtype {labels.dtype} and shape {labels.shape[1:]} per example."
    )


# -- weights of examples in the loss


def weighted_by_class(dataset: DataSet, *, class_weight: Mapping[int, float]) -> DataSet:
    """Return `dataset` with its weights multiplied by those of the classes, by default 1."""
    classes, places = np.unique(
        class_of_each_example(dataset, class_output(dataset, None)), return_inverse=True
    )
    by_class = np.array([class_weight.get(number, 1.0) for number in classes.tolist()], np.float32)
    return _times(dataset, {"weights": by_class[places]})


def weighted(dataset: DataSet, *, sample_weight: Any) -> DataSet:
    """Multiply the weights by (n,) or (n, time), by output, or by the input of this name."""
    if isinstance(sample_weight, Mapping):
        return _times(dataset, {f"labels_masks/{name}": w for name, w in sample_weight.items()})
    if not isinstance(sample_weight, str):
        weights = np.asarray(sample_weight)
        several = weights.ndim > 1
        name = f"labels_masks/{class_output(dataset, None)}" if several else "weights"
        return _times(dataset, {name: weights})
    flat = f"features/{sample_weight}"
    columns = dataset.columns()
    if flat not in columns or len(dataset.features) == 1:
        raise DataError(
            "`sample_weight` must be an array, or the name of an input in addition to those of "
            f"the network. Received: sample_weight={sample_weight!r}; the data has "
            f"{sorted(dataset.features)}. Readers of tables take `weights=…`."
        )
    weights = columns.pop(flat)
    weights = weights.reshape(len(weights)) if weights.size == len(weights) else weights
    return _times(DataSet.from_columns(columns), {"weights": weights})


# Of a label that counts.
_LEAST_WEIGHT = np.float32(1e-30)


def _times(dataset: DataSet, weights: Mapping[str, Array]) -> DataSet:
    columns = dataset.columns()
    for name, given in weights.items():
        found, output = np.asarray(given), name.partition("/")[2]
        axes = 1 if name == "weights" else 2
        fits = found.dtype.kind in "biuf" and found.shape[:1] == (len(dataset),)
        if not fits or found.ndim > axes or (output and output not in dataset.labels):
            raise DataError(
                "`sample_weight` must have a number for each example, or for each step of a label. "
                f"Received: {output or 'weights'} of shape {found.shape} and dtype {found.dtype} "
                f"for {len(dataset)} examples with the labels {sorted(dataset.labels)}."
            )
        before: Any = columns.get(name, np.float32(1))
        if np.ndim(before) == 2 > found.ndim:
            found = found[:, None]
        elif np.ndim(before) == 1 < found.ndim:
            before = before[:, None]
        product = (found * before).astype(np.float32)
        if output:  # as in Keras, a weight of 0 counts in the mean; 0 in a mask does not
            product[(product == 0) & (before != 0)] = _LEAST_WEIGHT
        columns[name] = product
    return DataSet.from_columns(columns)


# -- values of columns


def one_hot(numbers: Array, classes: int) -> Array:
    """Return class numbers one-hot encoded, (..., classes) float32."""
    hot = np.zeros((*numbers.shape, classes), np.float32)
    np.put_along_axis(hot, numbers[..., None].astype(np.int64), 1, axis=-1)
    return hot
