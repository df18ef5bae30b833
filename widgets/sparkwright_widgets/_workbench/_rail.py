"""The list of steps beside the current step."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset


class Rail(AnyPageWidget, anywidget.AnyWidget):
    """The steps with their states, drawn by `static/rail.mjs`; a click calls `opened(name)`."""

    # Text, not a path: anywidget would watch a path for changes.
    _esm = asset("rail.mjs")

    steps = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)
    here = traitlets.Unicode("").tag(sync=True, echo_update=False)

    def __init__(self, opened: Callable[[str], None]) -> None:
        super().__init__()
        self._opened = opened
        self.add_class("sparkwright-rail")
        self.on_msg(self._receive)

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        name = content.get("open") if isinstance(content, dict) else None
        if name in {step["name"] for step in self.steps}:
            self._opened(str(name))
