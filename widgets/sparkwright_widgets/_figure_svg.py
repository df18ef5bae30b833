"""A matplotlib figure as inline SVG that fits into any page, dark or light.

Only `matplotlib.figure.Figure` is used, never pyplot: these functions run on any thread.
matplotlib is imported when the first figure is drawn, not with the package.
"""

import io
import re
from typing import TYPE_CHECKING

from ._format import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#010203"  # drawn in this colour, a thing takes the colour of the text around it

# Okabe and Ito's colours, distinguishable with any kind of colour vision; as in loss_chart.mjs.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")


def new_figure(*, width_inches: float, height_inches: float) -> "Figure":
    """An empty figure with a transparent background."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_inches, height_inches), layout="constrained")
    figure.patch.set_visible(False)
    return figure


def inline_svg(figure: "Figure", *, alt: str) -> str:
    """The figure as an `<svg>` element with `alt` as its name for screen readers."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).replace(INK, "currentColor")
    text = _with_unique_ids(text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escaped(alt)}"', 1)


def _with_unique_ids(svg: str) -> str:
    """Prefix all ids: two figures in one page must not find each other's glyphs and clips."""
    import uuid

    prefix = f"s{uuid.uuid4().hex[:8]}-"
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}', svg)
    return re.sub(r"url\(#", f"url(#{prefix}", svg)
