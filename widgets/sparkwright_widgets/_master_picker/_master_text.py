"""A training master as text: to read, to keep, and to bring in."""

import json
from collections.abc import Callable

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    TrainingMaster,
    training_master_from_json,
    training_master_from_yaml,
)
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, Dropdown, Textarea, row


def read_master(text: str, *, form: str) -> TrainingMaster:
    """The master that a text describes.

    Args:
        text: as `to_json` or `to_yaml` gives it.
        form: "json" or "yaml".

    Raises:
        ConfigurationError: if it is no such text, or holds options that cannot be meant.
    """
    import yaml

    try:
        if form == "json":
            return training_master_from_json(text)
        return training_master_from_yaml(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"the text must be JSON. Received: {error.msg} in line {error.lineno}."
        ) from None
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", 0) + 1
        raise ConfigurationError(
            f"the text must be YAML. Received: {getattr(error, 'problem', None) or 'other text'} "
            f"in line {line}."
        ) from None


class MasterText(widgets.VBox):
    """Shows a master as YAML or JSON, and takes one over.

    Args:
        take: called with the master that somebody wrote.
    """

    def __init__(self, take: Callable[[TrainingMaster], None]) -> None:
        self._take = take
        self._master: TrainingMaster | None = None
        self._own = ""  # the text that this wrote
        self._awake = False
        self.form = Dropdown(
            options=[("YAML", "yaml"), ("JSON", "json")],
            value="yaml",
            description="Written as",
            style={"description_width": "initial"},
        )
        self.text = Textarea(
            description="Training master",
            rows=14,
            style={"description_width": "initial"},
        )
        self.text.add_class("sparkwright-code")
        self.take_over = Button(
            description="Take over this text", tooltip="Read the text and show it in the form"
        )
        self.alert = widgets.HTML()
        self.drop = Button(
            description="Show the form's text again", tooltip="Drop what was written here"
        )
        self.form.observe(lambda _change: self._write(), "value")
        self.text.observe(lambda _change: self._offer(), "value")
        self.take_over.on_click(lambda _button: self._taken())
        self.drop.on_click(lambda _button: self._dropped())
        super().__init__([row(self.form), self.text, self.alert, row(self.take_over, self.drop)])
        self._offer()

    @property
    def is_edited(self) -> bool:
        """Whether the text is a person's own, not yet taken over."""
        return self.text.value != self._own

    def wake(self) -> None:
        """Begin to write; nothing is written before somebody looks."""
        self._awake = True
        self._write()

    def show(self, master: TrainingMaster) -> None:
        """Write another master, unless there is a person's text."""
        self._master = master
        self._write()

    def _write(self) -> None:
        if self._master is None or not self._awake or self.is_edited:
            return
        self._own = self._master.to_json() if self.form.value == "json" else self._master.to_yaml()
        self.text.value = self._own
        self._say("")

    def _dropped(self) -> None:
        self._own = self.text.value
        self._write()
        self._offer()

    def _offer(self) -> None:
        self.drop.layout.display = None if self.is_edited else "none"

    def _taken(self) -> None:
        try:
            master = read_master(self.text.value, form=str(self.form.value))
        except ConfigurationError as error:
            self._say(f"{error} The form is as it was.")
            return
        self._own = self.text.value
        self._take(master)
        self._say("")
        self._offer()

    def _say(self, sentence: str) -> None:
        self.alert.value = (
            '<div class="sparkwright-problem" role="alert"><span aria-hidden="true">✕</span> '
            f"{escaped(sentence)}</div>"
            if sentence
            else ""
        )
