"""Parts of reports: tables and figures, as text for a terminal and as HTML."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from .plots import new_axes, titled

MOST_ROWS = 30  # most rows of a table shown by default
_LEFT = "text-align:left;padding:2px 8px"
_RIGHT = "text-align:right;padding:2px 8px"
_NAME_WIDTH = 20

Row = Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title line above; without rows, only the title."""

    rows: Sequence[Row] = ()  # the first one is the header; the first column holds the names
    title: str = ""
    tints: Sequence[Row] | None = None  # CSS colors of the cells, without header and names
    text_columns: Collection[int] = ()  # columns to align left, in addition to the first
    left_out: int = 0  # number of omitted rows

    def text_lines(self) -> list[str]:
        """Lines for a terminal, after an empty line."""
        title = ["", self.title] if self.title else []
        return [*title, *(["", *aligned(self.rows, self.text_columns)] if self.rows else [])]

    def html(self) -> str:
        """Return title and table as HTML."""
        title = f"<p style='white-space:pre-wrap'>{escape(self.title)}</p>" if self.title else ""
        if not self.rows:
            return title
        head, *body = self.rows
        lines = [self._html_row("th", "th", head, ())]
        for row, tints in zip(body, self.tints or [()] * len(body), strict=True):
            lines.append(self._html_row("th", "td", row, tints))
        return f"{title}{_html_table(lines)}"

    def _html_row(self, first: str, tag: str, row: Row, tints: Row) -> str:
        cells: list[str] = []
        for column, cell in enumerate(row):
            kind = tag if column else first
            style = _LEFT if column == 0 or column in self.text_columns else _RIGHT
            if column and tints:
                style += f";background:{tints[column - 1]}"
            cells.append(f"<{kind} style='{style}'>{escape(cell)}</{kind}>")
        return f"<tr>{''.join(cells)}</tr>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A drawing, a one-sentence caption, and the same content as a table."""

    kind: str  # such as "roc"
    label: str  # short title of figure and table
    caption: str
    draw: Callable[[Any], None]  # draws on matplotlib Axes
    table: Table
    size: tuple[float, float] = (4.6, 3.9)  # inches

    def plot(self, axes: Any | None = None, *, title: str | None = None) -> Any:
        """Draw with a title on `axes`, by default on a new figure; return the axes.

        Raises:
            ConfigurationError: if matplotlib is not installed.
        """
        drawn = new_axes(*self.size) if axes is None else axes
        self.draw(drawn)
        return titled(drawn, self.label if title is None else title)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The content of a report, from top to bottom."""

    title: str
    headline: Sequence[tuple[str, str, str]] = ()  # name, value and note
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()

    def text(self) -> str:
        """Return the report for a terminal."""
        width = max([_NAME_WIDTH, *(len(name) for name, _, _ in self.headline)])
        lines = [
            f"{name:<{width}}{value:>8}{f'  {note}' if note else ''}"
            for name, value, note in self.headline
        ]
        head = [self.title, *(["", *lines] if lines else []), *self.notes]
        return "\n".join([*head, *(line for table in self.tables for line in table.text_lines())])

    def html(self) -> str:
        """Return the report for a notebook, without scripts and style sheets."""
        rows = [
            f"<tr><th style='{_LEFT}'>{escape(name)}</th><td style='{_RIGHT}'>{escape(value)}</td>"
            + (f"<td style='{_LEFT}'>{escape(note)}</td></tr>" if note else "</tr>")
            for name, value, note in self.headline
        ]
        parts = [f"<p><b>{escape(self.title)}</b></p>", _html_table(rows) if rows else ""]
        parts += [f"<p>{escape(note)}</p>" for note in self.notes]
        parts += [table.html() for table in self.tables]
        return f'<div class="sparkwright-evaluation">{"".join(parts)}</div>'


def aligned(rows: Sequence[Row], text_columns: Collection[int] = ()) -> list[str]:
    """Pad columns to their widest cells: the first and text columns left, others right aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 or column in text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _html_table(lines: Sequence[str]) -> str:
    return f"<table><tbody>{''.join(lines)}</tbody></table>"
