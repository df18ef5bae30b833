"""Sums of real numbers without any rounding, so that the order of adding cannot matter.

A float64 is an integer times a power of two; so is a sum of them. Such a sum is kept as one Python
integer, in units of 2**-1126, which even the smallest float64 is a multiple of. Adding two is
adding integers, exactly; only what is finally read off is rounded, once.
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

_SCALE_BITS = 1126  # of the smallest subnormal's mantissa, seen as 53 bits
# float64 adds 2**24 integers of 27 bits exactly; blocks that fit a cache are ten times as fast.
_ROWS = 1 << 18
_SPLIT = float((1 << 27) + 1)
LARGEST = 1e150  # squares of larger numbers would overflow
SMALLEST = 1e-130  # of smaller ones, a square's last bits fit no float64

Floats = NDArray[np.float64]


def exact_sum(values: Floats) -> int:
    """The sum of finite numbers, in units of 2**-1126.

    Args:
        values: any shape, float64, all finite.

    Example:
        >>> as_float(exact_sum(np.array([1e100, 1.0, -1e100])))
        1.0
    """
    return exact_sums(values.reshape(-1), np.zeros(values.size, np.int64), 1)[0]


def exact_sums(values: Floats, groups: NDArray[np.integer[Any]], count: int) -> list[int]:
    """Sums by group.

    Args:
        values: (n,) float64, all finite.
        groups: (n,) integers from 0 to `count` - 1.
        count: number of groups.

    Returns:
        A sum for each group, in units of 2**-1126.
    """
    totals = [0] * count
    for start in range(0, values.size, _ROWS):
        _add_block(totals, values[start : start + _ROWS], groups[start : start + _ROWS])
    return totals


def _add_block(totals: list[int], values: Floats, groups: NDArray[np.integer[Any]]) -> None:
    fractions, exponents = np.frexp(values)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    lowest = int(exponents.min())
    span = int(exponents.max()) - lowest + 1
    cells = groups.astype(np.int64) * span + (exponents - lowest)
    names: NDArray[np.int64] | None = None
    if (int(cells.max()) + 1) > 4 * values.size:  # many groups, few numbers: leave out empty cells
        names, cells = np.unique(cells, return_inverse=True)
    # Two halves, each small enough that float64 adds a block of them without rounding.
    high = np.bincount(cells, weights=(mantissas >> 27).astype(np.float64))
    low = np.bincount(cells, weights=(mantissas & ((1 << 27) - 1)).astype(np.float64))
    found = np.flatnonzero((high != 0) | (low != 0))
    for cell, upper, lower in zip(
        (found if names is None else names[found]).tolist(),
        high[found].tolist(),
        low[found].tolist(),
        strict=True,
    ):
        group, exponent = divmod(cell, span)
        units = (int(upper) << 27) + int(lower)
        totals[group] += units << (exponent + lowest - 53 + _SCALE_BITS)


def exact_product_sum(first: Floats, second: Floats) -> int:
    """The sum of products, each without rounding, in units of 2**-1126.

    Args:
        first: (n,) float64, each 0 or from `SMALLEST` to `LARGEST` in size.
        second: likewise.
    """
    return exact_product_sums(first, second, np.zeros(first.size, np.int64), 1)[0]


def exact_product_sums(
    first: Floats, second: Floats, groups: NDArray[np.integer[Any]], count: int
) -> list[int]:
    """Sums of products by group, each product without rounding.

    Args:
        first: (n,) float64, each 0 or from `SMALLEST` to `LARGEST` in size.
        second: likewise.
        groups: (n,) integers from 0 to `count` - 1.
        count: number of groups.

    Returns:
        A sum for each group, in units of 2**-1126.
    """
    totals = [0] * count
    for start in range(0, first.size, _ROWS):
        block = slice(start, start + _ROWS)
        product, rest = exact_products(first[block], second[block])
        _add_block(totals, product, groups[block])
        if rest.any():  # products of float32 fit float64
            _add_block(totals, rest, groups[block])
    return totals


def exact_products(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Rounded products, and what rounding took from them.

    References:
        T. J. Dekker, "A floating-point technique for extending the available precision",
        Numerische Mathematik 18 (1971).
    """
    product = first * second
    first_high, first_low = _halves(first)
    second_high, second_low = _halves(second)
    rest = first_high * second_high - product
    rest = rest + first_high * second_low + first_low * second_high + first_low * second_low
    return product, rest


def _halves(values: Floats) -> tuple[Floats, Floats]:
    spread = _SPLIT * values
    high = spread - (spread - values)
    return high, values - high


def as_float(total: int) -> float:
    """The float64 nearest to an exact sum."""
    return total / (1 << _SCALE_BITS)


def as_fraction(total: int) -> Fraction:
    """An exact sum, to calculate with."""
    return Fraction(total, 1 << _SCALE_BITS)


def to_text(total: int) -> str:
    """An exact sum as text, `"<hexadecimal>p<power of two>"`.

    Example:
        >>> to_text(exact_sum(np.array([0.5, 4.0]))), as_float(from_text("9p-1"))
        ('9p-1', 4.5)
    """
    if total == 0:
        return "0p0"
    zeros = (total & -total).bit_length() - 1
    return f"{total >> zeros:x}p{zeros - _SCALE_BITS}"


def from_text(text: Any) -> int:
    """The inverse of `to_text`.

    Raises:
        DataError: if it is no such text.
    """
    try:
        digits, _, power = text.partition("p")
        number, shift = int(digits, 16), int(power) + _SCALE_BITS
        if len(digits) > 1000 or not 0 <= shift <= 1 << 13:
            raise ValueError(text[:40])
    except (AttributeError, ValueError):
        raise DataError(
            'a sum in an evaluation must be text like "9p-1", 9 * 2**-1, hexadecimal. '
            f"Received: {text!r:.60}."
        ) from None
    return number << shift if number else 0
