import itertools
from typing import get_args

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.data import DataSet, from_bytes, row_count, to_bytes
from sparkwright.data.shuffling import _joined, _pieces, count_examples
from sparkwright.errors import DataError

MODES = get_args(sw.partitions.RepartitionMode)
STRATEGIES = get_args(sw.partitions.RepartitionStrategy)


def chunked(first, count, chunk, *, width=3):
    """Examples `first` to `first + count`, each knowing its number, in chunks."""
    numbers = np.arange(first, first + count)
    features = np.repeat(numbers[:, None], width, axis=1).astype(np.float32)
    return [to_bytes(piece) for piece in DataSet(features, numbers).batches(chunk)]


def partitions_of(counts, chunk=4):
    starts = [0, *itertools.accumulate(counts)]
    return [chunked(s, c, chunk) for s, c in zip(starts, counts, strict=False)]


def as_rdd(spark, partitions):
    """An RDD with exactly these partitions."""
    numbered = spark.sparkContext.parallelize(range(len(partitions)), max(len(partitions), 1))
    return numbered.flatMap(lambda p: partitions[p])


def numbers_in(chunks):
    return [int(n) for chunk in chunks for n in from_bytes(chunk).labels["labels"]]


def expected(plan):
    """What each target partition must hold, example by example, from the plan alone."""
    held = [[] for _ in range(plan.workers)]
    number = 0
    for source, count in enumerate(plan.source_counts):
        for target in plan.placement().destinations(source, 0, count):
            held[int(target)].append(number)
            number += 1
    return held


def locally(partitions, plan):
    """The shuffle's two sides without Spark between them."""
    sent = [
        item
        for p, chunks in enumerate(partitions)
        for item in _pieces(p, chunks, placement=plan.placement(), source_counts=plan.source_counts)
    ]
    sent.sort(key=lambda item: item[0])
    return [
        list(_joined(item for item in sent if item[0][0] == target))
        for target in range(plan.workers)
    ]


@pytest.mark.parametrize("counts", [[23, 0, 5, 1], [7, 7, 7], [3], [0, 0]])
@pytest.mark.parametrize("chunk", [1, 4, 100])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pieces_arrive_in_order_at_their_planned_partitions(counts, chunk, strategy):
    plan = sw.partitions.plan_repartition(counts, workers=5, strategy=strategy, seed=3)
    result = locally(partitions_of(counts, chunk), plan)
    if plan.action == "shuffled":
        assert [numbers_in(chunks) for chunks in result] == expected(plan)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_chunks_too_large_to_be_joined_keep_the_order(strategy):
    # 400 kB chunks pass whole (no re-encoding) between small ones that wait to be joined.
    sizes = [2, 100, 3, 100, 100, 1, 50]
    starts = [0, *itertools.accumulate(sizes)]
    chunks = [
        chunk
        for start, size in zip(starts, sizes, strict=False)
        for chunk in chunked(start, size, size, width=1000)
    ]
    plan = sw.partitions.plan_repartition([sum(sizes), 0], workers=2, strategy=strategy)
    assert [numbers_in(c) for c in locally([chunks, []], plan)] == expected(plan)


@pytest.mark.thorough
def test_joined_chunks_are_about_a_megabyte():
    tiny = sw.partitions.plan_repartition([3000, 0], workers=2)
    assert [len(c) for c in locally([chunked(0, 3000, 1), []], tiny)] == [1, 1]
    plan = sw.partitions.plan_repartition([2000, 0], workers=2)
    result = locally([chunked(0, 2000, 7, width=1000), []], plan)
    for chunks in result:
        assert all(len(chunk) <= 1 << 20 for chunk in chunks)
        assert len(chunks) <= 8  # 4 MB in all


