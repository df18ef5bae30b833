"""A question in view, with a button for each answer: no dialog that hides what it is about."""

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, row


class Confirmation(widgets.VBox):
    """Nothing until it is asked something; then the question, "yes" in words, and "no"."""

    def __init__(self) -> None:
        self._then: Callable[[], Any] | None = None
        self.question = widgets.HTML()
        self.yes_button, self.no_button = Button(button_style="warning"), Button()
        self._answers = row(self.yes_button, self.no_button)
        super().__init__([self.question, self._answers])
        self.clear()

    @property
    def asking(self) -> bool:
        """Whether a question is in view."""
        return self._then is not None

    def ask(self, sentence: str, *, yes: str, no: str, then: Callable[[], Any]) -> None:
        """Put a question; whoever presses `yes` has `take` give `then`."""
        self._then = then
        self.question.value = (
            '<div class="sparkwright-alert sparkwright-is-warning" role="alert">'
            f'<strong><span aria-hidden="true">⚠</span> {escaped(sentence)}</strong></div>'
        )
        self.yes_button.description, self.no_button.description = yes, no
        self.layout.display = None

    def take(self) -> Callable[[], Any] | None:
        """What was to be confirmed, once; the question goes away."""
        then = self._then
        self.clear()
        return then

    def clear(self) -> None:
        """Take the question back."""
        self._then = None
        self.question.value = ""
        self.layout.display = "none"
