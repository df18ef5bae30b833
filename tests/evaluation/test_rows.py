from typing import Any

import numpy as np
import pytest

from sparkwright.errors import DataError
from sparkwright.evaluation.rows import as_numbers, output_rows, row_mask


def test_time_steps_become_rows_and_are_named() -> None:
    labels = np.arange(12.0).reshape(2, 3, 2)
    rows = output_rows(labels, labels + 1, mask=[[1, 0, 1], [0, 0, 1]])
    assert rows.labels.tolist() == [[0, 1], [4, 5], [10, 11]]
    assert rows.where.examples.tolist() == [0, 0, 1]
    with pytest.raises(DataError, match=r"^rule\. Received: \[10.0, 11.0\] at row 1, step 2\.$"):
        rows.where.require(np.array([True, True, False]), rows.labels, "rule")


def test_a_mask_per_output_leaves_out_single_entries() -> None:
    nan = np.nan
    rows = output_rows([[1, nan], [nan, nan], [5, 6]], [[2, 0], [nan, 1], [3, nan]],
                       mask=[[1, 0], [0, 0], [1, 0]])  # fmt: skip
    assert rows.labels.tolist() == [[1, 0], [5, 0]]
    assert rows.predictions.tolist() == [[2, 0], [3, 0]]
    assert rows.counts.tolist() == [[True, False], [True, False]]
    assert rows.where.kept.tolist() == [0, 2]


def test_a_mask_per_example_counts_all_its_steps() -> None:
    assert row_mask([1, 0], (2, 3)).tolist() == [True] * 3 + [False] * 3
    assert row_mask(np.ones((2, 3, 1)), (2, 3)).tolist() == [True] * 6
    assert row_mask(None, (2, 2)).tolist() == [True] * 4


@pytest.mark.parametrize("mask", [1, [1, 0], [[1, 0, 1]], np.ones((3, 3))])
def test_a_mask_of_another_shape_is_refused(mask: Any) -> None:
    with pytest.raises(DataError, match="`mask` must have shape"):
        output_rows(np.ones((3, 2)), np.ones((3, 2)), mask=mask)


@pytest.mark.parametrize(
    ("labels", "predictions"),
    [((3,), (3, 2)), ((3, 2), (2, 3)), ((3, 1), (3, 2)), ((), ()), ((3, 0), (3, 0)), ((2,), (3,))],
)
def test_shapes_that_do_not_fit_are_refused(labels: Any, predictions: Any) -> None:
    with pytest.raises(DataError, match="must have the shape of `predictions`") as error:
        output_rows(np.ones(labels), np.ones(predictions))
    assert f"labels of shape {np.shape(np.ones(labels))}" in str(error.value)


@pytest.mark.parametrize("values", [["a"], [1j], [None], [[1], [1, 2]], [np.datetime64("2020")]])
def test_what_are_no_real_numbers_is_refused(values: Any) -> None:
    with pytest.raises(DataError, match="`labels` must be an array"):
        as_numbers(values, "labels")
