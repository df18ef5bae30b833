"""A fold whose inside is brought up to date when it is opened, and not before."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

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
