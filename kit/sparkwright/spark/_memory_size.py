"""Amounts of memory as Spark writes them, in MiB; pure."""

import re
from typing import Any

from sparkwright.errors import ConfigurationError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(b|[kmgtp]i?b?)?\s*", re.IGNORECASE)
_MIB = {"b": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20, "p": 2**30}


def mib_in(text: str) -> float | None:
    """MiB that a text such as "2g" says; without a unit it says MiB. None if it is no size.

    Units are those that Spark reads, from "b" to "p", also as "gb" and "gib", all of them powers of
    1,024. Parts of one, as in "1.5g", Spark does not read.

    Example:
        >>> mib_in("2g"), mib_in("512"), mib_in("1048576b"), mib_in("much")
        (2048.0, 512.0, 1.0, None)
    """
    found = _SIZE.fullmatch(text)
    return None if found is None else float(found[1]) * _MIB[(found[2] or "m")[0].lower()]


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
        mib = mib_in(value) or 0
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
