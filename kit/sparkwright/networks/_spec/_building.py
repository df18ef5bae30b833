"""A Keras model of a network's values."""

import functools
from typing import Any

from sparkwright.errors import ConfigurationError

from ._calls import compile_arguments, evaluate, layer_calls
from ._catalogue import LAYER_KINDS
from ._chains import is_chain
from ._network_spec import LayerSpec, NetworkSpec
from ._wiring import wire


def build(spec: NetworkSpec) -> Any:
    """The compiled model: Sequential for a chain, functional otherwise.

    Raises:
        ConfigurationError: if the network has a problem, or Keras refuses it.
    """
    if spec.analysis.reason is not None:
        raise ConfigurationError(f"the network cannot be built. {spec.analysis.reason}")
    import keras

    def make(value: Any) -> Any:
        return evaluate(value, find=_in_keras, seed=spec.seed)

    try:
        if is_chain(spec):
            enabled = [
                call
                for call, layer in zip(layer_calls(spec), spec.layers, strict=True)
                if layer.enabled
            ]
            model = keras.Sequential([make(call) for call in enabled], name=spec.name)
        else:
            inputs, outputs = _connected(spec, make)
            model = keras.Model(inputs, outputs, name=spec.name)
        model.compile(**{name: make(value) for name, value in compile_arguments(spec).items()})
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"Keras cannot build the network {spec.name!r}: {_plain_text(str(error))}"
        ) from error
    return model


def layer_alone(layer: LayerSpec) -> Any:
    """The layer's Keras object, connected to nothing, without seeds."""
    (call,) = layer_calls(NetworkSpec(layers=(layer,), seed=None))
    return evaluate(call, find=_in_keras, seed=None)


def _connected(spec: NetworkSpec, make: Any) -> tuple[Any, Any]:
    made: dict[int, Any] = {}
    wires, calls = wire(spec.layers), layer_calls(spec)
    inputs: list[Any] = []
    for row, layer in enumerate(spec.layers):
        if not layer.enabled:
            continue
        thing = make(calls[row])
        if layer.kind == "Input":
            inputs.append(thing)
            made[row] = thing
            continue
        sources = [made[source] for source in wires[row].sources]
        kind = LAYER_KINDS[layer.kind]
        if kind.separately:
            made[row] = thing(*(sources if len(sources) > 1 else sources * 2))
        else:
            made[row] = thing(sources if kind.takes == "several" else sources[0])
    rows = {layer.name: row for row, layer in enumerate(spec.layers)}
    outputs = [made[rows[output.layer]] for output in spec.outputs]
    return (
        inputs if len(inputs) > 1 else inputs[0],
        outputs if len(outputs) > 1 else outputs[0],
    )


def _in_keras(place: str) -> Any:
    import keras

    return functools.reduce(getattr, place.split("."), keras)


def _plain_text(text: str) -> str:
    """Without the colours that Keras puts into messages."""
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)
