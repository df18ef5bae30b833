from tests.ratchet import grown


def test_numbers_above_their_limit_are_named():
    limits = {"jobs/spark": 100, "traces/data": 50, "kit/data": 7}
    assert grown({"jobs/spark": 102, "traces/data": 20}, limits, tolerance=0.02) == []
    assert grown({"jobs/spark": 103}, limits, tolerance=0.02) == ["jobs/spark: 103, recorded 100"]
    assert grown({"jobs/spark": 105}, limits, tolerance=0.02, slack=3) == []
    assert grown({"kit/data": 8}, limits) == ["kit/data: 8, recorded 7"]
    assert grown({"sessions/new": 1}, limits, tolerance=0.02) == ["sessions/new: 1, recorded 0"]
