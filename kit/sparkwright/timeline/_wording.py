"""Durations and counts as a person reads them."""

import math


def seconds_text(seconds: float) -> str:
    """A duration to three digits, in the unit that suits it.

    Example:
        >>> [seconds_text(value) for value in (0.0, 2.5e-6, 0.0421, 7.04, 83.0, 36000.0)]
        ['0', '2.5 µs', '42.1 ms', '7.04 s', '1 min 23 s', '10 h 00 min']
        >>> [seconds_text(value) for value in (9.994e-4, 9.996e-4, 0.9996, 59.96)]
        ['999 µs', '1 ms', '1 s', '1 min 00 s']
    """
    if not math.isfinite(seconds):
        return "—"
    if seconds == 0:
        return "0"
    if abs(seconds) < 0.9995e-3:
        return f"{seconds * 1e6:.3g} µs"
    if abs(seconds) < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if abs(seconds) < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def percent_text(share: float) -> str:
    """A share in percent.

    Example:
        >>> [percent_text(value) for value in (0.0, 0.00004, 0.0153, 0.714)]
        ['0%', '<0.1%', '1.5%', '71.4%']
    """
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{100 * share:.3g}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"
