"""Reports of evaluations, as text for a terminal and as HTML for a notebook."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LEFT = "text-align:left;padding:2px 8px"
_RIGHT = "text-align:right;padding:2px 8px"
_NAME_WIDTH = 20

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a line above it; without rows only that line.

    Attributes:
        rows: the first one is the head; the first column is the names.
        title: the line above; "" for none.
        tints: CSS background colors of the cells after the names, a list a row without the head.
    """

    rows: Sequence[Row] = ()
    title: str = ""
    tints: Sequence[Row] | None = None

    def text_lines(self) -> list[str]:
        """Lines for a terminal, with an empty one before."""
        title = ["", self.title] if self.title else []
        return [*title, *(["", *aligned(self.rows)] if self.rows else [])]

    def html(self) -> str:
        """The line and the table."""
        title = f"<p style='white-space:pre-wrap'>{escape(self.title)}</p>" if self.title else ""
        if not self.rows:
            return title
        head, *body = self.rows
        tints = self.tints or [()] * len(body)
        rows = [
            html_row(row[0], row[1:], tints=colors) for row, colors in zip(body, tints, strict=True)
        ]
        return title + html_table(head, rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The content of a report.

    Attributes:
        title: the first line.
        headline: name, value and note of the most important numbers.
        notes: sentences below them.
        tables: below these.
    """

    title: str
    headline: Sequence[tuple[str, str, str]] = ()
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()

    def text(self) -> str:
        """The report for a terminal."""
        width = max([_NAME_WIDTH, *(len(name) for name, _, _ in self.headline)])
        lines = [
            f"{name:<{width}}{value:>8}{f'  {note}' if note else ''}"
            for name, value, note in self.headline
        ]
        head = [self.title, *(["", *lines] if lines else []), *self.notes]
        return "\n".join([*head, *(line for table in self.tables for line in table.text_lines())])

    def html(self) -> str:
        """The report for a notebook: no scripts, no style sheet."""
        rows = [html_row(name, [value], note=note) for name, value, note in self.headline]
        parts = [html_table([], rows)] if rows else []
        parts += [f"<p>{escape(note)}</p>" for note in self.notes]
        return html_report(self.title, *parts, *(table.html() for table in self.tables))


def aligned(rows: Sequence[Row]) -> list[str]:
    """Columns as wide as their widest cell: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def html_table(head: Row, rows: Sequence[str]) -> str:
    """A table of `html_row`s; without a head if that is empty."""
    cells = "".join(
        f"<th style='{_RIGHT if column else _LEFT}'>{escape(name)}</th>"
        for column, name in enumerate(head)
    )
    top = f"<thead><tr>{cells}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{''.join(rows)}</tbody></table>"


def html_row(name: str, cells: Row, *, note: str = "", tints: Row | None = None) -> str:
    """A row: a name, cells to the right, and a note; all of it escaped.

    Args:
        name: of the row.
        cells: the rest.
        note: a last cell, to the left; default none.
        tints: CSS colors of the cells' backgrounds; default none.
    """
    found = "".join(
        f"<td style='{_RIGHT}{f';background:{tint}' if tint else ''}'>{escape(cell)}</td>"
        for cell, tint in zip(cells, tints or [""] * len(cells), strict=True)
    )
    found += f"<td style='{_LEFT}'>{escape(note)}</td>" if note else ""
    return f"<tr><th style='{_LEFT}'>{escape(name)}</th>{found}</tr>"


def html_report(title: str, *parts: str) -> str:
    """A title in bold and the parts, as one block."""
    head = f"<p><b>{escape(title)}</b></p>"
    return f'<div class="sparkwright-evaluation">{head}{"".join(parts)}</div>'
