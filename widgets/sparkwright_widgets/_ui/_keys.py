"""Keep key presses and the focus inside a widget; see `static/keys.mjs`."""

import anywidget

from sparkwright_widgets._assets import asset


class ShortcutBlocker(anywidget.AnyWidget):
    """Invisible widget that blocks JupyterLab's single-key shortcuts in the part it belongs to."""

    # Text instead of a path: anywidget watches paths for changes.
    _esm = asset("keys.mjs")

    def __init__(self) -> None:
        super().__init__(layout={"display": "none"})
