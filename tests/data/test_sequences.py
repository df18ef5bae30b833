"""One CSV file a sequence: what becomes of it equals pandas and NumPy, exactly."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkwright as sw
from sparkwright.data._sequence_pairs import natural_key

LENGTHS = (3, 5, 2, 4)


def written(
    folder: Path, name: str, lengths: Sequence[int] = LENGTHS, columns: int = 3, seed: int = 0
) -> tuple[str, list[Any]]:
    """A folder with a file for each length, named from 8 up so that 10 comes after 9."""
    random = np.random.default_rng(seed)
    (folder / name).mkdir()
    frames = [pd.DataFrame(random.normal(size=(n, columns)).round(4)) for n in lengths]
    for number, frame in enumerate(frames, start=8):
        frame.to_csv(folder / name / f"{number}.csv", header=False, index=False)
    return str(folder / name), [frame.to_numpy(np.float32) for frame in frames]


def padded(arrays: Sequence[Any], length: int, *, at_end: bool) -> Any:
    """By NumPy, one at a time."""

    def one(array: Any) -> Any:
        missing = length - len(array)
        widths = [(missing, 0) if at_end else (0, missing), *[(0, 0)] * (array.ndim - 1)]
        return np.pad(array, widths)

    return np.stack([one(array) for array in arrays])


@pytest.mark.spark
def test_sequences_of_different_length_get_masks(spark: Any, tmp_path: Path) -> None:
    url, arrays = written(tmp_path, "x")
    data = sw.data.from_csv_sequences(spark, url, partitions=2)
    found = data.collect()
    np.testing.assert_array_equal(found.features["features"], padded(arrays, 5, at_end=False))
    ones = [np.ones(n, np.bool_) for n in LENGTHS]
    np.testing.assert_array_equal(found.features_masks["features"], padded(ones, 5, at_end=False))
    assert found.features["features"].dtype == np.float32
    assert data.rdd.getNumPartitions() == 2
    assert not found.labels


@pytest.mark.spark
@pytest.mark.parametrize("align", ["start", "end"])
def test_labels_of_another_length_are_aligned(spark: Any, tmp_path: Path, align: Any) -> None:
    url, arrays = written(tmp_path, "x")
    labels_url, labels = written(tmp_path, "y", (4, 5, 1, 2), columns=2, seed=1)
    found = sw.data.from_csv_sequences(spark, url, labels_url=labels_url, align=align).collect()
    at_end = align == "end"
    np.testing.assert_array_equal(found.features["features"], padded(arrays, 5, at_end=at_end))
    np.testing.assert_array_equal(found.labels["labels"], padded(labels, 5, at_end=at_end))
    ones = [np.ones(len(array), np.bool_) for array in labels]
    np.testing.assert_array_equal(found.labels_masks["labels"], padded(ones, 5, at_end=at_end))


def test_natural_order_counts() -> None:
    assert sorted(["a10", "a9", "b1", "a"], key=natural_key) == ["a", "a9", "a10", "b1"]
