"""A fold whose inside is made when somebody opens it, so that a builder appears at once."""

from collections.abc import Callable, Sequence

import ipywidgets as widgets

from sparkwright_widgets._ui import Fold


class LazyFold(Fold):
    """Makes what is inside at the first opening.

    Args:
        title: what is inside.
        make: called once.
        opened: called after each opening, to bring the inside up to date.
    """

    def __init__(
        self,
        title: str,
        make: Callable[[], Sequence[widgets.Widget]],
        opened: Callable[[], None] = lambda: None,
    ) -> None:
        self._make = make
        self._when_opened = opened
        self._made = False
        super().__init__(title, [])

    def set_opened(self, opened: bool) -> None:
        """Show or hide what is inside."""
        if opened and not self._made:
            self._made = True
            self.box.children = list(self._make())
        super().set_opened(opened)
        if opened:
            self._when_opened()
