"""Widgets that still hear a page after another page, which is gone, was the last to ask."""

from typing import Any

import ipywidgets as widgets


class AnyPageWidget(widgets.Widget):
    """A mixin, to stand before the widget's class.

    ipykernel 7.4 takes a widget's messages to the subshell that caused what the widget sent last.
    The subshell of a page that was closed or loaded anew is gone, and with it every message of the
    new page: a chart would stay empty, a button dead. So what was caused is forgotten at once, and
    messages go to the subshell that their own page asks for. Other versions have nothing to forget.
    """

    def open(self) -> None:
        super().open()
        self._forget_who_asked()

    def _send(self, msg: Any, buffers: Any = None) -> None:
        super()._send(msg, buffers)
        self._forget_who_asked()

    def _forget_who_asked(self) -> None:
        if self.comm is not None:
            vars(self.comm).pop("_reply_subshell_id", None)


class Button(AnyPageWidget, widgets.Button):
    """A button that whichever page is open can press."""
