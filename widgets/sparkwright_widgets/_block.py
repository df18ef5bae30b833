"""Pieces of reports: each shows itself as HTML in a notebook and as text elsewhere."""

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
    """HTML and plain text that say the same.

    Attributes:
        html: a fragment made by this package, safe to insert.
        text: the same for a terminal.
        kind: names the block in its class attribute, `sparkwright-KIND`.
    """

    html: str
    text: str
    kind: str

    def mimebundle(self) -> dict[str, str]:
        """HTML with the styles it needs, so that it looks right in any page, and the text."""
        style = f"<style>{asset('panel.css')}</style>"
        name = f"sparkwright-block sparkwright-{self.kind}"
        html = f'<section class="{name}">{style}{self.html}</section>'
        return {"text/html": html, "text/plain": self.text}

    def inside(self, *, wide: bool = False) -> str:
        """The HTML as an element of a page that holds the styles once."""
        name = f"sparkwright-block sparkwright-{self.kind}{' sparkwright-wide' if wide else ''}"
        return f'<div class="{name}">{self.html}</div>'

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        return self.mimebundle()

    def __repr__(self) -> str:
        return self.text


def joined(kind: str, *parts: Block) -> Block:
    """Several blocks as one."""
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
    kind: str = "table",
    text_columns: Collection[int] = (),
    drawn_columns: Collection[int] = (),
) -> Block:
    """A table with a sentence above it.

    Args:
        heads: of the columns.
        rows: the cells, see `html_table`.
        label: what the table shows, for screen readers.
        caption: the sentence; default none.
        kind: of the block.
        text_columns: columns to align left.
        drawn_columns: columns of pictures, which the text leaves out.
    """
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
    """Names and values, in two columns of text."""
    html = html_table(["What", "Value"], pairs, label=label, text_columns=(1,))
    return Block(html=html, text="\n".join(f"{name}: {v}" for name, v in pairs), kind=kind)


def fold(title: str, html: str, *, opens: bool = False, prints: bool = False) -> Block:
    """HTML that unfolds; its text is empty.

    Args:
        title: of the fold.
        html: inside.
        opens: whether it is open at first; default False.
        prints: whether it is open on paper; default False.
    """
    kind = ' class="sparkwright-printed"' if prints else ""
    html = (
        f"<details{kind}{' open' if opens else ''}><summary>{escaped(title)}</summary>"
        f"{html}</details>"
    )
    return Block(html=html, text="", kind="fold")


def text_fold(title: str, text: str, *, opens: bool = False, prints: bool = False) -> Block:
    """Text as it is, in a fold; cut off after 200,000 characters, and says so."""
    text = plain(text).strip("\n")
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}\n… {len(text) - _MOST_CHARACTERS:,} more characters"
    html = f'<pre tabindex="0"><code>{escaped(text)}</code></pre>'
    return fold(title, html, opens=opens, prints=prints)


def json_fold(title: str, value: Any) -> Block:
    """JSON for readers in a fold; what JSON lacks becomes text."""
    return text_fold(title, json.dumps(value, indent=2, default=str, ensure_ascii=False))
