"""A network as the Keras code that a person would write."""

import json
import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

from ._calls import REGISTERED, Call, Seed, compile_arguments, is_function, known_kind, layer_calls
from ._wiring import free_name, is_chain, names_before

if TYPE_CHECKING:
    from .spec import LayerSpec, NetworkSpec

_OFF = "# off: "
_WIDTH = 88
_STEP = "    "
_IMPORTED = {"constraints", "initializers", "layers", "regularizers"}
_RESERVED = {"keras", "seed", *_IMPORTED}


def to_code(
    spec: "NetworkSpec",
    variable: str = "model",
    *,
    reserved: Collection[str] = (),
    seed: str | None = None,
) -> str:
    """See `NetworkSpec.to_code`."""
    if not variable.isidentifier() or keyword.iskeyword(variable) or variable in _RESERVED:
        raise ConfigurationError(
            "`variable` must be a name in Python, and none that the code uses itself. "
            f"Received: variable={variable!r}."
        )
    if spec.analysis.reason is not None:
        raise ConfigurationError(f"the network cannot be written as code. {spec.analysis.reason}")
    calls = layer_calls(spec)
    body = (
        _chain(spec, calls, variable) if is_chain(spec) else _graph(spec, calls, variable, reserved)
    )
    lines = [
        *_head(spec, calls, seed),
        *body,
        f"{variable}.compile(",
        *_arguments(list(compile_arguments(spec).items()), ""),
        ")",
    ]
    return "\n".join(lines) + "\n"


def _head(spec: "NetworkSpec", calls: Sequence[Call], seed: str | None) -> Iterator[str]:
    places = {name.partition(".")[0] for call in calls for name in _functions(call)}
    parts = sorted(places & _IMPORTED)
    yield "import keras"
    if parts:
        yield f"from keras import {', '.join(parts)}"
    yield ""
    yield f"# Task: {spec.task}"
    if spec.seed is not None:
        yield f"seed = {spec.seed if seed is None else seed}"
    yield ""


def _functions(value: Any) -> Iterator[str]:
    if isinstance(value, Call):
        yield value.function
        for _, inner in value.arguments:
            yield from _functions(inner)


def _chain(spec: "NetworkSpec", calls: Sequence[Call], variable: str) -> Iterator[str]:
    yield f"{variable} = keras.Sequential("
    yield f"{_STEP}["
    for layer, call in zip(spec.layers, calls, strict=True):
        lines = _printed("", call, ",", _STEP * 2)
        yield from lines if layer.enabled else _commented(lines, _STEP * 2)
    yield f"{_STEP}],"
    yield f"{_STEP}name={_text(spec.name)},"
    yield ")"


def _graph(
    spec: "NetworkSpec", calls: Sequence[Call], variable: str, reserved: Collection[str]
) -> Iterator[str]:
    variables = _variables(spec, {variable, *_RESERVED, *reserved})
    before = names_before(spec.layers)
    for row, (layer, call) in enumerate(zip(spec.layers, calls, strict=True)):
        mine = variables[layer.name]
        taken = [variables[name] for name in (layer.inputs or before[row])]
        if layer.kind == "Input":
            taken = []
        lines = _printed(f"{mine} = ", call, _taking(layer, taken), "")
        if layer.enabled:
            yield from lines
            continue
        yield from _commented(lines, "")
        if taken:
            yield f"{mine} = {taken[0]}"
    inputs = [variables[x.name] for x in spec.layers if x.enabled and x.kind == "Input"]
    outputs = [variables[output.layer] for output in spec.outputs]
    arguments = (("", _Raw(_listed(inputs))), ("", _Raw(_listed(outputs))), ("name", spec.name))
    yield from _printed(f"{variable} = ", Call("Model", arguments), "", "")


def _taking(layer: "LayerSpec", taken: Sequence[str]) -> str:
    kind = known_kind(layer.kind)
    if not taken:
        return ""
    if not kind.separately:
        several = kind.takes == "several" and (kind.least > 1 or len(taken) > 1)
        return f"([{', '.join(taken)}])" if several else f"({', '.join(taken)})"
    if len(taken) == 1:
        return f"({taken[0]}, {taken[0]})"
    # Twice the same, asked for by name, is told apart from a sequence that attends to itself.
    names = ("", "value=", "key=") if len(set(taken)) == 1 else ("", "", "key=")
    return f"({', '.join(name + x for name, x in zip(names, taken, strict=False))})"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _commented(lines: Sequence[str], indent: str) -> Iterator[str]:
    for line in lines:
        yield f"{indent}{_OFF}{line.removeprefix(indent)}"


def _variables(spec: "NetworkSpec", reserved: Collection[str]) -> dict[str, str]:
    taken = set(reserved)
    found: dict[str, str] = {}
    for layer in spec.layers:
        stem = re.sub(r"\W", "_", layer.name, flags=re.ASCII)
        stem = f"layer_{stem}" if stem[:1].isdigit() else stem
        stem = f"{stem}_layer" if keyword.iskeyword(stem) or stem in reserved else stem
        found[layer.name] = free_name(stem, taken)
        taken.add(found[layer.name])
    return found


def _printed(before: str, value: Any, after: str, indent: str) -> list[str]:
    """The lines of a value: a call that does not fit into one has a line for each argument."""
    line = f"{indent}{before}{rendered(value)}{after}"
    if len(line) <= _WIDTH or not isinstance(value, Call):
        return [line]
    opened = f"{indent}{before}{_place(value.function)}("
    return [opened, *_arguments(value.arguments, indent), f"{indent}){after}"]


def _arguments(arguments: Sequence[tuple[str, Any]], indent: str) -> Iterator[str]:
    for name, value in arguments:
        yield from _printed(f"{name}=" if name else "", value, ",", indent + _STEP)


class _Raw(str):
    """Code as it stands."""

    __slots__ = ()


def rendered(value: Any) -> str:
    """The value as Python writes it, in one line."""
    match value:
        case _Raw():
            return str(value)
        case Call():
            inside = ", ".join(
                f"{name}={rendered(inner)}" if name else rendered(inner)
                for name, inner in value.arguments
            )
            place = _place(value.function)
            return place if is_function(value) else f"{place}({inside})"
        case Seed():
            return f"seed + {value.offset}" if value.offset else "seed"
        case str():
            return _text(value)
        case tuple():
            inside = ", ".join(map(rendered, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        case list():
            return f"[{', '.join(map(rendered, value))}]"
        case Mapping():
            return "{" + ", ".join(f"{_text(k)}: {rendered(v)}" for k, v in value.items()) + "}"
        case _:
            return repr(value)


def _place(function: str) -> str:
    if function.startswith(REGISTERED):
        return f"keras.saving.get_registered_object({_text(function.removeprefix(REGISTERED))})"
    part = function.partition(".")[0]
    return function if part in _IMPORTED else f"keras.{function}"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
