"""Base class of the notebook kit's widgets: a titled box that shows its own errors.

A part is a thin layer over plain values of the engine. Its callbacks may run on any thread, return
immediately and never call Spark; longer tasks use `in_background`. Exceptions of both are shown in
the part, because a notebook would only log them.
"""

import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anywidget
import ipywidgets as widgets

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._assets import asset
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import escaped

from ._background import Background
from ._controls import Button

_logger = logging.getLogger(__name__)
_LOOK_S = 1.0


class ShortcutBlocker(anywidget.AnyWidget):
    """Invisible; keeps key presses and the focus inside the part, see `static/keys.mjs`."""

    # Text instead of a path: anywidget watches paths for changes.
    _esm = asset("keys.mjs")

    def __init__(self) -> None:
        super().__init__(layout={"display": "none"})


class Part(widgets.VBox):
    """A box with a title, a status line and an error message.

    A subclass creates its widgets and passes them to `show`. It overrides `_still` to define its
    static copy.

    Args:
        title: the heading; default "": no heading, for parts inside other parts.
        styles: additional style sheets in `static/`.
    """

    def __init__(self, title: str = "", *, styles: Sequence[str] = ()) -> None:
        self._listeners: list[Callable[[Any], None]] = []
        self._closing = threading.Event()
        self._background = Background(type(self).__name__)
        css = "".join(asset(name) for name in ("panel.css", "parts.css", *styles))
        heading = f'<h3 class="sparkwright-title">{escaped(title)}</h3>' if title else ""
        self.title = title
        self.heading = widgets.HTML(f"<style>{css}</style>{heading}")
        self.doing = widgets.HTML()
        self.error = widgets.HTML()
        self._keys = ShortcutBlocker()
        super().__init__([self.heading, self.doing, self.error, self._keys])
        self.add_class("sparkwright-panel")
        self.add_class("sparkwright-part")

    def show(self, *inside: widgets.Widget) -> None:
        """Show `inside` between the title and the lines for status and errors."""
        self.children = (self.heading, *inside, self.doing, self.error, self._keys)

    # --- notification

    def on_change(self, callback: Callable[[Any], None]) -> None:
        """Call `callback(self)`, on any thread, when the value of the part changes."""
        self._listeners.append(callback)

    def _changed(self) -> None:
        for callback in list(self._listeners):
            try:
                callback(self)
            except Exception as error:
                self.show_error(error)

    # --- actions

    def new_button(
        self, description: str, action: Callable[[], object], tooltip: str = "", **options: Any
    ) -> Button:
        """Return a button that calls `action` and shows its exceptions in the part."""
        made = Button(description=description, tooltip=tooltip or None, **options)

        def pressed(_button: Any) -> None:
            action()

        made.on_click(self.guarded(pressed))
        return made

    def guarded(self, callback: Callable[..., None]) -> Callable[..., None]:
        """Wrap `callback` so that it clears the last error and shows its own exceptions."""

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
        """Start `work` on a background thread, then call `then` with its result.

        Args:
            what: status while it runs, such as "Counting the rows".
            work: may take long, and may call Spark.
            then: shows the result; runs on the same thread.
            finally_: called at the end, even after an error, to enable buttons again.

        Returns:
            Whether the work was started; if not, the part shows that another task is running.
        """

        def done(result: Any) -> None:
            self.say("")
            then(result)  # exceptions are passed to `failed`
            finally_()

        def failed(error: BaseException) -> None:
            self.say("")
            self.show_error(error)
            finally_()

        self.error.value = ""
        if not self._background.busy:
            self.say(f"{what} …")
        if not self._background.begin(work, then=done, otherwise=failed):
            self.say("Another task is still running. Wait until it ends, then try again.")
            return False
        return True

    def settle(self, timeout_s: float = 60.0) -> bool:
        """Wait until no background task is running; return False on a timeout."""
        return self._background.wait(timeout_s)

    def watch(
        self,
        run: Any,
        refresh: Callable[[], None],
        *,
        name: str,  # of the thread
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Call `refresh` each second until `run` has finished; then `ended`, unless closed."""

        def main() -> None:
            while not self._closing.wait(_LOOK_S):
                is_over = bool(run.finished)  # read first, so that the last refresh is complete
                self.guarded(refresh)()
                if is_over:
                    ended()
                    return

        self._thread = threading.Thread(target=main, name=f"sparkwright-{name}", daemon=True)
        self._thread.start()

    def say(self, sentence: str) -> None:
        """Show a status line; an empty sentence removes it."""
        self.doing.value = (
            f'<div class="sparkwright-doing" role="status">{escaped(sentence)}</div>'
            if sentence
            else ""
        )

    def show_error(self, error: BaseException) -> None:
        """Show the error message, and its traceback in a collapsed section."""
        _logger.debug("%s shows an error.", type(self).__name__, exc_info=error)
        details = "".join(traceback.format_exception(error))
        sentence = str(error) or type(error).__name__
        self.error.value = fragments.alert("That did not work.", sentence, details, "Traceback")

    # --- static copy

    def _still(self) -> Block | None:
        """Return the static copy for saved and exported notebooks; None if there is none."""
        return None

    __repr__ = object.__repr__  # the one of ipywidgets lists all children and styles

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options) or {}
        still = self._still()
        return bundle if still is None else {**bundle, **still.mimebundle()}

    def close(self) -> None:
        """Free the widgets in kernel and browser; ipywidgets never closes children."""
        if hasattr(self, "_closing"):  # absent if `__init__` of a subclass raised
            self._closing.set()
        for child in self.children:
            close_all(child)
        layout = self.layout
        super().close()
        layout.close()


def close_all(widget: widgets.Widget) -> None:
    """Close a widget, its children, layouts and styles."""
    if isinstance(widget, Part):
        widget.close()
        return
    for part in list(_parts_of(widget)):
        part.close()


def swap(box: widgets.Box, *inside: widgets.Widget) -> None:
    """Show `inside` in a box, and close what it showed before."""
    before, box.children = box.children, inside
    for each in before:
        close_all(each)


def row(*inside: widgets.Widget) -> widgets.HBox:
    """Return a row of widgets that wraps on narrow pages."""
    wraps = {"flex_flow": "row wrap"}
    return widgets.HBox(list(inside), layout=wraps, _dom_classes=["sparkwright-row"])


def grid(*inside: widgets.Widget) -> widgets.Box:
    """Return columns of widgets, as many as fit the page."""
    return widgets.Box(list(inside), _dom_classes=["sparkwright-grid"])


def field(control: widgets.Widget, *, wide: bool = False) -> widgets.VBox:
    """Return a control with its label above; `wide` fills the available width."""
    wider = ["sparkwright-wide"] if wide else []
    return widgets.VBox([control], _dom_classes=["sparkwright-field", *wider])


def hint(sentence: str) -> str:
    """Return a hint as HTML; "" if it is empty."""
    return f'<div class="sparkwright-hint">{escaped(sentence)}</div>' if sentence else ""


def _parts_of(widget: widgets.Widget) -> Iterator[widgets.Widget]:
    for child in getattr(widget, "children", ()):
        yield from _parts_of(child)
    for name in ("layout", "style"):
        if isinstance(part := getattr(widget, name, None), widgets.Widget):
            yield part
    yield widget
