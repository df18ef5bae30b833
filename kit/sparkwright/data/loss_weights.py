"""Weights of examples in the loss: by their class, given beside the data, or one of its columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from .classes import class_of_each_example, class_output
from .dataset import Array, DataSet


def weighted_by_class(dataset: DataSet, *, class_weight: Mapping[int, float]) -> DataSet:
    """`dataset` whose examples weigh as their class says, times the weights that they have.

    Raises:
        DataError: if the labels are no classes, one an example.
    """
    classes = class_of_each_example(dataset, class_output(dataset, None))
    known, places = np.unique(classes, return_inverse=True)
    weights = np.array([class_weight.get(number, 1.0) for number in known.tolist()], np.float32)
    return _times(dataset, {"weights": weights[places].reshape(-1)})


def weighted(dataset: DataSet, *, sample_weight: Any) -> DataSet:
    """`dataset` with weights, times those that it has.

    Args:
        dataset: the examples.
        sample_weight: (n,) array; (n, time) for the only output; output name -> either; or the name
            of an input of one number an example, which becomes the weights.

    Raises:
        ConfigurationError: if there is no such input or output.
        DataError: if a shape does not fit.
    """
    if isinstance(sample_weight, str):
        return _column_as_weights(dataset, sample_weight)
    if isinstance(sample_weight, Mapping):
        by_output = {str(name): np.asarray(each) for name, each in sample_weight.items()}
        if unknown := sorted(set(by_output) - set(dataset.labels)):
            raise ConfigurationError(
                f"`sample_weight` must name outputs of the data, {sorted(dataset.labels)}. "
                f"Received: {unknown}."
            )
        return _times(dataset, {f"labels_masks/{name}": each for name, each in by_output.items()})
    weights = np.asarray(sample_weight)
    if weights.ndim > 1:
        return _times(dataset, {f"labels_masks/{class_output(dataset, None)}": weights})
    return _times(dataset, {"weights": weights})


def _column_as_weights(dataset: DataSet, name: str) -> DataSet:
    if name not in dataset.features or len(dataset.features) == 1:
        raise ConfigurationError(
            "`sample_weight` must be an array, or the name of an input that the data has beside "
            f"those of the network. Received: sample_weight={name!r}; the data has "
            f"{sorted(dataset.features)}. Readers of tables take `weights=…`."
        )
    column = dataset.features[name]
    rest = {flat: a for flat, a in dataset.columns().items() if flat != f"features/{name}"}
    weights = column.reshape(len(column), -1)
    if weights.shape[1] != 1:
        raise DataError(
            "a column of weights must have one number an example. Received: "
            f"{name!r} with shape {column.shape[1:]} an example."
        )
    return _times(DataSet.from_columns(rest), {"weights": weights[:, 0]})


def _times(dataset: DataSet, weights: Mapping[str, Array]) -> DataSet:
    columns = dict(dataset.columns())
    for name, given in weights.items():
        if given.dtype.kind not in "biuf" or given.shape[:1] != (len(dataset),):
            raise DataError(
                "`sample_weight` must have one number, or one for each step, an example. Received: "
                f"shape {given.shape} of dtype {given.dtype} for {len(dataset)} examples."
            )
        before = columns.get(name)
        given = given.astype(np.float32)
        if before is not None:
            given, before = _aligned(given, before.astype(np.float32))
            given = given * before
        columns[name] = given
    return DataSet.from_columns(columns)


def _aligned(one: Array, other: Array) -> tuple[Array, Array]:
    """Both with as many axes: a weight of an example is one of each of its steps."""
    axes = max(one.ndim, other.ndim)
    first, second = (a.reshape(a.shape + (1,) * (axes - a.ndim)) for a in (one, other))
    return first, second
