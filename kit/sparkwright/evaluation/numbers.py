"""Number formats of reports and widgets."""

import math
import re


def number_text(value: float | None) -> str:
    """Format a number: four decimals up to 1, at least four significant digits above.

    Reports and widgets use it for all metrics. None is "—".

    Example:
        >>> [number_text(value) for value in (0.98765, 1, 2.3, 21979.6, 0, 0.00012, None)]
        ['0.9877', '1.0000', '2.300', '21,980', '0', '0.00012', '—']
        >>> [number_text(value) for value in (1.2e-7, -3.5e21, float("nan"))]
        ['1.2e-7', '-3.5e21', 'nan']
    """
    if value is None:
        return "—"
    size = abs(value)
    if not math.isfinite(value) or size == 0:
        return "0" if size == 0 else str(value)
    if size < 1e-3 or size >= 1e15:
        return short_number(value)
    return f"{value:,.{4 if size <= 1 else max(0, 3 - math.floor(math.log10(size)))}f}"


def short_number(value: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits, without trailing zeros or padded exponents.

    Example:
        >>> [short_number(value, 3) for value in (0.00123456, 2.5, 6123.4, 1.2e-7)]
        ['0.00123', '2.5', '6,123', '1.2e-7']
    """
    if 10**digits - 0.5 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return re.sub(r"e([+-])0*", lambda found: f"e{found[1].strip('+')}", f"{value:,.{digits}g}")


def short_count(value: float, digits: int = 3) -> str:
    """Format a number in few characters, for axes and cells of figures.

    Example:
        >>> [short_count(value) for value in (7, 1000, 12_345, -1_500_000, 2e9, 0.25, 2e-7)]
        ['7', '1,000', '12.3k', '-1.5M', '2G', '0.25', '2e-7']
    """
    if 9_999.5 <= abs(value) < 1e13:
        for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
            if abs(value) < 999.5 * size or unit == "G":
                return f"{value / size:.{digits}g}{unit}"
    return short_number(value, max(digits, 4))
