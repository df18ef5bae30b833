"""Find the custom objects of a model: the user's classes and functions that rebuilding it needs."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from .steps import optimizers


def own_objects(model: Any, serialized: dict[str, Any]) -> dict[str, Any]:
    """Return the custom layers, losses, metrics and functions, by the names that Keras looks up."""
    # Arguments that a custom `__init__` does not accept are removed from `serialized`.
    objects = {**_mentioned(serialized), **_live(model)}
    _leave_out_refused(serialized, objects)
    return objects


def entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the serialized objects in a configuration, at any depth."""
    if isinstance(value, Mapping):
        if "class_name" in value:
            yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list | tuple) else ():
        yield from entries(inner)


def _live(model: Any) -> dict[str, Any]:
    """Return the custom classes and functions of the model object."""
    import keras

    compiled = getattr(model, "_compile_config", None)
    parts = list(optimizers(getattr(model, "optimizer", None)))
    functions = ("_learning_rate", "_optimizer_map")
    given = [getattr(part, name, None) for part in parts for name in functions]
    layers = list(model._flatten_layers())
    things: list[Any] = [*layers, *parts, *given]
    things += [] if compiled is None else keras.tree.flatten(compiled.config)
    # Keras does not serialize the module of a TextVectorization's custom functions.
    things += [getattr(x, name, None) for x in layers for name in ("_standardize", "_split")]
    found: dict[str, Any] = {}
    for thing in things:
        kind = thing if isinstance(thing, type) or hasattr(thing, "__code__") else type(thing)
        if _is_custom(getattr(kind, "__module__", None)):
            found[str(keras.saving.get_registered_name(kind))] = found[kind.__name__] = kind
    return found


def _mentioned(serialized: Any) -> dict[str, Any]:
    """Return the custom classes and functions that the configuration refers to by module."""
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
    """Remove `trainable` and `dtype` where a custom `__init__` does not accept them."""
    # Keras writes both for every layer. Without them, a rebuilt layer is trainable, and its dtype
    # policy is the default policy, which is the model's own while it is rebuilt.
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
