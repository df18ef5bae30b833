"""What blocks of evaluations share: figures with captions and tables, axes that fit any page."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sparkwright.evaluation import AbstractEvaluation
from sparkwright_widgets._block import Block
from sparkwright_widgets._curve_figure import dress, legend
from sparkwright_widgets._figure_svg import INK, inline_svg, new_figure
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._table import html_table, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 30  # of a table that nobody asked for
STYLES = ("-", "--", "-.", ":")
MARKERS = "os^DXP"

Rows = Sequence[Sequence[object]]


def figure_block(
    figure: "Figure",
    *,
    caption: str,
    heads: Sequence[str],
    rows: Rows,
    label: str,
    kind: str,
    alt: str = "",
    left_out: int = 0,
    text_columns: Collection[int] = (),
) -> Block:
    """A figure, one sentence below it, and the same as a table in a fold.

    Args:
        figure: drawn once, now.
        caption: what is to be seen.
        heads: of the table.
        rows: of the table.
        label: what figure and table show, in a few words.
        kind: of the block.
        alt: what screen readers say of the picture; default: label and caption.
        left_out: rows that the table leaves out; it says so.
        text_columns: columns of the table to align left.
    """
    svg = inline_svg(figure, alt=alt or f"{label}. {caption}")
    more = f" ({count_text(left_out)} more are left out)" if left_out else ""
    table = html_table(heads, rows, label=label, text_columns=text_columns)
    html = (
        f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"
        f"<details><summary>The same as a table{more}</summary>{table}</details>"
    )
    words = text_table(heads, rows, text_columns=text_columns)
    return Block(html=html, text=f"{caption}\n\n{words}", kind=kind)


def table_block(
    heads: Sequence[str],
    rows: Rows,
    *,
    caption: str,
    label: str,
    kind: str,
    text_columns: Collection[int] = (),
) -> Block:
    """A table with a sentence above it."""
    html = (
        f"<p>{escaped(caption)}</p>"
        f"{html_table(heads, rows, label=label, text_columns=text_columns)}"
    )
    words = text_table(heads, rows, text_columns=text_columns)
    return Block(html=html, text=f"{caption}\n\n{words}", kind=kind)


def headline_block(evaluation: AbstractEvaluation) -> Block:
    """The few numbers that an evaluation is compared by."""
    figures = [("Examples", count_text(evaluation.examples))]
    figures += [(name, number_text(value)) for name, value in evaluation.headline().items()]
    words = "\n".join(f"{name}: {value}" for name, value in figures)
    return Block(html=figure_list(figures), text=words, kind="headline")


def number_text(value: float) -> str:
    """Four decimals for rates, four digits for what is far from 1.

    Example:
        >>> [number_text(value) for value in (0.98765, 0.0, 12345.6, 0.00012)]
        ['0.9877', '0', '1.235e+04', '0.00012']
    """
    if value == 0:
        return "0"
    return f"{value:.4f}" if 1e-3 <= abs(value) < 1e3 else f"{value:.4g}"


def short_name(name: str, most: int = 18) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def named_axes(
    *, x: str, y: str, width_inches: float = 4.6, height_inches: float = 3.9
) -> "tuple[Figure, Axes]":
    """A new figure with one pair of axes, dressed for any page.

    Figures are as wide as half a page, so that their text can be read on a narrow one.
    """
    figure = new_figure(width_inches=width_inches, height_inches=height_inches)
    axes = figure.add_subplot()
    name_axes(axes, x=x, y=y)
    return figure, axes


def name_axes(axes: "Axes", *, x: str, y: str) -> None:
    """Labels and ticks in the colour of the text around."""
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    dress(axes)


def legend_above(axes: "Axes", *, columns: int = 2) -> None:
    """A legend that hides no line."""
    legend(axes, columns=columns, borderaxespad=0.2, handlelength=2.4)
