"""A network as calls of Keras: building makes them, exported code writes them down."""

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError

from ._keras_options import initializer_names
from ._wiring import is_chain, wire
from .keras_catalog import LayerKind, OptimizerKind, layer_kind, optimizer_kind

if TYPE_CHECKING:
    from .spec import LayerSpec, NetworkSpec

_WITHOUT_CHANCE = ("zeros", "ones")
# They make all their weights with one initializer: with a seed, these would begin alike.
_UNSEEDED = ("MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention")
REGISTERED = "registered:"  # begins the place of a class of the user


@dataclass(frozen=True, slots=True)
class Seed:
    """The network's seed plus `offset`: every random source has one of its own."""

    offset: int


@dataclass(frozen=True, slots=True)
class Call:
    """A call of something in Keras.

    Attributes:
        function: where it is in Keras, such as "layers.Dense".
        arguments: values, with names or, the first ones, without (empty); a value is None, a flag,
            a number, text, a tuple or list or dict of values, a `Seed` or a `Call`.
    """

    function: str
    arguments: tuple[tuple[str, Any], ...] = ()


Seeds = Iterator[Seed] | None


def layer_calls(spec: "NetworkSpec") -> tuple[Call, ...]:
    """How each layer is made, also those that are switched off.

    Each random source takes the next seed, so switching a layer off leaves the others' seeds.

    Raises:
        ConfigurationError: if Keras has no such layer.
    """
    seeds = None if spec.seed is None else map(Seed, count())
    return tuple(layer_call(layer, seeds) for layer in spec.layers)


def layer_call(layer: "LayerSpec", seeds: Seeds = None) -> Call:
    """How one layer is made.

    Raises:
        ConfigurationError: if Keras has no such layer.
    """
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
    """The class of layers of that name.

    Raises:
        ConfigurationError: if Keras has none, and none is registered.
    """
    kind = layer_kind(name)
    if kind is None:
        raise ConfigurationError(
            f"`kind` of a layer must be a layer of Keras or a registered one. Received: {name!r}."
        )
    return kind


def _place(kind: LayerKind) -> str:
    if kind.name == "Input":
        return "Input"
    return f"{REGISTERED}{kind.name}" if _is_own(kind) else f"layers.{kind.name}"


def _is_own(kind: LayerKind | OptimizerKind) -> bool:
    """Whether a class is registered, and not one of Keras' own."""
    made_by: Any = kind.made_by  # None: an Input
    return ">" in kind.name or not (made_by is None or made_by.__module__.startswith("keras."))


def _arguments(
    kind: LayerKind, options: Mapping[str, Any], seeds: Seeds
) -> tuple[tuple[str, Any], ...]:
    found: dict[str, Any] = {}
    for option in kind.options:
        weight, _, what = option.name.rpartition("_")
        given = options.get(option.name)
        if what == "initializer" and weight:
            chosen = option.default if given is None else given
            made_by = initializer_names().get(str(chosen))
            can_draw = made_by is not None and chosen not in _WITHOUT_CHANCE
            if seeds is not None and can_draw and kind.name not in _UNSEEDED:
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
        chances = [
            options.get(name, option.default)
            for name in kind.seeded_by
            if (option := kind.option(name)) is not None
        ]
        if any(chances) or not kind.seeded_by:
            found["seed"] = next(seeds)
    # What the class has no argument for is refused by Keras itself.
    found |= {name: value for name, value in options.items() if kind.option(name) is None}
    # The arguments of registered classes may have to be named.
    leading = [name for name in kind.required if name in found and not _is_own(kind)]
    return (
        *(("", found[name]) for name in leading if leading == list(kind.required)),
        *((n, v) for n, v in found.items() if n not in leading or leading != list(kind.required)),
    )


def _regularizer(weight: str, options: Mapping[str, Any]) -> Call | None:
    l1, l2 = options.get(f"{weight}_l1"), options.get(f"{weight}_l2")
    if l1 is not None and l2 is not None:
        return Call("regularizers.L1L2", (("l1", l1), ("l2", l2)))
    if l1 is not None:
        return Call("regularizers.L1", (("", l1),))
    return None if l2 is None else Call("regularizers.L2", (("", l2),))


def _edges(kind: LayerKind, name: str, value: Any) -> Any:
    """Top, bottom, left and right in pairs, as Keras takes them."""
    is_flat = isinstance(value, list) and len(value) == 4 and name in ("padding", "cropping")
    return [value[:2], value[2:]] if is_flat and kind.name.endswith("2D") else value


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list) else value


