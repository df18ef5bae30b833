import json
from dataclasses import replace
from typing import get_args

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.partitions import (
    RepartitionMode,
    RepartitionStrategy,
    group_partitions,
    plan_repartition,
)

MODES = get_args(RepartitionMode)
STRATEGIES = get_args(RepartitionStrategy)

zeros = st.lists(st.just(0), max_size=7)
all_counts = st.lists(st.integers(0, 60) | st.just(0), max_size=12) | zeros
plans = st.builds(
    plan_repartition,
    all_counts,
    workers=st.integers(1, 13),
    mode=st.sampled_from(MODES),
    strategy=st.sampled_from(STRATEGIES),
    seed=st.integers(-(2**70), 2**70),
)


def all_destinations(plan):
    placement = plan.placement()
    return [placement.destinations(s, 0, count) for s, count in enumerate(plan.source_counts)]


@given(plan=plans)
def test_every_example_goes_to_exactly_one_target_as_counted(plan):
    placed = all_destinations(plan)
    assert [d.size for d in placed] == list(plan.source_counts)
    assert all(d.dtype == np.int32 for d in placed)
    flat = np.concatenate([*placed, np.empty(0, np.int32)])
    assert np.bincount(flat, minlength=plan.workers).tolist() == list(plan.target_counts)
    assert json.loads(json.dumps(plan.to_dict()))["rows_moved"] == plan.rows_moved
    moved = sum(int((d != source).sum()) for source, d in enumerate(placed))
    assert plan.rows_moved == moved
    if not flat.size:
        assert plan.action != "shuffled"
        assert (plan.skew_before, plan.skew_after, plan.idle_fraction) == (1.0, 1.0, 0.0)


@given(plan=plans, data=st.data())
def test_destinations_of_a_range_match_those_of_the_partition(plan, data):
    placement, whole = plan.placement(), all_destinations(plan)
    for source, count in enumerate(plan.source_counts):
        start = data.draw(st.integers(0, count))
        stop = data.draw(st.integers(start, count))
        found = placement.destinations(source, start, stop)
        np.testing.assert_array_equal(found, whole[source][start:stop])


@given(counts=all_counts, workers=st.integers(1, 13))
def test_balanced_keeps_order_and_sizes_differ_by_at_most_one(counts, workers):
    plan = plan_repartition(counts, workers=workers)
    assert max(plan.target_counts) - min(plan.target_counts) <= 1
    flat = np.concatenate([*all_destinations(plan), np.empty(0, np.int32)])
    assert (np.diff(flat) >= 0).all()
    if plan.action == "shuffled":
        size, surplus = divmod(sum(counts), workers)
        expected = [size + 1] * surplus + [size] * (workers - surplus)
        assert list(plan.target_counts) == expected


@given(counts=all_counts, workers=st.integers(1, 13))
def test_approximate_balanced_moves_only_from_partitions_above_the_mean(counts, workers):
    plan = plan_repartition(counts, workers=workers, strategy="approximate_balanced")
    mean = sum(counts) / workers
    for source, (count, goes_to) in enumerate(zip(counts, all_destinations(plan), strict=True)):
        if source < workers and count <= mean:
            assert (goes_to == source).all()
        gone = goes_to[goes_to != source]
        lacking = [t for t in range(workers) if t >= len(counts) or counts[t] < mean]
        if plan.action == "shuffled":
            assert set(gone.tolist()) <= set(lacking)


@given(counts=all_counts, workers=st.integers(1, 13), seed=st.integers(0, 9))
def test_spark_default_distributes_each_partition_evenly(counts, workers, seed):
    plan = plan_repartition(counts, workers=workers, strategy="spark_default", seed=seed)
    if plan.action != "shuffled":
        return
    for goes_to in all_destinations(plan):
        dealt = np.bincount(goes_to, minlength=workers)
        assert dealt.max() - dealt.min() <= 1
        assert (np.diff(goes_to) % workers == 1 % workers).all()


@given(counts=st.lists(st.integers(0, 50), max_size=7), workers=st.integers(1, 4))
def test_groups_are_near_optimal(counts, workers):
    groups = group_partitions(counts, workers)
    load = [sum(c for c, g in zip(counts, groups, strict=True) if g == w) for w in range(workers)]
    loads = {(0,) * workers}  # of all assignments
    for count in counts:
        loads = {
            tuple(sorted((*each[:w], each[w] + count, *each[w + 1 :])))
            for each in loads
            for w in range(workers)
        }
    assert 3 * max(load) <= 4 * min(map(max, loads))


def test_spark_default_depends_on_the_seed():
    found = {
        plan_repartition([1] * 8, workers=8, strategy="spark_default", seed=seed).target_counts
        for seed in range(20)
    }
    assert len(found) > 15


# Deeplearning4j's own tests: TestRepartitioning, BalancedPartitionerTest,
# HashingBalancedPartitionerTest.


