"""What a network needs of Keras, as calls: building makes them, code writes them down."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from ._catalogue import LAYER_KINDS
from ._common_options import INITIALIZERS, WITHOUT_CHANCE
from ._layer_kind import LayerKind
from ._network_spec import LayerSpec, NetworkSpec
from ._reshaping_kinds import edges

EDGED = {"ZeroPadding2D": "padding", "Cropping2D": "cropping"}


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


def seeds_of(spec: NetworkSpec) -> Seeds:
    """Seeds for the random sources of the network, one after another; None: it has no seed."""
    return None if spec.seed is None else map(Seed, count())


def layer_calls(spec: NetworkSpec) -> tuple[Call, ...]:
    """How each layer is made, also those that are switched off.

    Each random source takes the next seed, so switching a layer off leaves the others' seeds.
    """
    seeds = seeds_of(spec)
    return tuple(_layer_call(layer, seeds) for layer in spec.layers)


def _layer_call(layer: LayerSpec, seeds: Seeds) -> Call:
    kind = LAYER_KINDS[layer.kind]
    name = (("name", layer.name),)
    if kind.inner is None:
        place = "Input" if kind.name == "Input" else f"layers.{kind.name}"
        return Call(place, _arguments(kind, layer.options, seeds) + name)
    inner, outer = split_options(kind, layer.options)
    wrapped = LAYER_KINDS[kind.inner if kind.inner in LAYER_KINDS else layer.options[kind.inner]]
    made = Call(f"layers.{wrapped.name}", _arguments(wrapped, inner, seeds))
    return Call(f"layers.{kind.name}", (("", made), *outer.items(), *name))


def split_options(
    kind: LayerKind, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of what a layer wraps, and its own."""
    own = (*kind.outer, kind.inner)
    inner = {name: value for name, value in options.items() if name not in own}
    return inner, {name: value for name, value in options.items() if name in kind.outer}


def _arguments(
    kind: LayerKind, options: Mapping[str, Any], seeds: Seeds
) -> tuple[tuple[str, Any], ...]:
    found: dict[str, Any] = {}
    for option in kind.options:
        weight, _, what = option.name.rpartition("_")
        if what == "initializer":
            chosen = options.get(option.name, option.default)
            if seeds is not None and chosen not in WITHOUT_CHANCE:
                made = Call(f"initializers.{INITIALIZERS[chosen]}", (("seed", next(seeds)),))
                found[option.name] = made
            elif option.name in options:
                found[option.name] = chosen
        elif what == "norm":  # kernel_max_norm
            weight = weight.removesuffix("_max")
            if option.name in options:
                norm = Call("constraints.MaxNorm", (("", options[option.name]),))
                found[f"{weight}_constraint"] = norm
        elif what in ("l1", "l2"):
            if regularizer := _regularizer(weight, options):
                found[f"{weight}_regularizer"] = regularizer
        elif option.name in options:
            found[option.name] = _value(kind, option.name, options[option.name])
    if seeds is not None and any(options.get(name) for name in kind.seeded_by):
        found["seed"] = next(seeds)
    return _positioned(kind, found)


def _regularizer(weight: str, options: Mapping[str, Any]) -> Call | None:
    l1, l2 = options.get(f"{weight}_l1"), options.get(f"{weight}_l2")
    if l1 is not None and l2 is not None:
        return Call("regularizers.L1L2", (("l1", l1), ("l2", l2)))
    if l1 is not None:
        return Call("regularizers.L1", (("", l1),))
    return None if l2 is None else Call("regularizers.L2", (("", l2),))


def _value(kind: LayerKind, name: str, value: Any) -> Any:
    if EDGED.get(kind.name) == name and isinstance(value, list) and len(value) == 4:
        return edges(value, 2, name)
    return tuple(value) if isinstance(value, list) else value


def _positioned(kind: LayerKind, found: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    leading: list[str] = []
    for name in kind.positional:
        if name not in found:
            break
        leading.append(name)
    return (
        *(("", found[name]) for name in leading),
        *((name, value) for name, value in found.items() if name not in leading),
    )


def compile_arguments(spec: NetworkSpec) -> dict[str, Any]:
    """The arguments of `model.compile`."""
    optimizer = Call(f"optimizers.{spec.optimizer.kind}", tuple(spec.optimizer.options.items()))
    outputs = spec.outputs
    weighted = any(output.weight != 1 for output in outputs)
    if len(outputs) == 1:
        (output,) = outputs
        return {
            "optimizer": optimizer,
            "loss": output.loss,
            **({"metrics": list(output.metrics)} if output.metrics else {}),
            **({"loss_weights": [output.weight]} if weighted else {}),
        }
    metrics = {output.layer: list(output.metrics) for output in outputs if output.metrics}
    weights = {output.layer: output.weight for output in outputs}
    return {
        "optimizer": optimizer,
        "loss": {output.layer: output.loss for output in outputs},
        **({"metrics": metrics} if metrics else {}),
        **({"loss_weights": weights} if weighted else {}),
    }


def evaluate(value: Any, *, find: Callable[[str], Any], seed: int | None) -> Any:
    """Make the calls in `value`.

    Args:
        value: of an argument.
        find: gives what is at a place in Keras.
        seed: the network's.
    """
    match value:
        case Seed():
            return (seed or 0) + value.offset
        case Call():
            made = [(n, evaluate(v, find=find, seed=seed)) for n, v in value.arguments]
            return find(value.function)(
                *(inner for name, inner in made if not name),
                **{name: inner for name, inner in made if name},
            )
        case tuple():
            return tuple(evaluate(inner, find=find, seed=seed) for inner in value)
        case _:
            return value
