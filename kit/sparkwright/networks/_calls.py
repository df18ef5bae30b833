"""Layers, optimizer and compile arguments as Keras calls, which are executed or printed."""

import functools
import importlib
import inspect
import random
import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from ._keras_options import FACTORS
from ._parts import LayerSpec, OptimizerSpec, OutputSpec
from .keras_catalog import Kind, LayerKind, layer_kind, optimizer_kind
from .training import OWN_METRICS

METRICS_MODULE = "class_metrics"  # alias of `sparkwright.networks.metrics` in exported code
REGISTERED = "registered:"  # prefix of the user's registered objects
_drawing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a class or function of Keras."""

    function: str  # such as "layers.Dense"
    # Names of positional arguments are "". A value may be a `Call`, also within containers.
    arguments: tuple[tuple[str, Any], ...] = ()


@contextmanager
def seeded(seed: int | None) -> Generator[None]:
    """Draw Keras' default seeds as after `keras.utils.set_random_seed`, and restore the state."""
    if seed is None:
        yield
        return
    with _drawing:
        state = random.getstate()
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(state)


def layer_call(layer: LayerSpec) -> Call:
    """The call that creates one layer."""
    kind = known_kind(layer.kind)
    name = (("name", layer.name),)
    if kind.inner is None or "layer" in layer.options:
        return Call(_place(kind), _arguments(kind, layer.options) + name)
    outer = (*kind.outer, "backward_layer")
    inside = {n: x for n, x in layer.options.items() if n not in (*outer, kind.inner)}
    outside = [(n, _value(x)) for n, x in layer.options.items() if n in outer]
    wrapped = known_kind(layer.options.get(kind.inner, kind.inner))
    made = Call(_place(wrapped), _arguments(wrapped, inside))
    return Call(_place(kind), (("", made), *outside, *name))


def known_kind(name: str) -> LayerKind:
    """The layer class with this name."""
    kind = layer_kind(name)
    if kind is None:
        raise ConfigurationError(
            f"`kind` of a layer must be a layer of Keras or a registered one. Received: {name!r}."
        )
    return kind


def _place(kind: Kind, module: str = "layers.") -> str:
    if kind.is_registered:
        return f"{REGISTERED}{kind.name}"
    return kind.name if kind.name == "Input" else f"{module}{kind.name}"


