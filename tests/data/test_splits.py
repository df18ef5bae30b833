import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.data._splitting import (
    Assignment,
    apportion,
    balanced_sizes,
    draw_quotas,
    equal_sizes,
    stratified_sizes,
)
from sparkwright.data.shuffling import RandomBlocks, order_of

weights = st.lists(st.floats(0, 10, allow_subnormal=False), min_size=1, max_size=5).filter(
    lambda values: sum(values) > 0.01
)
counts = st.lists(st.integers(0, 60), min_size=1, max_size=8)


@given(st.integers(0, 1000), st.integers(1, 50))
def test_equal_sizes_use_the_fewest_parts_below_the_limit(total, largest):
    sizes = equal_sizes(total, largest)
    assert sizes.sum() == total
    assert sizes.max() <= largest
    assert sizes.max() - sizes.min() <= 1
    assert len(sizes) == max(1, -(-total // largest))


@given(counts, weights)
def test_each_part_has_each_class_within_one_example_of_its_share(counts, shares):
    sizes = stratified_sizes(counts, shares)
    exact = np.outer(counts, np.array(shares) / sum(shares))
    np.testing.assert_array_equal(sizes.sum(axis=1), counts)
    assert (np.abs(sizes - exact) < 1 + 1e-6).all()


def test_many_small_classes_do_not_favor_one_part():
    # Each class of 5 could give its odd example to the same part: 300 against 200.
    assert stratified_sizes([5] * 100, [1, 1]).sum(axis=0).tolist() == [250, 250]
    assert np.ptp(stratified_sizes([7] * 90, [1, 1, 1]).sum(axis=0)) <= 1


@given(counts, weights, st.integers(0, 5))
def test_quotas_match_part_sizes_and_assign_every_example(counts, shares, seed):
    sizes = apportion(sum(counts), shares)
    quotas = draw_quotas(counts, sizes, [seed])
    assert (quotas >= 0).all()
    np.testing.assert_array_equal(quotas.sum(axis=1), counts)
    np.testing.assert_array_equal(quotas.sum(axis=0), sizes)


def test_quotas_follow_their_distribution_beyond_the_limit_of_numpy():
    # 2 of 4 examples in partition 0, 2 parts of 2: hypergeometric, 1/6, 4/6, 1/6.
    drawn = Counter(int(draw_quotas([2, 2], [2, 2], [seed])[0, 0]) for seed in range(3000))
    assert drawn[1] / 3000 == pytest.approx(4 / 6, abs=0.05)
    assert drawn[0] / 3000 == pytest.approx(1 / 6, abs=0.04)
    counts = [400_000_000] * 9 + [1_500_000_000]
    sizes = apportion(sum(counts), [0.8, 0.15, 0.05])
    quotas = draw_quotas(counts, sizes, [1])
    assert (quotas >= 0).all()
    np.testing.assert_array_equal(quotas.sum(axis=1), counts)
    np.testing.assert_array_equal(quotas.sum(axis=0), sizes)
    np.testing.assert_allclose(quotas / np.array(counts)[:, None], [[0.8, 0.15, 0.05]] * 10, 0.01)


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40), st.lists(st.integers(0, 40), max_size=4)
)
def test_chunk_boundaries_do_not_change_the_assignment(classes, cuts):
    numbers = np.array(classes)
    quotas = {
        number: balanced_sizes(int((numbers == number).sum()), 2)
        for number in np.unique(numbers).tolist()
    }

    def hand_out(edges):
        assignment = Assignment(quotas, [5], partition=0)
        pieces = np.split(numbers, edges)
        found = [part for piece in pieces for part in assignment.take(piece).tolist()]
        assignment.finish()
        return found

    parts = hand_out([])
    assert hand_out(sorted(min(c, len(numbers)) for c in cuts)) == parts
    for number, sizes in quotas.items():
        found = np.bincount(np.array(parts)[numbers == number], minlength=2)
        assert found.tolist() == sizes.tolist()


@cases("classes, how", ([0, 0, 0], "more than"), ([0, 1], "more than"), ([0], "fewer than"))
def test_data_changed_since_counting_raises(classes, how):
    assignment = Assignment({0: np.array([1, 1])}, [0], partition=3)

    def read():
        assignment.take(np.array(classes))
        assignment.finish()

    with pytest.raises(sw.DataError, match=f"in partition 3 {how} the 2 examples"):
        read()


