import itertools

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.cases import cases

from sparkwright.data import DataSet, MultiDataSet, batched
from sparkwright.errors import ConfigurationError, DataError


def example_set(count=6):
    """Every group of columns, each value telling which example it belongs to."""
    number = np.arange(count)
    return DataSet(
        {"image": np.tile(number[:, None, None], (1, 2, 3)), "age": number.astype(np.float32)},
        {"digit": number.astype(np.int8)},
        features_masks={"image": np.tile(number[:, None], (1, 2))},
        labels_masks=number % 2,
        weights=number / 10,
    )


def assert_same(found, expected):
    assert found.equals(expected), (found.columns(), expected.columns())


def test_columns_have_a_fixed_order_and_round_trip():
    for dataset in (example_set(), DataSet({"left/image": np.zeros(2)}), DataSet([[1.0]], [0])):
        assert_same(DataSet.from_columns(dataset.columns()), dataset)
    assert list(example_set().columns()) == [
        "features/image",
        "features/age",
        "labels/digit",
        "features_masks/image",
        "labels_masks/digit",
        "weights",
    ]


@given(rows=st.lists(st.integers(0, 5), max_size=8))
def test_take_selects_the_same_rows_of_every_column(rows):
    taken = example_set().take(np.array(rows, np.int64))
    assert len(taken) == len(rows)
    for name, array in taken.columns().items():
        np.testing.assert_array_equal(array, example_set().columns()[name][rows])
    chosen = np.isin(np.arange(6), rows)
    assert_same(example_set().take(chosen), example_set().take(np.flatnonzero(chosen)))


def sequences(*lengths, **columns):
    """Examples of one length, each value telling example and step; see `test_merge...`."""
    first = next(iter(lengths))
    steps = 10 * np.arange(1, len(lengths) + 1)[:, None] + np.arange(first)
    return DataSet(np.repeat(steps[:, :, None], 2, axis=2).astype(np.float32), **columns)


def test_multi_data_set_is_data_set():
    assert MultiDataSet is DataSet


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 8))
def test_merge_and_batches_keep_every_example_once(sizes, size):
    whole = example_set(sum(sizes))
    edges = np.cumsum([0, *sizes]).tolist()
    parts = [whole.take(slice(a, b)) for a, b in itertools.pairwise(edges)]
    assert_same(DataSet.merge(parts), whole)
    if sum(sizes):
        assert_same(DataSet.merge(list(whole.batches(1))), whole)
        assert_same(DataSet.concatenate(list(batched(parts, size))), whole)
    assert [len(one) for one in whole.batches(1)] == [1] * len(whole)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_merged_sequences_keep_their_steps_and_mask_the_padding(lengths):
    parts = [sequences(length) for length in lengths]
    merged = DataSet.merge(parts)
    array, longest = merged.features["features"], max(lengths)
    assert array.shape == (len(lengths), longest, 2)
    for row, part in enumerate(parts):
        np.testing.assert_array_equal(array[row, : lengths[row]], part.features["features"][0])
        assert (array[row, lengths[row] :] == 0).all()
    if len(set(lengths)) == 1:
        assert not merged.features_masks
    else:
        expected = np.arange(longest) < np.array(lengths)[:, None]
        np.testing.assert_array_equal(merged.features_masks["features"], expected)
        assert merged.features_masks["features"].dtype == np.bool_


