"""Long values in short messages."""

from collections.abc import Iterable
from typing import Any


def shortened(values: Iterable[Any], *, limit: int = 10) -> str:
    """The first few of `values` as text.

    Example:
        >>> shortened(range(20), limit=3)
        '0, 1, 2, … (20 in all)'
    """
    items = list(values)
    text = ", ".join(clipped(str(item)) for item in items[:limit])
    return text if len(items) <= limit else f"{text}, … ({len(items)} in all)"


def clipped(text: str, *, limit: int = 60) -> str:
    """`text`, or its beginning: what is wrong in a file may be megabytes long.

    Example:
        >>> clipped("abcdefgh", limit=4)
        'abcd…'
    """
    return text if len(text) <= limit else f"{text[:limit]}…"
