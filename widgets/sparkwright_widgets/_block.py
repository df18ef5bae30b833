"""Report blocks, rendered as HTML in notebooks and as text elsewhere."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ._assets import asset
from ._format import escaped, plain
from ._table import html_table, text_table

_MOST_CHARACTERS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A report block as HTML and equivalent plain text.

    Attributes:
        html: an HTML fragment, safe to insert.
        text: plain text for terminals.
        kind: suffix of the CSS class, `sparkwright-KIND`.
    """

    html: str
    text: str
    kind: str

    def mimebundle(self) -> dict[str, str]:
        """The HTML with its styles, and the text."""
        style = f"<style>{asset('panel.css')}</style>"
        name = f"sparkwright-block sparkwright-{self.kind}"
        html = f'<section class="{name}">{style}{self.html}</section>'
        return {"text/html": html, "text/plain": self.text}

    def inside(self, *, wide: bool = False) -> str:
        """The HTML as an element, for a page that includes the styles."""
        name = f"sparkwright-block sparkwright-{self.kind}{' sparkwright-wide' if wide else ''}"
        return f'<div class="{name}">{self.html}</div>'

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return self.mimebundle()

    def __repr__(self) -> str:
        return self.text


def joined(kind: str, *parts: Block) -> Block:
    text = "\n".join(part.text for part in parts if part.text)
    return Block(html="".join(part.html for part in parts), text=text, kind=kind)


def sentence_block(sentence: str, *, kind: str = "sentence") -> Block:
    """A paragraph of plain text."""
    return Block(html=f"<p>{escaped(sentence)}</p>" if sentence else "", text=sentence, kind=kind)


def table_block(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    label: str,
    caption: str = "",
    kind: str = "table",  # of the block
    text_columns: Collection[int] = (),  # aligned left
    drawn_columns: Collection[int] = (),  # pictures, omitted from the text
) -> Block:
    """A table with a sentence above it."""
    html = html_table(heads, rows, label=label, text_columns={*text_columns, *drawn_columns})
    kept = [column for column in range(len(heads)) if column not in drawn_columns]
    words = text_table(
        [heads[column] for column in kept],
        [[row[column] for column in kept] for row in rows],
        text_columns=text_columns,
    )
    above = f"<p>{escaped(caption)}</p>" if caption else ""
    return Block(html=above + html, text=f"{caption}\n\n{words}" if caption else words, kind=kind)


def facts_block(pairs: Sequence[tuple[str, object]], *, label: str, kind: str = "facts") -> Block:
    """A table of names and values."""
    html = html_table(["Property", "Value"], pairs, label=label, text_columns=(1,))
    return Block(html=html, text="\n".join(f"{name}: {v}" for name, v in pairs), kind=kind)


def fold(title: str, html: str, *, opens: bool = False, prints: bool = False) -> Block:
    """HTML in a collapsible element; its text is empty. `prints`: open in print."""
    kind = ' class="sparkwright-printed"' if prints else ""
    html = (
        f"<details{kind}{' open' if opens else ''}><summary>{escaped(title)}</summary>"
        f"{html}</details>"
    )
    return Block(html=html, text="", kind="fold")


def text_fold(title: str, text: str, *, opens: bool = False, prints: bool = False) -> Block:
    """Preformatted text in a fold, truncated with a note after 200,000 characters."""
    text = plain(text).strip("\n")
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}\n… {len(text) - _MOST_CHARACTERS:,} more characters"
    html = f'<pre tabindex="0"><code>{escaped(text)}</code></pre>'
    return fold(title, html, opens=opens, prints=prints)


def json_fold(title: str, value: Any) -> Block:
    """Indented JSON in a fold; values that JSON lacks become text."""
    return text_fold(title, json.dumps(value, indent=2, default=str, ensure_ascii=False))
