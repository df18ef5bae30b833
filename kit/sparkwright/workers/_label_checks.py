"""Labels that do not fit the loss, said before TensorFlow says it in its own way."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

_SPARSE, _DENSE = "sparse_categorical_crossentropy", "categorical_crossentropy"


def check_labels(
    model: Any,
    labels: Mapping[str, NDArray[Any]],
    outputs: Mapping[str, str],
    *,
    training: bool,
) -> None:
    """Refuse labels that the model's loss cannot mean.

    Args:
        model: a compiled keras.Model.
        labels: label name -> (n, ...) array.
        outputs: name of an output of the model -> name of its labels, in the model's order; empty
            if there are no labels.
        training: whether labels are needed.

    Raises:
        DataError: without labels in training; for one-hot labels where the loss wants class
            numbers, the other way round, and for class numbers that the output has no place for.
    """
    if training and not outputs and getattr(model, "_compile_loss", None) is not None:
        raise DataError(
            "training needs labels, because the network was compiled with a loss. Received: "
            "features alone. Give the data labels; those that are the features themselves, too."
        )
    losses = _loss_names(model.loss, list(outputs))
    for name, tensor, loss in zip(outputs.values(), model.outputs, losses, strict=False):
        classes = tensor.shape[-1]
        if loss not in (_SPARSE, _DENSE) or classes is None or classes < 2:
            continue
        array = labels[name]
        one_hot = array.ndim == len(tensor.shape) and array.shape[-1] == classes
        if loss == _DENSE and not one_hot:
            raise DataError(
                f"labels {name!r} must be one-hot for the loss {_DENSE!r}. Received: class "
                f"numbers, shape {array.shape[1:]} an example. Use `one_hot=True` where the data "
                f"is read, or the loss {_SPARSE!r}."
            )
        if loss == _SPARSE and one_hot:
            raise DataError(
                f"labels {name!r} must be class numbers for the loss {_SPARSE!r}. Received: "
                f"one-hot ones, shape {array.shape[1:]} an example. Use `one_hot=False` where the "
                f"data is read, or the loss {_DENSE!r}."
            )
        if loss == _SPARSE and len(array):
            largest = np.max(array)
            if largest >= classes:
                raise DataError(
                    f"labels {name!r} must be class numbers below {classes}, the width of the "
                    f"network's output. Received: {largest}. Give the last layer as many units as "
                    "there are classes, or check the labels."
                )


def _loss_names(loss: Any, names: Sequence[str]) -> list[str]:
    """The name of each output's loss, "" where there is none that has a name."""
    if isinstance(loss, Mapping):
        given: list[Any] = [loss.get(name) for name in names]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    elif isinstance(loss, list | tuple):
        given = list(loss)  # pyright: ignore[reportUnknownArgumentType]
    else:
        given = [loss] * len(names)
    return [_name(each) for each in given]


def _name(loss: Any) -> str:
    if isinstance(loss, str):
        return loss
    return str(getattr(loss, "name", None) or getattr(loss, "__name__", ""))
