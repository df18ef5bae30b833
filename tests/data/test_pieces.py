import time
import uuid

import numpy as np
import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.data import DataSet, DistributedDataSet, Skipped, from_arrays
from sparkwright.data.pieces import from_pieces, group_by_size
from sparkwright.spark._surveying import survey_partitions


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 12))
def test_groups_hold_every_item_once_and_in_order(sizes, groups):
    found = group_by_size(range(len(sizes)), sizes, groups)
    assert [index for group in found for index in group] == list(range(len(sizes)))
    assert len(found) == max(1, min(groups, len(sizes)))
    assert not sizes or all(found)
    equal = [len(group) for group in group_by_size(sizes, [7] * len(sizes), groups)]
    assert max(equal) - min(equal) <= 1


def read(piece, log):
    if piece < 0:
        log.skip("negative", f"a piece must be at least 0. Received: {piece}.")
        return
    yield DataSet(np.full((piece, 2), piece, np.float32))


def sent(spark, pieces, **options):
    return from_pieces(spark, pieces, read, sizes=[1] * len(pieces), partitions=3, **options)


def test_pieces_keep_their_order_and_count_skipped_items_once(spark):
    data = sent(spark, [1, -5, 2, 3, -1, 4], on_error="skip")
    assert data.collect().features["features"][:, 0].tolist() == [1] + [2] * 2 + [3] * 3 + [4] * 4
    data.count()
    assert data.skipped().counts == {"negative": 2}
    assert data.skipped().first[0] == "a piece must be at least 0. Received: -5."
    assert data.random_split([1, 1])[0].skipped().total == 2
    # Without an earlier pass.
    assert sent(spark, [-1, -2, 3], on_error="skip").skipped().total == 2
    assert sent(spark, [1], on_error="skip").skipped() == Skipped()


ACTIONS = {
    "count": lambda data, _: data.count(),
    "count skipped items": lambda data, _: data.skipped(),
    "collect": lambda data, _: data.map_chunks(lambda chunk: chunk, step="").collect(),
    "fit a normalizer": lambda data, _: sw.data.Standardize.fit(data),
    "split": lambda data, _: data.random_split([1, 1])[0].count(),
    "find lengths": lambda data, _: data.padded(),
    "export": lambda data, url: data.export(url, batch_size=4),
    "survey": lambda data, _: survey_partitions(data),
    # The data is read first in the map stage of a shuffle.
    "shuffle": lambda data, _: counted(data).shuffle(seed=0).collect(),
    "write parts": lambda data, url: sw.data.write_sequence_file(
        counted(data), url, examples_per_part=2
    ),
    # A task of its own merges the summaries of 32 partitions.
    "statistics": lambda data, _: data.statistics(),
}


def counted(data):
    counts = (1,) * data.rdd.getNumPartitions()
    return DistributedDataSet(data.spark, data.rdd, counts=counts)


@pytest.mark.thorough
def test_a_damaged_file_is_read_once_per_action(spark, tmp_path):
    attempts = tmp_path / "attempts"
    attempts.mkdir()

    def read_one(piece, log):
        if piece == 2:
            (attempts / uuid.uuid4().hex).touch()
            log.skip("damaged", "a file must be intact. Received: two.csv.")
        yield DataSet(np.ones((1, 2), np.float32))

    pieces = list(range(33))
    found = {}
    for name, action in ACTIONS.items():
        count = 33 if name == "statistics" else 3
        data = from_pieces(spark, pieces[:count], read_one, sizes=[1] * count, partitions=count)
        with pytest.raises(sw.DataError) as caught:
            action(data, str(tmp_path / name))
        read_times = list(attempts.iterdir())
        found[name] = str(caught.value), len(read_times)
        for file in read_times:
            file.unlink()
    assert all("two.csv" in message for message, _ in found.values()), found
    assert {name: times for name, (_, times) in found.items()} == dict.fromkeys(ACTIONS, 1)


@pytest.mark.thorough
def test_data_error_ends_the_job_while_other_tasks_run(spark, tmp_path):
    ended = tmp_path / "ended"

    def read_one(piece, log):
        if piece == 0:
            log.skip("damaged", "a file must be intact. Received: zero.csv.")
        while not ended.exists():  # the job is cancelled, which ends this task
            time.sleep(0.1)
        yield DataSet(np.ones((1, 2), np.float32))

    data = from_pieces(spark, [0, 1], read_one, sizes=[1, 1], partitions=2)
    try:
        with pytest.raises(sw.DataError, match=r"zero\.csv") as caught:
            data.count()
    finally:
        ended.touch()
    assert 'on_error="skip"' in str(caught.value)


def test_invalid_on_error_raises(tmp_path):
    with pytest.raises(sw.ConfigurationError, match="on_error='ignore'"):
        from_pieces(None, [], read, sizes=[], on_error="ignore")


@pytest.mark.thorough
def test_persisted_data_is_computed_once_until_unpersisted(spark, leaves_nothing):
    computed = spark.sparkContext.accumulator(0)

    def counted(chunk):
        computed.add(len(chunk))
        return chunk

    data = from_arrays(spark, np.zeros((40, 1)), partitions=2).map_chunks(counted, step="count")
    assert data.persist("MEMORY_ONLY_SER") is data
    assert data.persist("DISK_ONLY").rdd.getStorageLevel().useDisk
    halves = data.random_split([1, 1], exact=True)
    assert sum(len(half.collect()) for half in halves) == len(data.collect()) == 40
    assert computed.value == 40
    assert data.unpersist(blocking=True) is data
    data.collect()
    assert computed.value == 80
    with pytest.raises(sw.ConfigurationError, match=r"`level` must be one of .*'DISK_ONLY'.*'RAM'"):
        data.persist("RAM")