def test_masks_labels_and_weights_are_merged_with_their_sequences():
    one = sequences(2, labels=np.zeros((1, 2), np.int32), labels_masks=np.array([[0, 1]]))
    other = sequences(3, 3, labels=np.ones((2, 3), np.int32), weights=np.array([2.0, 3.0]))
    merged = DataSet.merge([one, other])
    assert merged.labels["labels"].tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 1]]
    assert merged.labels_masks["labels"].tolist() == [[0, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert merged.weights.tolist() == [1, 2, 3]


def test_masks_of_whole_labels_are_kept_or_expanded_over_steps():
    masked = DataSet(np.zeros((1, 2)), np.zeros(1), labels_masks=np.zeros(1))
    assert DataSet.merge([masked, DataSet(np.zeros((1, 2)), np.ones(1))]).labels_masks[
        "labels"
    ].tolist() == [0, 1]
    short = DataSet(np.zeros((1, 1)), np.zeros((1, 2, 1)), labels_masks=np.zeros(1))
    long = DataSet(np.zeros((1, 1)), np.zeros((1, 3, 1)))
    assert DataSet.merge([short, long]).labels_masks["labels"].tolist() == [[0, 0, 0], [1, 1, 1]]


def test_token_numbers_and_masked_series_are_sequences():
    tokens = DataSet.merge([DataSet(np.ones((1, 2), np.int32)), DataSet(np.ones((1, 3), np.int32))])
    assert tokens.features["features"].tolist() == [[1, 1, 0], [1, 1, 1]]
    series = [DataSet(np.ones((1, n)), features_masks=np.ones((1, n), bool)) for n in (2, 1)]
    assert DataSet.merge(series).features_masks["features"].tolist() == [[True] * 2, [True, False]]


def test_shuffling_follows_the_seed_and_keeps_examples_whole():
    shuffled = example_set(50).shuffle(seed=3)
    order = shuffled.features["age"].astype(int)
    assert sorted(order) == list(range(50)) != order.tolist()
    assert_same(shuffled, example_set(50).take(order))
    assert shuffled.equals(example_set(50).shuffle(seed=3))
    assert not shuffled.equals(example_set(50).shuffle(seed=4))


def test_equals_compares_columns_dtypes_and_values():
    nan = DataSet(np.array([1.0, np.nan]))
    assert nan.equals(DataSet(np.array([1.0, np.nan])))
    assert not nan.equals(DataSet(np.array([1.0, 2.0])))
    assert not nan.equals(DataSet(np.array([1.0, np.nan], np.float32)))
    assert not nan.equals(DataSet({"x": np.array([1.0, np.nan])}))
    assert not nan.equals(DataSet(np.array([1.0])))


def test_arrow_shares_memory_both_ways():
    dataset = DataSet(np.ones((4, 3)), np.arange(4), labels_masks=np.ones(4, bool))
    again = DataSet.from_arrow(dataset.to_arrow())
    for name, array in again.columns().items():
        assert np.shares_memory(array, dataset.columns()[name]), name


def test_arrow_tables_of_other_writers_and_parts_of_tables_are_read():
    table = example_set(6).to_arrow()
    joined = pa.concat_tables([table.slice(4, 2), table.slice(0, 3)])
    assert_same(DataSet.from_arrow(joined), example_set(6).take(np.array([4, 5, 0, 1, 2])))
    batch = table.slice(1, 2).to_batches()[0]
    assert_same(DataSet.from_arrow(batch), example_set(6).take(slice(1, 3)))
    lists = pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2))
    table = pa.table({"features/x": lists, "labels/y": pa.array([True, False])})
    found = DataSet.from_arrow(table)
    assert found.features["x"].tolist() == [[1, 2], [3, 4]]
    assert found.labels["y"].tolist() == [True, False]


def zeros(*shape, dtype=np.float32, **columns):
    return DataSet(np.zeros(shape, dtype), **columns)


def from_table(**columns):
    table = {name.replace("_", "/", 1): column for name, column in columns.items()}
    return DataSet.from_arrow(pa.table(table))


def lists(*values, size=-1):
    return pa.array(values, pa.list_(pa.float64(), size))


ONE = DataSet(np.zeros((1, 2)))
WIDER = DataSet(np.zeros((1, 3)))
MASKED = zeros(1, 3, 1, features_masks=np.ones((1, 2)))
OTHERS_MASK = zeros(1, 3, 1, features_masks={"x": np.ones((1, 3))})
ROOTS = "['features', 'labels', 'features_masks', 'labels_masks']"


