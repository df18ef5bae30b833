from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from tests.cases import cases

from sparkwright.data import DataSet
from sparkwright.data.column_statistics import (
    QUANTILES,
    RowSample,
    column_statistics,
    priorities_of,
    summaries_of,
)
from sparkwright.normalizers.moments import Moments

numbers = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 3)),
    elements=st.one_of(
        st.floats(-1e6, 1e6), st.sampled_from([0.0, np.nan, np.inf, -np.inf, 1.0, 1.0])
    ),
)
edges = st.lists(st.integers(0, 40), max_size=5)
F = "features/features"


def summary_of(array, start=0, *, size=1000, **masks):
    found = summaries_of(
        DataSet(array, **masks).columns(), F, partition=2, start=start, size=size, seed=1
    )
    return next(iter(found.values()))


def grouped(array, cuts, *, backwards, size=1000):
    places = [0, *sorted(min(cut, len(array)) for cut in cuts), len(array)]
    parts = [summary_of(array[a:b], a, size=size) for a, b in pairwise(places) if b > a]
    if backwards:
        return reduce(lambda total, part: part + total, reversed(parts))
    return reduce(lambda total, part: total + part, parts)


@given(numbers, edges, st.booleans(), st.sampled_from([3, 1000]))
def test_summaries_merge_in_any_grouping(array, cuts, backwards, size):
    found, expected = (
        grouped(array, cuts, backwards=backwards, size=size),
        summary_of(array, size=size),
    )
    assert found.rows == expected.rows
    np.testing.assert_array_equal(found.counts, expected.counts)
    for name in ("count", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(found.moments, name), getattr(expected.moments, name))
    np.testing.assert_allclose(found.moments.mean, expected.moments.mean, 1e-12, 1e-9)
    np.testing.assert_allclose(found.moments.std, expected.moments.std, 1e-9, 1e-9)
    np.testing.assert_array_equal(found.sample.priorities, expected.sample.priorities)
    np.testing.assert_array_equal(found.sample.values, expected.sample.values)


@given(numbers, edges)
def test_statistics_equal_numpy(array, cuts):
    summary = grouped(array, cuts, backwards=False)
    for found, column in zip(column_statistics(F, summary), array.T, strict=True):
        finite = column[np.isfinite(column)]
        assert found.count == finite.size
        assert found.missing == np.isnan(column).sum()
        assert found.infinite == np.isinf(column).sum()
        assert found.zeros == (column == 0).sum()
        assert found.quantiles_exact
        if finite.size:
            assert (found.minimum, found.maximum) == (finite.min(), finite.max())
            scale = max(np.abs(finite).max(), 1e-300)
            assert found.mean == pytest.approx(finite.mean(), rel=1e-12, abs=1e-12 * scale)
            assert found.std == pytest.approx(finite.std(), rel=1e-9, abs=1e-9 * scale)
            quantiles = np.quantile(finite, QUANTILES)
            np.testing.assert_array_equal(list(found.quantiles.values()), quantiles)
        else:
            assert found.mean is found.std is found.minimum is found.maximum is None
            assert found.quantiles == {}


@cases("dtype, center", ("f4", 1e4), ("f8", 1e4), ("f8", 1e9), ("i4", 1e4), ("u1", 1e2))
def test_mean_and_deviation_agree_with_numpy_to_twelve_digits(dtype, center):
    random = np.random.default_rng(0)
    array = (random.normal(size=(50_000, 3)) * [1, 30, 7] + [100, 100, center]).astype(dtype)
    parts = [Moments.of(part) for part in np.array_split(array, 37)]
    found = reduce(Moments.__add__, parts)
    wide = array.astype(np.float64)
    np.testing.assert_allclose(found.mean, wide.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.std, wide.std(axis=0), rtol=1e-12)


def test_sample_represents_all_numbers():
    array = np.arange(100_000, dtype=np.float64)[:, None]
    found = column_statistics(F, grouped(array, [30_000, 31_000], backwards=False, size=2000))[0]
    assert not found.quantiles_exact
    assert found.count == 100_000
    rows = np.arange(100)
    drawn = {
        tuple(RowSample.of(rows[:, None], priorities_of(rows, **place), 10).values[:, 0])
        for place in ({"seed": s, "partition": p} for s, p in ((0, 0), (1, 0), (0, 1)))
    }
    assert len(drawn) == 3
    for at, value in found.quantiles.items():
        assert value == pytest.approx(at * 100_000, abs=5_000)


def test_masked_steps_do_not_count():
    array = np.array([[[1.0, 5], [np.nan, np.nan]], [[3, 5], [2, 8]]])
    summary = summary_of(array, features_masks=np.array([[1, 0], [1, 1]]))
    first, second = column_statistics(F, summary)
    assert (first.count, first.missing, first.mean, first.maximum) == (3, 0, 2.0, 3.0)
    assert (second.count, second.quantiles[0.5]) == (3, 5.0)
