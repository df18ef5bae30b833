"""Edit a network; each function returns a new NetworkSpec with unique names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sparkwright.errors import ConfigurationError

from ._calls import known_kind
from ._keras_options import snake_case
from ._wiring import free_name, wire
from .keras_catalog import layer_kind
from .spec import LayerSpec, NetworkSpec, OutputSpec
from .training import defaults_for


def add_layer(
    spec: NetworkSpec,
    kind: str,
    *,
    after: int | None = None,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    inputs: Iterable[str] | None = None,
) -> NetworkSpec:
    """Add a layer.

    If the layer is appended to the network's only output, it becomes the output. If the network
    has no output, the first layer that is not an Input becomes the output.

    Args:
        spec: the network.
        kind: class of the layer.
        after: row (from 0) to insert the layer after; -1 inserts it first; default: the last row.
        name: unique name; default: derived from `kind`.
        options: options that override the initial values of the form; default: none.
        inputs: names of its input layers; default: the previous layer, or for merging layers, all
            layers whose outputs are unused.

    Raises:
        ConfigurationError: if the kind or row does not exist, or the name is not unique.

    Example:
        >>> spec = add_layer(NetworkSpec(), "Input", options={"shape": [4]})
        >>> spec = add_layer(spec, "Dense", options={"units": 3, "activation": "softmax"})
        >>> spec.layers[1].name, spec.outputs[0].loss, spec.analysis.reason
        ('dense', 'sparse_categorical_crossentropy', None)
    """
    known = known_kind(kind)
    row = len(spec.layers) - 1 if after is None else after
    if not -1 <= row < len(spec.layers):
        raise ConfigurationError(
            f"`after` must be from -1 to {len(spec.layers) - 1}. Received: after={after!r}."
        )
    _check_new(name, spec.layers)
    if inputs is None:
        inputs = _ends(spec, row) if known.takes[1] != 1 else ()
    layer = LayerSpec(
        kind=kind,
        name=name or free_name(snake_case(kind), [layer.name for layer in spec.layers]),
        options={**known.starts, **(options or {})},
        inputs=tuple(inputs),
    )
    return _put_in(spec, layer, row + 1)


def duplicate_layer(spec: NetworkSpec, index: int) -> NetworkSpec:
    """Insert a copy of a layer after it, with a unique name.

    The input of the copy is the original's output; a copy of a merging layer has the same inputs.
    """
    layer = _layer(spec, index)
    kind = layer_kind(layer.kind)
    inputs = layer.inputs if kind is not None and kind.takes[1] != 1 else ()
    name = free_name(layer.name, [other.name for other in spec.layers])
    return _put_in(spec, replace(layer, name=name, inputs=inputs), index + 1)


def replace_layer(spec: NetworkSpec, index: int, layer: LayerSpec) -> NetworkSpec:
    """Replace a layer by `layer`, and update references if its name differs.

    Raises:
        ConfigurationError: if another layer has this name.
    """
    before = _layer(spec, index)
    others = (*spec.layers[:index], *spec.layers[index + 1 :])
    if layer.name == before.name:
        return replace(spec, layers=(*others[:index], layer, *others[index:]))
    _check_new(layer.name, others)
    layers = _repointed((*others[:index], layer, *others[index:]), before.name, layer.name)
    outputs = tuple(
        replace(output, layer=layer.name) if output.layer == before.name else output
        for output in spec.outputs
    )
    return replace(spec, layers=layers, outputs=outputs)


def switch_layer(spec: NetworkSpec, index: int, enabled: bool | None = None) -> NetworkSpec:
    """Enable or disable a layer; by default, toggle it."""
    layer = _layer(spec, index)
    on = not layer.enabled if enabled is None else enabled
    return replace_layer(spec, index, replace(layer, enabled=on))


def move_layer(spec: NetworkSpec, index: int, by: int) -> NetworkSpec:
    """Move a layer down by `by` rows, or up if negative, at most to the first or last row.

    Explicit inputs do not change; the analysis reports an input that then comes later.
    """
    layer, layers = _layer(spec, index), list(spec.layers)
    del layers[index]
    layers.insert(max(0, index + by), layer)
    return replace(spec, layers=tuple(layers))


def remove_layer(spec: NetworkSpec, index: int) -> NetworkSpec:
    """Remove a layer; layers and outputs that refer to it use its first input instead.

    An output is dropped if that input is an Input or already an output.
    """
    gone = _layer(spec, index)
    sources = wire(spec.layers)[index].sources[:1]
    instead = gone.inputs[:1] or tuple(spec.layers[source].name for source in sources)
    left = _repointed((*spec.layers[:index], *spec.layers[index + 1 :]), gone.name, *instead)
    taken = {layer.name for layer in left if layer.kind == "Input"}
    taken |= {output.layer for output in spec.outputs}
    outputs: list[OutputSpec] = []
    for output in spec.outputs:
        if output.layer != gone.name:
            outputs.append(output)
        elif instead and instead[0] not in taken:
            outputs.append(replace(output, layer=instead[0]))
    return replace(spec, layers=left, outputs=tuple(outputs))


def _layer(spec: NetworkSpec, index: int) -> LayerSpec:
    if not 0 <= index < len(spec.layers):
        raise ConfigurationError(
            f"`index` must be a row from 0 to {len(spec.layers) - 1}. Received: index={index!r}."
        )
    return spec.layers[index]


def _check_new(name: str | None, layers: Sequence[LayerSpec]) -> None:
    if name in [layer.name for layer in layers]:
        raise ConfigurationError(
            f"`name` must be unique in the network. Received: name={name!r}. Choose another name."
        )


def _repointed(layers: Iterable[LayerSpec], old: str, *new: str) -> tuple[LayerSpec, ...]:
    """Replace the input `old` by `new` in all layers."""

    def inputs(layer: LayerSpec) -> tuple[str, ...]:
        found = (each for name in layer.inputs for each in (new if name == old else (name,)))
        return tuple(dict.fromkeys(found)) if old in layer.inputs else layer.inputs

    return tuple(replace(layer, inputs=inputs(layer)) for layer in layers)


def _put_in(spec: NetworkSpec, layer: LayerSpec, row: int) -> NetworkSpec:
    added = replace(spec, layers=(*spec.layers[:row], layer, *spec.layers[row:]))
    outputs = spec.outputs
    if layer.kind == "Input" or not layer.enabled:
        return added
    if not outputs:
        fitting = defaults_for(spec.task, added.analysis.rows[row].output_shape)
        outputs = (OutputSpec(layer=layer.name, loss=fitting.loss, metrics=fitting.metrics),)
    elif row == len(spec.layers) and len(outputs) == 1:
        last = [spec.layers[source].name for source in wire(added.layers)[row].sources]
        outputs = (replace(outputs[0], layer=layer.name),) if outputs[0].layer in last else outputs
    return replace(added, outputs=outputs)


def _ends(spec: NetworkSpec, row: int) -> tuple[str, ...]:
    """Return the names of layers up to `row` with unused outputs; empty if there is only one."""
    wires = zip(spec.layers, wire(spec.layers), strict=True)
    taken = {source for layer, wired in wires if layer.enabled for source in wired.sources}
    ends = [
        layer.name
        for place, layer in enumerate(spec.layers[: row + 1])
        if layer.enabled and place not in taken
    ]
    return tuple(ends) if len(ends) > 1 else ()
