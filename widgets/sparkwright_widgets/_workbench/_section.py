"""The steps of the workbench: their headings, states and widgets, and the list of them."""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import anywidget
import ipywidgets as widgets
import traitlets

from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset
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


class Rail(AnyPageWidget, anywidget.AnyWidget):
    """The steps with their states, drawn by `static/rail.mjs`; a click calls `opened(name)`."""

    # Text, not a path: anywidget would watch a path for changes.
    _esm = asset("rail.mjs")

    steps = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    here = traitlets.Unicode("").tag(sync=True, echo_update=False)

    def __init__(self, opened: Callable[[str], None]) -> None:
        super().__init__()
        self._opened = opened
        self.add_class("sparkwright-rail")
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        name = content.get("open") if isinstance(content, dict) else None
        if name in {step["name"] for step in self.steps}:
            self._opened(str(name))
