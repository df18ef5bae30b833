"""Long texts in folds, and facts as a table of two columns. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright_widgets._format import escaped, plain
from sparkwright_widgets._table import html_table

_MOST_CHARACTERS = 200_000


def text_fold(title: str, text: str, *, opens: bool = False, prints: bool = False) -> str:
    """Text as it is, in a fold.

    Args:
        title: of the fold.
        text: cut off after 200,000 characters, and says so.
        opens: whether the fold is open at first; default False.
        prints: whether it is open on paper; default False.
    """
    text = plain(text).strip("\n")
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}\n… {len(text) - _MOST_CHARACTERS:,} more characters"
    kind = ' class="sparkwright-printed"' if prints else ""
    return (
        f"<details{kind}{' open' if opens else ''}><summary>{escaped(title)}</summary>"
        f'<pre tabindex="0"><code>{escaped(text)}</code></pre></details>'
    )


def json_text(value: Any) -> str:
    """JSON for readers; what JSON lacks becomes text."""
    return json.dumps(value, indent=2, default=str, ensure_ascii=False)


def facts_table(pairs: Sequence[tuple[str, object]], *, label: str) -> str:
    """What and how much, in two columns of text."""
    return html_table(["What", "Value"], pairs, label=label, text_columns=(1,))


def facts_text(pairs: Sequence[tuple[str, object]]) -> str:
    """The same for a terminal."""
    return "\n".join(f"{name}: {value}" for name, value in pairs)


def short_value(value: Any) -> str:
    """A setting in a line.

    Example:
        >>> [short_value(value) for value in (None, True, 0.00100000005, [3, 3], {"kind": "x"})]
        ['none', 'yes', '0.001', '3, 3', 'kind=x']
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={short_value(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(short_value, value))
    return str(value)
