"""The user's own classes and functions in a model, by which Keras builds it again."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .steps import optimizers


def own_objects(model: Any, serialized: dict[str, Any]) -> dict[str, Any]:
    """The user's own layers, losses, metrics and functions, by the names that Keras looks up.

    Args:
        model: a Keras model or layer.
        serialized: its configuration, from which arguments go that the user's `__init__` refuses.
    """
    objects = {**_mentioned(serialized), **_live(model)}
    _leave_out_refused(serialized, objects)
    return objects


def entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects in a configuration."""
    if isinstance(value, Mapping):
        if "class_name" in value:
            yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list | tuple) else ():
        yield from entries(inner)


def _live(model: Any) -> dict[str, Any]:
    """The user's own classes and functions that the live model holds."""
    import keras

    compiled = getattr(model, "_compile_config", None)
    parts = list(optimizers(getattr(model, "optimizer", None)))
    functions = ("_learning_rate", "_optimizer_map")
    given = [getattr(part, name, None) for part in parts for name in functions]
    layers = list(model._flatten_layers())
    things: list[Any] = [*layers, *parts, *given]
    things += [] if compiled is None else keras.tree.flatten(compiled.config)
    # Keras writes down no module of a TextVectorization's own functions.
    things += [getattr(x, name, None) for x in layers for name in ("_standardize", "_split")]
    found: dict[str, Any] = {}
    for thing in things:
        kind = thing if isinstance(thing, type) or hasattr(thing, "__code__") else type(thing)
        if _is_custom(getattr(kind, "__module__", None)):
            found[str(keras.saving.get_registered_name(kind))] = found[kind.__name__] = kind
    return found


def _mentioned(serialized: Any) -> dict[str, Any]:
    """The user's own classes and functions that the configuration mentions by module and name."""
    found: dict[str, Any] = {}
    for entry in entries(serialized):
        module = entry.get("module")
        name: Any = entry.get("config" if entry["class_name"] == "function" else "class_name")
        if not (_is_custom(module) and isinstance(name, str)):
            continue
        thing = getattr(sys.modules.get(str(module)), name, None)
        if thing is not None:
            found[entry.get("registered_name") or name] = found[name] = thing
    return found


def _leave_out_refused(serialized: Any, objects: Mapping[str, Any]) -> None:
    """Leave out what Keras writes for every layer, where the user's `__init__` does not take it.

    The default policy is the model's own when it is built again, and layers are trained.
    """
    for entry in entries(serialized):
        kind, config = objects.get(str(entry.get("registered_name"))), entry.get("config")
        if isinstance(kind, type) and isinstance(config, dict) and config.get("trainable"):
            taken = inspect.signature(kind.__init__).parameters
            if all(each.kind is not each.VAR_KEYWORD for each in taken.values()):
                for name in {"trainable", "dtype"} - set(taken):
                    config.pop(name, None)


def _is_custom(module: str | None) -> bool:
    top = (module or "").partition(".")[0]
    return top not in {"", "keras", "builtins", "tensorflow", "jax"}
