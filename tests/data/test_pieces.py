"""Pieces in partitions, and what a source skips, counted once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.data import DataSet, Skipped
from sparkwright.data._pieces import SkipLog, from_pieces, group_by_size


@given(st.lists(st.integers(0, 100), max_size=40), st.integers(1, 12))
def test_groups_hold_every_index_once_and_in_order(sizes: list[int], groups: int) -> None:
    found = group_by_size(sizes, groups)
    assert [index for group in found for index in group] == list(range(len(sizes)))
    assert len(found) == max(1, min(groups, len(sizes)))
    assert not sizes or all(found)


@given(st.integers(1, 50), st.integers(1, 8))
def test_groups_of_equal_pieces_differ_by_one_at_most(count: int, groups: int) -> None:
    lengths = [len(group) for group in group_by_size([7] * count, groups)]
    assert max(lengths) - min(lengths) <= 1


def test_pieces_whose_sizes_nobody_knows_are_shared_by_their_number() -> None:
    assert group_by_size([0] * 10, 3) == group_by_size([1] * 10, 3)
    assert [len(group) for group in group_by_size([0] * 10, 3)] == [3, 4, 3]


def read(piece: int, log: SkipLog) -> Iterator[DataSet]:
    if piece < 0:
        log.skip("negative", f"a piece must be at least 0. Received: {piece}.")
        return
    yield DataSet(np.full((piece, 2), piece, np.float32))


def sent(spark: Any, pieces: list[int], **options: Any) -> Any:
    return from_pieces(spark, pieces, read, sizes=[1] * len(pieces), partitions=3, **options)


@pytest.mark.spark
def test_pieces_keep_their_order_and_what_is_skipped_is_counted_once(spark: Any) -> None:
    data = sent(spark, [1, -5, 2, 3, -1, 4], on_error="skip")
    assert data.collect().features["features"][:, 0].tolist() == [1] + [2] * 2 + [3] * 3 + [4] * 4
    data.count()
    assert data.skipped().counts == {"negative": 2}
    assert data.skipped().first[0] == "a piece must be at least 0. Received: -5."
    assert data.random_split([1, 1])[0].skipped().total == 2


@pytest.mark.spark
def test_what_is_skipped_is_found_without_a_pass_before(spark: Any) -> None:
    assert sent(spark, [-1, -2, 3], on_error="skip").skipped().total == 2
    assert sent(spark, [1], on_error="skip").skipped() == Skipped()


@pytest.mark.spark
def test_an_error_on_an_executor_arrives_as_itself(spark: Any) -> None:
    with pytest.raises(sw.DataError, match=r"at least 0\. Received: -5") as caught:
        sent(spark, [1, -5]).collect()
    assert 'on_error="skip"' in str(caught.value)


def test_on_error_takes_two_words(tmp_path: Path) -> None:
    none: Any = None
    with pytest.raises(sw.ConfigurationError, match="on_error='ignore'"):
        from_pieces(none, [], read, sizes=[], on_error="ignore")  # pyright: ignore[reportArgumentType]
