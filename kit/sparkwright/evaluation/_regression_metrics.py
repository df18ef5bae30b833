"""The metrics of a regression, from the exact sums of an output to a number rounded once."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal

from ._output_sums import OutputSums

RegressionMetric = Literal[
    "mean_squared_error",
    "root_mean_squared_error",
    "mean_absolute_error",
    "max_error",
    "mean_error",
    "relative_squared_error",
    "pearson_correlation",
    "r2",
    "explained_variance",
]


def _mean(total: Fraction, sums: OutputSums) -> float:
    return float(total / sums.count)


def _root(value: Fraction) -> float:
    """The root, from a float64 that keeps all digits, however small or large the value is."""
    if value == 0:
        return 0.0
    power = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(value / Fraction(4) ** power), power)


def _rest(part: Fraction, whole: Fraction) -> Fraction:
    """Part of the whole; by convention 0 of 0 is nothing, and more than 0 of 0 is all of it."""
    return part / whole if whole else Fraction(int(part > 0))


def _rounded(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _relative_squared_error(sums: OutputSums) -> Fraction:
    return _rest(sums.squared_errors(), sums.label_variation())


def _correlation(sums: OutputSums) -> float:
    shared = sums.covariation()
    varied = sums.label_variation() * sums.prediction_variation()
    size = _root(shared**2 / varied) if varied else 0.0
    return size if shared >= 0 else -size


# Of an output with rows.
FORMULAS: dict[RegressionMetric, Callable[[OutputSums], float]] = {
    "mean_squared_error": lambda sums: _mean(sums.squared_errors(), sums),
    "root_mean_squared_error": lambda sums: _root(sums.squared_errors() / sums.count),
    "mean_absolute_error": lambda sums: _mean(sums.absolute_error_sum(), sums),
    "max_error": lambda sums: sums.largest_error,
    "mean_error": lambda sums: _mean(sums.errors(), sums),
    "relative_squared_error": lambda sums: _rounded(_relative_squared_error(sums)),
    "pearson_correlation": _correlation,
    "r2": lambda sums: _rounded(1 - _relative_squared_error(sums)),
    "explained_variance": lambda sums: _rounded(
        1 - _rest(sums.error_variation(), sums.label_variation())
    ),
}
