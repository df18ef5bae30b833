"""Which column of the data feeds which argument of a Keras model."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from sparkwright.data import DataSet
from sparkwright.errors import DataError
from sparkwright.networks.signature import is_graph, pack, signature_of
from sparkwright.networks.steps import computes_own_loss, label_order

from ._column_checks import check_feature, check_integers, check_label, check_labels, dtype_of


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
            check_feature(name, groups.features[name], dtype, shape)
            check_integers(name, columns[f"features/{name}"], dtype)
            shapes[f"features/{name}"] = shape
        if computes_own_loss(model) or not signature.outputs:
            names = outputs = label_order(signature, list(groups.labels))
        else:
            names = list(signature.outputs)
            outputs = _match("labels", list(groups.labels), names)
            for name, (_, shape) in zip(outputs, signature.outputs.values(), strict=bool(outputs)):
                check_label(name, groups.labels[name], shape)
                shapes[f"labels/{name}"] = shape
            labels = {name: columns[f"labels/{name}"] for name in outputs}
            of_outputs = dict(zip(names, outputs, strict=False))
            masked = groups.labels_masks
            check_labels(model, labels, of_outputs, training=training, masked=masked)
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
        self.specs = [(dtype_of(columns[n]), tuple(columns[n].shape[1:])) for n in self.order]
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
