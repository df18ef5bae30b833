"""The base of every part of the notebook kit: a titled box that shows its own mistakes.

A part is a thin shell over plain values of the engine. Its callbacks may run on any thread, return
at once and never call Spark; what takes longer goes through `in_background`. What either raises is
shown in the part: a notebook would otherwise hide it in a log.
"""

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import escaped

from ._background import Background
from ._controls import Button
from ._keys import KeptKeys

_logger = logging.getLogger(__name__)


class Part(widgets.VBox):
    """A box with a title, a line that says what goes on, and errors in view.

    A subclass makes its widgets and hands them to `show`. It says what it holds by `_still`.

    Args:
        title: the heading; empty: none, for parts within parts.
        styles: files in `static/` with further styles.
    """

    def __init__(self, title: str = "", *, styles: Sequence[str] = ()) -> None:
        self._listeners: list[Callable[[Any], None]] = []
        self._background = Background(type(self).__name__)
        css = "".join(asset(name) for name in ("panel.css", "parts.css", *styles))
        heading = f'<h3 class="sparkwright-title">{escaped(title)}</h3>' if title else ""
        self.title = title
        self.heading = widgets.HTML(f"<style>{css}</style>{heading}")
        self.doing = widgets.HTML()
        self.error = widgets.HTML()
        self._keys = KeptKeys()
        super().__init__([self.heading, self.doing, self.error, self._keys])
        self.add_class("sparkwright-panel")
        self.add_class("sparkwright-part")

    def show(self, *inside: widgets.Widget) -> None:
        """Put `inside` under the title, above the lines that say what goes on and what failed."""
        self.children = (self.heading, *inside, self.doing, self.error, self._keys)

    # --- telling others

    def on_change(self, callback: Callable[[Any], None]) -> None:
        """Call `callback(self)` whenever what the part holds has changed, on any thread."""
        self._listeners.append(callback)

    def _changed(self) -> None:
        for callback in list(self._listeners):
            try:
                callback(self)
            except Exception as error:
                self.show_error(error)

    # --- doing things

    def new_button(
        self, description: str, action: Callable[[], object], tooltip: str = "", **options: Any
    ) -> Button:
        """A button that calls `action`, whose exceptions are shown in the part."""
        made = Button(description=description, tooltip=tooltip or None, **options)

        def pressed(_button: Any) -> None:
            action()

        made.on_click(self.guarded(pressed))
        return made

    def guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """`callback`, whose exceptions are shown in the part; an error shown before goes away."""

        def safely(*arguments: Any) -> None:
            self.error.value = ""
            try:
                callback(*arguments)
            except Exception as error:
                self.show_error(error)

        return safely

    def in_background(
        self,
        what: str,
        work: Callable[[], Any],
        then: Callable[[Any], None] = lambda _result: None,
        *,
        finally_: Callable[[], None] = lambda: None,
    ) -> bool:
        """Do `work` on a thread of its own, then `then` with its result; returns at once.

        Args:
            what: the work in words, such as "Counting the rows"; shown meanwhile.
            work: may take long, and may call Spark.
            then: shows the result; runs on the same thread.
            finally_: called at the end in any case, to enable buttons again.

        Returns:
            False, with a sentence in the part, if other work is in progress.
        """

        def done(result: Any) -> None:
            self.say("")
            then(result)  # what it raises goes to `failed`
            finally_()

        def failed(error: BaseException) -> None:
            self.say("")
            self.show_error(error)
            finally_()

        self.error.value = ""
        if not self._background.busy:
            self.say(f"{what} …")
        if not self._background.begin(work, then=done, otherwise=failed):
            self.say("Something else is still going on here; wait for its end, then try again.")
            return False
        return True

    def settle(self, timeout_s: float = 60.0) -> bool:
        """Wait until nothing goes on in the background; False if that took longer than allowed."""
        return self._background.wait(timeout_s)

    def say(self, sentence: str) -> None:
        """Show one line about what goes on; empty: nothing does."""
        self.doing.value = (
            f'<div class="sparkwright-doing" role="status">{escaped(sentence)}</div>'
            if sentence
            else ""
        )

    def show_error(self, error: BaseException) -> None:
        """Show what went wrong: the sentence, and the traceback in a fold."""
        _logger.debug("%s shows an error.", type(self).__name__, exc_info=error)
        details = "".join(traceback.format_exception(error))
        sentence = str(error) or type(error).__name__
        self.error.value = fragments.alert("That did not work.", sentence, details, "Traceback")

    # --- what stays

    def _still(self) -> Block | None:
        """What the part shows, for saved and exported notebooks; None: nothing of use."""
        return None

    __repr__ = object.__repr__  # that of ipywidgets lists all children, and the styles

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options) or {}
        still = self._still()
        return bundle if still is None else {**bundle, **still.mimebundle()}

    def close(self) -> None:
        """Free the widgets here and in the browser: ipywidgets never closes them itself."""
        for child in self.children:
            close_all(child)
        layout = self.layout
        super().close()
        layout.close()


def close_all(widget: widgets.Widget) -> None:
    """Close a widget and all that belongs to it."""
    if isinstance(widget, Part):
        widget.close()
        return
    for part in list(_parts_of(widget)):
        part.close()


def row(*inside: widgets.Widget) -> widgets.HBox:
    """Widgets beside each other, wrapping where the page is narrow."""
    box = widgets.HBox(list(inside), layout={"flex_flow": "row wrap"})
    box.add_class("sparkwright-row")
    return box


def _parts_of(widget: widgets.Widget) -> Iterator[widgets.Widget]:
    for child in getattr(widget, "children", ()):
        yield from _parts_of(child)
    for name in ("layout", "style"):
        if isinstance(part := getattr(widget, name, None), widgets.Widget):
            yield part
    yield widget
