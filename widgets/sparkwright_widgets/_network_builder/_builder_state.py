"""The edited network, the selected row and the undo history. Pure."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparkwright.networks import NetworkSpec

STEPS_KEPT = 100  # in the undo history


class Step(NamedTuple):
    """A description of a change, and the network and selected row to restore."""

    what: str
    spec: NetworkSpec
    selected: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuilderState:
    """An immutable state of the builder; each method returns a new state."""

    spec: NetworkSpec = field(default_factory=NetworkSpec)
    selected: int | None = None  # index of the row; None: no selection
    past: tuple[Step, ...] = ()  # undo steps, the oldest first
    future: tuple[Step, ...] = ()  # redo steps, the next one last
    # The field of the last change; consecutive edits of one field are one undo step.
    typing: str = ""

    def __post_init__(self) -> None:
        """Clamp the selected row to the existing rows."""
        row, last = self.selected, len(self.spec.layers) - 1
        if row is not None:
            object.__setattr__(self, "selected", min(max(row, 0), last) if last >= 0 else None)

    def selecting(self, row: int | None) -> "BuilderState":
        return replace(self, selected=row, typing="")

    def changed(
        self, spec: NetworkSpec, what: str, *, selected: int | None = None, typing: str = ""
    ) -> "BuilderState":
        """Change the network; consecutive changes by `typing` in one field are one step."""
        row = self.selected if selected is None else selected
        if spec == self.spec:
            return replace(self, selected=row)
        past = self.past
        if not (typing and typing == self.typing and past):
            past = (*past, Step(what, self.spec, self.selected))[-STEPS_KEPT:]
        return BuilderState(spec=spec, selected=row, past=past, typing=typing)

    def undone(self) -> "BuilderState":
        """Undo the last step, if any."""
        if not self.past:
            return self
        what, spec, selected = self.past[-1]
        future = (*self.future, Step(what, self.spec, self.selected))
        return BuilderState(spec=spec, selected=selected, past=self.past[:-1], future=future)

    def redone(self) -> "BuilderState":
        """Redo the most recently undone step, if any."""
        if not self.future:
            return self
        what, spec, selected = self.future[-1]
        past = (*self.past, Step(what, self.spec, self.selected))
        return BuilderState(spec=spec, selected=selected, past=past, future=self.future[:-1])
