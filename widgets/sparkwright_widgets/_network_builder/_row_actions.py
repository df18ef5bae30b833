"""What a person does with rows, as functions of the builder's state. Pure."""

from dataclasses import replace
from typing import Any

from sparkwright.networks import (
    LayerSpec,
    add_layer,
    duplicate_layer,
    move_layer,
    remove_layer,
    rename_layer,
    replace_layer,
    switch_layer,
)

from ._builder_state import BuilderState, changed


def added(state: BuilderState, kind: str, **options: Any) -> BuilderState:
    """A new layer below the row in hand, or at the end; it becomes the row in hand.

    Args:
        state: before.
        kind: of the layer.
        options: that are not to be as usual.
    """
    after = len(state.spec.layers) - 1 if state.selected is None else state.selected
    spec = add_layer(state.spec, kind, after=after, options=options)
    return changed(state, spec, f"add {spec.layers[after + 1].name}", selected=after + 1)


def removed(state: BuilderState) -> BuilderState:
    """Without the row in hand; those that took its layer take what it took."""
    if state.selected is None:
        return state
    return changed(state, remove_layer(state.spec, state.selected), f"delete {_name(state)}")


def moved(state: BuilderState, by: int) -> BuilderState:
    """The row in hand one up (-1) or down (1); the same at the end of the list."""
    row = state.selected
    if row is None or not 0 <= row + by < len(state.spec.layers):
        return state
    spec = move_layer(state.spec, row, by)
    return changed(state, spec, f"move {_name(state)}", selected=row + by)


def duplicated(state: BuilderState) -> BuilderState:
    """A copy of the row in hand below it; the copy becomes the row in hand."""
    row = state.selected
    if row is None:
        return state
    what = f"duplicate {_name(state)}"
    return changed(state, duplicate_layer(state.spec, row), what, selected=row + 1)


def switched(state: BuilderState) -> BuilderState:
    """The row in hand off, or on again."""
    if state.selected is None:
        return state
    is_on = state.spec.layers[state.selected].enabled
    what = f"switch {_name(state)} {'off' if is_on else 'on'}"
    return changed(state, switch_layer(state.spec, state.selected), what)


def with_options(state: BuilderState, options: dict[str, Any], typed: str) -> BuilderState:
    """Other options of the row in hand; `typed` is the one that was typed into."""
    if state.selected is None:
        return state
    layer = replace(state.spec.layers[state.selected], options=options)
    what = f"set {typed} of {layer.name}"
    return _with_layer(state, layer, what, typing=f"{layer.name} {typed}")


def with_inputs(state: BuilderState, inputs: tuple[str, ...]) -> BuilderState:
    """Other inputs of the row in hand."""
    if state.selected is None:
        return state
    layer = replace(state.spec.layers[state.selected], inputs=inputs)
    return _with_layer(state, layer, f"set the inputs of {layer.name}")


def renamed(state: BuilderState, name: str) -> BuilderState:
    """Another name of the row in hand, also where others mention it.

    Raises:
        ConfigurationError: if the name is taken or none at all.
    """
    if state.selected is None:
        return state
    spec = rename_layer(state.spec, state.selected, name)
    typing = f"name of row {state.selected}"
    return changed(state, spec, f"rename {_name(state)}", typing=typing)


def _with_layer(
    state: BuilderState, layer: LayerSpec, what: str, *, typing: str = ""
) -> BuilderState:
    row = state.selected or 0
    return changed(state, replace_layer(state.spec, row, layer), what, typing=typing)


def _name(state: BuilderState) -> str:
    return state.spec.layers[state.selected or 0].name
