"""Check columns of the data against a Keras model's inputs, outputs and losses."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data.texts import is_text
from sparkwright.errors import DataError
from sparkwright.networks.signature import signature_of
from sparkwright.networks.training import LOSSES, plain_name

SPARSE, _DENSE = "sparse_categorical_crossentropy", "categorical_crossentropy"


def dtype_of(array: NDArray[Any]) -> str:
    """Return TensorFlow's name of an array's dtype."""
    return "string" if is_text(array) else str(array.dtype)


def check_feature(
    name: str, array: NDArray[Any], dtype: str, wanted: tuple[int | None, ...]
) -> None:
    """Raise DataError if features have another shape or kind of dtype than the input."""
    given = array.shape[1:]
    if is_text(array) != (dtype == "string"):
        raise DataError(
            f"features {name!r} must have the dtype of the network's input, {dtype}. "
            f"Received: {dtype_of(array)}."
        )
    if is_text(array) and {given, wanted} == {(), (1,)}:
        return  # Keras adds or removes the axis
    if not _fits(given, wanted):
        raise DataError(
            f"features {name!r} must have the shape that the network takes, "
            f"{_shape_text(wanted)} an example. Received: {_shape_text(given)}."
        )


def check_integers(name: str, array: NDArray[Any], dtype: str) -> None:
    """Raise DataError if whole numbers for an integer input were rounded to float32."""
    if "int" not in dtype or array.dtype.kind != "f" or not array.size:
        return
    exact = 1 << (np.finfo(array.dtype).nmant + 1)
    largest = np.abs([np.min(array), np.max(array)]).max()
    if largest >= exact:
        raise DataError(
            f"features {name!r} must be integers for the network's input, {dtype}. Received: "
            f"{array.dtype}, in which whole numbers from {exact:,} on are rounded, up to "
            f"{largest:,.0f}. Pass them as a NumPy array of integers, `frame.to_numpy()`, or as a "
            "column of a Spark DataFrame."
        )


def check_label(name: str, labels: NDArray[Any], output: tuple[int | None, ...]) -> None:
    """Raise DataError if labels have neither the shape of the output nor that of class numbers."""
    given = labels.shape[1:]
    # Class numbers have one axis less than the output, or a last axis of size 1.
    numbers = given[:-1] if given and given[-1] == 1 and len(given) == len(output) else given
    if not (_fits(given, output) or _fits(numbers, output[:-1])):
        raise DataError(
            f"labels {name!r} must have the shape of the network's output, {_shape_text(output)} "
            f"an example, or class numbers without its last axis. Received: {_shape_text(given)}."
        )


def _fits(given: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(given) == len(wanted) and all(
        w is None or g == w for g, w in zip(given, wanted, strict=True)
    )


def _shape_text(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"


def check_labels(
    model: Any,
    labels: Mapping[str, NDArray[Any]],
    # Output name -> label name, in the model's order; empty without labels.
    outputs: Mapping[str, str],
    *,
    training: bool,
    masked: Collection[str] = (),
) -> None:
    """Raise DataError if labels are invalid for the model's loss; `masked` have a mask."""
    if training and not outputs and getattr(model, "_compile_loss", None) is not None:
        raise DataError(
            "labels are needed, because the network was compiled with a loss. Received: "
            "features alone. Add labels to the data; of an autoencoder they are the features."
        )
    losses = losses_of(getattr(model, "loss", None), list(outputs))
    shapes = [shape for _, shape in signature_of(model).outputs.values()]
    for name, shape, given_loss in zip(outputs.values(), shapes, losses, strict=False):
        classes, loss = shape[-1] if shape else None, loss_name(given_loss)
        array, kind = labels[name], LOSSES.get(loss)
        one_hot = _fits(array.shape[1:], shape)
        fractions = ("zeros and ones", "one-hot") if one_hot else ("zeros and ones",)
        known = kind is not None and kind.labels in fractions and is_known_loss(given_loss)
        if known and name not in masked:
            _check_range(name, array, loss)
        if kind is None or classes is None or classes < 2:
            continue
        if loss == _DENSE and not one_hot:
            raise DataError(
                f"labels {name!r} must be one-hot for the loss {_DENSE!r}. Received: class "
                f"numbers, shape {array.shape[1:]} an example. Use `one_hot=True` where the data "
                f"is read, or the loss {SPARSE!r}."
            )
        if loss == SPARSE and one_hot:
            raise DataError(
                f"labels {name!r} must be class numbers for the loss {SPARSE!r}. Received: "
                f"one-hot ones, shape {array.shape[1:]} an example. Use `one_hot=False` where the "
                f"data is read, or the loss {_DENSE!r}."
            )
        known = is_known_loss(given_loss)
        if known and kind.labels != "class numbers" and not one_hot:
            raise DataError(
                f"labels {name!r} must have the shape of the network's output, "
                f"{_shape_text(shape)} an example, for the loss {loss!r}. Received: "
                f"{_shape_text(array.shape[1:])}. Give the last layer as many units as an example "
                "has labels, or check the labels."
            )
        if loss == SPARSE and array.size and getattr(given_loss, "ignore_class", None) is None:
            if array.dtype.kind == "f" and (parts := array[array % 1 > 0]).size:
                raise DataError(
                    f"labels {name!r} must be class numbers for the loss {SPARSE!r}. Received: "
                    f"{parts[0]}. Number the classes from 0, or use the loss 'mean_squared_error'."
                )
            least, largest = np.min(array), np.max(array)
            if largest >= classes or (known and least < 0):
                raise DataError(
                    f"labels {name!r} must be class numbers from 0 to below {classes}, the width "
                    f"of the network's output, {_shape_text(shape)}. Received: labels from "
                    f"{least} to {largest}, shape {_shape_text(array.shape[1:])} an example. Give "
                    "the last layer as many units as there are classes, or check the labels."
                )


def _check_range(name: str, labels: NDArray[Any], loss: str) -> None:
    """Raise DataError if probabilities, for which Keras' loss is defined, are not from 0 to 1."""
    if labels.dtype.kind not in "fiu":
        return
    least, largest = (np.min(labels), np.max(labels)) if labels.size else (0, 0)
    if least < 0 or largest > 1:
        raise DataError(
            f"labels {name!r} must be from 0 to 1 for the loss {loss!r}. Received: {least} to "
            f"{largest}. Labels -1 and 1 become `(labels + 1) / 2`, or use the loss 'hinge'; "
            f"numbers need 'mean_squared_error', class numbers {SPARSE!r}."
        )


def losses_of(loss: Any, names: Sequence[str]) -> list[Any]:
    """Return the compiled loss of each output; None for outputs without a loss."""
    if isinstance(loss, Mapping):
        given: dict[str, Any] = dict(loss)  # pyright: ignore[reportUnknownArgumentType]
        return [given.get(name) for name in names]
    if isinstance(loss, list | tuple):
        return list(loss)  # pyright: ignore[reportUnknownArgumentType]
    return [loss] * len(names)


def is_known_loss(loss: Any) -> bool:
    """Return whether this is a Keras loss, whose name determines the form of its labels."""
    if isinstance(loss, str):
        return True
    module = getattr(loss, "__module__", None) or ""
    return module.split(".")[0] == "keras"


def loss_name(loss: Any) -> str:
    """Return Keras' full name of a compiled loss; empty if it has none."""
    given = loss if isinstance(loss, str) else getattr(loss, "name", None)
    return plain_name(str(given or getattr(loss, "__name__", "")))
