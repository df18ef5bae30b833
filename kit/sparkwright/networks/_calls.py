"""A network as Keras calls, which `build` executes and `to_code` prints."""

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

from ._keras_options import initializer_names
from .keras_catalog import Kind, LayerKind, layer_kind, optimizer_kind
from .training import OWN_METRICS

if TYPE_CHECKING:
    from .spec import LayerSpec, NetworkSpec, OptimizerSpec

_CONSTANT_INITIALIZERS = ("zeros", "ones")
METRICS_MODULE = "class_metrics"  # alias of `sparkwright.networks.metrics` in exported code
REGISTERED = "registered:"  # prefix of the user's registered objects


@dataclass(frozen=True, slots=True)
class Seed:
    """The network's seed plus `offset`, which is unique for each random source."""

    offset: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a class or function of Keras.

    Attributes:
        function: qualified name in Keras, such as "layers.Dense".
        arguments: (name, value) pairs; the name of a positional argument is "". A value is None, a
            bool, number or string, a tuple, list or dict of values, a `Seed` or a `Call`.
    """

    function: str
    arguments: tuple[tuple[str, Any], ...] = ()


Seeds = Iterator[Seed] | None


def layer_calls(spec: "NetworkSpec") -> tuple[Call, ...]:
    """The call that creates each layer; disabled layers are included to keep seeds stable."""
    seeds = None if spec.seed is None else map(Seed, count())
    return tuple(layer_call(layer, seeds) for layer in spec.layers)


def layer_call(layer: "LayerSpec", seeds: Seeds = None) -> Call:
    """The call that creates one layer; each random source takes the next seed."""
    kind = known_kind(layer.kind)
    name = (("name", layer.name),)
    if kind.inner is None:
        return Call(_place(kind), _arguments(kind, layer.options, seeds) + name)
    own = (*kind.outer, kind.inner)
    inside = {key: value for key, value in layer.options.items() if key not in own}
    outside = {key: value for key, value in layer.options.items() if key in kind.outer}
    wrapped = known_kind(layer.options.get(kind.inner, kind.inner))
    made = Call(_place(wrapped), _arguments(wrapped, inside, seeds))
    return Call(_place(kind), (("", made), *outside.items(), *name))


def known_kind(name: str) -> LayerKind:
    """The layer class with this name.

    Raises:
        ConfigurationError: if there is none.
    """
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


def _arguments(
    kind: LayerKind, options: Mapping[str, Any], seeds: Seeds
) -> tuple[tuple[str, Any], ...]:
    # Unknown options are passed on, and Keras raises an error.
    found = {name: value for name, value in options.items() if kind.option(name) is None}
    for option in kind.options:
        weight, _, what = option.name.rpartition("_")
        given = options.get(option.name)
        if what == "initializer" and weight:
            chosen = option.default if given is None else given
            made_by = initializer_names().get(str(chosen))
            can_draw = made_by is not None and chosen not in _CONSTANT_INITIALIZERS
            # An attention layer has one initializer: a seed would make all its weights equal.
            if seeds is not None and can_draw and not kind.separately:
                found[option.name] = Call(f"initializers.{made_by}", (("seed", next(seeds)),))
            elif given is not None:
                found[option.name] = given
        elif option.name.endswith("_max_norm"):
            if given is not None:
                norm = Call("constraints.MaxNorm", (("", given),))
                found[f"{option.name.removesuffix('_max_norm')}_constraint"] = norm
        elif what in ("l1", "l2") and weight:
            if regularizer := _regularizer(weight, options):
                found[f"{weight}_regularizer"] = regularizer
        elif option.name in options:
            found[option.name] = _as_tuple(_edges(kind, option.name, given))
    if seeds is not None and kind.seeded_by is not None:
        defaults = kind.defaults
        if not kind.seeded_by or any(options.get(n, defaults.get(n)) for n in kind.seeded_by):
            found["seed"] = next(seeds)
    # Registered classes may have keyword-only arguments.
    leading: list[tuple[str, Any]] = []
    if not kind.is_registered and found.keys() >= set(kind.required):
        leading = [("", found.pop(name)) for name in kind.required]
    return (*leading, *found.items())


def _regularizer(weight: str, options: Mapping[str, Any]) -> Call | None:
    given = {name: options.get(f"{weight}_{name}") for name in ("l1", "l2")}
    given = {name: penalty for name, penalty in given.items() if penalty is not None}
    if len(given) == 2:
        return Call("regularizers.L1L2", tuple(given.items()))
    return next((Call(f"regularizers.{n.upper()}", (("", x),)) for n, x in given.items()), None)


def _edges(kind: LayerKind, name: str, value: Any) -> Any:
    """Group [top, bottom, left, right] into pairs for Keras."""
    is_flat = isinstance(value, list) and len(value) == 4 and name in ("padding", "cropping")
    return [value[:2], value[2:]] if is_flat and kind.name.endswith("2D") else value


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def compile_arguments(spec: "NetworkSpec") -> dict[str, Any]:
    """The arguments of `model.compile`."""
    outputs = spec.outputs
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
    return {"optimizer": optimizer_call(spec.optimizer), **arguments}


def optimizer_call(optimizer: "OptimizerSpec") -> Call:
    """The call that creates an optimizer, with its schedule."""
    kind, arguments = optimizer_kind(optimizer.kind), dict(optimizer.options)
    place = f"optimizers.{optimizer.kind}" if kind is None else _place(kind, "optimizers.")
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


def fold(value: Any, call: Callable[..., Any], seed: Callable[[int], Any]) -> Any:
    """Replace calls and seeds in `value` by the results of `call` and `seed`, innermost first."""
    match value:
        case Seed():
            return seed(value.offset)
        case Call():
            folded = [(name, fold(inner, call, seed)) for name, inner in value.arguments]
            unnamed = (inner for name, inner in folded if not name)
            return call(value, *unnamed, **{name: inner for name, inner in folded if name})
        case tuple() | list():
            return type(value)(fold(inner, call, seed) for inner in value)
        case dict():
            return {name: fold(inner, call, seed) for name, inner in value.items()}
        case _:
            return value


def make(value: Any, *, seed: int | None = None) -> Any:
    """Execute the calls in `value` with the network's seed."""
    return fold(value, _called, lambda offset: (seed or 0) + offset)


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


