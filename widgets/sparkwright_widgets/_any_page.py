"""Widgets that receive messages from any open page, even after another page was closed."""

from typing import Any

import ipywidgets as widgets


class AnyPageWidget(widgets.Widget):
    """A mixin that must precede the widget class.

    ipykernel 7.4 routes a widget's messages to the subshell of the message that caused its last
    reply. After a page is closed or reloaded, that subshell is gone and messages of the new page
    are lost. This mixin clears the stored subshell after each message. Other versions store none.
    """

    def open(self) -> None:
        super().open()
        self._clear_reply_subshell()

    def _send(self, msg: Any, buffers: Any = None) -> None:
        super()._send(msg, buffers)
        self._clear_reply_subshell()

    def _clear_reply_subshell(self) -> None:
        if self.comm is not None:
            vars(self.comm).pop("_reply_subshell_id", None)


class Button(AnyPageWidget, widgets.Button):
    """A button that works on any open page."""
