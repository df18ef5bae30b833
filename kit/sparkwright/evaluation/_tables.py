"""Tables of a report, as text for a terminal and as HTML for a notebook."""

from collections.abc import Sequence
from html import escape

_LEFT = "text-align:left;padding:2px 8px"
_RIGHT = "text-align:right;padding:2px 8px"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def html_table(head: Sequence[str], rows: Sequence[str]) -> str:
    """A table of `html_row`s; without a head if that is empty."""
    cells = "".join(
        f"<th style='{_RIGHT if column else _LEFT}'>{escape(name)}</th>"
        for column, name in enumerate(head)
    )
    top = f"<thead><tr>{cells}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{''.join(rows)}</tbody></table>"


def html_row(
    name: str, cells: Sequence[str], *, note: str = "", tints: Sequence[str] | None = None
) -> str:
    """A row: a name, cells to the right, and a note; all of it escaped.

    Args:
        name: of the row.
        cells: the rest.
        note: a last cell, to the left; default none.
        tints: CSS colours of the cells' backgrounds, "" for none.
    """
    found = "".join(
        f"<td style='{_RIGHT}{f';background:{tint}' if tint else ''}'>{escape(cell)}</td>"
        for cell, tint in zip(cells, tints or [""] * len(cells), strict=True)
    )
    found += f"<td style='{_LEFT}'>{escape(note)}</td>" if note else ""
    return f"<tr><th style='{_LEFT}'>{escape(name)}</th>{found}</tr>"


def html_report(title: str, *parts: str) -> str:
    """A title in bold and what follows, as one block."""
    head = f"<p><b>{escape(title)}</b></p>"
    return f'<div class="sparkwright-evaluation">{head}{"".join(parts)}</div>'