def _arguments(kind: Kind, options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    found: dict[str, Any] = {}
    factors: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        for argument, names in FACTORS.items():
            weight, _, factor = name.partition("_")
            if factor in names and kind.option(name) is not None:
                factors.setdefault(f"{weight}_{argument}", {})[factor] = value
                break
        else:
            found[name] = _value(value)
    for name, given in factors.items():
        if given := {factor: value for factor, value in given.items() if value is not None}:
            found[name] = _factors(given)
    # Registered classes may have keyword-only arguments.
    leading: list[tuple[str, Any]] = []
    if not kind.is_registered and found.keys() >= set(kind.required):
        leading = [("", found.pop(name)) for name in kind.required]
    return (*leading, *found.items())


def _factors(given: Mapping[str, Any]) -> Call:
    if len(given) == 2:
        return Call("regularizers.L1L2", tuple(given.items()))
    ((name, factor),) = given.items()
    place = "constraints.MaxNorm" if name == "max_norm" else f"regularizers.{name.upper()}"
    return Call(place, (("", factor),))


def _value(value: Any) -> Any:
    """A plain value with tuples for lists, and calls for objects in Keras' serialized form."""
    if isinstance(value, list):
        return tuple(map(_value, value))
    if not isinstance(value, Mapping) or "class_name" not in value:
        return value
    config, kind = value["config"], value["class_name"]
    registered = str(config if kind == "function" else value.get("registered_name"))
    if ">" in registered:
        place = f"{REGISTERED}{registered}"
    elif kind == "function":
        raise ConfigurationError(
            "functions must be registered, by `keras.saving.register_keras_serializable`. "
            f"Received: {config}."
        )
    else:
        place = f"{value.get('module') or 'keras'}.{kind}".partition(".")[2]
    named = config.items() if isinstance(config, Mapping) else ()
    return Call(place, tuple((name, _value(inner)) for name, inner in named))


def compile_arguments(optimizer: OptimizerSpec, outputs: Sequence[OutputSpec]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {
        "loss": {o.layer: _by_name(o.loss) for o in outputs},
        "metrics": {o.layer: list(map(_by_name, o.metrics)) for o in outputs if o.metrics},
    }
    if any(output.weight != 1 for output in outputs):
        found["loss_weights"] = {output.layer: output.weight for output in outputs}
    arguments: dict[str, Any] = {name: value for name, value in found.items() if value}
    if len(outputs) == 1:
        arguments = {name: next(iter(value.values())) for name, value in arguments.items()}
        if "loss_weights" in arguments:
            arguments["loss_weights"] = [arguments["loss_weights"]]
    return {"optimizer": optimizer_call(optimizer), **arguments}


def optimizer_call(optimizer: OptimizerSpec) -> Call:
    """The call that creates an optimizer, with its schedule."""
    kind = optimizer_kind(optimizer.kind)
    place = f"optimizers.{optimizer.kind}" if kind is None else _place(kind, "optimizers.")
    arguments = {name: _value(value) for name, value in optimizer.options.items()}
    schedule = optimizer.schedule
    if schedule is not None:
        usual = None if kind is None else kind.defaults.get("learning_rate")
        rate = arguments.get("learning_rate", usual)
        if not isinstance(rate, int | float):
            raise ConfigurationError(
                f"a schedule needs an optimizer with a learning rate. Received: {optimizer.kind} "
                f"with learning_rate={rate!r}. Choose another optimizer, or no schedule."
            )
        function = f"optimizers.schedules.{schedule.keras_class}"
        arguments["learning_rate"] = Call(function, tuple(schedule.arguments(rate).items()))
    return Call(place, tuple(arguments.items()))


def _by_name(name: str) -> Any:
    """A loss or metric: Keras' own by name, any other one as a call."""
    if name in OWN_METRICS:
        return Call(f"{METRICS_MODULE}.{OWN_METRICS[name]}")
    return Call(f"{REGISTERED}{name}") if ">" in name else name


def fold(value: Any, call: Callable[..., Any]) -> Any:
    """Replace calls in `value` by the results of `call`, innermost first."""
    match value:
        case Call():
            folded = [(name, fold(inner, call)) for name, inner in value.arguments]
            unnamed = (inner for name, inner in folded if not name)
            return call(value, *unnamed, **{name: inner for name, inner in folded if name})
        case tuple() | list():
            return type(value)(fold(inner, call) for inner in value)
        case dict():
            return {name: fold(inner, call) for name, inner in value.items()}
        case _:
            return value


def make(value: Any) -> Any:
    """Execute the calls in `value`."""
    return fold(value, _called)


def _called(call: Call, *arguments: Any, **named: Any) -> Any:
    found = _in_keras(call.function)
    return found if is_function(call) else found(*arguments, **named)


def is_function(call: Call) -> bool:
    """Whether a call refers to a registered function, which is passed instead of called."""
    return call.function.startswith(REGISTERED) and not inspect.isclass(_in_keras(call.function))


def taking(kind: LayerKind, sources: Sequence[Any]) -> list[Any]:
    """The arguments for calling a layer on its inputs."""
    if kind.separately:
        return [*sources] * (2 if len(sources) == 1 else 1)
    least, most = kind.takes
    return [[*sources]] if most != 1 and (least > 1 or len(sources) > 1) else [*sources]


def keras_text(error: BaseException) -> str:
    """Keras' error message on one line, without colors and call arguments."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    text = text.partition("\n\nArguments received by")[0]
    text = re.sub(r"^Exception encountered when calling [^\n]*\n+", "", text)
    return " ".join(text.split())


def _in_keras(place: str) -> Any:
    import keras

    if place.startswith(REGISTERED):
        return keras.saving.get_registered_object(place.removeprefix(REGISTERED))
    if place.startswith(f"{METRICS_MODULE}."):
        metrics = importlib.import_module("sparkwright.networks.metrics")
        return getattr(metrics, place.rpartition(".")[2])
    return functools.reduce(getattr, place.split("."), keras)
