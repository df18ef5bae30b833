"""The graph of a network: which layer takes which, chains, and names of layers. Pure."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._keras_options import snake_case

if TYPE_CHECKING:
    from .spec import LayerSpec, NetworkSpec

NAME_RULE = 'must begin with a letter or digit, and hold only letters (a-z), digits, "_", "-", ".".'
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """Where one layer's inputs come from.

    Attributes:
        sources: rows of the layers that are switched on, whose outputs it takes in the end.
        problem: why they are not known, in one sentence; None: they are.
    """

    sources: tuple[int, ...] = ()
    problem: str | None = None


def wire(layers: Sequence["LayerSpec"]) -> tuple[Wire, ...]:
    """The inputs of every layer, also of those that are switched off.

    Example:
        >>> from sparkwright.networks import LayerSpec
        >>> layers = (
        ...     LayerSpec(kind="Input", name="in"),
        ...     LayerSpec(kind="Dropout", name="drop", enabled=False),
        ...     LayerSpec(kind="Dense", name="out", inputs=("drop",)),
        ... )
        >>> [w.sources for w in wire(layers)]
        [(), (0,), (0,)]
    """
    rows = {layer.name: row for row, layer in reversed(list(enumerate(layers)))}
    wires: list[Wire] = []
    before: int | None = None
    for row, layer in enumerate(layers):
        wires.append(_wire(layers, row, rows, wires, before))
        if layer.enabled:
            before = row
    return tuple(wires)


def _wire(
    layers: Sequence["LayerSpec"],
    row: int,
    rows: dict[str, int],
    wires: list[Wire],
    before: int | None,
) -> Wire:
    layer = layers[row]
    if layer.kind == "Input":
        return Wire(problem="takes nothing: remove its inputs.") if layer.inputs else Wire()
    if not layer.inputs:
        if before is None:
            return Wire(problem="has no layer before it. Put an Input first.")
        return Wire(sources=(before,))
    found: list[int] = []
    for name in layer.inputs:
        source = rows.get(name)
        if source is None:
            return Wire(problem=f"takes {name!r}, but no layer has that name.")
        if source == row:
            return Wire(problem="takes its own output.")
        if source > row:
            return Wire(
                problem=f"takes {name!r}, which comes later (row {source + 1}). "
                "A layer comes after those that it takes."
            )
        if layers[source].enabled:
            found.append(source)
        elif wires[source].sources:
            found.append(wires[source].sources[0])
        else:
            return Wire(
                problem=f"takes {name!r}, which is switched off and has nothing to pass on."
            )
    return Wire(sources=tuple(found))


def is_chain(spec: "NetworkSpec") -> bool:
    """Whether each layer takes the one before it, and the last one is the only output."""
    enabled = [layer for layer in spec.layers if layer.enabled]
    if not enabled or [layer.kind == "Input" for layer in enabled] != [
        True,
        *[False] * (len(enabled) - 1),
    ]:
        return False
    if [output.layer for output in spec.outputs] != [enabled[-1].name]:
        return False
    kinds = {layer.kind for layer in enabled}
    if kinds & {"MultiHeadAttention", "GroupedQueryAttention", "GroupQueryAttention"}:
        return False  # takes its input twice, which a Sequential cannot do
    return all(
        not layer.inputs or layer.kind == "Input" or list(layer.inputs) == before
        for layer, before in zip(spec.layers, names_before(spec.layers), strict=True)
    )


def with_inputs_in_order(
    layers: Sequence["LayerSpec"], names: Sequence[str]
) -> tuple["LayerSpec", ...]:
    """The layers with those named, its Inputs, in that order: the one a model takes arrays in."""
    mine = [layer.name for layer in layers if layer.name in names]
    if mine == list(names):
        return tuple(layers)
    by_name = {layer.name: layer for layer in layers}
    return (
        *(by_name[name] for name in names),
        *(layer for layer in layers if layer.name not in names),
    )


def names_before(layers: Sequence["LayerSpec"]) -> list[list[str]]:
    """For each layer the name of the one before it that is switched on; none for the first."""
    found: list[list[str]] = []
    before: list[str] = []
    for layer in layers:
        found.append(before)
        if layer.enabled:
            before = [layer.name]
    return found


def is_name(name: str) -> bool:
    """Whether TensorFlow accepts it for a layer.

    Example:
        >>> is_name("conv_1"), is_name("my layer")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None


def name_for(kind: str, taken: Collection[str]) -> str:
    """A name for a layer of `kind` that is not among `taken`.

    Example:
        >>> name_for("MaxPooling2D", ["max_pooling2d"])
        'max_pooling2d_2'
    """
    return free_name(snake_case(kind), taken)


def free_name(name: str, taken: Collection[str]) -> str:
    """`name`, or with the least number behind it that makes it new.

    Example:
        >>> free_name("dense", []), free_name("dense_2", ["dense_2"])
        ('dense', 'dense_3')
    """
    if name not in taken:
        return name
    stem, _, digits = name.rpartition("_")
    stem, number = (stem, int(digits)) if stem and digits.isdecimal() else (name, 1)
    while (found := f"{stem}_{number}") in taken or number < 2:
        number += 1
    return found
