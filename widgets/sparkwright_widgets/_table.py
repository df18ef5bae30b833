"""Render a small table as HTML or plain text. Pure.

Cells are text unless they are `Markup`, which is trusted HTML made by this package.
"""

from collections.abc import Collection, Sequence

from sparkwright.evaluation.reports import aligned

from ._format import escaped


class Markup(str):
    """HTML that is already safe; everything else is escaped."""

    __slots__ = ()


def share_bar(count: float, largest: float) -> Markup:
    """A bar as long as the share of the largest count."""
    width = 100 * count / largest if largest else 0
    return Markup(
        f'<span class="sparkwright-share" aria-hidden="true"><span style="width:{width:.1f}%">'
        "</span></span>"
    )


def html_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    label: str,
    text_columns: Collection[int] = (),
    caption: str = "",
) -> str:
    """Return a table as HTML, in a box that scrolls horizontally on narrow pages.

    Args:
        heads: heading of each column; the first column holds row headings.
        rows: the cells, each row as long as `heads`.
        label: accessible name of the table.
        text_columns: indices of columns to align left; the others are numbers.
        caption: shown above the table; default none.
    """

    def cell(tag: str, column: int, value: object, scope: str = "") -> str:
        kind = ' class="sparkwright-text"' if column in text_columns else ""
        content = value if isinstance(value, Markup) else escaped(value)
        return f"<{tag}{scope}{kind}>{content}</{tag}>"

    head = "".join(cell("th", column, value, ' scope="col"') for column, value in enumerate(heads))
    body = "".join(
        "<tr>"
        + cell("th", 0, row[0], ' scope="row"')
        + "".join(cell("td", column, value) for column, value in enumerate(row[1:], start=1))
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return (
        f'<div class="sparkwright-scroll" tabindex="0" role="region" aria-label="{escaped(label)}">'
        f'<table class="sparkwright-table">{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def text_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    text_columns: Collection[int] = (),
) -> str:
    """Return a table for a terminal: columns padded to their widest cell, the first left-aligned.

    Example:
        >>> print(text_table(["worker", "rows"], [["0", 600], ["10", 1200]]))
        worker  rows
        0        600
        10      1200
    """
    cells = [list(map(str, row)) for row in [heads, *rows]]
    return "\n".join(aligned(cells, text_columns))