def test_sequences_of_different_length_are_not_joined():
    lengths = [3, 3, 5, 5, 3]
    chunks = [
        to_bytes(DataSet(np.full((2, length, 1), n), np.array([2 * n, 2 * n + 1])))
        for n, length in enumerate(lengths)
    ]
    plan = sw.partitions.plan_repartition([10, 0], workers=2, strategy="spark_default")
    result = locally([chunks, []], plan)
    assert [numbers_in(c) for c in result] == expected(plan)
    shapes = [from_bytes(c).features["features"].shape[1] for c in result[0]]
    assert shapes == [3, 5, 3]


@pytest.mark.parametrize(("planned", "found"), [(9, "10"), (11, "10")])
def test_data_changed_after_counting_raises(planned, found):
    plan = sw.partitions.plan_repartition([planned, 0], workers=2)
    with pytest.raises(DataError, match=rf"counted: {planned} examples .* Received: .*{found}"):
        list(
            _pieces(
                0, chunked(0, 10, 5), placement=plan.placement(), source_counts=plan.source_counts
            )
        )


@pytest.mark.parametrize(
    ("mode", "strategy", "counts"),
    [  # every pair
        (mode, STRATEGIES[(i + j) % len(STRATEGIES)], counts)
        for i, counts in enumerate([[23, 0, 5, 1], [3, 2], [7, 1, 0, 0, 2, 9, 9], [0, 0, 0, 0]])
        for j, mode in enumerate(MODES)
    ],
)
def test_execution_matches_the_plan(spark, mode, strategy, counts):
    rdd = as_rdd(spark, partitions_of(counts))
    plan = sw.partitions.plan_repartition(counts, workers=4, mode=mode, strategy=strategy, seed=5)
    result = sw.partitions.repartition(rdd, plan)
    found = result.glom().collect()
    assert [sum(map(row_count, chunks)) for chunks in found] == list(plan.target_counts)
    assert [numbers_in(chunks) for chunks in found] == expected(plan)


def test_counting_returns_examples_per_partition_in_order(spark):
    counts = [5, 0, 12, 1]
    assert count_examples(spark, as_rdd(spark, partitions_of(counts))) == counts
    assert count_examples(spark, spark.sparkContext.emptyRDD()) == []


def test_repartitioning_shuffles_at_most_once(spark):
    rdd = as_rdd(spark, partitions_of([23, 0, 5, 1]))

    def shuffles(mode, workers):
        plan = sw.partitions.plan_repartition([23, 0, 5, 1], workers=workers, mode=mode)
        text = sw.partitions.repartition(rdd, plan).toDebugString()
        return text.decode().count("ShuffledRDD")

    assert shuffles("always", 4) == 1
    assert shuffles("never", 2) == 0
    assert shuffles("never", 6) == 0
    assert shuffles("num_partitions_workers_differs", 4) == 0
    unchanged = sw.partitions.plan_repartition([23, 0, 5, 1], workers=4, mode="never")
    assert sw.partitions.repartition(rdd, unchanged) is rdd
    assert shuffles("num_partitions_workers_differs", 3) == 1


@pytest.mark.thorough
def test_groups_of_persisted_data_match_the_plan(spark):
    # Where cached blocks lie decides what `coalesce` alone would group.
    counts = [9, 1, 1, 1, 4, 4]
    rdd = as_rdd(spark, partitions_of(counts)).cache()
    try:
        assert count_examples(spark, rdd) == counts
        plan = sw.partitions.plan_repartition(counts, workers=3, mode="never")
        found = sw.partitions.repartition(rdd, plan).glom().collect()
    finally:
        rdd.unpersist(blocking=True)
    assert [numbers_in(chunks) for chunks in found] == expected(plan)
    assert plan.target_counts == (9, 6, 5)


def test_plan_for_another_number_of_partitions_raises(spark):
    rdd = as_rdd(spark, partitions_of([4, 4]))
    with pytest.raises(DataError, match=r"data in 2 partitions, plan for 3"):
        sw.partitions.repartition(rdd, sw.partitions.plan_repartition([4, 2, 2], workers=2))
