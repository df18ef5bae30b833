"""What the builder holds: a network, the row in hand, and the way back and forth. Pure."""

from dataclasses import dataclass, field, replace

from sparkwright.networks import NetworkSpec

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
