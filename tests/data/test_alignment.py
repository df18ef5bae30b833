import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.data._alignment import check_alignment, lengths_of, pad, pad_columns
from sparkwright.data._survey import LengthRange

LENGTHS = st.lists(st.integers(0, 9), min_size=0, max_size=12)
ALIGN = st.sampled_from(["equal_length", "start", "end"])


@given(LENGTHS, st.integers(1, 12), ALIGN, st.integers(1, 3))
def test_padding_equals_one_sequence_at_a_time(lengths, length, align, width):
    steps = np.arange(1, 1 + sum(lengths) * width, dtype=np.float32).reshape(-1, width)
    values, mask = pad(steps, np.array(lengths, int), length, align=align)
    assert values.shape == (len(lengths), length, width)
    assert mask.dtype == np.bool_
    start = 0
    for number, count in enumerate(lengths):
        mine, start = steps[start : start + count], start + count
        kept = mine[-length:] if align == "end" else mine[:length]
        at = slice(length - len(kept), length) if align == "end" else slice(len(kept))
        expected, expected_mask = np.zeros((length, width)), np.zeros(length, np.bool_)
        expected[at], expected_mask[at] = kept, True
        np.testing.assert_array_equal(values[number], expected)
        np.testing.assert_array_equal(mask[number], expected_mask)


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_length_ranges_of_parts_add_up_to_the_range_of_the_whole(a, b):
    assert LengthRange.of(a) + LengthRange.of(b) == LengthRange.of(a + b)
    assert LengthRange.of(a).is_uniform == (len(set(a)) < 2)


def steps_of(length, *, mask=None):
    return sw.DataSet(
        {"x": np.ones((2, length, 3), np.float32), "fixed": np.ones((2, 4))},
        {"y": np.ones((2, length), np.int32)},
        features_masks=None if mask is None else {"x": mask},
    )


def pad_dataset(data, *arguments, **options):
    return sw.DataSet.from_columns(pad_columns(data.columns(), *arguments, **options))


def test_examples_of_equal_length_are_padded_and_masked():
    found = pad_dataset(steps_of(2), ["x", "y"], 3, align="start", masked=True)
    assert found.features["x"][0].tolist() == [[1] * 3, [1] * 3, [0] * 3]
    assert found.labels["y"].tolist() == [[1, 1, 0]] * 2
    assert found.features["fixed"].shape == (2, 4)
    assert found.features_masks["x"].tolist() == [[True, True, False]] * 2
    assert found.labels_masks["y"].tolist() == [[True, True, False]] * 2
    same = pad_dataset(steps_of(2), ["x", "y"], 2, align="start", masked=False)
    assert same.layout == steps_of(2).layout


def test_existing_masks_are_kept_and_masks_of_whole_labels_are_expanded():
    mask = np.array([[1, 0], [1, 1]], np.float32)
    found = pad_dataset(steps_of(2, mask=mask), ["x", "y"], 3, align="end", masked=True)
    assert found.features_masks["x"].tolist() == [[0, 1, 0], [0, 1, 1]]
    assert found.features_masks["x"].dtype == np.float32
    part = sw.DataSet(np.ones((2, 2, 1)), np.ones((2, 2)), labels_masks=np.array([1, 0]))
    found = pad_dataset(part, ["labels"], 3, align="start", masked=True)
    assert found.labels_masks["labels"].tolist() == [[1, 1, 0], [0, 0, 0]]


def test_arrays_of_different_lengths_are_sequences():
    both = lengths_of(steps_of(2).columns()) + lengths_of(steps_of(5).columns())
    assert {name: one.is_uniform for name, one in both.lengths.items()} == {
        "x": False, "fixed": True, "y": False
    }  # fmt: skip
    assert lengths_of(steps_of(2, mask=np.ones((2, 2))).columns()).lengths["x"].masked


@cases("align, length", ("left", None), *[("start", n) for n in (0, -3, 2.5, True, "5")])
def test_invalid_alignment_raises(align, length):
    received = "align='left'" if length is None else f"length={length!r}"
    with pytest.raises(sw.ConfigurationError, match=f"Received: {received}"):
        check_alignment(align, length)