@given(counts, st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_blocks_use_every_example_once_and_partitions_are_equal(counts, partitions, blocks, seed):
    placement = RandomBlocks(tuple(counts), partitions=partitions, blocks=blocks, seed=seed)
    targets = [placement.destinations(source, 0, count) for source, count in enumerate(counts)]
    for source, count in enumerate(counts):  # the same wherever one begins to ask
        begun = placement.destinations(source, count // 2, count)
        np.testing.assert_array_equal(begun, targets[source][count // 2 :])
    sizes = np.bincount(np.concatenate(targets), minlength=partitions * blocks)
    by_partition = sizes.reshape(partitions, blocks)
    assert by_partition.sum(axis=1).tolist() == list(placement.target_counts)
    assert np.ptp(placement.target_counts) <= 1


@pytest.mark.thorough
def test_every_order_of_examples_is_equally_likely():
    orders = Counter()
    for seed in range(6000):
        placement = RandomBlocks((1, 2), partitions=2, blocks=2, seed=seed)
        targets = np.concatenate([placement.destinations(0, 0, 1), placement.destinations(1, 0, 2)])
        blocks = [np.flatnonzero(targets == block) for block in range(4)]
        shuffled = [b[order_of(n, len(b), seed=seed)] for n, b in enumerate(blocks)]
        orders[tuple(np.concatenate(shuffled).tolist())] += 1
    assert len(orders) == 6
    assert all(count == pytest.approx(1000, abs=150) for count in orders.values())


# -- on Spark -------------------------------------------------------------------------------------

LABELS = np.repeat([0, 1, 2], [100, 61, 40]).astype(np.int32)


@pytest.fixture(scope="module")
def numbered(spark):
    """201 examples in partitions of 0 to 100, each of which knows its number and class."""
    number = np.arange(201, dtype=np.float32)
    data = sw.DataSet(number[:, None], LABELS)
    edges = [0, 100, 100, 130, 201]
    parts = [[data.take(slice(a, b))] if b > a else [] for a, b in itertools.pairwise(edges)]
    rdd = spark.sparkContext.parallelize(parts, 4).flatMap(lambda part: part)
    return sw.data.from_rdd(spark, rdd)


def numbers(data):
    return data.collect().features["features"][:, 0].astype(int).tolist() if data.count() else []


@pytest.mark.thorough
@cases(
    "split, sizes",
    (lambda d, seed: d.random_split([0.5, 0.3, 0.2], seed=seed, exact=True), [101, 60, 40]),
    (lambda d, seed: d.balanced_split(60, seed=seed), [51, 50, 50, 50]),
    (lambda d, seed: d.stratified_split([3, 1], seed=seed), [151, 50]),
    ids=["exact", "balanced", "stratified"],
)
def test_parts_contain_every_example_once_in_order(numbered, split, sizes):
    parts = split(numbered, 4)
    assert all(part.is_counted for part in parts)
    found = [numbers(part) for part in parts]
    assert [len(part) for part in found] == [part.count() for part in parts] == sizes
    assert sorted(itertools.chain(*found)) == list(range(201))
    assert all(part == sorted(part) for part in found)
    assert numbers(split(numbered, 4)[0]) == found[0] != numbers(split(numbered, 5)[0])


def test_stratified_split_preserves_class_proportions(numbered):
    parts = numbered.stratified_split([3, 1], seed=1)
    balance = [np.bincount(part.collect().labels["labels"]).tolist() for part in parts]
    np.testing.assert_array_equal(np.sum(balance, axis=0), [100, 61, 40])
    assert (np.abs(np.array(balance) - np.outer([0.75, 0.25], [100, 61, 40])) < 1).all()


def test_shuffle_moves_examples_across_partitions_without_loss(numbered):
    shuffled = numbered.shuffle(seed=3, partitions=3)
    assert shuffled.partition_counts() == (67, 67, 67)
    found = shuffled.rdd.mapPartitions(
        lambda chunks: [
            [int(n) for c in chunks for n in sw.data.from_bytes(c).features["features"][:, 0]]
        ]
    ).collect()
    assert [len(part) for part in found] == [67, 67, 67]
    order = list(itertools.chain(*found))
    assert sorted(order) == list(range(201))
    # No partition is made of one source, and no target keeps an order.
    assert all(min(part) < 100 < max(part) and part != sorted(part) for part in found)
    assert numbers(numbered.shuffle(seed=3, partitions=3)) == order
    assert numbers(numbered.shuffle(seed=4, partitions=3)) != order
    labels = shuffled.collect()
    np.testing.assert_array_equal(labels.labels["labels"], LABELS[order])


def test_sample_has_the_requested_size(numbered):
    sample = numbered.sample(20, seed=1)
    found = numbers(sample)
    assert len(found) == len(set(found)) == 20 == sample.count()
    assert numbered.sample(fraction=0.5).count() == 100


def test_splitting_changing_data_raises(spark):
    data = sw.data.from_arrays(spark, np.zeros((8, 1)), partitions=2)
    data._counts = (4, 5)  # what a source without a seed would do
    part = data.random_split([1], exact=True)[0]
    with pytest.raises(sw.DataError, match="in partition 1 fewer than the 5 examples"):
        part.collect()


@cases(
    "action, error, text",
    (lambda d: d.random_split([]), sw.ConfigurationError, "weights=[]"),
    (lambda d: d.random_split([1, -1], exact=True), sw.ConfigurationError, "weights=[1, -1]"),
    (lambda d: d.stratified_split([1], label="x"), sw.DataError, "['labels']. Received: 'x'"),
    (lambda d: d.random_split([1], seed=-1), sw.ConfigurationError, "seed=-1"),
    (lambda d: d.balanced_split(0), sw.ConfigurationError, "examples_per_part=0"),
    (lambda d: d.shuffle(seed=0, partitions=0), sw.ConfigurationError, "partitions=0"),
    (lambda d: d.sample(), sw.ConfigurationError, "one of `size` and `fraction`"),
    (lambda d: d.sample(fraction=1.5), sw.ConfigurationError, "fraction=1.5"),
    (lambda d: d.sample(202), sw.DataError, "201. Received: size=202"),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_options_raise(numbered, action, error, text):
    with pytest.raises(error) as refused:
        action(numbered)
    assert text in str(refused.value)


def test_stratifying_by_labels_other_than_classes_raises():
    from sparkwright.data.classes import class_of_each_example

    def of(labels):
        return class_of_each_example(sw.DataSet(np.zeros(len(labels)), labels), "labels").tolist()

    assert of(np.eye(3)[[2, 0]]) == [2, 0]
    assert of(np.array([[1.0], [0.0]])) == of(np.array([True, False])) == [1, 0]
    for labels, message in (
        (np.array([0.5, 1]), r"Received: the number 0\.5 in output 'labels'"),
        (np.array([[0.5, 0.5]]), "rows that are not one-hot"),
        (np.zeros((2, 3), np.int32), r"one class per example. Received: output 'labels' with sh"),
    ):
        with pytest.raises(sw.DataError, match=message):
            of(labels)
