import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkwright.timeline.spans import (
    DURATION_BINS,
    bin_edges_s,
    coarse_histogram,
    duration_bins,
    duration_quantile_s,
)

lengths = st.lists(st.floats(2e-6, 1e6), min_size=1, max_size=200)


def counted(seconds):
    return np.bincount(duration_bins(np.array(seconds)), minlength=DURATION_BINS)


@given(lengths)
def test_each_duration_lies_in_its_bin(seconds):
    edges, bins = bin_edges_s(), duration_bins(np.array(seconds))
    assert (edges[bins] <= np.array(seconds) * (1 + 1e-12)).all()
    assert (np.array(seconds) <= edges[bins + 1] * (1 + 1e-12)).all()


@given(lengths, st.floats(0, 1))
def test_quantiles_are_within_two_and_a_quarter_percent(seconds, share):
    wanted = np.quantile(seconds, share, method="inverted_cdf")
    assert duration_quantile_s(counted(seconds), share) == pytest.approx(wanted, rel=0.0225)


@given(lengths)
def test_a_coarse_histogram_counts_every_span(seconds):
    edges, counts = coarse_histogram(counted(seconds))
    assert counts.sum() == len(seconds)
    assert len(counts) <= 20
    assert len(edges) == len(counts) + 1
    assert (np.diff(edges) > 0).all()


def test_no_duration_at_all_is_counted_as_such():
    counts = counted([0.0, 0.0, 3e-7])
    assert counts[0] == 3
    assert duration_quantile_s(counts, 0.5) == 0.0
    assert duration_quantile_s(np.zeros(DURATION_BINS, np.int64), 0.5) == 0.0


def test_durations_beyond_all_bins_are_in_the_last():
    assert duration_bins(np.array([1e12])).tolist() == [DURATION_BINS - 1]