@pytest.mark.parametrize("sources", [1, 2, 3, 7, 10, 29, 33, 100, 200])
@pytest.mark.parametrize("evenness", [0.1, 0.5, 1.0, 5.0, 1000.0])
def test_approximate_balanced_is_within_ten_percent_of_100(sources, evenness):
    random = np.random.default_rng(sources)
    for _ in range(10):
        shares = random.dirichlet(np.full(sources, evenness))
        counts = random.multinomial(1000, shares).tolist()
        plan = plan_repartition(counts, workers=10, strategy="approximate_balanced")
        assert max(plan.target_counts) <= 110
        assert min(plan.target_counts) >= 90


def test_approximate_balanced_follows_the_rules_of_deeplearning4j():
    # Its rules one by one; the uid is the example's place in the whole data.
    plan = plan_repartition([400, 100], workers=4, strategy="approximate_balanced")

    def draw(state):
        state = (2862933555777941757 * state + 1) % 2**64
        return state, ((state >> 33) + 1) / 2.0**31

    lacking = [0.0, 25 / 275, 150 / 275, 1.0]
    for uid, found in enumerate(all_destinations(plan)[0]):
        state, jumps = draw(uid)
        _, where = draw(state)
        stays = jumps >= 1 - 125 / 400
        probe = next(i for i, upto in enumerate(lacking) if upto >= where)
        assert found == (0 if stays else probe)


# Modes


def test_never_mode_splits_no_partition():
    plan = plan_repartition([5, 1, 4, 2], workers=2, mode="never")
    assert (plan.action, plan.groups, plan.target_counts) == ("grouped", (0, 0, 1, 1), (6, 6))
    fewer = plan_repartition([5, 1], workers=3, mode="never")
    assert (fewer.action, fewer.target_counts, fewer.rows_moved) == ("grouped", (5, 1, 0), 0)
    same = plan_repartition([9, 0, 0], workers=3, mode="never")
    assert (same.changed, same.target_counts) == (False, (9, 0, 0))
    uneven = plan_repartition([6, 2, 1], workers=3, mode="never")
    assert (uneven.skew_after, uneven.idle_fraction) == (2.0, pytest.approx(0.5))


def test_equally_many_or_balanced_partitions_are_unchanged():
    mode = "num_partitions_workers_differs"
    assert not plan_repartition([90, 0, 1], workers=3, mode=mode).changed
    assert plan_repartition([90, 0, 1], workers=2, mode=mode).target_counts == (46, 45)
    for strategy in STRATEGIES:
        plan = plan_repartition([2, 3, 2, 3], workers=4, strategy=strategy)
        assert plan.changed == (strategy == "spark_default")


def test_empty_partitions_are_added_and_removed_without_a_shuffle():
    appear = plan_repartition([1, 1, 1], workers=5)
    assert (appear.action, appear.target_counts) == ("grouped", (1, 1, 1, 0, 0))
    vanish = plan_repartition([2, 2, 0, 0, 0], workers=2)
    assert (vanish.action, vanish.target_counts) == ("grouped", (2, 2))


# What a plan tells


def test_text_shows_rows_before_and_after():
    assert str(plan_repartition([1200, 0], workers=3)) == (
        "Repartition plan (always): strategy balanced, one shuffle. "
        "800 of 1,200 examples change partition.\n"
        "Fullest partition over mean: 2.00 before, 1.00 after; workers idle 0.0% of the time.\n"
        "partition  rows before  rows after\n"
        "0                1,200         400\n"
        "1                    0         400\n"
        "2                    -         400\n"
        "total            1,200       1,200"
    )


@pytest.mark.parametrize(("partitions", "lines"), [(1, 3), (40, 42), (41, 42), (500, 42)])
def test_long_plans_show_the_first_and_last_partitions(partitions, lines):
    table = str(plan_repartition([1] * partitions, workers=partitions)).splitlines()[2:]
    assert len(table) == lines
    assert table[-2].split() == [f"{partitions - 1}", "1", "1"]


# Refusals


PLAN = plan_repartition([3, 1], workers=3)
REFUSALS = [
    (lambda: plan_repartition([1], workers=0), r"`workers` must be an integer.*workers=0"),
    (lambda: plan_repartition([1], workers=1, mode="at"), r"`mode`.*'always'.*mode='at'"),
    (lambda: plan_repartition([1], workers=1, strategy="x"), r"`strategy`.*strategy='x'"),
    (lambda: plan_repartition([1, -2], workers=1), r"counts\[1\]=-2"),
    (lambda: replace(PLAN, target_counts=(1, 1)), r"4 examples before, 2 after"),
]


@pytest.mark.parametrize(("call", "text"), REFUSALS)
def test_invalid_arguments_raise(call, text):
    with pytest.raises((ConfigurationError, DataError), match=text):
        call()
