"""Controls of ipywidgets that whichever page is open can use; see `HeardFromAnyPage`.

Every one of them needs a `description`: it becomes the label, which screen readers tell.
"""

import ipywidgets as widgets

from sparkwright_widgets._any_page import Button as Button, HeardFromAnyPage


class Text(HeardFromAnyPage, widgets.Text):
    """A line of text; its value follows the keys."""


class Textarea(HeardFromAnyPage, widgets.Textarea):
    """Several lines of text."""


class Checkbox(HeardFromAnyPage, widgets.Checkbox):
    """Yes or no."""


class Dropdown(HeardFromAnyPage, widgets.Dropdown):
    """One of several."""


class ToggleButtons(HeardFromAnyPage, widgets.ToggleButtons):
    """One of a few, all in view."""


class IntSlider(HeardFromAnyPage, widgets.IntSlider):
    """A whole number within bounds."""


class FloatSlider(HeardFromAnyPage, widgets.FloatSlider):
    """A number within bounds."""
