import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright_widgets._lines import halved, per_column

losses = st.one_of(st.floats(-100, 100, width=32), st.sampled_from([np.nan, np.inf]))


@st.composite
def curves(draw, most=200):
    y = draw(npst.arrays(np.float32, st.integers(0, most), elements=losses))
    return np.stack([np.arange(len(y), dtype=np.float32), y], axis=1)


def finite(points):
    return points[np.isfinite(points[:, 1]), 1]


@given(points=curves())
def test_halving_keeps_half_of_each_full_group_in_order(points):
    kept = halved(points)
    assert len(kept) == len(points) // 4 * 2 + len(points) % 4
    assert (np.diff(kept[:, 0]) > 0).all()


@given(points=curves())
def test_halving_keeps_the_highest_value_and_every_gap(points):
    kept = halved(points)
    if len(finite(points)):
        assert finite(kept).max() == finite(points).max()
    assert np.isfinite(points[:, 1]).all() == np.isfinite(kept[:, 1]).all()


@given(points=curves(), columns=st.integers(1, 40))
def test_columns_keep_extremes_and_endpoints_and_stay_bounded(points, columns):
    kept = per_column(points, columns=columns)
    gaps = len(points) - len(finite(points))
    assert len(kept) <= 4 * (columns + gaps) + gaps or len(kept) == len(points)
    if len(finite(points)):
        assert finite(kept).min() == finite(points).min()
        assert finite(kept).max() == finite(points).max()
        assert finite(kept)[0] == finite(points)[0]
        assert finite(kept)[-1] == finite(points)[-1]


def test_curve_with_few_points_is_unchanged_and_columns_are_positive():
    points = np.array([[1, 2.0], [2, 1.0]])
    np.testing.assert_array_equal(per_column(points, columns=300), points)
    with pytest.raises(ValueError, match=r"Received: columns=0"):
        per_column(np.empty((0, 2)), columns=0)
