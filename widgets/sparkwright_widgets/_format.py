"""Format numbers, durations and texts. Pure.

All text in HTML goes through `escaped`, which also removes terminal colors in text of workers and
of Keras with `plain`.
"""

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.evaluation.numbers import number_text as number_text, short_number as short_number

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_UNITS = ("KiB", "MiB", "GiB", "TiB")
loss_text = number_text
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain(text: str) -> str:
    r"""Remove terminal escapes and control characters; keep tabs and line breaks.

    Example:
        >>> plain("\x1b[1mshape\x1b[0m mismatch")
        'shape mismatch'
    """
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n")))


def escaped(value: object) -> str:
    """Convert any value to text that is safe in HTML elements and quoted attributes."""
    return html.escape(plain(str(value)), quote=True)


def count_text(value: float) -> str:
    """Whole numbers with thousands separators.

    Example:
        >>> count_text(12000)
        '12,000'
    """
    return f"{value:,.0f}"


def counted(count: int, one: str, many: str = "") -> str:
    """A number and its noun.

    Example:
        >>> counted(1, "worker"), counted(2, "worker")
        ('1 worker', '2 workers')
    """
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"


def rate_text(examples_per_s: float) -> str:
    """Examples per second, with about three significant digits.

    Example:
        >>> [rate_text(value) for value in (6123.4, 87.25, 0.5)]
        ['6,123', '87.2', '0.50']
    """
    if not math.isfinite(examples_per_s):
        return "—"
    if examples_per_s >= 100:
        return count_text(examples_per_s)
    return f"{examples_per_s:.1f}" if examples_per_s >= 10 else f"{examples_per_s:.2f}"


def percent_text(share: float | None) -> str:
    """A fraction in percent, with three significant digits.

    Example:
        >>> [percent_text(value) for value in (0.044776, 0.00012, 0.0, 1.0, None)]
        ['4.48%', '0.012%', '0%', '100%', '—']
    """
    if share is None or not math.isfinite(share):
        return "—"
    return f"{100 * share:.3g}%"


def bytes_text(size_bytes: float) -> str:
    """A size in binary units.

    Example:
        >>> [bytes_text(value) for value in (0, 980, 9320, 48_000_000, 3 * 2**40)]
        ['0 B', '980 B', '9.1 KiB', '45.8 MiB', '3.0 TiB']
    """
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    size, unit = size_bytes / 1024, 0
    while size >= 1023.95 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {_UNITS[unit]}"


def duration_text(seconds: float | None) -> str:
    """A duration in readable units.

    Example:
        >>> [duration_text(value) for value in (0.42, 7.04, 65, 3725, None)]
        ['0.4 s', '7 s', '1 min 05 s', '1 h 02 min', '—']
    """
    if seconds is None or not math.isfinite(seconds):
        return "—"
    if seconds < 1:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def ago_text(seconds: float) -> str:
    """The time since a worker's last message; constant below 5 s to avoid flicker.

    Example:
        >>> [ago_text(value) for value in (0.3, 8.7, 130)]
        ['just now', '8 s ago', '2 min 10 s ago']
    """
    return "just now" if seconds < 5 else f"{duration_text(math.floor(seconds))} ago"


def shape_text(shape: Sequence[int | None] | None) -> str:
    """The shape of one example as text.

    Example:
        >>> [shape_text(shape) for shape in ((28, 28, 1), (None, 8), (), None)]
        ['28 x 28 x 1', 'any x 8', 'one number', '—']
    """
    if shape is None:
        return "—"
    sizes = ("any" if size is None else count_text(size) for size in shape)
    return " x ".join(sizes) or "one number"


def shortened(text: str, length: int) -> str:
    """Truncate `text` to `length` characters, ending with "…"."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def short_value(value: Any) -> str:
    """The value of a setting in one line.

    Example:
        >>> [short_value(value) for value in (None, True, 0.00100000005, [3, 3], {"kind": "x"})]
        ['none', 'yes', '0.001', '3, 3', 'kind=x']
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return short_number(value, 6)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={short_value(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(short_value, value))
    return str(value)
