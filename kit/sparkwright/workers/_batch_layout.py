"""Which column of the data feeds which argument of a Keras model, and check the labels."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.data.texts import is_text
from sparkwright.errors import DataError
from sparkwright.networks.signature import is_graph, pack, signature_of
from sparkwright.networks.steps import computes_own_loss, label_order
from sparkwright.networks.training import LOSSES, plain_name

SPARSE, _DENSE = "sparse_categorical_crossentropy", "categorical_crossentropy"


class BatchLayout:
    """Assignment of the columns of the data to the arguments of the model.

    Columns are matched by name if the model has these names, otherwise by order.
    """

    def __init__(
        self, model: Any, columns: Mapping[str, NDArray[Any]], *, training: bool = False
    ) -> None:
        """Assign columns to inputs and outputs; `training` requires labels if there is a loss."""
        groups = DataSet.from_columns({name: array[:0] for name, array in columns.items()})
        signature = signature_of(model)
        inputs = _match("features", list(groups.features), list(signature.inputs))
        shapes: dict[str, tuple[int | None, ...]] = {}
        for name, (dtype, shape) in zip(inputs, signature.inputs.values(), strict=True):
            _check_feature(name, groups.features[name], dtype, shape)
            _check_integers(name, columns[f"features/{name}"], dtype)
            shapes[f"features/{name}"] = shape
        if computes_own_loss(model) or not signature.outputs:
            names = outputs = label_order(signature, list(groups.labels))
        else:
            names = list(signature.outputs)
            outputs = _match("labels", list(groups.labels), names)
            for name, (_, shape) in zip(outputs, signature.outputs.values(), strict=bool(outputs)):
                _check_label(name, groups.labels[name], shape)
                shapes[f"labels/{name}"] = shape
            labels = {name: columns[f"labels/{name}"] for name in outputs}
            of_outputs = dict(zip(names, outputs, strict=False))
            check_labels(model, labels, of_outputs, training=training)
        # Flat names, as arrays are passed.
        self.order = [
            *(f"features/{name}" for name in inputs),
            *(f"labels/{name}" for name in outputs),
            *(f"features_masks/{name}" for name in inputs if name in groups.features_masks),
            *(f"labels_masks/{name}" for name in outputs if name in groups.labels_masks),
            *(["weights"] if groups.weights is not None else []),
        ]
        left_over = sorted(set(columns) - set(self.order))
        if left_over:
            raise DataError(
                "every mask must carry the name of the feature or label that it masks. "
                f"Received: {left_over} beside features {inputs} and labels {outputs}."
            )
        # (dtype, shape of one example) of each column
        self.specs = [(_dtype_of(columns[n]), tuple(columns[n].shape[1:])) for n in self.order]
        # With None for variable sizes: one compiled function for any length.
        self.open_specs = [
            (dtype, _opened(shape, shapes.get(name.replace("_masks/", "/"), ())))
            for name, (dtype, shape) in zip(self.order, self.specs, strict=True)
        ]
        self.has_metrics = _has_metrics(model)  # compiled or its own
        # XLA cannot compile text
        self.has_texts = any(dtype == "string" for dtype, _ in self.specs)
        self.key = (tuple(self.order), tuple(self.specs))
        self.open_key = (tuple(self.order), tuple(self.open_specs))
        self._inputs, self._outputs, self._labels = inputs, outputs, names
        self._signature, self._takes_masks = signature, is_graph(model)
        self._has_outputs = bool(signature.outputs) and not computes_own_loss(model)

    def unpack(self, arrays: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
        """Return (x, y, sample_weight, mask) as Keras expects: one array, a list, or a dict."""
        from keras import ops
        from keras.src.backend import set_keras_mask

        named = dict(zip(self.order, arrays, strict=True))
        form, inputs = self._signature.input_form, list(self._signature.inputs)
        x = pack(form, inputs, [named[f"features/{name}"] for name in self._inputs])
        y = self._by_output([named[f"labels/{name}"] for name in self._outputs])
        mask = None
        if any(f"features_masks/{name}" in named for name in self._inputs):
            masks = [named.get(f"features_masks/{name}") for name in self._inputs]
            masks = [None if m is None else ops.cast(m, "bool") for m in masks]
            if self._takes_masks:
                mask = pack(form, inputs, masks)
            else:  # layers read the mask from the tensor
                for name, its_mask in zip(self._inputs, masks, strict=True):
                    set_keras_mask(named[f"features/{name}"], its_mask)
        return x, y, self._sample_weight(named, masked=not self._has_outputs), mask

    def mask_outputs(self, outputs: Any, arrays: Sequence[Any]) -> None:
        """Give outputs the masks of their labels: Keras takes means over what these mark."""
        from keras import ops
        from keras.src.backend import get_keras_mask, set_keras_mask

        named = dict(zip(self.order, arrays, strict=True))
        for output, label in self._labeled(outputs):
            mask: Any = named.get(f"labels_masks/{label}")
            if mask is not None:
                mask = _spread(ops.not_equal(mask, 0), len(output.shape) - 1)
                known = get_keras_mask(output)
                set_keras_mask(output, mask if known is None else ops.logical_and(known, mask))

    def counted(self, outputs: Any) -> Any:
        """Return how many labels a batch's loss is the mean of; with several outputs, on average.

        Call it after `mask_outputs`.
        """
        from keras import ops, tree
        from keras.src.backend import get_keras_mask

        found: list[Any] = []
        for output, _ in self._labeled(outputs):
            sizes: Any = ops.shape(output)
            count: Any = ops.prod(ops.cast(ops.stack(sizes[: max(1, len(sizes) - 1)]), "float32"))
            mask = get_keras_mask(output)
            found.append(count if mask is None else count * ops.mean(ops.cast(mask, "float32")))
        if not found:
            shape: Any = ops.shape(tree.flatten(outputs)[0])
            return ops.cast(shape[0], "float32")
        return sum(found) / len(found)

    def _labeled(self, outputs: Any) -> Iterator[tuple[Any, str]]:
        """Yield each output with labels, and their name."""
        if not self._has_outputs:
            return
        for number, (name, label) in enumerate(zip(self._labels, self._outputs, strict=False)):
            match outputs:
                case dict():
                    yield outputs[name], label
                case list() | tuple():
                    yield outputs[number], label
                case _:
                    yield outputs, label

    def data(self, arrays: Sequence[Any]) -> Any:
        """Return the argument of Keras' steps: x, (x, y) or (x, y, sample_weight)."""
        import keras
        import tensorflow as tf

        x, y, _, mask = self.unpack(arrays)
        named = dict(zip(self.order, arrays, strict=True))
        for tensor, its_mask in zip(tf.nest.flatten(x), tf.nest.flatten(mask), strict=False):
            tensor._keras_mask = its_mask
        sample_weight = self._sample_weight(named, masked=True)
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    def _by_output(self, values: list[Any]) -> Any:
        form = self._signature.output_form
        if form != "dict":
            form = "bare" if len(values) == 1 else "list"
        return pack(form, self._labels if values else (), values)

    def _sample_weight(self, named: Mapping[str, Any], *, masked: bool) -> Any:
        """Return weights per output: of examples, times those of steps, which label masks may be.

        If `masked`, they are such that Keras' mean is over what the masks mark.
        """
        from keras import ops

        weights: Any = named.get("weights")
        if weights is not None:
            weights = ops.cast(weights, "float32")
        if not self._outputs:
            return weights
        shapes = [shape for _, shape in self._signature.outputs.values()] or [()]
        found: list[Any] = []
        for number, name in enumerate(self._outputs):
            # Keras has a loss for each step, and multiplies it by a weight of as many axes.
            axes = len(shapes[min(number, len(shapes) - 1)])
            weight: Any = None if weights is None else _spread(weights, axes)
            mask: Any = named.get(f"labels_masks/{name}")
            if mask is not None and (masked or str(mask.dtype) != "bool"):
                marked: Any = ops.cast(ops.not_equal(mask, 0), "float32")
                mask = ops.cast(mask, "float32")
                if masked:
                    mask = ops.divide_no_nan(mask, ops.mean(marked))
                weight = mask if weight is None else mask * _spread(weights, len(mask.shape))
            found.append(weight)
        return None if all(weight is None for weight in found) else self._by_output(found)


