"""A value as YAML or JSON text: shown, edited, applied."""

from collections.abc import Callable

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError

from ._controls import Button, Dropdown, Textarea
from ._forms import alert
from ._part import row


class TextEditor(widgets.VBox):
    """Shows a value as text, and applies edited text.

    Args:
        description: label of the text.
        write: returns the text of the value in a form, "yaml" or "json".
        apply: takes over edited text in that form; returns whether it did. What it raises is
            shown.
        awake: whether text is written before `refresh` is called first; default True.
    """

    def __init__(
        self,
        description: str,
        write: Callable[[str], str],
        apply: Callable[[str, str], bool],
        *,
        awake: bool = True,
    ) -> None:
        self._write, self._apply, self._awake = write, apply, awake
        self.written = ""
        self.form = Dropdown(
            options=[("YAML", "yaml"), ("JSON", "json")], value="yaml", description="Written as"
        )
        self.text = Textarea(description=description, rows=14, layout={"width": "100%"})
        self.text.add_class("sparkwright-code")
        self.alert = widgets.HTML()
        self.apply_button = Button(
            description="Apply", icon="check", tooltip="Read the text and take it over"
        )
        self.drop_button = Button(
            description="Show anew", icon="refresh", tooltip="Drop what was typed here"
        )
        self.form.observe(lambda _change: self.follow(), "value")
        self.apply_button.on_click(lambda _button: self.apply())
        self.drop_button.on_click(lambda _button: self.refresh())
        super().__init__(
            [row(self.form), self.text, self.alert, row(self.apply_button, self.drop_button)]
        )
        self.follow()

    @property
    def is_edited(self) -> bool:
        """Whether the text has been changed and was not applied yet."""
        return self.text.value != self.written

    def follow(self) -> None:
        """Show the value as it is, unless the text is being edited."""
        if self._awake and not self.is_edited:
            self.refresh()

    def refresh(self) -> None:
        """Show the value as it is; what was typed and not applied is dropped."""
        self._awake = True
        text = self._write(str(self.form.value))
        if text != self.written or self.is_edited:
            self.written = text
            self.text.value = text
        self.alert.value = ""

    def apply(self) -> None:
        """Take over the text; if it is invalid, show the problem and change nothing."""
        try:
            applied = self._apply(self.text.value, str(self.form.value))
        except ConfigurationError as error:
            self.alert.value = alert(f"{error} Nothing has changed.")
            return
        if applied:
            self.refresh()