def is_sequential(spec: "NetworkSpec") -> bool:
    """Whether the model is a Sequential: a chain whose last layer is the only output."""
    rows = [row for row in spec.analysis.rows if row.enabled]
    twice = any(known_kind(row.kind).separately for row in rows)  # called on its input twice
    is_end = [output.layer for output in spec.outputs] == [row.name for row in rows[-1:]]
    return spec.analysis.is_chain and is_end and not twice


def build(spec: "NetworkSpec") -> Any:
    """See `NetworkSpec.build`."""
    if spec.analysis.reason is not None:
        raise ConfigurationError(f"the network cannot be built. {spec.analysis.reason}")
    import keras

    try:
        made = {
            layer.name: make(call, seed=spec.seed)
            for call, layer in zip(layer_calls(spec), spec.layers, strict=True)
            if layer.enabled
        }
        if is_sequential(spec):
            model = keras.Sequential([*made.values()], name=spec.name)
        else:
            for row in spec.analysis.rows:
                if row.enabled and row.kind != "Input":
                    sources = [made[name] for name in row.inputs]
                    made[row.name] = made[row.name](*taking(known_kind(row.kind), sources))
            inputs = [made[x.name] for x in spec.layers if x.enabled and x.kind == "Input"]
            outputs = [made[output.layer] for output in spec.outputs]
            model = keras.Model(only(inputs), only(outputs), name=spec.name)
        model.compile(**make(compile_arguments(spec), seed=spec.seed))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"Keras cannot build the network {spec.name!r}: {keras_text(error)}"
        ) from error
    return model


def only(values: list[Any]) -> Any:
    """The only item of the list, or the list."""
    return values[0] if len(values) == 1 else values


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
        from . import metrics

        return getattr(metrics, place.rpartition(".")[2])
    return functools.reduce(getattr, place.split("."), keras)
