"""The network under construction, the selected row, and what can be undone. Pure."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from sparkwright.networks import NetworkSpec

STEPS_KEPT = 100  # that can be undone


class Step(NamedTuple):
    """A change in a few words, and the network and selected row on the other side of it."""

    what: str
    spec: NetworkSpec
    selected: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuilderState:
    """A network under construction; each method returns another state."""

    spec: NetworkSpec = field(default_factory=NetworkSpec)
    selected: int | None = None  # row from 0; None: none
    past: tuple[Step, ...] = ()  # what can be undone, the oldest first
    future: tuple[Step, ...] = ()  # what can be redone, the next one last
    # The field that the last change typed into: what is typed into one field is undone at once.
    typing: str = ""

    def __post_init__(self) -> None:
        """Replace a selected row that does not exist by the nearest one."""
        row, last = self.selected, len(self.spec.layers) - 1
        if row is not None:
            object.__setattr__(self, "selected", min(max(row, 0), last) if last >= 0 else None)

    def selecting(self, row: int | None) -> "BuilderState":
        """Select another row."""
        return replace(self, selected=row, typing="")

    def changed(
        self, spec: NetworkSpec, what: str, *, selected: int | None = None, typing: str = ""
    ) -> "BuilderState":
        """Change the network.

        Args:
            spec: the new network.
            what: the change in a few words.
            selected: the selected row; default: the same.
            typing: the field that was typed into; default: none.
        """
        row = self.selected if selected is None else selected
        if spec == self.spec:
            return replace(self, selected=row)
        past = self.past
        if not (typing and typing == self.typing and past):
            past = (*past, Step(what, self.spec, self.selected))[-STEPS_KEPT:]
        return BuilderState(spec=spec, selected=row, past=past, typing=typing)

    def undone(self) -> "BuilderState":
        """Undo the last step; the same if there is none."""
        if not self.past:
            return self
        what, spec, selected = self.past[-1]
        future = (*self.future, Step(what, self.spec, self.selected))
        return BuilderState(spec=spec, selected=selected, past=self.past[:-1], future=future)

    def redone(self) -> "BuilderState":
        """Redo the step that was undone last; the same if there is none."""
        if not self.future:
            return self
        what, spec, selected = self.future[-1]
        past = (*self.past, Step(what, self.spec, self.selected))
        return BuilderState(spec=spec, selected=selected, past=past, future=self.future[:-1])
