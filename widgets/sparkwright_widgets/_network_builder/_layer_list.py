"""The list of layers as a widget: one element for all rows, however many there are.

Rows are patched in the browser, so that focus stays where it is while other rows change; widgets
of ipywidgets would be made anew from the first one that differs.
"""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from sparkwright_widgets._any_page import HeardFromAnyPage
from sparkwright_widgets._assets import asset


class LayerList(HeardFromAnyPage, anywidget.AnyWidget):
    """Shows `rows` and lets one of them be chosen.

    Attributes:
        rows: for each row its HTML, safe to insert, and its state; see `_rows_html.layer_rows`.
        selected: the row in hand; -1: none.
        label: what the list holds, for screen readers.
    """

    _esm = asset("layer_list.mjs")  # a text, not a path: see `_loss_chart`

    rows = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    selected = traitlets.Int(-1).tag(sync=True, echo_update=False)
    label = traitlets.Unicode("Layers").tag(sync=True, echo_update=False)

    def on_action(self, callback: Callable[[str], None]) -> None:
        """Call `callback("up" | "down" | "delete")` when a key asks for it."""

        def heard(_widget: object, content: Any, _buffers: object) -> None:
            kind = content.get("kind") if isinstance(content, dict) else None
            if kind in ("up", "down", "delete"):
                callback(kind)

        self.on_msg(heard)
