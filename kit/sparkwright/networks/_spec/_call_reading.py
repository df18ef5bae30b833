"""Calls of Keras as a network's values: the way back of what is written or built."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from ._calls import EDGED, Call
from ._catalogue import LAYER_KINDS
from ._common_options import INITIALIZERS
from ._layer_kind import LayerKind
from ._names import snake_case
from ._shapes import Misfit

_INITIALIZER_OF = {name: option for option, name in INITIALIZERS.items()}
_REGULARIZERS = {"l1": "L1", "l2": "L2", "l1l2": "L1L2", "l1_l2": "L1L2"}
_PENALTY = 0.01  # Keras' default
_SEED_FIRST = ("Glorot", "He", "Lecun")  # their first argument is the seed
_NEVER_READ = ("seed", "name")


def kind_of(call: Call) -> LayerKind:
    """The class of layers that a call makes.

    Raises:
        Misfit: if it makes none that is known.
    """
    kind = LAYER_KINDS.get(call.function.removeprefix("layers."))
    if kind is None:
        raise Misfit(f"`{call.function}` is no layer that can be read here.")
    return kind


def layer_options(call: Call) -> dict[str, Any]:
    """The options of the layer that a call makes.

    Raises:
        Misfit: if an argument is not among what a layer of the kind can hold here.
    """
    kind = kind_of(call)
    if kind.inner is None:
        return _options(kind, call)
    if not call.arguments or not isinstance(call.arguments[0][1], Call):
        raise Misfit(f"`{kind.name}` needs the layer that it wraps.")
    inner = call.arguments[0][1]
    wrapped = kind_of(inner)
    found = _options(wrapped, inner)
    if kind.inner in LAYER_KINDS:
        if wrapped.name != kind.inner:
            raise Misfit(f"`{kind.name}` can wrap only {kind.inner} here.")
    else:
        found = {kind.inner: wrapped.name, **found}
    outer = Call(call.function, call.arguments[1:])
    given = {name: plain_value(value) for name, value in named(kind, outer).items()}
    return {**found, **_known(kind, given)}


def named(kind: LayerKind, call: Call) -> dict[str, Any]:
    """The arguments by name, those about names and seeds left out.

    Raises:
        Misfit: if there are more without names than can be told apart, or one comes twice.
    """
    order = kind.positional
    found: dict[str, Any] = {}
    for place, (name, value) in enumerate(call.arguments):
        if not name and place >= len(order):
            raise Misfit(f"`{kind.name}` has more arguments without names than can be read here.")
        key = name or order[place]
        if key in found:
            raise Misfit(f"`{key}` is given twice.")
        found[key] = value
    return {name: value for name, value in found.items() if name not in _NEVER_READ}


def _options(kind: LayerKind, call: Call) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in named(kind, call).items():
        weight, _, what = name.rpartition("_")
        if what == "initializer" and kind.option(name) is not None:
            found[name] = _initializer(value)
        elif what == "regularizer":
            found |= _penalties(weight, value)
        elif what == "constraint":
            found |= _norm(weight, value)
        elif name == "activation" or name == "recurrent_activation":
            found[name] = "linear" if value is None else _function_name(value)
        elif EDGED.get(kind.name) == name:
            found[name] = _edges(value)
        else:
            found[name] = plain_value(value)
    return _known(kind, found)


def _known(kind: LayerKind, found: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in found.items():
        if kind.option(name) is None:
            raise Misfit(f"`{kind.name}` has no option `{name}` here (it is {value!r}).")
    return dict(found)


def _initializer(value: Any) -> str:
    if isinstance(value, Call):
        name = value.function.rpartition(".")[2]
        seeds = [("seed",), ()] + ([("",)] if name.startswith(_SEED_FIRST) else [])
        if name in _INITIALIZER_OF and tuple(n for n, _ in value.arguments) in seeds:
            return _INITIALIZER_OF[name]
        raise Misfit(f"the initializer `{name}` cannot be read here with these arguments.")
    if isinstance(value, str):
        lowered = snake_case(value)
        return "random_uniform" if lowered == "uniform" else lowered
    raise Misfit(f"the initializer {value!r} cannot be read here.")


def _penalties(weight: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    call = Call(f"regularizers.{value}") if isinstance(value, str) else value
    if not isinstance(call, Call):
        raise Misfit(f"the regularizer {value!r} cannot be read here.")
    name = call.function.rpartition(".")[2]
    name = _REGULARIZERS.get(name.lower(), name)
    order = {"L1": ["l1"], "L2": ["l2"], "L1L2": ["l1", "l2"]}.get(name)
    if order is None or len(call.arguments) > len(order):
        raise Misfit(f"the regularizer `{name}` cannot be read here.")
    given = {key or order[place]: v for place, (key, v) in enumerate(call.arguments)}
    if not set(given) <= set(order):
        raise Misfit(f"the regularizer `{name}` cannot be read here with these arguments.")
    default = _PENALTY if len(order) == 1 else 0.0
    return {f"{weight}_{key}": given.get(key, default) for key in order}


def _norm(weight: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    call = Call("constraints.MaxNorm") if value == "max_norm" else value
    if not isinstance(call, Call) or call.function.rpartition(".")[2] not in (
        "MaxNorm",
        "max_norm",
    ):
        raise Misfit("only the constraint `MaxNorm` can be read here.")
    given = {name or "max_value": v for name, v in call.arguments}
    if not set(given) <= {"max_value", "axis"} or given.get("axis", 0) != 0:
        raise Misfit("the constraint `MaxNorm` can be read here only with its largest value.")
    return {f"{weight}_max_norm": given.get("max_value", 2)}


def _function_name(value: Any) -> str:
    if isinstance(value, str):
        return {"swish": "silu", "hard_swish": "hard_silu"}.get(value, value)
    if isinstance(value, Call) and not value.arguments:
        return value.function.rpartition(".")[2]
    raise Misfit(f"the activation {value!r} cannot be read here.")


def _edges(value: Any) -> Any:
    plain = plain_value(value)
    if isinstance(plain, list) and any(isinstance(inner, list) for inner in plain):
        pairs = [inner if isinstance(inner, list) else [inner, inner] for inner in plain]
        return list(chain.from_iterable(pairs))
    return plain


def plain_value(value: Any) -> Any:
    """Tuples as lists.

    Raises:
        Misfit: if it is something that a network's values cannot hold.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_value(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise Misfit(f"`{value.function if isinstance(value, Call) else value}` cannot be read here.")
