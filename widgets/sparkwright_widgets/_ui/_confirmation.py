"""A confirmation prompt with two buttons."""

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._format import escaped

from ._controls import Button
from ._part import row


class Confirmation(widgets.VBox):
    """Hidden until `ask` is called; then a question with a confirm and a cancel button."""

    def __init__(
        self,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        refused: Callable[[], None],
    ) -> None:
        self._then: Callable[[], Any] | None = None
        self._from: Button | None = None
        self._was_refused = refused
        self.question = widgets.HTML()
        self.yes_button, self.no_button = Button(), Button()
        self.yes_button.add_class("sparkwright-danger")
        self.yes_button.on_click(guarded(self._yes))
        self.no_button.on_click(guarded(self._no))
        super().__init__([self.question, row(self.yes_button, self.no_button)])
        self.add_class("sparkwright-spaced")
        self.clear()

    @property
    def asking(self) -> bool:
        return self._then is not None

    def ask(
        self, sentence: str, *, yes: str, no: str, then: Callable[[], Any], button: Button
    ) -> None:
        """Show a question; call `then` if it is confirmed. `button` gets the focus after it."""
        self._then, self._from = then, button
        self.question.value = (
            '<div class="sparkwright-alert sparkwright-is-warning" role="alert">'
            f'<strong><span aria-hidden="true">⚠</span> {escaped(sentence)}</strong></div>'
        )
        self.yes_button.description, self.no_button.description = yes, no
        self.layout.display = None
        self.no_button.focus()

    def clear(self) -> None:
        self._then = None
        self.question.value = ""
        self.layout.display = "none"

    def _yes(self, _button: Any) -> None:
        then = self._answered()
        if then is not None:
            then()

    def _no(self, _button: Any) -> None:
        if self._answered() is not None:
            self._was_refused()

    def _answered(self) -> Callable[[], Any] | None:
        then = self._then
        self.clear()
        if self._from is not None:
            self._from.focus()
        return then
