"""Parts of the model store: the save form and the list of models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ipywidgets as widgets

from sparkwright.storage import ModelInfo
from sparkwright.storage.model_metadata import metrics_text
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import (
    Button,
    Checkbox,
    Confirmation,
    Dropdown,
    Fold,
    Text,
    Textarea,
    field,
    grid,
    hint,
    row,
    swap,
)

from ._catalog import NEWEST, Catalog, details


class SaveForm(Fold):
    """Form with file name, title, comment, and options for optimizer state and normalizer."""

    def __init__(self, button: Button, confirmation: Confirmation) -> None:
        self.name_field = Text(value="", placeholder="model", description="File name")
        self.title_field = Text(value="", description="Title")
        self.comment_field = Textarea(value="", rows=2, description="Comment")
        self.updater_field = Checkbox(
            value=True, description="Save the optimizer's state, to resume training"
        )
        self.normalizer_field = Checkbox(
            value=True,
            description="Put the normalizer inside the model, so that Keras accepts raw data",
        )
        self.normalizer_field.layout.display = "none"
        self.hint, self.outcome = widgets.HTML(), widgets.HTML()
        names = grid(field(self.name_field), field(self.title_field))
        comment = field(self.comment_field, wide=True)
        inside = [
            names,
            comment,
            row(button, self.updater_field, self.normalizer_field),
            self.hint,
            confirmation,
            self.outcome,
        ]
        super().__init__("Save the network", inside, opened=True)
        self.box.add_class("sparkwright-spaced")

    @property
    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "save_updater": self.updater_field.value,
            "title": self.title_field.value.strip() or None,
            "comment": self.comment_field.value.strip() or None,
        }
        if self.normalizer_field.layout.display is None:
            found["normalizer"] = "inside" if self.normalizer_field.value else "beside"
        return found

    def describe(self, network: Any, metrics: Any, *, of_spark: bool) -> None:
        """Show what will be saved, or why there is nothing to save."""
        normalizes = of_spark and getattr(network, "normalizer", None) is not None
        self.normalizer_field.layout.display = None if normalizes else "none"
        if network is None:
            self.hint.value = hint("There is no network to save yet. Train or load one.")
            return
        parts = ["the model"]
        if of_spark:
            parts.append("normalizer, class names and training settings, if known")
        if isinstance(metrics, Mapping):
            numbers = metrics_text(metrics)
            parts += [f"metrics {numbers}"] if numbers else []
        elif metrics:
            parts.append("the evaluation")
        self.hint.value = hint(
            f"The file will contain: {'; '.join(parts)}. Its suffix will be .keras."
        )


class ModelRows(widgets.VBox):
    """The list of models, with search, sort order and pages."""

    def __init__(
        self,
        guarded: Callable[[Callable[..., None]], Callable[..., None]],
        changed: Callable[[], None],
    ) -> None:
        self._guarded = guarded
        self._changed: Callable[[], None] = lambda: None  # until all widgets exist
        self._setting = False
        self._urls: set[str] = set()
        self.catalog = Catalog(folder_url="")
        self.find_field = Text(value="", description="Find")
        self.order_field = Dropdown(options=(NEWEST,), value=NEWEST, description="Sort")
        self.found = widgets.HTML()
        self.rows = widgets.VBox(_dom_classes=["sparkwright-models"])
        self.earlier_button = Button(description="◂ Previous page")
        self.later_button = Button(description="Next page ▸")
        self.find_field.observe(guarded(self._search), "value")
        self.order_field.observe(guarded(self._search), "value")
        self.earlier_button.on_click(guarded(partial(self._turn_page, -1)))
        self.later_button.on_click(guarded(partial(self._turn_page, 1)))
        self.pages = row(self.earlier_button, self.later_button)
        search = row(field(self.find_field), field(self.order_field))
        super().__init__([search, self.found, self.rows, self.pages])
        self.add_class("sparkwright-spaced")
        self.show(self.catalog)
        self._changed = changed

    @property
    def ticked(self) -> tuple[ModelInfo, ...]:
        """The selected models, on any page."""
        return tuple(info for info in self.catalog.models if info.url in self._urls)

    def show(self, catalog: Catalog) -> None:
        """Show another catalog; models in both catalogs stay selected."""
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
        self._urls -= set(urls)
        self._draw_page()

    def _search(self, _change: Any) -> None:
        if self._setting:
            return
        self.catalog = replace(
            self.catalog, wanted=self.find_field.value, order=self.order_field.value, page=0
        )
        self._draw_page()

    def _turn_page(self, pages: int, _button: Any) -> None:
        self.catalog = replace(self.catalog, page=self.catalog.number + pages)
        self._draw_page()

    def _ticked_one(self, url: str, change: Any) -> None:
        (self._urls.add if change["new"] else self._urls.discard)(url)
        self._changed()

    def _draw_page(self) -> None:
        catalog = self.catalog
        self.found.value = hint(catalog.status)
        swap(self.rows, *(self._row(info) for info in catalog.shown))
        self.pages.layout.display = None if catalog.pages > 1 else "none"
        self.earlier_button.disabled = catalog.number == 0
        self.later_button.disabled = catalog.number >= catalog.pages - 1
        self._changed()

    def _row(self, info: ModelInfo) -> widgets.VBox:
        name = self.catalog.name_of(info)
        tick = Checkbox(
            value=info.url in self._urls,
            description=name if info.problem is None else f"✕ {name}",
            # The name comes from the store: text, not HTML.
            description_allow_html=False,
        )
        tick.observe(self._guarded(partial(self._ticked_one, info.url)), "value")
        kind = "" if info.problem is None else " sparkwright-is-bad"
        text = f'<div class="sparkwright-details{kind}">{escaped(details(info))}</div>'
        return widgets.VBox([tick, widgets.HTML(text)])
