"""What is wrong with a network as a whole: outputs, losses, metrics, the optimizer."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ._network_spec import NetworkSpec
from ._wiring import Wire

if TYPE_CHECKING:
    from ._analysis import LayerAnalysis


def training_problems(
    spec: NetworkSpec, rows: Sequence["LayerAnalysis"], wires: Sequence[Wire]
) -> tuple[str, ...]:
    """One sentence for each problem, the most basic first."""
    if not any(layer.enabled for layer in spec.layers):
        return ("The network has no layers. Add an Input first.",)
    return tuple(
        [
            *_output_problems(spec),
            *_unused(spec, wires),
        ]
    )


def _output_problems(spec: NetworkSpec) -> Iterator[str]:
    if not spec.outputs:
        yield "The network has no output. Choose the layer whose output is trained."
    seen: set[str] = set()
    for output in spec.outputs:
        layer = spec.layer(output.layer)
        if layer is None:
            yield f"The output {output.layer!r} is no layer of the network."
        elif not layer.enabled:
            yield f"The output {output.layer!r} is switched off."
        elif layer.kind == "Input":
            yield f"The output {output.layer!r} is an Input: nothing would be learnt."
        if output.layer in seen:
            yield f"The output {output.layer!r} is named twice."
        seen.add(output.layer)


def _unused(spec: NetworkSpec, wires: Sequence[Wire]) -> Iterator[str]:
    outputs = {output.layer for output in spec.outputs}
    taken = {
        source
        for layer, wired in zip(spec.layers, wires, strict=True)
        if layer.enabled
        for source in wired.sources
    }
    for row, layer in enumerate(spec.layers):
        if layer.enabled and row not in taken and layer.name not in outputs:
            yield (
                f"Nobody takes the output of row {row + 1} ({layer.name}). "
                "Connect it, make it an output, or switch it off."
            )
