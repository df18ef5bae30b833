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

from ._display import RunDisplay as RunDisplay, panel_for as panel_for
from ._panel import LivePanel as LivePanel

del _anywidget, _ipywidgets
