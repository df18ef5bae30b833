"""Example weights in the loss: per class, as an array, or from a column of the data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkwright.errors import DataError

from .classes import class_of_each_example, class_output
from .dataset import Array, DataSet


def weighted_by_class(dataset: DataSet, *, class_weight: Mapping[int, float]) -> DataSet:
    """Return `dataset` with its weights multiplied by those of the classes, by default 1.

    Raises:
        DataError: if the labels are not one class per example.
    """
    classes, places = np.unique(
        class_of_each_example(dataset, class_output(dataset, None)), return_inverse=True
    )
    by_class = np.array([class_weight.get(number, 1.0) for number in classes.tolist()], np.float32)
    return _times(dataset, {"weights": by_class[places]})


def weighted(dataset: DataSet, *, sample_weight: Any) -> DataSet:
    """Return `dataset` with its weights multiplied by `sample_weight`.

    Args:
        dataset: the examples.
        sample_weight: (n,) array; (n, time) for the only output; output name -> either; or the name
            of an input with one number per example, which is removed from the inputs.

    Raises:
        DataError: if the input or output does not exist, or a shape does not match.
    """
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
        columns[name] = (found * before).astype(np.float32)
    return DataSet.from_columns(columns)
