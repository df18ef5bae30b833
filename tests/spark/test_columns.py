from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.cases import cases

from sparkwright.errors import DataError
from sparkwright.spark._sql import ColumnReader, _from_pandas, _predicted, _sql_type

STEPS = {"steps": (None, 2)}


def sums(dataset):
    """In place of a network: the sum of each step's numbers."""
    return {"level": next(iter(dataset.features.values())).sum(axis=-1, keepdims=True)}


def session():
    return SimpleNamespace(
        run=lambda dataset, what: sums(dataset),
        inference=SimpleNamespace(cut=lambda dataset: dataset.batches(2)),
    )


def test_rows_of_different_lengths_keep_their_order():
    random = np.random.default_rng(3)
    rows = [random.normal(size=(t, 2)).astype(np.float32).tolist() for t in (4, 1, 3, 4, 1, 4)]
    reader = ColumnReader(inputs=STEPS, schema=None)
    outputs = {"level": ("float32", (None, 1))}
    column = pa.array(rows, pa.list_(pa.list_(pa.float32())))
    found = _predicted(session(), [column], reader, outputs, None).to_pylist()
    for one, row in zip(found, rows, strict=True):
        np.testing.assert_allclose(one, np.sum(row, axis=1, keepdims=True), rtol=1e-6)
    assert len(_predicted(session(), [column[:0]], reader, outputs, None)) == 0


def test_features_of_a_single_input_can_be_separate_columns():
    reader = ColumnReader(inputs={"x": (3,)}, schema=None)
    columns = [pa.array([1.0, 4.0]), pa.array([2, 5]), pa.array([True, False])]
    [(rows, dataset)] = reader.datasets(columns)
    assert rows.tolist() == [0, 1]
    assert dataset.features["x"].tolist() == [[1, 2, 1], [4, 5, 0]]
    assert dataset.features["x"].dtype == np.float32


@cases(
    "inputs, columns, message",
    ({"x": (4,)}, [[[1.0, 2.0, 3.0, 4.0], None]], "must have no missing values"),
    ({"x": (4,)}, [[[1.0, 2.0]]], r"takes examples of shape \(4,\)"),
    ({"x": (2,)}, [[[]]], "must not be empty"),
    ({"x": (2,)}, [["text"]], r"takes examples of shape \(2,\)"),
    ({"x": (2,)}, [[b"bytes"]], "must hold numbers or text"),
    ({"a": (1,), "b": (1,)}, [[1.0]], "one column for each of the network's inputs"),
    (STEPS, [[[[1.0, 2.0], [3.0]]]], "must have one length"),
)
def test_columns_that_are_not_inputs_are_rejected(inputs, columns, message):
    reader = ColumnReader(inputs=inputs, schema=None)
    with pytest.raises(DataError, match=message):
        list(reader.datasets([pa.array(column) for column in columns]))


def test_output_with_one_value_is_a_scalar_column():
    outputs = [("float32", (1,)), ("int64", (3,)), ("bfloat16", (None, 2))]
    found = [_sql_type(*output) for output in outputs]
    assert found == ["float", "array<bigint>", "array<array<float>>"]


@cases(
    "rows",
    [np.array([1.5, np.nan]), np.array([3.0])],
    [np.array([1, 2]), np.array([], np.int64), np.array([3])],
    [np.array([True]), np.array([False])],
    [np.array([1, 2]), None],
    pa.array([[[1.0], [2.0]], [[3.0]]]).to_pandas().to_list(),
    [np.array(["a", "b"], dtype=object)],
    [0.5, np.nan],
    [],
)
def test_pandas_columns_are_converted_as_by_pyarrow(rows):
    column = pd.Series(rows, dtype=object)
    assert _from_pandas(column).equals(pa.Array.from_pandas(column))
