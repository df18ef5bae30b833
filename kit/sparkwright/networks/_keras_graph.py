"""Layers of a Keras model in order, and the calls of each layer."""

import inspect
from typing import Any, NamedTuple

from .signature import output_names


class Use(NamedTuple):
    """One call of a layer in a model."""

    sources: tuple[str, ...]  # names of the input layers, without masks
    argument: str  # another argument, such as "training=True"; masks passed by Keras do not count


def uses_of(model: Any) -> dict[str, list[Use]]:
    """Layer name -> calls of the layer in the model."""
    import keras

    by_depth = getattr(functional(model), "_nodes_by_depth", None) or {}
    found: dict[str, list[Use]] = {}
    for node in (node for nodes in by_depth.values() for node in nodes):
        taken, masks, argument = list[Any](), list[Any](), ""
        given = [*(("", value) for value in node.arguments.args), *node.arguments.kwargs.items()]
        for name, value in given:
            tensors = [x for x in keras.tree.flatten(value) if hasattr(x, "_keras_history")]
            (masks if name.endswith("mask") else taken).extend(tensors)
            is_plain = not tensors and isinstance(value, bool | int | float | str)
            if is_plain and value and value != _default_of(node.operation, name):
                argument = f"{name}={value}" if name else str(value)
        carried = any(getattr(tensor, "_keras_mask", None) is not None for tensor in taken)
        # Keras' own masks come from operations, the user's masks from layers.
        if any(not carried or hasattr(made_by(mask), "trainable_weights") for mask in masks):
            argument = "a mask of its own"
        use = Use(tuple(made_by(tensor).name for tensor in taken), argument)
        found.setdefault(node.operation.name, []).append(use)
    return found


def layers_of(model: Any) -> list[Any]:
    """The model's layers and inputs in topological order, each branch contiguous."""
    # Operations that only compute masks are left out.
    operations = getattr(functional(model), "_operations", None)
    if not operations:
        return [layer for layer in getattr(model, "layers", None) or [] if layer.name]
    uses = uses_of(model)
    found: dict[str, None] = {}
    begun: set[str] = set()  # a layer that is called twice may be its own ancestor
    waiting = [(name, False) for name in reversed(output_names(model))]
    while waiting:
        name, done = waiting.pop()
        if done:
            found[name] = None
        elif name not in begun:
            begun.add(name)
            parents = [parent for use in uses.get(name, []) for parent in use.sources]
            waiting += [(name, True), *((parent, False) for parent in reversed(parents))]
    by_name = {operation.name: operation for operation in operations}
    unused = (op.name for op in operations if type(op).__name__ == "InputLayer")
    return [by_name[name] for name in dict.fromkeys([*found, *unused])]


def functional(model: Any) -> Any:
    """The functional model inside a Sequential; any other model itself."""
    return getattr(model, "_functional", None) or model


def made_by(tensor: Any) -> Any:
    """The operation that computes a symbolic tensor."""
    return tensor._keras_history.operation


def _default_of(operation: Any, argument: str) -> Any:
    parameter = inspect.signature(operation.call).parameters.get(argument)
    return None if parameter is None else parameter.default
