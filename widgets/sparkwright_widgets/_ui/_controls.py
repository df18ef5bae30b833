"""ipywidgets controls that work in any open page; see `AnyPageWidget`.

Give each control a `description`: it is the visible label, and read by screen readers.
"""

from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._any_page import AnyPageWidget, Button as Button


class _Labeled(AnyPageWidget):
    """A control whose label is never truncated."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("style", {"description_width": "initial"})
        super().__init__(*arguments, **options)


class Text(_Labeled, widgets.Text):
    """A line of text, updated on each key press."""


class Textarea(_Labeled, widgets.Textarea):
    """Several lines of text."""


class Checkbox(_Labeled, widgets.Checkbox):
    """A yes or no control."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"indent": False, **options})


class Dropdown(_Labeled, widgets.Dropdown):
    """A drop-down selection of one value."""


class ListBox(_Labeled, widgets.Select):
    """A scrollable list with one selected value; arrow and letter keys move the selection."""


class ToggleButtons(_Labeled, widgets.ToggleButtons):
    """A row of buttons, one of which is selected."""
