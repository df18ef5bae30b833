"""Layers of a Keras model: what each takes, and the calls that would make it again."""

from collections.abc import Iterator, Mapping
from typing import Any

from ._calls import Call


def layers_of(model: Any) -> list[Any]:
    """The model's layers, its inputs among them, in the order in which data goes through them."""
    functional = getattr(model, "_functional", None) or model
    operations = getattr(functional, "_operations", None)
    found = list(operations or getattr(model, "layers", None) or [])
    return [layer for layer in found if getattr(layer, "name", None)]


def sources_of(model: Any) -> dict[str, list[list[str]]]:
    """For each layer, by name, what each of its uses in the model takes."""
    functional = getattr(model, "_functional", None) or model
    by_depth = getattr(functional, "_nodes_by_depth", None) or {}
    found: dict[str, list[list[str]]] = {}
    for node in (node for nodes in by_depth.values() for node in nodes):
        parents = [tensor._keras_history.operation.name for tensor in node.input_tensors]
        found.setdefault(node.operation.name, []).append(parents)
    return found


def output_names(model: Any) -> list[str]:
    """The layers whose outputs are the model's."""
    functional = getattr(model, "_functional", None) or model
    return [tensor._keras_history.operation.name for tensor in functional.outputs]


def call_of(layer: Any) -> Call:
    """The call that makes the layer, with all that its configuration says."""
    config = dict(layer.get_config())
    kind = type(layer).__name__
    if kind == "InputLayer":
        shape = config.get("batch_shape") or config.get("batch_input_shape") or (None,)
        arguments = {"shape": tuple(shape[1:]), "dtype": config.get("dtype"), "name": layer.name}
        return Call("Input", tuple(arguments.items()))
    wrapped = config.pop("layer", None)
    config.pop("backward_layer", None)
    arguments = [(name, _value(value)) for name, value in config.items()]
    if isinstance(wrapped, Mapping):
        arguments.insert(0, ("", _value(wrapped)))
    return Call(f"layers.{kind}", tuple(arguments))


def calls_in(call: Call) -> Iterator[Call]:
    """The call, and those among its arguments."""
    yield call
    for _, value in call.arguments:
        if isinstance(value, Call):
            yield from calls_in(value)


def _value(value: Any) -> Any:
    if isinstance(value, Mapping):
        place = str(value.get("module") or "").removeprefix("keras").lstrip(".")
        name, config = value.get("class_name"), value.get("config")
        if isinstance(name, str) and isinstance(config, Mapping):
            arguments = tuple((key, _value(inner)) for key, inner in config.items())
            return Call(f"{place}.{name}" if place else name, arguments)
        return {key: _value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_value, value))
    return value
