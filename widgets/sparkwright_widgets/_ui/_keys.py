"""Keys that are pressed in a part stay in it, and so does the focus; see `static/keys.mjs`."""

import anywidget

from sparkwright_widgets._assets import asset


class KeptKeys(anywidget.AnyWidget):
    """Invisible; keeps JupyterLab's single-key shortcuts from controls of the part it is in.

    A control that was disabled while it had the focus gets it back when it is enabled again.
    """

    # A text, not a path, which would be watched for changes.
    _esm = asset("keys.mjs")

    def __init__(self) -> None:
        super().__init__(layout={"display": "none"})