@cases(
    "make, text",
    (lambda: DataSet({}), "needs at least one feature array. Received: features={}."),
    (
        lambda: DataSet(np.zeros((3, 2)), np.zeros(4)),
        "must have the same number of examples on their first axis. "
        "Received: {'features/features': 3, 'labels/labels': 4}.",
    ),
    (
        lambda: DataSet([0], np.array(["a"])),
        "dtype <U1. Convert classes to integers: `np.unique(labels, return_inverse=True)`.",
    ),
    (lambda: zeros(3, 0), "Received: 'features' with shape (3, 0) and dtype"),
    (lambda: zeros(3, weights=2.0), "Received: 'weights' with shape () and dtype"),
    (
        lambda: DataSet.from_columns({"feature/x": np.zeros(1)}),
        f"must be `weights` or start with one of {ROOTS} and a slash. Received: 'feature/x'.",
    ),
    (lambda: DataSet.concatenate([]), "needs at least one DataSet. Received: parts=[]."),
    (
        lambda: DataSet.concatenate([ONE, ONE, WIDER]),
        "Received: part 0 has {'features/features': (dtype('float64'), (2,))}, part 2 has "
        "{'features/features': (dtype('float64'), (3,))}.",
    ),
    (lambda: DataSet.merge([]), "Received: parts=[]"),
    (
        lambda: DataSet.merge([zeros(1, 2), DataSet({"x": np.zeros((1, 2))})]),
        "part 0 has {'features/features': ",
    ),
    (
        lambda: DataSet.merge([zeros(1, 2), zeros(1, 2, dtype=np.int32)]),
        "part 1 has {'features/features': (dtype('int32'), (2,))}",
    ),
    (lambda: DataSet.merge([ONE, WIDER]), "features/features with shapes [(2,), (3,)]"),
    (lambda: DataSet.merge([zeros(1, 2, 3), zeros(1, 2)]), "shapes [(2,), (2, 3)]"),
    (
        lambda: DataSet.merge([zeros(1, 2, 1), MASKED]),
        "one number per step, shape (1, 3). Received: (1, 2)",
    ),
    (
        lambda: DataSet.merge([zeros(1, 2, 1), OTHERS_MASK]),
        "part 1 has {'features/features': (dtype('float32'), (3, 1)), 'features_masks/x'",
    ),
    (lambda: DataSet.from_arrow({"features/x": [1.0]}), "Received: dict"),
    (lambda: from_table(features_x=[b"a"]), "column 'features/x' of type binary"),
    (lambda: from_table(features_x=["a", None]), "Received: 1 of them in 2"),
    (lambda: from_table(features_x=[1.0], labels_y=["a"]), "must be numeric"),
    (lambda: from_table(features_x=lists([1.0])), "column 'features/x' of type list<item: double>"),
    (lambda: from_table(features_x=lists([1.0, None], size=2)), "Received: 1 of them in 1 rows"),
    (lambda: from_table(labels_y=[1.0]), "at least one feature array"),
)
def test_incompatible_arrays_raise_with_the_received_value(make, text):
    with pytest.raises(DataError) as caught:
        make()
    assert text in str(caught.value)


@cases("bad", -1, 0.5, True)
def test_non_integer_sizes_and_seeds_raise(bad):
    with pytest.raises(ConfigurationError, match=f"Received: size={bad}"):
        list(zeros(3, 2).batches(bad))
    with pytest.raises(ConfigurationError, match=f"Received: seed={bad}"):
        zeros(3, 2).shuffle(bad)


def test_single_mask_applies_to_the_only_input_or_output():
    dataset = DataSet({"text": np.zeros((2, 3))}, features_masks=np.ones((2, 3)))
    assert list(dataset.features_masks) == ["text"]


def test_byte_swapped_arrays_become_native():
    swapped = np.arange(3, dtype=np.dtype("f4").newbyteorder())
    array = DataSet(swapped).features["features"]
    assert array.dtype.isnative
    np.testing.assert_array_equal(array, [0, 1, 2])
