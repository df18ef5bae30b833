"""Changes to a network, each of which gives a new one: names stay unique, references right."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sparkwright.errors import ConfigurationError

from ._calls import known_kind
from ._wiring import free_name, name_for, names_before, wire
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
    """Put in a new layer.

    An output that was the end of the network moves on to a layer added there; the first layer that
    is not an Input becomes the output of a network that has none.

    Args:
        spec: the network.
        kind: the layer's class.
        after: the row after which it comes; -1: before all others; default: the last one.
        name: default: made of the kind.
        options: default: what forms begin with.
        inputs: default: the layer before it; for merging layers those whose outputs nobody takes.

    Raises:
        ConfigurationError: if the kind or the row does not exist, or the name is taken.

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
    taken = [layer.name for layer in spec.layers]
    if name in taken:
        raise ConfigurationError(f"`name` must be new in the network. Received: name={name!r}.")
    layer = LayerSpec(
        kind=kind,
        name=name or name_for(kind, taken),
        options={**known.starts, **(options or {})},
        inputs=tuple(_ends(spec, row) if inputs is None else inputs)
        if known.takes == "several" or inputs is not None
        else (),
    )
    return _put_in(spec, layer, row + 1)


def duplicate_layer(spec: NetworkSpec, index: int) -> NetworkSpec:
    """Put a copy of a layer after it, under a new name; the copy takes the original's output.

    A copy of a layer that merges several takes the same ones.
    """
    layer = _layer(spec, index)
    several = layer_kind(layer.kind)
    inputs = layer.inputs if several is not None and several.takes == "several" else ()
    name = free_name(layer.name, [other.name for other in spec.layers])
    return _put_in(spec, replace(layer, name=name, inputs=inputs), index + 1)


def replace_layer(spec: NetworkSpec, index: int, layer: LayerSpec) -> NetworkSpec:
    """Put `layer` in the place of another; if its name is new, references follow it.

    Raises:
        ConfigurationError: if another layer has its name.
    """
    before = _layer(spec, index)
    if layer.name != before.name:
        spec = rename_layer(spec, index, layer.name)
        layer = replace(
            layer, inputs=tuple(layer.name if n == before.name else n for n in layer.inputs)
        )
    return replace(spec, layers=_with(spec.layers, index, layer))


def rename_layer(spec: NetworkSpec, index: int, name: str) -> NetworkSpec:
    """Give a layer another name; those that take it, and outputs, follow.

    Raises:
        ConfigurationError: if another layer has that name.
    """
    old = _layer(spec, index).name
    if any(layer.name == name for row, layer in enumerate(spec.layers) if row != index):
        raise ConfigurationError(f"`name` must be new in the network. Received: name={name!r}.")
    renamed = tuple(
        replace(
            layer,
            name=name if row == index else layer.name,
            inputs=tuple(name if other == old else other for other in layer.inputs),
        )
        for row, layer in enumerate(spec.layers)
    )
    outputs = tuple(
        replace(output, layer=name) if output.layer == old else output for output in spec.outputs
    )
    return replace(spec, layers=renamed, outputs=outputs)


def move_layer(spec: NetworkSpec, index: int, by: int) -> NetworkSpec:
    """Move a layer down by `by` rows, or up if negative; at an end it stays there.

    Its explicit inputs stay; the analysis says if one of them then comes later.
    """
    layers = list(spec.layers)
    layer = _layer(spec, index)
    del layers[index]
    layers.insert(max(0, index + by), layer)
    return replace(spec, layers=tuple(layers))


def remove_layer(spec: NetworkSpec, index: int) -> NetworkSpec:
    """Take a layer out; those that took it take what it took first instead, and so do outputs."""
    gone = _layer(spec, index)
    instead = (gone.inputs or tuple(names_before(spec.layers)[index]))[:1]
    if gone.kind == "Input":
        instead = ()
    left = tuple(
        replace(layer, inputs=_pointed(layer.inputs, gone.name, instead))
        for row, layer in enumerate(spec.layers)
        if row != index
    )
    inputs = {layer.name for layer in left if layer.kind == "Input"}
    outputs: list[OutputSpec] = []
    for output in spec.outputs:
        if output.layer != gone.name:
            outputs.append(output)
        elif instead and instead[0] not in inputs | {other.layer for other in spec.outputs}:
            outputs.append(replace(output, layer=instead[0]))
    return replace(spec, layers=left, outputs=tuple(outputs))


def switch_layer(spec: NetworkSpec, index: int, enabled: bool | None = None) -> NetworkSpec:
    """Switch a layer on or off; default: the other way from what it is."""
    layer = _layer(spec, index)
    on = not layer.enabled if enabled is None else enabled
    return replace(spec, layers=_with(spec.layers, index, replace(layer, enabled=on)))


def _layer(spec: NetworkSpec, index: int) -> LayerSpec:
    if not 0 <= index < len(spec.layers):
        raise ConfigurationError(
            f"`index` must be that of a row, from 0 to {len(spec.layers) - 1}. "
            f"Received: index={index!r}."
        )
    return spec.layers[index]


def _with(layers: tuple[LayerSpec, ...], index: int, layer: LayerSpec) -> tuple[LayerSpec, ...]:
    return (*layers[:index], layer, *layers[index + 1 :])


def _put_in(spec: NetworkSpec, layer: LayerSpec, row: int) -> NetworkSpec:
    layers = (*spec.layers[:row], layer, *spec.layers[row:])
    outputs = spec.outputs
    if layer.kind == "Input" or not layer.enabled:
        return replace(spec, layers=layers)
    added = replace(spec, layers=layers)
    if not outputs:
        fitting = defaults_for(spec.task, added.analysis.rows[row].output_shape)
        outputs = (OutputSpec(layer=layer.name, loss=fitting.loss, metrics=fitting.metrics),)
    elif row == len(spec.layers):
        last = {spec.layers[source].name for source in wire(layers)[row].sources}
        if len(outputs) == 1 and outputs[0].layer in last:
            outputs = (replace(outputs[0], layer=layer.name),)
    return replace(added, outputs=outputs)


def _ends(spec: NetworkSpec, row: int) -> tuple[str, ...]:
    """Names of the layers up to `row` whose outputs nobody takes; none if it is a single one."""
    wires = wire(spec.layers)
    taken = {
        source
        for layer, wired in zip(spec.layers, wires, strict=True)
        if layer.enabled
        for source in wired.sources
    }
    ends = [
        layer.name
        for place, layer in enumerate(spec.layers[: row + 1])
        if layer.enabled and place not in taken
    ]
    return tuple(ends) if len(ends) > 1 else ()


def _pointed(inputs: tuple[str, ...], gone: str, instead: tuple[str, ...]) -> tuple[str, ...]:
    if gone not in inputs:
        return inputs
    found = [new for name in inputs for new in (instead if name == gone else (name,))]
    return tuple(dict.fromkeys(found))
