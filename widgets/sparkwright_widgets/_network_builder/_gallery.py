"""A gallery of network presets: one button each, with its graph."""

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from sparkwright.networks import PRESETS
from sparkwright_widgets._any_page import AnyPageWidget
from sparkwright_widgets._assets import asset
from sparkwright_widgets._format import escaped

from ._data_fit import DataFacts, fits
from ._graph import thumbnail_svg

EMPTY = "empty"
_PLUS = '<span class="sparkwright-preset-plus" aria-hidden="true">+</span>'


def preset_cards(data: DataFacts, *, is_loaded: bool) -> list[dict[str, Any]]:
    """A card for each preset, those that fit the data first, and one for an empty network."""
    fitting = [name for name, preset in PRESETS.items() if is_loaded and fits(preset, data)]
    names = [*fitting, *(name for name in PRESETS if name not in fitting)]
    cards = [
        _card(name, PRESETS[name].title, thumbnail_svg(name), name in fitting) for name in names
    ]
    return [*cards, _card(EMPTY, "Empty: no layers", _PLUS, False)]


def _card(name: str, text: str, picture: str, is_fitting: bool) -> dict[str, Any]:
    title, _, use = text.partition(": ")
    tag = '<span class="sparkwright-preset-tag">✓ fits your data</span>' if is_fitting else ""
    html = (
        f'<span class="sparkwright-preset-picture">{picture}</span>'
        f"<b>{escaped(title)}</b><span>{escaped(use)}</span>{tag}"
    )
    return {"name": name, "html": html, "fits": is_fitting}


class PresetGallery(AnyPageWidget, anywidget.AnyWidget):
    """Shows the presets in `cards`; `taken` is called with the name of one, or `EMPTY`."""

    _esm = asset("gallery.mjs")  # text, not a path: see `_live_chart`

    cards = traitlets.List(traitlets.Dict()).tag(sync=True, echo_update=False)

    def __init__(self, taken: Callable[[str], None]) -> None:
        super().__init__()

        def receive(_widget: object, content: Any, _buffers: object) -> None:
            name = content.get("name") if isinstance(content, dict) else None
            if name == EMPTY or (isinstance(name, str) and name in PRESETS):
                taken(name)

        self.on_msg(receive)
