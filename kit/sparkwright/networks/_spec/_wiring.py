"""Who takes whose output: names become rows, and switched-off layers are passed through."""

from collections.abc import Sequence
from dataclasses import dataclass

from ._network_spec import LayerSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class Wire:
    """Where one layer's inputs come from.

    Attributes:
        sources: rows of the layers that are switched on, whose outputs it takes in the end.
        problem: why they are not known, in one sentence; None: they are.
    """

    sources: tuple[int, ...] = ()
    problem: str | None = None


def wire(layers: Sequence[LayerSpec]) -> tuple[Wire, ...]:
    """The inputs of every layer, also of those that are switched off.

    Example:
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
    layers: Sequence[LayerSpec],
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
