"""Draw figures as inline SVG for light and dark pages, and as report blocks.

Only `matplotlib.figure.Figure` is used, not pyplot, so that any thread can draw. matplotlib is
imported when the first figure is drawn.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.evaluation.reports import Figure as DrawnFigure, Table

from ._block import Block, fold
from ._format import count_text, escaped
from ._lines import per_column
from ._table import Markup, html_table, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#010203"  # replaced by `currentColor`, the color of the surrounding text

# Okabe and Ito's colors, distinguishable with any kind of color vision; as in drawing.mjs.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
MARKERS = "os^DXP"
_BEST = "★ "  # prefix of cells shown in bold


def picture(figure: "Figure", *, caption: str) -> Block:
    """Show a matplotlib figure as self-contained SVG with a caption.

    Create figures with `matplotlib.figure.Figure`, not with pyplot, whose current figure is shared
    by all threads of a notebook.

    Args:
        figure: the figure; drawn immediately.
        caption: the caption, also the description for screen readers.
    """
    html = _captioned(inline_svg(figure, alt=caption), caption)
    return Block(html=html, text=caption, kind="picture")


def figure_html(figure: DrawnFigure) -> str:
    """A figure with its caption as `<figure>`."""
    from matplotlib.figure import Figure

    drawn = Figure(figsize=figure.size, layout="constrained")
    drawn.patch.set_visible(False)
    figure.draw(drawn.add_subplot())
    _fit_any_page(drawn)
    svg = inline_svg(drawn, alt=f"{figure.label}. {figure.caption}")
    return _captioned(svg, figure.caption)


def figure_block(figure: DrawnFigure) -> Block:
    """A figure with its caption, and its data as a table in a fold."""
    table = figure.table
    more = f" ({count_text(table.left_out)} more rows omitted)" if table.left_out else ""
    folded = fold(f"Data as a table{more}", _table_html(table, table.title or figure.label))
    return Block(
        html=figure_html(figure) + folded.html,
        text=f"{figure.caption}\n\n{_table_text(table)}",
        kind=figure.kind,
    )


def tabled(table: Table, *, label: str, kind: str) -> Block:
    """A table of an evaluation with its title as the sentence above it."""
    caption = table.title
    if table.left_out:
        caption += f" {count_text(table.left_out)} more rows are omitted."
    html = f"<p>{escaped(caption)}</p>{_table_html(table, label)}"
    return Block(html=html, text=f"{caption}\n\n{_table_text(table)}", kind=kind)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Line:
    """A line of a chart."""

    label: str  # in the legend; empty: none
    points: NDArray[np.floating]  # (n, 2) of x and y; values that are not finite are gaps
    color: str = INK
    style: str = "-"  # of matplotlib
    marker: str = ""
    hollow: bool = False  # markers are outlines
    marks: int = 40  # maximum number of markers; 1: one at the line's end
    width: float = 1.6
    alpha: float = 1.0
    layer: float = 2.0  # higher lines are drawn on top


def draw_lines(
    axes: "Axes",
    lines: Sequence[Line],
    *,
    x: str,
    y: str,
    legend: int = 0,  # columns of the legend; 0: none
    pixels: int = 300,  # horizontal resolution, which limits the file size
    from_zero: bool = True,  # include zero if it is near, like the live chart
) -> None:
    """Draw overlaid lines."""
    for line in lines:
        points = per_column(np.asarray(line.points, np.float64).reshape(-1, 2), columns=pixels)
        across, height = points.T
        # Escape names: "$" would start a formula, and a leading "_" would hide the label.
        label = " " + line.label.replace("$", r"\$") if line.label else ""
        (drawn,) = axes.plot(across, np.where(np.isfinite(height), height, np.nan), label=label)
        drawn.set(color=line.color, linestyle=line.style, linewidth=line.width, alpha=line.alpha)
        drawn.set(zorder=line.layer)
        if line.marker and len(points):
            every = [len(points) - 1] if line.marks == 1 else max(1, len(points) // line.marks)
            drawn.set(marker=line.marker, markersize=4 if line.marks > 1 else 5, markevery=every)
            drawn.set(**{"markerfacecolor": "none"} if line.hollow else {})
    axes.set(xlabel=x, ylabel=y)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=INK, alpha=0.12)
    if from_zero:
        values = np.concatenate([np.zeros(0), *(np.asarray(line.points)[:, 1] for line in lines)])
        values = values[np.isfinite(values)]
        if len(values) and 0 <= values.min() < 0.4 * values.max():
            axes.set_ylim(bottom=0)
    if legend and axes.get_legend_handles_labels()[0]:
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1)}
        axes.legend(frameon=False, fontsize=9, ncols=legend, borderaxespad=0.2, **place)


def inline_svg(figure: "Figure", *, alt: str) -> str:
    """The figure as an `<svg>` element with `alt` as its name for screen readers."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", dpi=150, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).replace(INK, "currentColor")
    text = _with_unique_ids(text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escaped(alt)}"', 1)


def _captioned(svg: str, caption: str) -> str:
    below = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    return f"<figure>{svg}{below}</figure>"


def _fit_any_page(figure: "Figure") -> None:
    """Give axes, labels and legends the color of the text, and a transparent background."""
    for axes in figure.axes:
        axes.set_facecolor("none")
        axes.tick_params(colors=INK)
        legend = axes.get_legend()
        names = [axes.title, axes.xaxis.label, axes.yaxis.label]
        for text in [*names, *([] if legend is None else legend.get_texts())]:
            text.set_color(INK)
        for spine in axes.spines.values():
            spine.set_edgecolor(INK)


def _table_html(table: Table, label: str) -> str:
    if not table.rows:
        return ""
    rows = [
        [Markup(f"<b>{escaped(cell)}</b>") if cell.startswith(_BEST) else cell for cell in row]
        for row in table.rows[1:]
    ]
    return html_table(table.rows[0], rows, label=label, text_columns=table.text_columns)


def _table_text(table: Table) -> str:
    if not table.rows:
        return ""
    return text_table(table.rows[0], table.rows[1:], text_columns=table.text_columns)


def _with_unique_ids(svg: str) -> str:
    """Prefix all ids, so that two figures in one page do not share glyphs and clip paths."""
    import uuid

    prefix = f"s{uuid.uuid4().hex[:8]}-"
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}', svg)
    return re.sub(r"url\(#", f"url(#{prefix}", svg)
