import pytest
from hypothesis import given, strategies as st
from tests.support.switch import Link, LinkRule


@pytest.mark.parametrize(
    ("rule", "arrival_s"),
    [(LinkRule(), 1.0), (LinkRule(delay_s=0.02), 1.02), (LinkRule(cut=True), None)],
    ids=["without faults", "slow", "cut"],
)
def test_frames_arrive_after_the_delay_or_never(rule, arrival_s):
    assert Link(rule).arrival_s(1500, 1.0) == arrival_s


@given(seed=st.integers(0, 1000))
def test_same_seed_drops_the_same_frames(seed):
    def lost():
        link = Link(LinkRule(loss=0.3), seed=seed)
        return [link.arrival_s(1, 0.0) is None for _ in range(200)]

    assert lost() == lost()
    assert 20 <= sum(lost()) <= 100


@given(sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=50))
def test_slow_link_limits_throughput_and_keeps_order(sizes):
    link = Link(LinkRule(bytes_per_s=1000.0))
    arrivals = [link.arrival_s(size, 0.0) for size in sizes]
    assert arrivals == sorted(a for a in arrivals if a is not None)
    assert arrivals[-1] == pytest.approx(sum(sizes) / 1000.0)


def test_slow_link_drops_frames_that_exceed_its_buffer():
    link = Link(LinkRule(bytes_per_s=1000.0))
    arrivals = [link.arrival_s(9000, 0.0) for _ in range(1000)]
    assert arrivals[0] is not None
    assert arrivals[-1] is None
    assert link.arrival_s(9000, 1e6) == 1e6 + 9.0
