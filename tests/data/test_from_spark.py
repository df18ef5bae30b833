import numpy as np
import pytest

import sparkwright as sw
from sparkwright.data.frames import FrameColumns
from sparkwright.data.from_spark import from_frame


def test_vector_columns_become_one_array(spark):
    from pyspark.ml.linalg import Vectors

    rows = [(Vectors.dense([1.0, 2.0]), 0), (Vectors.sparse(2, {1: 3.0}), 1)]
    frame = spark.createDataFrame(rows, ["features", "label"]).coalesce(1)
    found = from_frame(frame, FrameColumns()).collect()
    np.testing.assert_array_equal(found.features["features"], [[1, 2], [0, 3]])
    assert found.labels["labels"].tolist() == [0, 1]


@pytest.mark.thorough
def test_arrays_with_nulls_inside_are_rejected(spark):
    schema = "features array<double>, label int"
    rows = [([1.0, 2.0], 0), ([3.0, None], 1)]
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    with pytest.raises(sw.DataError, match=r"arrays of column 'features' .* 1 of 4"):
        from_frame(frame, FrameColumns()).collect()
    frame = spark.createDataFrame([([1, None], 0)], "features array<int>, label int")
    with pytest.raises(sw.DataError, match="arrays of column 'features'"):
        from_frame(frame, FrameColumns()).collect()


def test_frame_without_a_features_column_raises(spark):
    frame = spark.createDataFrame([(1.0, 2)], ["width", "kind"])
    with pytest.raises(sw.DataError, match=r"columns \['width', 'kind'\].*from_dataframe"):
        from_frame(frame, FrameColumns())


@pytest.mark.thorough
def test_missing_values_in_a_frame_raise_with_their_columns(spark):
    rows = [(1.0, float("nan"), "a"), (None, 2.0, None), (3.0, 4.0, "b")]
    frame = spark.createDataFrame(rows, "width double, size double, kind string").coalesce(1)
    data = from_frame(frame, FrameColumns(label="kind"))
    message = r"missing values\. Received: 'width': 1, 'size': 1, 'kind': 1, of 3 .*dropna"
    with pytest.raises(sw.DataError, match=message):
        data.collect()
