"""Controls of ipywidgets that whichever page is open can use; see `HeardFromAnyPage`.

Each needs a `description`: it becomes the label, which screen readers read; it is shown in full.
"""

from typing import Any

import ipywidgets as widgets

from sparkwright_widgets._any_page import Button as Button, HeardFromAnyPage


class _Labelled(HeardFromAnyPage):
    """A control whose label is never cut."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("style", {"description_width": "initial"})
        super().__init__(*arguments, **options)


class Text(_Labelled, widgets.Text):
    """A line of text; its value follows the keys."""


class Textarea(_Labelled, widgets.Textarea):
    """Several lines of text."""


class Checkbox(_Labelled, widgets.Checkbox):
    """Yes or no."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"indent": False, **options})


class Dropdown(_Labelled, widgets.Dropdown):
    """One of several."""


class ListBox(_Labelled, widgets.Select):
    """One of many, several in view; arrow keys move in it, letters jump."""


class ToggleButtons(_Labelled, widgets.ToggleButtons):
    """One of a few, all in view."""


class IntSlider(_Labelled, widgets.IntSlider):
    """A whole number within bounds."""


class FloatSlider(_Labelled, widgets.FloatSlider):
    """A number within bounds."""
