"""One step of the workbench: a heading that opens it, a line that sums it up, and its part."""

from collections.abc import Callable
from typing import Generic, Literal, TypeVar

import ipywidgets as widgets

from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button

SectionState = Literal["todo", "ok", "problem", "running"]
PartType = TypeVar("PartType", bound=widgets.Widget)

_WORDS: dict[SectionState, tuple[str, str]] = {
    "todo": ("○", "to do"),
    "ok": ("✓", "ready"),
    "problem": ("✕", "problem"),
    "running": ("▶", "running"),
}


class Section(widgets.VBox, Generic[PartType]):
    """A step that can be opened; its part is made when it is first needed.

    A part has hundreds of widgets: making all of them at once would keep a slow browser busy for
    seconds.

    Args:
        number: of the step, from 1.
        title: a word or two.
        make: makes the part.
    """

    def __init__(self, number: int, title: str, make: Callable[[], PartType]) -> None:
        self._number, self._title, self._make = number, title, make
        self._part: PartType | None = None
        self.button = Button()
        self.button.add_class("sparkwright-section-button")
        self.summary = widgets.HTML()
        self.body = widgets.VBox()
        head = widgets.HBox([self.button, self.summary], layout={"flex_flow": "row wrap"})
        head.add_class("sparkwright-section-head")
        super().__init__([head, self.body])
        self.add_class("sparkwright-section")
        self.set_opened(False)

    @property
    def title(self) -> str:
        """A word or two."""
        return self._title

    @property
    def made(self) -> PartType | None:
        """The part; None if it was not needed yet."""
        return self._part

    @property
    def part(self) -> PartType:
        """The part, made now if need be."""
        if self._part is None:
            self._part = self._make()
            self.body.children = (self._part,)
        return self._part

    @property
    def opened(self) -> bool:
        """Whether the part is shown."""
        return self.body.layout.display != "none"

    def set_opened(self, opened: bool) -> None:
        """Show or hide the part."""
        if opened:
            _ = self.part
        self.body.layout.display = None if opened else "none"
        self.button.description = f"{'▾' if opened else '▸'} {self._number} {self._title}"
        self.button.tooltip = f"{'Hide' if opened else 'Show'} {self._title}"

    def sum_up(self, state: SectionState, text: str) -> None:
        """Show where the step stands, in one line."""
        icon, word = _WORDS[state]
        self.summary.value = (
            f'<div class="sparkwright-section-summary sparkwright-is-{state}">'
            f'<span aria-hidden="true">{icon}</span> '
            f'<span class="sparkwright-word">{word}:</span> {escaped(text)}</div>'
        )
