"""The compiled Keras model of a network specification."""

from typing import Any

from sparkwright.errors import ConfigurationError

from ._calls import compile_arguments, keras_text, known_kind, layer_call, make, seeded, taking
from ._parts import AbstractNetworkSpec


def is_sequential(spec: AbstractNetworkSpec) -> bool:
    """Whether the model is a Sequential: a chain whose last layer is the only output."""
    rows = [row for row in spec.analysis.rows if row.enabled]
    twice = any(known_kind(row.kind).separately for row in rows)  # called on its input twice
    is_end = [output.layer for output in spec.outputs] == [row.name for row in rows[-1:]]
    return spec.analysis.is_chain and is_end and not twice


def build(spec: AbstractNetworkSpec) -> Any:
    """See `NetworkSpec.build`."""
    if spec.analysis.reason is not None:
        raise ConfigurationError(f"the network cannot be built. {spec.analysis.reason}")
    try:
        with seeded(spec.seed):
            return _compiled(spec)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"Keras cannot build the network {spec.name!r}: {keras_text(error)}"
        ) from error


def _compiled(spec: AbstractNetworkSpec) -> Any:
    import keras

    if is_sequential(spec):
        layers = [make(layer_call(layer)) for layer in spec.layers if layer.enabled]
        model = keras.Sequential(layers, name=spec.name)
    else:
        made: dict[str, Any] = {}
        for layer, row in zip(spec.layers, spec.analysis.rows, strict=True):
            if layer.enabled:
                found = make(layer_call(layer))
                taken = taking(known_kind(row.kind), [made[name] for name in row.inputs])
                made[layer.name] = found(*taken) if taken else found
        inputs = [made[x.name] for x in spec.layers if x.enabled and x.kind == "Input"]
        outputs = [made[output.layer] for output in spec.outputs]
        model = keras.Model(only(inputs), only(outputs), name=spec.name)
    model.compile(**make(compile_arguments(spec.optimizer, spec.outputs)))
    return model


def only(values: list[Any]) -> Any:
    """The only item of the list, or the list."""
    return values[0] if len(values) == 1 else values
