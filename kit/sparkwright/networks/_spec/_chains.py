"""Whether a network is a chain: one layer after another, from one input to one output."""

from collections.abc import Sequence

from ._network_spec import LayerSpec, NetworkSpec


def is_chain(spec: NetworkSpec) -> bool:
    """Whether each layer takes the one before it, and the last one is the only output."""
    enabled = [layer for layer in spec.layers if layer.enabled]
    if not enabled or [layer.kind == "Input" for layer in enabled] != [
        True,
        *[False] * (len(enabled) - 1),
    ]:
        return False
    if [output.layer for output in spec.outputs] != [enabled[-1].name]:
        return False
    if any(layer.kind == "MultiHeadAttention" for layer in enabled):
        return False  # takes its input twice, which a Sequential cannot do
    return all(
        not layer.inputs or layer.kind == "Input" or list(layer.inputs) == before
        for layer, before in zip(spec.layers, names_before(spec.layers), strict=True)
    )


def with_inputs_in_order(
    layers: Sequence[LayerSpec], names: Sequence[str]
) -> tuple[LayerSpec, ...]:
    """The layers with those named, its Inputs, in that order: the one a model takes arrays in."""
    mine = [layer.name for layer in layers if layer.name in names]
    if mine == list(names):
        return tuple(layers)
    by_name = {layer.name: layer for layer in layers}
    return (
        *(by_name[name] for name in names),
        *(layer for layer in layers if layer.name not in names),
    )


def names_before(layers: Sequence[LayerSpec]) -> list[list[str]]:
    """For each layer the name of the one before it that is switched on; none for the first."""
    found: list[list[str]] = []
    before: list[str] = []
    for layer in layers:
        found.append(before)
        if layer.enabled:
            before = [layer.name]
    return found
