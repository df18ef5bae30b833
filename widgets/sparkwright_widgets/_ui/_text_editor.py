"""Show, edit, apply and download a value as text."""

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright_widgets._format import escaped

from ._controls import Button, Dropdown, Textarea
from ._forms import alert
from ._part import row

FORMS = (("YAML", "yaml"), ("JSON", "json"))


class TextEditor(widgets.VBox):
    """An editor of a value as text."""

    def __init__(
        self,
        description: str,
        write: Callable[[str], str],
        apply: Callable[[str, str], bool],  # returns whether it did; ConfigurationErrors are shown
        *,
        forms: Sequence[tuple[str, str]] = FORMS,
        title: Callable[[], str] | None = None,
    ) -> None:
        self._write, self._apply, self._title = write, apply, title
        self.written = ""
        self.form = Dropdown(options=list(forms), description="Format")
        self.text = Textarea(description=description, rows=14, layout={"width": "100%"})
        self.text.add_class("sparkwright-code")
        self.link, self.alert = widgets.HTML(), widgets.HTML()
        self.apply_button = Button(description="Apply", icon="check", tooltip="Apply the text")
        self.drop_button = Button(
            description="Discard edits", icon="refresh", tooltip="Show the current value"
        )
        self.form.observe(lambda _change: self.follow(), "value")
        self.apply_button.on_click(lambda _button: self.apply())
        self.drop_button.on_click(lambda _button: self.refresh())
        buttons = row(self.apply_button, self.drop_button)
        super().__init__([row(self.form, self.link), self.text, self.alert, buttons])

    @property
    def is_edited(self) -> bool:
        """Whether the text has unapplied edits."""
        return self.text.value != self.written

    def follow(self) -> None:
        """Show the current value, unless the text is being edited."""
        if not self.is_edited:
            self.refresh()

    def refresh(self) -> None:
        """Show the current value, and discard unapplied edits."""
        form, text, problem = str(self.form.value), "", ""
        try:
            text = self._write(form)
        except ConfigurationError as error:
            problem = str(error)
        if text != self.written or self.is_edited:
            self.written = self.text.value = text
        if self._title is not None:
            self.link.value = download_link(self._title(), form, text) if text else ""
        self.alert.value = alert(problem)

    def apply(self) -> None:
        """Apply the text; if it is invalid, show the problem and change nothing."""
        try:
            applied = self._apply(self.text.value, str(self.form.value))
        except ConfigurationError as error:
            self.alert.value = alert(f"{error} The value is unchanged.")
            return
        if applied:
            self.refresh()


def download_link(title: str, suffix: str, text: str) -> str:
    """Return a link that saves `text` as a file; it contains the text and needs no server."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", title).strip("_") or "file"
    file = escaped(f"{stem}.{suffix}")
    return (
        f'<a class="sparkwright-download" download="{file}" '
        f'href="data:text/plain;charset=utf-8,{quote(text)}">Download {file}</a>'
    )
