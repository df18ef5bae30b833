"""Amounts of memory and times, as people and Spark's settings write them."""

import re

MIB, GIB = 1 << 20, 1 << 30
_TIME = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def size_text(size_bytes: float) -> str:
    """Such as "1.5 GiB".

    Example:
        >>> size_text(64 << 20)
        '64 MiB'
    """
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    return f"{size_bytes / MIB:.0f} MiB"


def seconds_of(text: str, *, unit: str = "s") -> float | None:
    """Seconds that a setting such as "30min" means; None if it is no time.

    Args:
        text: the setting.
        unit: what a number without a unit counts; default "s".

    Example:
        >>> seconds_of("300ms"), seconds_of("30min"), seconds_of("3", unit="ms")
        (0.3, 1800.0, 0.003)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) * _SECONDS[(match[2] or unit).lower()]
