"""Controls of ipywidgets that whichever page is open can use; see `AnyPageWidget`.

Each needs a `description`: it becomes the label, which screen readers read; it is shown in full.
"""

from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._any_page import AnyPageWidget, Button as Button


class _Labeled(AnyPageWidget):
    """A control whose label is never cut."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("style", {"description_width": "initial"})
        super().__init__(*arguments, **options)


class Text(_Labeled, widgets.Text):
    """A line of text; its value follows the keys."""


class Textarea(_Labeled, widgets.Textarea):
    """Several lines of text."""


class Checkbox(_Labeled, widgets.Checkbox):
    """Yes or no."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"indent": False, **options})


class Dropdown(_Labeled, widgets.Dropdown):
    """One of several."""


class ListBox(_Labeled, widgets.Select):
    """One of many, several in view; arrow keys move in it, letters jump."""


class ToggleButtons(_Labeled, widgets.ToggleButtons):
    """One of a few, all in view."""
