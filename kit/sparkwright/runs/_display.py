"""Shows a run in a notebook, by whatever package has registered itself for that."""

from importlib.metadata import entry_points
from typing import Any


def in_notebook() -> bool:
    """Whether this code runs in an IPython kernel."""
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def show(run: Any) -> None:
    """Display `run` with the panel of the entry point group `sparkwright.display`.

    The engine does not know the widgets: they register themselves.
    """
    from IPython.display import display

    for entry in entry_points(group="sparkwright.display"):
        try:
            panel_for = entry.load()
        except ImportError:
            continue
        display(panel_for(run))
        return
    display({"text/plain": repr(run)}, raw=True)
