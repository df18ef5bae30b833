import math

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright.errors import NetworkError
from sparkwright.timeline.clocks import ClockState, OffsetEstimator, compare_clocks

ways_s = st.floats(1e-6, 5.0)
offsets_s = st.floats(-1e6, 1e6)


def exchange(at_s, offset_s, there_s, back_s):
    """t0 to t3 of one question, asked at `at_s`, and answered a millisecond after it came."""
    came_s = at_s + there_s + offset_s
    answered_s = came_s + 1e-3
    return at_s, came_s, answered_s, answered_s - offset_s + back_s


@given(offset_s=offsets_s, ways=st.lists(st.tuples(ways_s, ways_s), min_size=1, max_size=30))
def test_offset_lies_within_the_uncertainty_for_asymmetric_delays(offset_s, ways):
    estimator, now_s = OffsetEstimator(), 0.0
    for there_s, back_s in ways:
        times = exchange(now_s, offset_s, there_s, back_s)
        estimator = estimator.with_exchange(*times)
        now_s = times[3]
    found = estimator.estimate(now_s)
    assert abs(found.offset_s - offset_s) <= found.uncertainty_s + 1e-8


def test_fastest_exchange_determines_the_offset_until_the_clock_drifts():
    estimator = OffsetEstimator()
    for there_s, back_s in ((0.5, 0.001), (0.001, 0.002), (0.001, 0.9)):
        times = exchange(100.0, 7.0, there_s, back_s)
        estimator = estimator.with_exchange(*times)
    found = estimator.estimate(100.0)
    assert found.offset_s == pytest.approx(7.0 - 0.0005)
    assert found.uncertainty_s == pytest.approx(0.0015)
    estimator = OffsetEstimator()
    for at_s, offset_s, way_s in ((0.0, 5.0, 0.001), (1000.0, 5.03, 0.004)):
        times = exchange(at_s, offset_s, way_s, way_s)
        estimator = estimator.with_exchange(*times)
    soon, late = estimator.estimate(1.0), estimator.estimate(1001.0)
    assert (soon.offset_s, late.offset_s) == pytest.approx((5.0, 5.03))
    assert late.uncertainty_s < 0.005


@cases(
    "times",
    (0.0, 1.0, 0.5, 2.0),  # answered before it came
    (0.0, 1.0, 5.0, 2.0),  # it took longer there than from question to answer
    (math.nan, 1.0, 1.0, 2.0),
    (0.0, math.inf, math.inf, 2.0),
)
def test_impossible_exchange_is_ignored(times):
    assert OffsetEstimator().with_exchange(*times).estimate(3.0) is None


@given(
    worker_ahead_s=st.floats(-1e4, 1e4), boot_s=st.floats(-1e6, 1e6), wrong_s=st.floats(-0.5, 0.5)
)
def test_each_source_computes_the_best_possible_offset(worker_ahead_s, boot_s, wrong_s):
    """A worker started `boot_s` after the driver, with a clock ahead; the driver's is wrong."""
    driver_wall_s, worker_wall_s = 1e9, 1e9 + boot_s + worker_ahead_s
    ntp = {"source": "ntp", "uncertainty_s": 0.01}
    measured = compare_clocks(
        ClockState(wall_s=worker_wall_s, source="driver", offset_s=boot_s, uncertainty_s=1e-4),
        ClockState(wall_s=driver_wall_s, source="system"),
    )
    by_ntp = compare_clocks(
        ClockState(wall_s=worker_wall_s, offset_s=-wrong_s - worker_ahead_s, **ntp),
        ClockState(wall_s=driver_wall_s, offset_s=-wrong_s, **ntp),
    )
    for found in (measured, by_ntp):
        assert found.to_driver_s == pytest.approx(boot_s, abs=1e-5)
        assert found.ahead_s == pytest.approx(worker_ahead_s, abs=1e-5)
    assert by_ntp.uncertainty_s == pytest.approx(0.02)
    believed = compare_clocks(
        ClockState(wall_s=worker_wall_s, source="system"),
        ClockState(wall_s=driver_wall_s, offset_s=-wrong_s, **ntp),
    )
    assert believed.to_driver_s == pytest.approx(boot_s + worker_ahead_s, abs=1e-5)
    assert (believed.ahead_s, believed.uncertainty_s, believed.source) == (0.0, None, "system")


@cases(
    "state",
    ClockState(wall_s=1.5, source="system"),
    ClockState(wall_s=1.5, source="driver", offset_s=-2.0, uncertainty_s=0.25),
)
def test_clock_state_round_trips_through_plain_values(state):
    assert ClockState.from_dict(state.to_dict()) == state


@cases(
    "changes",
    {"source": "gps"},
    {"source": None},
    {"wall_s": math.nan},
    {"wall_s": "1.5"},
    {"offset_s": math.inf},
    {"offset_s": 10**400},
    {"uncertainty_s": True},
)
def test_invalid_clock_state_is_rejected(changes):
    fields = ClockState(wall_s=1.5, source="system").to_dict()
    with pytest.raises(NetworkError, match="the state of clocks must have"):
        ClockState.from_dict({**fields, **changes})
