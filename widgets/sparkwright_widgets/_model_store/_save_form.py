"""The fields of a model that is about to be saved."""

from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._ui import Button, Checkbox, Fold, Text, Textarea, row

from ._confirmation import Confirmation
from ._looks import LABELLED, field, hint


class SaveForm(Fold):
    """File name, title, comment, whether the optimizer goes along, where the normalizer goes.

    Args:
        button: saves.
        confirmation: asks before a file is replaced.
    """

    def __init__(self, button: Button, confirmation: Confirmation) -> None:
        self.name_field = Text(value="", placeholder="model", description="File name", **LABELLED)
        self.title_field = Text(value="", description="Title", **LABELLED)
        self.comment_field = Textarea(value="", rows=2, description="Comment", **LABELLED)
        self.updater_field = Checkbox(
            value=True, description="with the optimizer's state, to train on", indent=False
        )
        self.normalizer_field = Checkbox(
            value=True,
            description="normalizer inside the model, so that Keras alone is right on raw data",
            indent=False,
        )
        self.normalizer_field.layout.display = "none"
        self.hint, self.outcome = widgets.HTML(), widgets.HTML()
        names = widgets.Box([field(self.name_field), field(self.title_field)])
        names.add_class("sparkwright-grid")
        comment = field(self.comment_field, wide=True)
        inside = [
            names,
            comment,
            row(button, self.updater_field, self.normalizer_field),
            self.hint,
            confirmation,
            self.outcome,
        ]
        super().__init__("Save the network", inside, opened=True)
        self.box.add_class("sparkwright-spaced")

    @property
    def settings(self) -> dict[str, Any]:
        """What goes into the file beside the model."""
        found: dict[str, Any] = {
            "save_updater": self.updater_field.value,
            "title": self.title_field.value.strip() or None,
            "comment": self.comment_field.value.strip() or None,
        }
        if self.normalizer_field.layout.display is None:
            found["normalizer"] = "inside" if self.normalizer_field.value else "beside"
        return found

    def tell(self, sentence: str, *, normalizes: bool) -> None:
        """Say what goes into the file, or why there is nothing to save.

        Args:
            sentence: that is said.
            normalizes: whether the network has a normalizer, so that its place can be chosen.
        """
        self.normalizer_field.layout.display = None if normalizes else "none"
        self.hint.value = hint(sentence)
