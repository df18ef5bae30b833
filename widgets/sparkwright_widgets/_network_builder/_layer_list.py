"""The list of layers, one element for all rows, and folds that are filled when opened."""

from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from sparkwright_widgets._any_page import HeardFromAnyPage
from sparkwright_widgets._assets import asset
from sparkwright_widgets._ui import Fold


class WatchedFold(Fold):
    """A fold that says when it is opened.

    Args:
        title: what is inside.
        inside: the widgets.
        when_opened: called after each opening.
    """

    def __init__(
        self, title: str, inside: Sequence[widgets.Widget], when_opened: Callable[[], None]
    ) -> None:
        self._when_opened = when_opened
        super().__init__(title, inside)

    def set_opened(self, opened: bool) -> None:
        """Show or hide what is inside."""
        super().set_opened(opened)
        if opened:
            self._when_opened()


class LayerList(HeardFromAnyPage, anywidget.AnyWidget):
    """Shows `rows` and lets one of them be chosen.

    Attributes:
        rows: for each row its HTML, safe to insert, and its state; see `_html.layer_rows`.
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
