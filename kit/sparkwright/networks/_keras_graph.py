"""Layers of a Keras model in order, and what each takes."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any


def layers_of(model: Any) -> list[Any]:
    """The model's layers, its inputs among them: each branch in one piece, before what takes it.

    Operations that only make masks are left out.
    """
    operations = getattr(_functional(model), "_operations", None)
    if not operations:
        return [layer for layer in getattr(model, "layers", None) or [] if layer.name]
    by_name = {operation.name: operation for operation in operations}
    inputs = [op.name for op in operations if type(op).__name__ == "InputLayer"]
    return [by_name[name] for name in dict.fromkeys([*_in_order(model), *inputs])]


def sources_of(model: Any) -> dict[str, list[list[str]]]:
    """For each layer, by name, what each of its uses in the model takes."""
    by_depth = getattr(_functional(model), "_nodes_by_depth", None) or {}
    found: dict[str, list[list[str]]] = {}
    for node in (node for nodes in by_depth.values() for node in nodes):
        taken = [tensor._keras_history.operation.name for tensor in _taken(node)]
        found.setdefault(node.operation.name, []).append(taken)
    return found


def input_names(model: Any) -> list[str]:
    """The layers that are the model's inputs, in the order in which it takes arrays."""
    return [tensor._keras_history.operation.name for tensor in _functional(model).inputs]


def said_in_calls(model: Any) -> dict[str, str]:
    """For layers, by name, what their calls say beside what they take: `training=True`, a mask.

    Masks that Keras passes by itself are none of it.
    """
    by_depth = getattr(_functional(model), "_nodes_by_depth", None) or {}
    found: dict[str, str] = {}
    for node in (node for nodes in by_depth.values() for node in nodes):
        given = [("", value) for value in node.arguments.args]
        for name, value in [*given, *node.arguments.kwargs.items()]:
            taken = list(_tensors(value))
            if name.endswith("mask") and taken:
                if not all(_is_automatic(mask, node) for mask in taken):
                    found[node.operation.name] = f"a {name} of its own"
            elif not taken and isinstance(value, bool | int | float | str) and value:
                if value == _default_of(node.operation, name):
                    continue
                found[node.operation.name] = f"{name}={value}" if name else str(value)
    return found


def _default_of(operation: Any, argument: str) -> Any:
    parameter = inspect.signature(operation.call).parameters.get(argument)
    return None if parameter is None else parameter.default


def _is_automatic(mask: Any, node: Any) -> bool:
    carried = [getattr(tensor, "_keras_mask", None) for tensor in _taken(node)]
    if any(mask is each for each in carried):
        return True
    # A model that was read from a file has other tensors in their place.
    made_by_layer = hasattr(mask._keras_history.operation, "trainable_weights")
    return not made_by_layer and any(each is not None for each in carried)


def _functional(model: Any) -> Any:
    return getattr(model, "_functional", None) or model


def _taken(node: Any) -> Iterator[Any]:
    """The tensors that an operation takes, without masks, which Keras passes by itself."""
    kwargs = node.arguments.kwargs.items()
    given = [*node.arguments.args, *(v for name, v in kwargs if not name.endswith("mask"))]
    yield from _tensors(given)


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensors(inner)
    elif hasattr(value, "_keras_history"):
        yield value


def _in_order(model: Any) -> list[str]:
    """Names of the operations from which the outputs are made, each after those that it takes."""
    sources = sources_of(model)
    found: list[str] = []
    begun: set[str] = set()  # a layer that is used twice may stand among its own parents
    waiting = [(name, False) for name in reversed(output_names(model))]
    while waiting:
        name, done = waiting.pop()
        if done:
            found.append(name)
        elif name not in begun:
            begun.add(name)
            parents = [parent for use in sources.get(name, []) for parent in use]
            waiting += [(name, True), *((parent, False) for parent in reversed(parents))]
    return found


def output_names(model: Any) -> list[str]:
    """The layers whose outputs are the model's."""
    return [tensor._keras_history.operation.name for tensor in _functional(model).outputs]
