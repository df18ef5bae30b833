"""Connections and names of a network's layers. Imports no Keras."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ._parts import LayerSpec

NAME_RULE = 'must begin with a letter or digit, and hold only letters (a-z), digits, "_", "-", ".".'
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Misfit(Exception):
    """A problem of a layer, in one sentence; caught by the analysis."""


class Wire(NamedTuple):
    """Resolved inputs of one layer."""

    sources: tuple[int, ...] = ()  # enabled rows whose outputs it takes; disabled ones are skipped
    problem: str | None = None  # why they cannot be resolved, in one sentence


def wire(layers: Sequence[LayerSpec]) -> tuple[Wire, ...]:
    """Resolve the inputs of every layer, including disabled ones."""
    rows = {layer.name: row for row, layer in reversed(list(enumerate(layers)))}
    wires: list[Wire] = []
    before: list[int] = []

    def sources(row: int) -> Iterator[int]:
        if layers[row].kind == "Input":
            if layers[row].inputs:
                raise Misfit("takes nothing: remove its inputs.")
            return
        if not layers[row].inputs and not before:
            raise Misfit("has no layer before it. Put an Input first.")
        yield from before if not layers[row].inputs else ()
        for name in layers[row].inputs:
            source = rows.get(name)
            if source is None:
                raise Misfit(f"takes {name!r}, but no layer has that name.")
            if source >= row:
                raise Misfit(
                    f"takes {name!r}, which is itself or comes later (row {source + 1}). "
                    "A layer must come after its inputs."
                )
            passed = (source,) if layers[source].enabled else wires[source].sources[:1]
            if not passed:
                raise Misfit(f"takes {name!r}, which is switched off and has no input.")
            yield from passed

    for row, layer in enumerate(layers):
        try:
            wires.append(Wire(tuple(sources(row))))
        except Misfit as misfit:
            wires.append(Wire(problem=str(misfit)))
        before = [row] if layer.enabled else before
    return tuple(wires)


def is_name(name: str) -> bool:
    """Whether `name` is a valid layer name in TensorFlow."""
    return _NAME.fullmatch(name) is not None


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, with the smallest numeric suffix that makes it unique if it is taken.

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
