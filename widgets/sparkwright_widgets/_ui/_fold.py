"""A collapsible section."""

from collections.abc import Sequence

import ipywidgets as widgets

from ._controls import Button


class Fold(widgets.VBox):
    """A button with a title that expands and collapses the widgets below it."""

    def __init__(
        self, title: str, inside: Sequence[widgets.Widget], *, opened: bool = False
    ) -> None:
        self._title = title
        self.button = Button()
        self.button.add_class("sparkwright-fold")
        self.box = widgets.VBox(list(inside))
        self.button.on_click(lambda _button: self.set_opened(not self.opened))
        super().__init__([self.button, self.box])
        self.set_opened(opened)

    @property
    def opened(self) -> bool:
        return self.box.layout.display != "none"

    def set_title(self, title: str) -> None:
        self._title = title
        self._show_title()

    def set_opened(self, opened: bool) -> None:
        self.box.layout.display = None if opened else "none"
        self._show_title()

    def _show_title(self) -> None:
        opened = self.opened
        self.button.description = f"{'▾' if opened else '▸'} {self._title}"
        self.button.tooltip = f"{'Hide' if opened else 'Show'}: {self._title}"
