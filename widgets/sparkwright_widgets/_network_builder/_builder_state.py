"""What the builder holds, and what a person does with rows, as functions of it. Pure."""

from dataclasses import dataclass, field, replace
from typing import Any

from sparkwright.networks import (
    LayerSpec,
    NetworkSpec,
    add_layer,
    duplicate_layer,
    move_layer,
    remove_layer,
    rename_layer,
    replace_layer,
    switch_layer,
)

STEPS_KEPT = 100  # that can be undone


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A network as it was, and what was done to it next.

    Attributes:
        what: a few words, such as "delete conv_2".
        spec: before that was done; among the steps to redo, after it.
        selected: the row in hand then.
    """

    what: str
    spec: NetworkSpec
    selected: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuilderState:
    """A network under construction.

    Attributes:
        spec: the network.
        selected: the row in hand, from 0; None: none.
        past: what can be undone, the oldest first; at most `STEPS_KEPT`.
        future: what can be redone, the next one last.
        typing: the field that the last change typed into; what is typed into one field without
            doing anything else is undone in one step.

    Example:
        >>> state = BuilderState(spec=NetworkSpec())
        >>> renamed = changed(state, NetworkSpec(name="mine"), "name the network")
        >>> undone(renamed).spec == state.spec
        True
    """

    spec: NetworkSpec = field(default_factory=NetworkSpec)
    selected: int | None = None
    past: tuple[Step, ...] = ()
    future: tuple[Step, ...] = ()
    typing: str = ""

    @property
    def undoes(self) -> str:
        """What `undone` takes back; empty: nothing."""
        return self.past[-1].what if self.past else ""

    @property
    def redoes(self) -> str:
        """What `redone` does again; empty: nothing."""
        return self.future[-1].what if self.future else ""


def selecting(state: BuilderState, row: int | None) -> BuilderState:
    """Take another row in hand; a row that does not exist becomes the nearest one."""
    return replace(state, selected=_within(state.spec, row), typing="")


def changed(
    state: BuilderState,
    spec: NetworkSpec,
    what: str,
    *,
    selected: int | None = None,
    typing: str = "",
) -> BuilderState:
    """The network has become `spec`; that can be undone.

    Args:
        state: before.
        spec: the network from now on.
        what: was done, in a few words.
        selected: the row in hand from now on; default: the same.
        typing: the field that was typed into; default: none.
    """
    row = _within(spec, state.selected if selected is None else selected)
    if spec == state.spec:
        return replace(state, selected=row)
    goes_on = bool(typing) and typing == state.typing and bool(state.past)
    past = state.past
    if not goes_on:
        past = (*past, Step(what=what, spec=state.spec, selected=state.selected))[-STEPS_KEPT:]
    return BuilderState(spec=spec, selected=row, past=past, typing=typing)


def undone(state: BuilderState) -> BuilderState:
    """One step back; the same if there is none."""
    if not state.past:
        return state
    step = state.past[-1]
    ahead = Step(what=step.what, spec=state.spec, selected=state.selected)
    return BuilderState(
        spec=step.spec,
        selected=_within(step.spec, step.selected),
        past=state.past[:-1],
        future=(*state.future, ahead),
    )


def redone(state: BuilderState) -> BuilderState:
    """One step forth again; the same if there is none."""
    if not state.future:
        return state
    step = state.future[-1]
    behind = Step(what=step.what, spec=state.spec, selected=state.selected)
    return BuilderState(
        spec=step.spec,
        selected=_within(step.spec, step.selected),
        past=(*state.past, behind),
        future=state.future[:-1],
    )


def _within(spec: NetworkSpec, row: int | None) -> int | None:
    if row is None or not spec.layers:
        return None
    return min(max(row, 0), len(spec.layers) - 1)


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