def _spread(values: Any, axes: int) -> Any:
    """Append axes of size 1 until there are as many."""
    from keras import ops

    for _ in range(axes - len(values.shape)):
        values = ops.expand_dims(values, -1)
    return values


def _has_metrics(model: Any) -> bool:
    """Return whether the model has metrics other than losses."""
    losses = getattr(getattr(model, "_compile_loss", None), "metrics", ())
    known = {id(metric) for metric in (model._loss_tracker, *losses)}
    return any(id(metric) not in known for metric in model.metrics)


def _opened(shape: tuple[int, ...], wanted: Sequence[int | None]) -> tuple[int | None, ...]:
    """Return the shape of an example, or of its mask, with None where `wanted` has None."""
    kept = [*wanted, *shape[len(wanted) :]]
    return tuple(
        None if open_size is None else size for size, open_size in zip(shape, kept, strict=False)
    )


def _match(what: str, given: list[str], wanted: list[str]) -> list[str]:
    """Return the given names in the model's order."""
    if what == "labels" and not given:
        return []
    if set(given) == set(wanted):
        return wanted
    # If some names match, columns are not matched by order: an unknown name is an error.
    if len(given) == len(wanted) and not set(given) & set(wanted):
        return given
    raise DataError(
        f"the data must have one array of {what} for each of the network's "
        f"{'inputs' if what == 'features' else 'outputs'}, {wanted}. Received: {given}."
    )


def _dtype_of(array: NDArray[Any]) -> str:
    """Return TensorFlow's name of an array's dtype."""
    return "string" if is_text(array) else str(array.dtype)


def _check_feature(
    name: str, array: NDArray[Any], dtype: str, wanted: tuple[int | None, ...]
) -> None:
    """Raise DataError if features have another shape or kind of dtype than the input."""
    given = array.shape[1:]
    if is_text(array) != (dtype == "string"):
        raise DataError(
            f"features {name!r} must have the dtype of the network's input, {dtype}. "
            f"Received: {_dtype_of(array)}."
        )
    if is_text(array) and {given, wanted} == {(), (1,)}:
        return  # Keras adds or removes the axis
    if not _fits(given, wanted):
        raise DataError(
            f"features {name!r} must have the shape that the network takes, "
            f"{_shape_text(wanted)} an example. Received: {_shape_text(given)}."
        )


def _check_integers(name: str, array: NDArray[Any], dtype: str) -> None:
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


def _check_label(name: str, labels: NDArray[Any], output: tuple[int | None, ...]) -> None:
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
) -> None:
    """Raise DataError if labels are invalid for the model's loss."""
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
        if kind is None or classes is None or classes < 2:
            continue
        one_hot = _fits(array.shape[1:], shape)
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
