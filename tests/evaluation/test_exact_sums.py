import math
from fractions import Fraction
from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.errors import DataError
from sparkwright.evaluation import _exact_sums as sums
from sparkwright.evaluation._portable_log import natural_log

any_floats = st.floats(allow_nan=False, allow_infinity=False)
# What squares can be taken of without losing a bit.
moderate = (
    st.just(0.0)
    | st.floats(sums.SMALLEST, sums.LARGEST)
    | st.floats(-sums.LARGEST, -sums.SMALLEST)
    | st.integers(-5, 5).map(float)
)


def arrays(elements: Any, most: int = 30) -> Any:
    return npst.arrays(np.float64, st.integers(0, most), elements=elements)


def exactly(values: Any) -> Fraction:
    return sum((Fraction(float(value)) for value in values), Fraction(0))


@given(values=arrays(any_floats))
def test_a_sum_is_exact(values: np.ndarray) -> None:
    assert sums.as_fraction(sums.exact_sum(values)) == exactly(values)


@given(values=arrays(st.floats(-1e300, 1e300)))
def test_a_sum_is_read_off_rounded_once(values: np.ndarray) -> None:
    assert sums.as_float(sums.exact_sum(values)) == math.fsum(values)


@given(values=arrays(any_floats), data=st.data())
def test_groups_are_summed_apart(values: np.ndarray, data: st.DataObject) -> None:
    groups = data.draw(npst.arrays(np.int64, values.size, elements=st.integers(0, 40)))
    totals = sums.exact_sums(values, groups, 41)
    assert list(map(sums.as_fraction, totals)) == [exactly(values[groups == g]) for g in range(41)]


@pytest.mark.parametrize("groups", [3, 100_000])
def test_many_numbers_and_many_groups_are_summed_in_blocks(groups: int) -> None:
    rng = np.random.default_rng(0)
    values = np.round(rng.normal(size=700_000) * 2.0**40) * 2.0**-20  # int64 holds their sums
    group = rng.integers(0, groups, values.size)
    units = np.zeros(groups, np.int64)
    np.add.at(units, group, (values * 2.0**20).astype(np.int64))
    totals = sums.exact_sums(values, group, groups)
    assert [sums.as_fraction(total) * 2**20 for total in totals] == units.tolist()


@given(pairs=st.lists(st.tuples(moderate, moderate), max_size=30))
def test_products_are_summed_exactly(pairs: list[tuple[float, float]]) -> None:
    first, second = np.array(pairs, np.float64).reshape(-1, 2).T
    expected = sum((Fraction(a) * Fraction(b) for a, b in pairs), Fraction(0))
    assert sums.as_fraction(sums.exact_product_sum(first, second)) == expected
    group = np.arange(len(pairs)) % 2
    by_group = sums.exact_product_sums(first, second, group, 2)
    assert sums.as_fraction(by_group[0] + by_group[1]) == expected


@given(values=arrays(any_floats))
def test_a_sum_survives_text(values: np.ndarray) -> None:
    total = sums.exact_sum(values)
    assert sums.from_text(sums.to_text(total)) == total


@pytest.mark.parametrize("text", [None, 5, "", "p", "9", "xyzp0", "1p99999", "1p-9999", "f" * 2000])
def test_what_is_no_sum_is_refused(text: Any) -> None:
    with pytest.raises(DataError, match="must be text"):
        sums.from_text(text)


@given(values=arrays(st.floats(1e-300, 1e300) | st.floats(0.5, 1)))
def test_the_portable_logarithm_is_that_of_the_library(values: np.ndarray) -> None:
    expected = [math.log(value) for value in values]
    np.testing.assert_allclose(natural_log(values), expected, rtol=1e-15, atol=0)


def test_the_portable_logarithm_of_a_number_does_not_depend_on_its_place() -> None:
    values = np.random.default_rng(0).random(1001) + 1e-9
    alone = [float(natural_log(values[i : i + 1])[0]) for i in range(len(values))]
    assert natural_log(values).tolist() == alone
    assert natural_log(values[::-3]).tolist() == alone[::-3]
