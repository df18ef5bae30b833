"""Changes to a network, each of which gives a new one: names stay unique, references right."""

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
    """Put in a new layer.

    An output that was the end of the network moves on to a layer added there; the first layer that
    is not an Input becomes the output of a network that has none.

    Args:
        spec: the network.
        kind: the layer's class.
        after: the row after which it comes; -1: before all others; default: the last one.
        name: default: made of the kind.
        options: default: what forms begin with.
        inputs: default: the layer before it; for merging layers, those whose outputs are unused.

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
    """Put a copy of a layer after it, under a new name; the copy takes the original's output.

    A copy of a layer that merges several takes the same ones.
    """
    layer = _layer(spec, index)
    kind = layer_kind(layer.kind)
    inputs = layer.inputs if kind is not None and kind.takes[1] != 1 else ()
    name = free_name(layer.name, [other.name for other in spec.layers])
    return _put_in(spec, replace(layer, name=name, inputs=inputs), index + 1)


def replace_layer(spec: NetworkSpec, index: int, layer: LayerSpec) -> NetworkSpec:
    """Put `layer` in the place of another; if its name is new, references follow it.

    Raises:
        ConfigurationError: if another layer has its name.
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


def rename_layer(spec: NetworkSpec, index: int, name: str) -> NetworkSpec:
    """Give a layer another name; those that take it, and outputs, follow.

    Raises:
        ConfigurationError: if another layer has that name.
    """
    return replace_layer(spec, index, replace(_layer(spec, index), name=name))


def switch_layer(spec: NetworkSpec, index: int, enabled: bool | None = None) -> NetworkSpec:
    """Switch a layer on or off; default: the other way from what it is."""
    layer = _layer(spec, index)
    on = not layer.enabled if enabled is None else enabled
    return replace_layer(spec, index, replace(layer, enabled=on))


def move_layer(spec: NetworkSpec, index: int, by: int) -> NetworkSpec:
    """Move a layer down by `by` rows, or up if negative; at an end it stays there.

    Its explicit inputs stay; the analysis says if one of them then comes later.
    """
    layer, layers = _layer(spec, index), list(spec.layers)
    del layers[index]
    layers.insert(max(0, index + by), layer)
    return replace(spec, layers=tuple(layers))


def remove_layer(spec: NetworkSpec, index: int) -> NetworkSpec:
    """Take a layer out; those that took it take what it took first instead, and so do outputs."""
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
            f"`index` must be that of a row, from 0 to {len(spec.layers) - 1}. "
            f"Received: index={index!r}."
        )
    return spec.layers[index]


def _check_new(name: str | None, layers: Sequence[LayerSpec]) -> None:
    if name in [layer.name for layer in layers]:
        raise ConfigurationError(f"`name` must be new in the network. Received: name={name!r}.")


def _repointed(layers: Iterable[LayerSpec], old: str, *new: str) -> tuple[LayerSpec, ...]:
    """The layers, of which those that took `old` take `new` instead."""

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
    """Names of the layers up to `row` whose outputs are unused; empty if there is only one."""
    wires = zip(spec.layers, wire(spec.layers), strict=True)
    taken = {source for layer, wired in wires if layer.enabled for source in wired.sources}
    ends = [
        layer.name
        for place, layer in enumerate(spec.layers[: row + 1])
        if layer.enabled and place not in taken
    ]
    return tuple(ends) if len(ends) > 1 else ()
