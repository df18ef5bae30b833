"""Finds code in the description of a Keras model, before anything is built from it."""

from collections.abc import Mapping
from typing import Any

from sparkwright.errors import DataError

_LAMBDA = "__lambda__"


def code_in(config: Any) -> list[str]:
    """Names of the layers that carry code (Python's bytecode), in no order; for others, "?".

    Args:
        config: a model's description, as JSON gives it, of Keras 1, 2 or 3.

    Example:
        >>> code = {"class_name": "__lambda__", "config": {"code": "4wEA"}}
        >>> layer = {"class_name": "Lambda", "config": {"name": "twice", "function": code}}
        >>> code_in({"config": {"layers": [layer]}}), code_in({"class_name": "Dense"})
        (['twice'], [])
    """
    found: list[str] = []
    # A stack, because a file could be nested deeper than Python can recurse.
    left: list[tuple[Any, str]] = [(config, "?")]
    while left:
        value, owner = left.pop()
        if isinstance(value, list):
            left.extend((inner, owner) for inner in value)
        if not isinstance(value, Mapping):
            continue
        inside = value.get("config")
        if isinstance(inside, Mapping) and isinstance(inside.get("name"), str):
            owner = str(inside["name"])
        if value.get("class_name") == _LAMBDA or _is_old_lambda(value):
            found.append(owner)
        else:
            left.extend((inner, owner) for inner in value.values())
    return sorted(set(found))


def refuse_code(config: Any, url: str) -> None:
    """Refuse a model that would bring code of its own.

    Raises:
        DataError: naming `url` and the layers.
    """
    layers = code_in(config)
    if layers:
        raise DataError(
            "a model's file may carry code only if you allow it. Received: "
            f"{url}, with a lambda in {', '.join(map(repr, layers))}. Loading it would execute "
            "code of the file. If you trust whoever wrote it, pass `safe_mode=False`; better, save "
            "the model with a named function, registered by "
            "`keras.saving.register_keras_serializable`."
        )


def _is_old_lambda(value: Mapping[str, Any]) -> bool:
    """A Lambda layer of Keras 1 or 2, whose function is [code, defaults, closure]."""
    inside = value.get("config")
    if value.get("class_name") != "Lambda" or not isinstance(inside, Mapping):
        return False
    kinds = (inside.get("function_type"), inside.get("output_shape_type"))
    return "lambda" in kinds or isinstance(inside.get("function"), list)
