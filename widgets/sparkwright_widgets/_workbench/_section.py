"""One step of the workbench: a heading with its state, and its widget."""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import ipywidgets as widgets

from sparkwright_widgets._format import escaped

SectionState = Literal["todo", "ok", "problem", "running"]
PartType = TypeVar("PartType", bound=widgets.Widget)

_WORDS: dict[SectionState, tuple[str, str]] = {
    "todo": ("○", "to do"),
    "ok": ("✓", "ready"),
    "problem": ("✕", "problem"),
    "running": ("▶", "running"),
}


class Section(widgets.VBox, Generic[PartType]):
    """A step with its state in one line; its part is created on first use."""

    # A part has hundreds of widgets: creating all of them would block a slow browser for seconds.

    def __init__(self, name: str, title: str, make: Callable[[], PartType]) -> None:
        self.name, self.title, self._make = name, title, make
        self.state: SectionState = "todo"
        self.text = ""
        self._part: PartType | None = None
        self.summary = widgets.HTML()
        super().__init__([self.summary])
        self.add_class("sparkwright-section")
        self.set_opened(False)

    @property
    def made(self) -> PartType | None:
        """The part; None if it is not created yet."""
        return self._part

    @property
    def part(self) -> PartType:
        """The part, created on first access."""
        if self._part is None:
            self._part = self._make()
            self.children = (self.summary, self._part)
        return self._part

    @property
    def opened(self) -> bool:
        return self.layout.display != "none"

    def set_opened(self, opened: bool) -> None:
        """Show or hide the step; the workbench shows one at a time."""
        if opened:
            _ = self.part
        self.layout.display = None if opened else "none"

    def sum_up(self, state: SectionState, text: str) -> None:
        """Show the state of the step in one line."""
        self.state, self.text = state, text
        icon, word = _WORDS[state]
        self.summary.value = (
            '<div class="sparkwright-section-head">'
            f'<h3 class="sparkwright-section-title">{escaped(self.title)}</h3>'
            f'<div class="sparkwright-section-summary sparkwright-is-{state}">'
            f'<span aria-hidden="true">{icon}</span> '
            f'<span class="sparkwright-word">{word}:</span> {escaped(text)}</div></div>'
        )

    def entry(self) -> dict[str, Any]:
        icon, word = _WORDS[self.state]
        return {
            **{"name": self.name, "title": self.title, "state": self.state},
            **{"icon": icon, "word": word, "text": self.text},
        }
