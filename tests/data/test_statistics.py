import json

import numpy as np
import pandas as pd
import pytest

import sparkwright as sw
from sparkwright.data import DataSet


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    features = random.normal(size=(500, 3)) * [1, 5, 100] + [0, 3, 1000]
    features[::7, 1] = np.nan
    features[::5, 2] = 0
    return DataSet(features, random.choice([0, 2, 3], 500).astype(np.int32))


@pytest.fixture(scope="module")
def data(spark, table):
    return sw.data.from_arrays(spark, table.features, table.labels, partitions=3)


def test_statistics_match_pandas(data, table):
    statistics = data.statistics(bins=20)
    frame = pd.DataFrame(table.features["features"])
    found = statistics.to_frame()[:3].set_index("position")
    assert found["count"].tolist() == frame.count().tolist()
    assert found["missing"].tolist() == frame.isna().sum().tolist()
    assert found["zeros"].tolist() == (frame == 0).sum().tolist()
    np.testing.assert_array_equal(found["min"], frame.min())
    np.testing.assert_array_equal(found["max"], frame.max())
    np.testing.assert_allclose(found["mean"], frame.mean(), rtol=1e-12)
    np.testing.assert_allclose(found["std"], frame.std(ddof=0), rtol=1e-12)
    np.testing.assert_array_equal(found["50%"], frame.quantile(0.5))
    np.testing.assert_allclose(found["99%"], frame.quantile(0.99), rtol=1e-15)
    for column in range(3):
        counts, edges = np.histogram(frame[column].dropna(), 20)
        histogram = statistics["features/features", column].histogram
        assert histogram.counts == tuple(counts.tolist())
        assert histogram.edges == tuple(edges.tolist())


@pytest.mark.thorough
def test_statistics_do_not_depend_on_partitions(spark, table, data, monkeypatch):
    # 7 partitions, merged on the executors in pairs, three times, before the driver sees them.
    monkeypatch.setattr("sparkwright.data._reducing._FAN_IN", 2)
    many = sw.data.from_arrays(spark, table.features, table.labels, partitions=7)
    left, right = many.statistics(bins=0), data.statistics(bins=0)
    for one, other in zip(left, right, strict=True):
        assert (one.count, one.missing, one.quantiles) == (
            other.count,
            other.missing,
            other.quantiles,
        )
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.std, other.std, rtol=1e-12)
        assert one.histogram is None


def test_statistics_have_repr_html_and_json(data):
    statistics = data.statistics(bins=3)
    assert "features/features" in repr(statistics)
    assert "<table" in statistics._repr_html_()
    content = json.loads(json.dumps(statistics.to_dict()))
    assert len(content["columns"]) == 4
    assert sum(content["columns"][0]["histogram"]["counts"]) == 500
    with pytest.raises(KeyError, match="3 columns match 'features/features'"):
        statistics["features/features"]


def test_labels_are_counted_by_class(spark, data, table):
    classes, counts = np.unique(table.labels["labels"], return_counts=True)
    assert data.label_balance() == dict(zip(classes.tolist(), counts.tolist(), strict=True))
    one_hot = DataSet(table.features, np.eye(5, dtype=np.float32)[table.labels["labels"]])
    named = sw.data.from_arrays(spark, one_hot.features, one_hot.labels)
    named.class_names = {"labels": tuple("abcde")}
    expected = np.bincount(table.labels["labels"], minlength=5).tolist()
    assert named.label_balance() == dict(zip("abcde", expected, strict=True))


def test_step_numbers_are_one_column_for_any_sequence_length(spark):
    parts = [
        DataSet(np.zeros((2, time, 3)), np.arange(2.0 * time).reshape(2, time)) for time in (3, 5)
    ]
    data = sw.data.from_rdd(spark, spark.sparkContext.parallelize(parts, 2))
    numbers = np.concatenate([part.labels["labels"].ravel() for part in parts])
    statistics = data.statistics(bins=4)
    column = statistics["labels/labels"]
    assert (column.count, column.mean) == (16, numbers.mean())
    assert column.histogram.counts == tuple(np.histogram(numbers, 4)[0].tolist())
    assert sw.data.Standardize.fit(data, labels=True).labels["labels"].mean == [numbers.mean()]


def test_vectors_of_different_length_have_no_statistics(spark):
    parts = [DataSet(np.zeros((2, columns))) for columns in (3, 5)]
    data = sw.data.from_rdd(spark, spark.sparkContext.parallelize(parts, 2))
    with pytest.raises(sw.DataError, match=r"3 and 5 columns in 'features/features'"):
        data.statistics()
