import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.data import DataSet
from sparkwright.errors import DataError


def example_set(count: int = 6) -> DataSet:
    """Every group of columns, each value telling which example it belongs to."""
    number = np.arange(count)
    return DataSet(
        {"image": np.tile(number[:, None, None], (1, 2, 3)), "age": number.astype(np.float32)},
        {"digit": number.astype(np.int8)},
        features_masks={"image": np.tile(number[:, None], (1, 2))},
        labels_masks=number % 2,
        weights=number / 10,
    )


def assert_same(found: DataSet, expected: DataSet) -> None:
    left, right = found.columns(), expected.columns()
    assert list(left) == list(right)
    for name, array in left.items():
        assert array.dtype == right[name].dtype
        np.testing.assert_array_equal(array, right[name])


def test_a_bare_array_takes_the_default_name() -> None:
    dataset = DataSet([[1.0], [2.0]], [0, 1])
    assert sorted(dataset.columns()) == ["features/features", "labels/labels"]
    assert len(dataset) == 2


def test_columns_come_in_a_fixed_order() -> None:
    assert list(example_set().columns()) == [
        "features/image",
        "features/age",
        "labels/digit",
        "features_masks/image",
        "labels_masks/digit",
        "weights",
    ]


def test_a_bare_mask_belongs_to_the_only_input_or_output() -> None:
    dataset = DataSet({"text": np.zeros((2, 3))}, features_masks=np.ones((2, 3)))
    assert list(dataset.features_masks) == ["text"]


def test_arrays_are_kept_without_a_copy() -> None:
    features = np.zeros((3, 2))
    assert DataSet(features).features["features"] is features


def test_byte_swapped_arrays_become_native() -> None:
    swapped = np.arange(3, dtype=np.dtype("f4").newbyteorder())
    array = DataSet(swapped).features["features"]
    assert array.dtype.isnative
    np.testing.assert_array_equal(array, [0, 1, 2])


def test_columns_and_from_columns_are_inverse() -> None:
    dataset = example_set()
    assert_same(DataSet.from_columns(dataset.columns()), dataset)


def test_a_name_may_contain_a_slash() -> None:
    dataset = DataSet({"left/image": np.zeros(2)})
    assert_same(DataSet.from_columns(dataset.columns()), dataset)


def test_repr_tells_count_dtypes_and_shapes() -> None:
    dataset = DataSet(np.zeros((3, 28, 28), np.float32), np.zeros(3, np.int8))
    assert repr(dataset) == (
        "DataSet(3 examples; features/features: float32[28, 28], labels/labels: int8[])"
    )


@given(cuts=st.lists(st.integers(0, 6), max_size=4))
def test_slices_put_together_again_are_the_whole(cuts: list[int]) -> None:
    dataset = example_set()
    edges = [0, *sorted(cuts), len(dataset)]
    parts = [dataset.take(slice(a, b)) for a, b in itertools.pairwise(edges)]
    assert_same(DataSet.concatenate(parts), dataset)


@given(rows=st.lists(st.integers(0, 5), max_size=8))
def test_take_selects_the_same_rows_of_every_column(rows: list[int]) -> None:
    taken = example_set().take(np.array(rows, np.int64))
    assert len(taken) == len(rows)
    for name, array in taken.columns().items():
        np.testing.assert_array_equal(array, example_set().columns()[name][rows])


def test_take_understands_a_boolean_mask() -> None:
    taken = example_set().take(np.arange(6) % 2 == 0)
    np.testing.assert_array_equal(taken.labels["digit"], [0, 2, 4])


@given(count=st.integers(0, 20), size=st.integers(1, 25))
def test_batches_are_full_but_for_the_last(count: int, size: int) -> None:
    batches = list(example_set(count).batches(size))
    assert [len(batch) for batch in batches[:-1]] == [size] * max(0, len(batches) - 1)
    assert sum(map(len, batches)) == count
    assert all(len(batch) for batch in batches)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DataSet({}), "needs at least one feature array. Received: features={}."),
        (
            lambda: DataSet(np.zeros((3, 2)), np.zeros(4)),
            "must have the same number of examples on their first axis. "
            "Received: {'features/features': 3, 'labels/labels': 4}.",
        ),
        (
            lambda: DataSet(np.array([None, 1])),
            "must be numeric with at least one axis (the examples), and other axes longer than 0. "
            "Received: 'features' with shape (2,) and dtype object.",
        ),
        (lambda: DataSet(np.array(["a"])), "Received: 'features' with shape (1,) and dtype <U1."),
        (lambda: DataSet({"x": 1.0}), "Received: 'x' with shape () and dtype float64."),
        (lambda: DataSet(np.zeros((3, 0))), "Received: 'features' with shape (3, 0) and dtype"),
        (lambda: DataSet(np.zeros(3), weights=2.0), "Received: 'weights' with shape () and dtype"),
        (
            lambda: DataSet(np.zeros(3), weights=np.ones(2)),
            "Received: {'features/features': 3, 'weights': 2}.",
        ),
        (
            lambda: DataSet.from_columns({"feature/x": np.zeros(1)}),
            "must be `weights` or start with one of ['features', 'labels', 'features_masks', "
            "'labels_masks'] and a slash. Received: 'feature/x'.",
        ),
        (lambda: DataSet.from_columns({"features": np.zeros(1)}), "Received: 'features'."),
        (lambda: DataSet.concatenate([]), "needs at least one DataSet. Received: parts=[]."),
        (
            lambda: DataSet.concatenate(
                [DataSet(np.zeros((1, 2))), DataSet(np.zeros((1, 2))), DataSet(np.zeros((1, 3)))]
            ),
            "Received: part 0 has {'features/features': (dtype('float64'), (2,))}, part 2 has "
            "{'features/features': (dtype('float64'), (3,))}.",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_received(make: Any, text: str) -> None:
    with pytest.raises(DataError) as refused:
        make()
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "other", [DataSet(np.zeros(1, np.float32)), DataSet(np.zeros(1), weights=np.ones(1))]
)
def test_only_equal_columns_and_dtypes_are_joined(other: DataSet) -> None:
    with pytest.raises(DataError, match="only when their columns, dtypes and shapes agree"):
        DataSet.concatenate([DataSet(np.zeros(1)), other])
