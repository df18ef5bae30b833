"""The models of a folder as rows to tick, a page at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as widgets

from sparkwright.storage import ModelInfo
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import Button, Checkbox, Dropdown, Text, row
from sparkwright_widgets._ui._part import close_all

from ._catalog import NEWEST, Catalog, details
from ._looks import LABELLED, field, hint


class ModelRows(widgets.VBox):
    """Rows of a catalog, with fields to find and to sort, and buttons to turn pages.

    Args:
        guarded: wraps callbacks, so that what they raise is shown.
        changed: called when what is ticked has changed.
    """

    def __init__(
        self,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        changed: Callable[[], None],
    ) -> None:
        self._guarded = guarded
        self._changed: Callable[[], None] = _nothing
        self._setting = False
        self._urls: set[str] = set()
        self.catalog = Catalog(folder_url="")
        self.find_field = Text(value="", description="Find", **LABELLED)
        self.order_field = Dropdown(options=(NEWEST,), value=NEWEST, description="Sort", **LABELLED)
        self.found = widgets.HTML()
        self.rows = widgets.VBox()
        self.rows.add_class("sparkwright-models")
        self.earlier_button = Button(description="◂ Page before")
        self.later_button = Button(description="Next page ▸")
        self.find_field.observe(guarded(self._looked_for), "value")
        self.order_field.observe(guarded(self._looked_for), "value")
        self.earlier_button.on_click(guarded(partial(self._turned, -1)))
        self.later_button.on_click(guarded(partial(self._turned, 1)))
        self.pages = row(self.earlier_button, self.later_button)
        looking = row(field(self.find_field), field(self.order_field))
        super().__init__([looking, self.found, self.rows, self.pages])
        self.add_class("sparkwright-spaced")
        self.show(self.catalog)
        self._changed = changed

    @property
    def ticked(self) -> tuple[ModelInfo, ...]:
        """The models that are ticked, on any page."""
        return tuple(info for info in self.catalog.models if info.url in self._urls)

    def show(self, catalog: Catalog) -> None:
        """Show another catalog; models stay ticked that are in it too."""
        order = catalog.order if catalog.order in catalog.orders else NEWEST
        self.catalog = replace(catalog, order=order)
        self._urls &= {info.url for info in catalog.models}
        self._setting = True
        try:
            self.order_field.options = catalog.orders
            self.order_field.value = order
            self.find_field.value = catalog.wanted
        finally:
            self._setting = False
        self.layout.display = None if catalog.models else "none"
        self._draw_page()

    def untick(self, urls: Sequence[str]) -> None:
        """Take ticks away."""
        self._urls -= set(urls)
        self._draw_page()

    def _looked_for(self, _change: Any) -> None:
        if self._setting:
            return
        self.catalog = replace(
            self.catalog, wanted=self.find_field.value, order=self.order_field.value, page=0
        )
        self._draw_page()

    def _turned(self, pages: int, _button: Any) -> None:
        self.catalog = replace(self.catalog, page=self.catalog.number + pages)
        self._draw_page()

    def _ticked_one(self, url: str, change: Any) -> None:
        (self._urls.add if change["new"] else self._urls.discard)(url)
        self._changed()

    def _draw_page(self) -> None:
        catalog = self.catalog
        self.found.value = hint(catalog.told)
        old = self.rows.children
        self.rows.children = tuple(self._row(info) for info in catalog.shown)
        for each in old:
            close_all(each)
        self.pages.layout.display = None if catalog.pages > 1 else "none"
        self.earlier_button.disabled = catalog.number == 0
        self.later_button.disabled = catalog.number >= catalog.pages - 1
        self._changed()

    def _row(self, info: ModelInfo) -> widgets.VBox:
        name = self.catalog.name_of(info)
        tick = Checkbox(
            value=info.url in self._urls,
            description=name if info.problem is None else f"✕ {name}",
            indent=False,
            # The name comes from the store: text, not HTML.
            description_allow_html=False,
        )
        tick.observe(self._guarded(partial(self._ticked_one, info.url)), "value")
        kind = "" if info.problem is None else " sparkwright-is-bad"
        told = f'<div class="sparkwright-details{kind}">{escaped(details(info))}</div>'
        return widgets.VBox([tick, widgets.HTML(told)])


def _nothing() -> None:
    """Nobody listens yet."""
