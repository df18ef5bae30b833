"""The pieces of the store: a form to save, and rows to tick."""

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
    close_all,
    row,
)

from ._catalog import NEWEST, Catalog, details


def field(control: widgets.Widget, *, wide: bool = False) -> widgets.VBox:
    """A control with its label above; `wide`: as wide as there is room."""
    box = widgets.VBox([control])
    box.add_class("sparkwright-field")
    if wide:
        box.add_class("sparkwright-wide")
    return box


def hint(sentence: str) -> str:
    """A line in small letters; nothing for an empty sentence."""
    return f'<div class="sparkwright-hint">{escaped(sentence)}</div>' if sentence else ""


class SaveForm(Fold):
    """File name, title, comment, whether the optimizer goes along, where the normalizer goes.

    Args:
        button: saves.
        confirmation: asks before a file is replaced.
    """

    def __init__(self, button: Button, confirmation: Confirmation) -> None:
        self.name_field = Text(value="", placeholder="model", description="File name")
        self.title_field = Text(value="", description="Title")
        self.comment_field = Textarea(value="", rows=2, description="Comment")
        self.updater_field = Checkbox(
            value=True, description="with the optimizer's state, to train on", indent=False
        )
        self.normalizer_field = Checkbox(
            value=True,
            description="normalizer inside the model, so that Keras alone is right on raw data",
            indent=False,
        )
        self.normalizer_field.layout.display = "none"
        self.hint, self.outcome = widgets.HTML(), widgets.HTML()
        names = widgets.Box([field(self.name_field), field(self.title_field)])
        names.add_class("sparkwright-grid")
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
        """What goes into the file beside the model."""
        found: dict[str, Any] = {
            "save_updater": self.updater_field.value,
            "title": self.title_field.value.strip() or None,
            "comment": self.comment_field.value.strip() or None,
        }
        if self.normalizer_field.layout.display is None:
            found["normalizer"] = "inside" if self.normalizer_field.value else "beside"
        return found

    def tell(self, network: Any, metrics: Any, *, of_spark: bool) -> None:
        """Say what goes into the file, or why there is nothing to save.

        Args:
            network: that would be saved; None: there is none.
            metrics: its results, by name or as an evaluation.
            of_spark: whether it is a SparkNetwork: it may have a normalizer, whose place is chosen.
        """
        normalizes = of_spark and getattr(network, "normalizer", None) is not None
        self.normalizer_field.layout.display = None if normalizes else "none"
        if network is None:
            self.hint.value = hint("There is no network to save yet: train or load one.")
            return
        parts = ["the model"]
        if of_spark:
            parts.append("normalizer, class names and how it was trained, as far as known")
        if isinstance(metrics, Mapping):
            numbers = metrics_text(metrics)
            parts += [f"metrics {numbers}"] if numbers else []
        elif metrics:
            parts.append("the evaluation")
        self.hint.value = hint(
            f"Goes into the file: {'; '.join(parts)}. Its name will end in .keras."
        )


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
        self._changed: Callable[[], None] = lambda: None  # not before all is made
        self._setting = False
        self._urls: set[str] = set()
        self.catalog = Catalog(folder_url="")
        self.find_field = Text(value="", description="Find")
        self.order_field = Dropdown(options=(NEWEST,), value=NEWEST, description="Sort")
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
