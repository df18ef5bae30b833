"""Notebook widgets for Sparkwright: the live panel of a run, and the blocks of a report."""

try:
    import anywidget as _anywidget
    import ipywidgets as _ipywidgets
except ModuleNotFoundError as error:
    if error.name not in ("anywidget", "ipywidgets"):
        raise
    raise ModuleNotFoundError(
        "The notebook widgets need ipywidgets and anywidget. "
        f"Received: no module named {error.name!r}. "
        "Install them with `pip install 'sparkwright[notebook]'`.",
        name=error.name,
    ) from error

from ._block import Block as Block
from ._confusion_figure import confusion_figure as confusion_figure
from ._display import RunDisplay as RunDisplay, panel_for as panel_for
from ._environment_table import environment_table as environment_table
from ._panel import LivePanel as LivePanel
from ._partition_table import partition_table as partition_table
from ._picture import picture as picture
from ._summary import summary as summary

del _anywidget, _ipywidgets