def compile_arguments(spec: "NetworkSpec") -> dict[str, Any]:
    """The arguments of `model.compile`."""
    kind = spec.optimizer.kind
    known = optimizer_kind(kind)
    is_own = known is not None and _is_own(known)
    place = f"{REGISTERED}{kind}" if is_own else f"optimizers.{kind}"
    optimizer = Call(place, tuple(spec.optimizer.options.items()))
    outputs = spec.outputs
    weighted = any(output.weight != 1 for output in outputs)
    if len(outputs) == 1:
        (output,) = outputs
        return {
            "optimizer": optimizer,
            "loss": _by_name(output.loss),
            **({"metrics": list(map(_by_name, output.metrics))} if output.metrics else {}),
            **({"loss_weights": [output.weight]} if weighted else {}),
        }
    metrics = {o.layer: list(map(_by_name, o.metrics)) for o in outputs if o.metrics}
    weights = {output.layer: output.weight for output in outputs}
    return {
        "optimizer": optimizer,
        "loss": {output.layer: _by_name(output.loss) for output in outputs},
        **({"metrics": metrics} if metrics else {}),
        **({"loss_weights": weights} if weighted else {}),
    }


def _by_name(name: str) -> Any:
    """A loss or metric: Keras finds its own by name, registered ones are given themselves."""
    return Call(f"{REGISTERED}{name}") if ">" in name else name


def make(value: Any, *, seed: int | None = None) -> Any:
    """Make the calls in `value`.

    Args:
        value: of an argument.
        seed: the network's.
    """
    match value:
        case Seed():
            return (seed or 0) + value.offset
        case Call():
            made = [(name, make(inner, seed=seed)) for name, inner in value.arguments]
            found = _in_keras(value.function)
            if is_function(value):
                return found
            return found(
                *(inner for name, inner in made if not name),
                **{name: inner for name, inner in made if name},
            )
        case tuple():
            return tuple(make(inner, seed=seed) for inner in value)
        case list():
            return [make(inner, seed=seed) for inner in value]
        case dict():
            return {name: make(inner, seed=seed) for name, inner in value.items()}
        case _:
            return value


def is_function(call: Call) -> bool:
    """Whether a call stands for a registered function, which is passed and not called."""
    return call.function.startswith(REGISTERED) and not inspect.isclass(_in_keras(call.function))


def apply(kind: LayerKind, layer: Any, sources: list[Any]) -> Any:
    """The output of a layer for the outputs of those that it takes."""
    if kind.separately:
        return layer(*(sources if len(sources) > 1 else sources * 2))
    is_list = kind.takes == "several" and (kind.least > 1 or len(sources) > 1)
    return layer(sources if is_list else sources[0])


def build(spec: "NetworkSpec") -> Any:
    """The compiled model: Sequential for a chain, functional otherwise.

    Raises:
        ConfigurationError: if the network has a problem, or Keras refuses it.
    """
    if spec.analysis.reason is not None:
        raise ConfigurationError(f"the network cannot be built. {spec.analysis.reason}")
    import keras

    try:
        if is_chain(spec):
            pairs = zip(layer_calls(spec), spec.layers, strict=True)
            layers = [make(call, seed=spec.seed) for call, layer in pairs if layer.enabled]
            model = keras.Sequential(layers, name=spec.name)
        else:
            model = keras.Model(*_connected(spec), name=spec.name)
        compiled = compile_arguments(spec).items()
        model.compile(**{name: make(value, seed=spec.seed) for name, value in compiled})
    except (ValueError, TypeError) as error:
        raise ConfigurationError(
            f"Keras cannot build the network {spec.name!r}: {keras_text(error)}"
        ) from error
    return model


def keras_text(error: BaseException) -> str:
    """What Keras says is wrong, in one line: without colors and the arguments of the call."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    text = text.partition("\n\nArguments received by")[0]
    text = re.sub(r"^Exception encountered when calling [^\n]*\n+", "", text)
    return " ".join(text.split())


def _connected(spec: "NetworkSpec") -> tuple[Any, Any]:
    made: dict[int, Any] = {}
    wires, calls = wire(spec.layers), layer_calls(spec)
    inputs: list[Any] = []
    for row, layer in enumerate(spec.layers):
        if not layer.enabled:
            continue
        thing = make(calls[row], seed=spec.seed)
        if layer.kind == "Input":
            inputs.append(thing)
            made[row] = thing
        else:
            sources = [made[source] for source in wires[row].sources]
            made[row] = apply(known_kind(layer.kind), thing, sources)
    rows = {layer.name: row for row, layer in enumerate(spec.layers)}
    outputs = [made[rows[output.layer]] for output in spec.outputs]
    return (
        inputs if len(inputs) > 1 else inputs[0],
        outputs if len(outputs) > 1 else outputs[0],
    )


def _in_keras(place: str) -> Any:
    import keras

    if place.startswith(REGISTERED):
        return keras.saving.get_registered_object(place.removeprefix(REGISTERED))
    return functools.reduce(getattr, place.split("."), keras)
