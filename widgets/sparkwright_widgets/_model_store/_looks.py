"""How the fields of the store look: a label above each."""

from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._format import escaped

LABELLED: dict[str, Any] = {"style": {"description_width": "initial"}}


def field(control: widgets.Widget, *, wide: bool = False) -> widgets.VBox:
    """A control with its label above; `wide`: as wide as there is room."""
    box = widgets.VBox([control])
    box.add_class("sparkwright-field")
    if wide:
        box.add_class("sparkwright-wide")
    return box


def hint(sentence: str) -> str:
    """A line in small letters; nothing for an empty sentence."""
    return f'<div class="sparkwright-hint">{escaped(sentence)}</div>' if sentence else ""
