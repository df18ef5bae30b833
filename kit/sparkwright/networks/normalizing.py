"""Wrap a network in a Keras model that normalizes raw features and reverts scaled outputs."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from sparkwright.errors import ConfigurationError
from sparkwright.normalizers.normalizer import ColumnScale, Normalizer, Scales

from .signature import output_names

NormalizerPlace = Literal["inside", "beside"]
# Prefix of the added layers, by which a model with a normalizer inside is recognized.
_PREFIX = "sparkwright_normalizer"
_HALVES = ("float16", "bfloat16")


def describe_with_normalizer(model: Any, normalizer: Normalizer) -> dict[str, Any]:
    """Describe a model that normalizes raw features, calls `model`, and reverts outputs."""
    # The added layers are Keras' own and have no weights: scales are constants in the
    # configuration. Inputs, outputs and their names are those of `model`, and so is the name of its
    # layer. Steps that a Masking layer skips are not normalized, as in training.
    import keras

    check_normalizer(normalizer, model)
    if not (getattr(model, "inputs", None) and getattr(model, "outputs", None)):
        raise _refused(model, "it is neither Sequential nor functional, or not built yet")
    if type(model).compile is not keras.Model.compile:
        raise _refused(model, "its class has a `compile` of its own")
    # A call adds a node to the model permanently; remove it.
    nodes = len(model._inbound_nodes)
    try:
        around = _Around(model, normalizer._scales())  # pyright: ignore[reportPrivateUsage]
        outer: Any = keras.Model(*around.graph(), name=model.name)
        described: Any = keras.saving.serialize_keras_object(outer)
    except ConfigurationError:
        raise
    except (TypeError, ValueError, NotImplementedError) as error:
        raise _refused(model, f"Keras raises: {error}") from error
    finally:
        del model._inbound_nodes[nodes:]
    return described


def check_normalizer(normalizer: Any, model: Any) -> None:
    """Check that `normalizer` is None, or the only normalizer of `model`."""
    if normalizer is None:
        return
    if not isinstance(normalizer, Normalizer):
        raise ConfigurationError(
            "`normalizer` must be a normalizer or None. Received: "
            f"{type(normalizer).__name__}. See `sparkwright.data.Standardize.fit`."
        )
    if any(layer.name.startswith(_PREFIX) for layer in getattr(model, "layers", ())):
        raise ConfigurationError(
            "a model that holds its normalizer must not get another one, or features would be "
            f"scaled twice. Received: {model.name!r} and a normalizer. Load the file with "
            "`SparkNetwork.load` or `sw.load_model`, which give the network without it; or pass "
            "`normalizer=None`."
        )


class _Around:
    """Builds the graph around one model."""

    def __init__(self, model: Any, steps: Sequence[Scales]) -> None:
        import keras

        self._model, self._layers, self._ops = model, keras.layers, keras.ops
        self._map = keras.tree.map_structure
        if isinstance(model, keras.Sequential):
            self._inputs = model.inputs[0]
            self._outputs = model.outputs[0] if len(model.outputs) == 1 else model.outputs
        else:
            self._inputs, self._outputs = model.input, model.output
        self._scaled_inputs = self._scales_of_inputs(steps)
        self._scaled_outputs = self._scales_of_outputs(steps)
        self._mask_values = self._find_mask_values() if any(self._scaled_inputs.values()) else {}

    def graph(self) -> tuple[Any, Any]:
        """Return the inputs and outputs, in the model's structure."""
        raw = self._map(self._raw, self._inputs)
        found = self._model(self._map(self._normalized, self._inputs, raw))
        names = iter(output_names(self._model))
        return raw, self._map(lambda output: self._reverted(output, next(names)), found)

    # --- inputs

    def _raw(self, tensor: Any) -> Any:
        config = tensor._keras_history.operation.get_config()
        scales = self._scaled_inputs[tensor.name]
        if scales:
            if tensor.dtype not in ("float32", "float64", *_HALVES) or config.get("sparse"):
                raise _refused(self._model, f"its input {tensor.name!r} takes no dense floats")
            config["dtype"] = _computed_in(scales, tensor.dtype)
        return self._layers.InputLayer.from_config(config).output

    def _normalized(self, tensor: Any, raw: Any) -> Any:
        scales = self._scaled_inputs[tensor.name]
        if not scales:
            return raw
        seen = raw
        for number, scale in enumerate(scales):
            seen = self._line(seen, scale, f"{tensor.name}_{number}", dtype=str(raw.dtype))
        seen = self._layers.Identity(dtype=tensor.dtype, name=f"{_PREFIX}_{tensor.name}")(seen)
        if tensor.name not in self._mask_values:
            return seen
        kept = self._layers.Identity(dtype=tensor.dtype)(raw)
        some = self._ops.not_equal(kept, self._mask_values[tensor.name])
        return self._ops.where(self._ops.any(some, axis=-1, keepdims=True), seen, kept)

    def _scales_of_inputs(self, steps: Sequence[Scales]) -> dict[str, list[ColumnScale]]:
        names: list[str] = [tensor.name for tensor in self._model.inputs]
        orders: list[tuple[str, ...]] = [tuple(step.features) for step in steps if step.features]
        fitted = list(dict.fromkeys(name for order in orders for name in order))
        # Several normalizers may list inputs in different orders.
        known = self._pairs("inputs", names, fitted, in_order=len(set(orders)) <= 1)
        found: dict[str, list[ColumnScale]] = {}
        for own in names:
            name = known.get(own, own)
            scales = [step.features.get(name, step.inputs) for step in steps]
            found[own] = [scale for scale in scales if scale is not None]
        return found

    def _find_mask_values(self) -> dict[str, float]:
        """Input name -> `mask_value` of the Masking layer that reads the input."""
        found: dict[str, float] = {}
        for layer in self._model._flatten_layers(include_self=False):
            if not isinstance(layer, self._layers.Masking):
                continue
            tensors = [tensor for node in layer._inbound_nodes for tensor in node.input_tensors]
            fed = [i.name for i in self._model.inputs if any(tensor is i for tensor in tensors)]
            if not fed:
                raise _refused(
                    self._model, f"its layer {layer.name!r} masks steps of what layers computed"
                )
            found |= dict.fromkeys(fed, layer.mask_value)
        return found

    # --- outputs

    def _reverted(self, output: Any, name: str) -> Any:
        scales = self._scaled_outputs.get(name, [])
        if scales:
            # The conversion inside a Rescaling layer would lose a mask.
            output = self._layers.Identity(dtype="float64")(output)
        for number, scale in reversed(list(enumerate(scales))):
            output = self._line(output, scale, f"revert_{name}_{number}", revert=True)
        dtype = str(self._dtype_of_output(name))
        is_float = dtype.startswith(("float", "bfloat"))
        if scales and not is_float:
            raise _refused(self._model, f"its output {name!r} is of {dtype}")
        if not is_float or (scales and dtype in _HALVES):
            dtype = "float32"
        return self._layers.Identity(dtype=dtype, name=name)(output)

    def _dtype_of_output(self, name: str) -> Any:
        names = output_names(self._model)
        return self._model.outputs[names.index(name)].dtype

    def _scales_of_outputs(self, steps: Sequence[Scales]) -> dict[str, list[ColumnScale]]:
        names = output_names(self._model)
        fitted = list(dict.fromkeys(name for step in steps for name in step.labels))
        known = self._pairs("outputs", names, fitted, in_order=len(names) == 1)
        return {
            name: [step.labels[label] for step in steps if label in step.labels]
            for name, label in known.items()
        }

    # --- both

    def _line(
        self,
        tensor: Any,
        scale: ColumnScale,
        name: str,
        *,
        dtype: str = "float64",
        revert: bool = False,
    ) -> Any:
        """Apply `scale`, or its inverse, as one layer that computes in `dtype`."""
        if not scale.fits(tuple(tensor.shape)[1:]):
            raise _refused(
                self._model,
                f"the normalizer was fitted to another shape than {tuple(tensor.shape[1:])} "
                "an example",
            )
        slope = scale.factor / scale.divisor
        offset = scale.offset - scale.shift * slope
        if revert:
            slope = scale.divisor / scale.factor
            offset = scale.shift - scale.offset * slope
        if scale.columns is not None:
            chosen = np.isin(np.arange(slope.shape[-1]), scale.columns)
            slope, offset = np.where(chosen, slope, 1.0), np.where(chosen, offset, 0.0)
        if len(tensor.shape) > 2 and slope.ndim < 3:
            # With three axes, Keras broadcasts along the last one in every image data format.
            slope = slope.reshape((1,) * (3 - slope.ndim) + slope.shape)
        layer = self._layers.Rescaling(slope, offset, dtype=dtype, name=f"{_PREFIX}_{name}")
        return layer(tensor)

    def _pairs(
        self, what: str, names: Sequence[str], fitted: Sequence[str], *, in_order: bool
    ) -> dict[str, str]:
        """Name in the model -> name in the normalizer, matched as in training."""
        if set(fitted) <= set(names):
            return {name: name for name in fitted}
        if in_order and len(fitted) == len(names) and not set(fitted) & set(names):
            return dict(zip(names, fitted, strict=True))
        raise _refused(
            self._model,
            f"its {what} are {list(names)}, but the normalizer was fitted to {list(fitted)}: use "
            "the same names",
        )


def _computed_in(scales: Sequence[ColumnScale], dtype: str) -> str:
    """Dtype of the computation: float32 suffices if no shift is subtracted, as for images."""
    is_exact = dtype != "float64" and not any(scale.shift.any() for scale in scales)
    return "float32" if is_exact else "float64"


def _refused(model: Any, why: str) -> ConfigurationError:
    return ConfigurationError(
        "a normalizer inside a model must be expressible as Keras layers before and after it. "
        f"Received: {model.name!r}, where this is not possible: {why}. Save with "
        '`normalizer="beside"`: Sparkwright then applies it after loading; Keras alone does not.'
    )
