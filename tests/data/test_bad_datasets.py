"""DataSets and tables that fit nothing: each error names what it met."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkwright.data import DataSet
from sparkwright.errors import ConfigurationError, DataError


def of(*shape: int, dtype: Any = np.float32, **columns: Any) -> DataSet:
    return DataSet(np.zeros(shape, dtype), **columns)


def table(**columns: Any) -> Any:
    return pa.table({name.replace("_", "/", 1): column for name, column in columns.items()})


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        pytest.param([], "Received: parts=[]", id="nothing"),
        pytest.param(
            [of(1, 2), DataSet({"x": np.zeros((1, 2))})],
            "part 0 has ['features'], part 1 has ['x']",
            id="other names",
        ),
        pytest.param(
            [of(1, 2), of(1, 2, labels=np.zeros(1))], "part 1 has ['labels']", id="labels in one"
        ),
        pytest.param(
            [of(1, 2), of(1, 2, dtype=np.int32)],
            "features/features has one dtype. Received: ['float32', 'int32']",
            id="other dtype",
        ),
        pytest.param(
            [of(1, 2), of(1, 3)], "features/features with shapes [(2,), (3,)]", id="other columns"
        ),
        pytest.param(
            [of(1, 4, 4, 3), of(1, 5, 4, 3)], "shapes [(4, 4, 3), (5, 4, 3)]", id="images"
        ),
        pytest.param([of(1, 2, 3), of(1, 2, 4)], "shapes [(2, 3), (2, 4)]", id="other steps"),
        pytest.param([of(1, 2, 3), of(1, 2)], "shapes [(2,), (2, 3)]", id="other rank"),
        pytest.param(
            [of(1, 2, 1), of(1, 3, 1, features_masks=np.ones((1, 2)))],
            "one number a step, shape (1, 3). Received: (1, 2)",
            id="mask of other length",
        ),
        pytest.param(
            [
                of(1, 2, 1, features_masks=np.ones((1, 2))),
                of(1, 3, 1, features_masks=np.ones((1, 3), bool)),
            ],
            "the mask of features/features has one dtype. Received: ['bool', 'float64']",
            id="mask of other dtype",
        ),
        pytest.param(
            [of(1, 2, 1), of(1, 3, 1, features_masks={"x": np.ones((1, 3))})],
            "features_masks ['x'] beside features ['features']",
            id="mask of nothing",
        ),
        pytest.param(
            [of(1, 2, 1, weights=np.ones(1)), of(1, 3, 1, weights=np.ones(1, np.float32))],
            "`weights` has one dtype. Received: ['float32', 'float64']",
            id="weights of other dtype",
        ),
    ],
)
def test_parts_that_do_not_fit_are_not_merged(parts: list[DataSet], text: str) -> None:
    with pytest.raises(DataError) as refused:
        DataSet.merge(parts)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param({"features/x": [1.0]}, "Received: dict", id="no table"),
        pytest.param(table(features_x=["a"]), "column 'features/x' of type string", id="text"),
        pytest.param(
            table(features_x=pa.array([[1.0]], pa.list_(pa.float64()))),
            "column 'features/x' of type list<item: double>",
            id="lists of any length",
        ),
        pytest.param(
            table(features_x=[1.0, None]),
            "column 'features/x' must have no missing values. Received: 1 of them in 2 rows",
            id="missing number",
        ),
        pytest.param(
            table(features_x=pa.array([[1.0, None]], pa.list_(pa.float32(), 2))),
            "Received: 1 of them in 1 rows",
            id="missing number in a list",
        ),
        pytest.param(
            table(features_x=pa.array([None, [1.0]], pa.list_(pa.float32(), 1))),
            "'features/x' must have no missing values",
            id="missing list",
        ),
        pytest.param(table(age=[1.0]), "Received: 'age'", id="name of no group"),
        pytest.param(table(labels_y=[1.0]), "at least one feature array", id="no features"),
        pytest.param(
            table(features_x=pa.array([{"a": 1}])), "of type struct<a: int64>", id="struct"
        ),
        pytest.param(
            table(features_x=pa.array([0], pa.timestamp("s"))), "type timestamp[s]", id="time"
        ),
        pytest.param(
            table(features_x=pa.array(["a"]).dictionary_encode()), "type dictionary<", id="category"
        ),
    ],
)
def test_tables_that_hold_no_numbers_are_refused(content: Any, text: str) -> None:
    with pytest.raises(DataError) as refused:
        DataSet.from_arrow(content)
    assert text in str(refused.value)


@pytest.mark.parametrize("size", [0, -3])
def test_batches_hold_one_example_at_least(size: int) -> None:
    with pytest.raises(ConfigurationError, match=f"Received: size={size}"):
        list(of(3, 2).batches(size))


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"Received: seed={seed}"):
        of(3, 2).shuffle(seed)
