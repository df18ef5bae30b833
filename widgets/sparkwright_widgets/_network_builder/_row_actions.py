"""What a person does with rows, as functions of the builder's state. Pure."""

from dataclasses import replace
from typing import Any

from sparkwright.networks import LAYER_KINDS, LayerSpec, NetworkSpec

from ._builder_state import BuilderState, changed
from ._training_choices import usual_output


def added(state: BuilderState, kind: str, **options: Any) -> BuilderState:
    """A new layer below the row in hand, or at the end; it becomes the row in hand.

    Args:
        state: before.
        kind: of the layer.
        options: that are not to be as usual.
    """
    spec = state.spec
    row = len(spec.layers) if state.selected is None else state.selected + 1
    known = LAYER_KINDS.get(kind)
    usual = {name: known.defaults[name] for name in known.required} if known else {}
    layer = LayerSpec(kind=kind, name=_new_name(spec, kind), options={**usual, **options})
    layers = (*spec.layers[:row], layer, *spec.layers[row:])
    with_it = _with_last_as_output(spec, replace(spec, layers=layers))
    return changed(state, with_it, f"add {layer.name}", selected=row)


def removed(state: BuilderState) -> BuilderState:
    """Without the row in hand; those that took its layer take what it took."""
    if state.selected is None:
        return state
    spec, layer = state.spec, state.spec.layers[state.selected]
    passed = layer.inputs[:1]
    layers = tuple(
        replace(other, inputs=tuple(dict.fromkeys(_replaced(other.inputs, layer.name, passed))))
        for other in spec.layers
        if other is not layer
    )
    without = replace(spec, layers=layers)
    kept = tuple(output for output in spec.outputs if output.layer != layer.name)
    if len(spec.outputs) > 1:
        without = replace(without, outputs=kept)
    return changed(state, _with_last_as_output(spec, without), f"delete {layer.name}")


def moved(state: BuilderState, by: int) -> BuilderState:
    """The row in hand one up (-1) or down (1); the same at the end of the list."""
    row = state.selected
    if row is None or not 0 <= row + by < len(state.spec.layers):
        return state
    layers = list(state.spec.layers)
    layer = layers.pop(row)
    layers.insert(row + by, layer)
    return changed(
        state, replace(state.spec, layers=tuple(layers)), f"move {layer.name}", selected=row + by
    )


def duplicated(state: BuilderState) -> BuilderState:
    """A copy of the row in hand below it."""
    if state.selected is None:
        return state
    spec, layer = state.spec, state.spec.layers[state.selected]
    row = state.selected + 1
    copy = replace(layer, name=_new_name(spec, layer.kind))
    layers = (*spec.layers[:row], copy, *spec.layers[row:])
    with_it = _with_last_as_output(spec, replace(spec, layers=layers))
    return changed(state, with_it, f"duplicate {layer.name}", selected=row)


def switched(state: BuilderState) -> BuilderState:
    """The row in hand off, or on again."""
    if state.selected is None:
        return state
    layer = state.spec.layers[state.selected]
    what = f"switch {layer.name} {'off' if layer.enabled else 'on'}"
    return _with_layer(state, replace(layer, enabled=not layer.enabled), what)


def with_options(state: BuilderState, options: dict[str, Any], typed: str) -> BuilderState:
    """Other options of the row in hand; `typed` is the one that was typed into."""
    if state.selected is None:
        return state
    layer = state.spec.layers[state.selected]
    what = f"set {typed} of {layer.name}"
    return _with_layer(state, replace(layer, options=options), what, typing=f"{layer.name} {typed}")


def with_inputs(state: BuilderState, inputs: tuple[str, ...]) -> BuilderState:
    """Other inputs of the row in hand."""
    if state.selected is None:
        return state
    layer = state.spec.layers[state.selected]
    return _with_layer(state, replace(layer, inputs=inputs), f"set the inputs of {layer.name}")


def renamed(state: BuilderState, name: str) -> BuilderState:
    """Another name of the row in hand, also where others mention it."""
    if state.selected is None:
        return state
    old = state.spec.layers[state.selected].name
    layers = tuple(
        replace(
            layer,
            name=name if row == state.selected else layer.name,
            inputs=_replaced(layer.inputs, old, (name,)),
        )
        for row, layer in enumerate(state.spec.layers)
    )
    outputs = tuple(
        replace(output, layer=name) if output.layer == old else output
        for output in state.spec.outputs
    )
    spec = replace(state.spec, layers=layers, outputs=outputs)
    return changed(state, spec, f"rename {old}", typing=f"name of row {state.selected}")


def _with_layer(
    state: BuilderState, layer: LayerSpec, what: str, *, typing: str = ""
) -> BuilderState:
    layers = tuple(
        layer if row == state.selected else other for row, other in enumerate(state.spec.layers)
    )
    return changed(state, replace(state.spec, layers=layers), what, typing=typing)


def _with_last_as_output(before: NetworkSpec, after: NetworkSpec) -> NetworkSpec:
    """While the last layer is the one output, the layer that comes to be last becomes it."""
    was, now = _last(before), _last(after)
    follows = not before.outputs or (
        len(before.outputs) == 1 and (was is None or before.outputs[0].layer == was.name)
    )
    if not follows:
        return after
    if now is None or now.kind == "Input":
        return replace(after, outputs=())
    if after.outputs:
        return replace(after, outputs=(replace(after.outputs[0], layer=now.name),))
    return replace(after, outputs=(usual_output(after.task, now.name, None),))


def _last(spec: NetworkSpec) -> LayerSpec | None:
    return next((layer for layer in reversed(spec.layers) if layer.enabled), None)


def _replaced(names: tuple[str, ...], old: str, new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for name in names for each in (new if name == old else (name,)))


def _new_name(spec: NetworkSpec, kind: str) -> str:
    taken = {layer.name for layer in spec.layers}
    stem = kind.lower()
    return next(name for n in range(1, len(taken) + 2) if (name := f"{stem}_{n}") not in taken)
