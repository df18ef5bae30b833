"""Amounts of memory as Spark writes them, in whole MiB; pure."""

import re
from typing import Any

from sparkwright.errors import ConfigurationError

_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


def parse_mib(name: str, value: Any) -> int:
    """MiB that `value` says, rounded up.

    Args:
        name: of the option, for the message.
        value: text such as "11g", "512m", "4 GB" (of 1,024 MB, as Spark counts), or whole MiB.

    Raises:
        ConfigurationError: if it is neither, or not greater than 0.

    Example:
        >>> parse_mib("container", "11g"), parse_mib("container", "1.5 GB"), parse_mib("x", 512)
        (11264, 1536, 512)
    """
    mib: float = 0
    if isinstance(value, int) and not isinstance(value, bool):
        mib = value
    elif isinstance(value, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", value.lower())
        mib = float(found[1]) * _UNITS[found[2] or "m"] if found else 0
    if mib <= 0:
        raise ConfigurationError(
            f"`{name}` must be an amount of memory greater than 0. Received: {name}={value!r}. "
            'Write "11g" or "512m", or a whole number of MiB.'
        )
    return -int(-mib // 1)


def mib_of_bytes(size_bytes: int) -> int:
    """MiB that hold so many bytes."""
    return -(-size_bytes // 2**20)


def mib_text(mib: int) -> str:
    """For a person.

    Example:
        >>> mib_text(11264)
        '11,264 MiB'
    """
    return f"{mib:,} MiB"
