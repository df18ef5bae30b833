"""A layer that makes one answer of an example where a network gives one at each place. Pure."""

from dataclasses import replace

from sparkwright.networks import NetworkSpec, add_layer

_KINDS = ("Flatten", "GlobalAveragePooling1D", "GlobalAveragePooling2D")
# Those that do the same at each place; what flattens belongs before the first of them.
_AT_EACH_PLACE = ("Dense", "Dropout", "Activation")


def flattened(spec: NetworkSpec, output: str) -> tuple[str, NetworkSpec] | None:
    """`spec` with one more layer before its last dense ones; None: none of those known helps.

    Args:
        spec: the network.
        output: the name of the layer whose output shall be a vector.

    Returns:
        The kind of the layer that was put in, and the network.
    """
    place = _place(spec, output)
    if place is None:
        return None
    layer = spec.layers[place]
    for kind in _KINDS:
        added = add_layer(spec, kind, after=place - 1, inputs=layer.inputs or None)
        layers = tuple(
            replace(each, inputs=()) if each.name == layer.name else each for each in added.layers
        )
        found = replace(added, layers=layers)
        rows = found.analysis.rows  # other mistakes of the network stay: they are told elsewhere
        shape = next((row.output_shape for row in rows if row.name == output), None)
        if shape is not None and len(shape) == 1:
            return kind, found
    return None


def _place(spec: NetworkSpec, output: str) -> int | None:
    """The row of the first of the dense layers at the end; None if `output` is not one of them."""
    place = next((k for k, layer in enumerate(spec.layers) if layer.name == output), -1)
    found = None
    while place >= 0:
        layer = spec.layers[place]
        if layer.kind not in _AT_EACH_PLACE:
            break
        found = place
        if layer.inputs:
            break
        place -= 1
    return found
