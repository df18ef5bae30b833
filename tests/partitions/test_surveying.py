import numpy as np
import pytest

import sparkwright as sw
from sparkwright.data import from_bytes
from sparkwright.partitions import forecast
from sparkwright.partitions.execute import repartition
from sparkwright.spark import survey_partitions


def labels_of(data):
    """The labels that each partition really holds."""
    found = data.rdd.glom().collect()
    return [
        [int(label) for chunk in chunks for label in from_bytes(chunk).labels["labels"]]
        for chunks in found
    ]


@pytest.fixture(scope="module")
def data(spark):
    """1,000 rows in 4 partitions, sorted by label."""
    labels = np.sort(np.arange(1000) % 5).astype(np.int32)
    return sw.data.from_arrays(spark, np.zeros((1000, 2), np.float32), labels, partitions=4)


@pytest.mark.thorough
def test_survey_counts_the_data_and_the_forecast_is_exact(spark, data):
    survey = survey_partitions(data, sample_rows=1000)
    assert survey.rows == data.partition_counts()
    assert survey.label_basis == "counted"
    real = [np.bincount(labels, minlength=5).tolist() for labels in labels_of(data)]
    assert survey.labels.tolist() == real
    assert min(survey.size_bytes) > 0
    found = forecast(survey, workers=3, strategy="spark_default", seed=2)
    moved = type(data)(spark, repartition(data.rdd, found.plan))
    assert moved.partition_counts() == found.after.rows


def test_large_data_is_sampled_and_classes_are_named(spark, data):
    named = type(data)(spark, data.rdd, class_names={"labels": ["a", "b", "c", "d", "e"]})
    survey = survey_partitions(named, sample_rows=50)
    assert survey.rows_looked_at == (50,) * 4
    assert survey.class_names == ("a", "b", "c", "d", "e")
    found = forecast(survey, workers=2)
    assert found.label_forecast == "estimated"
    assert found.after.label_skew == pytest.approx(0.5, abs=0.1)


@pytest.mark.thorough
def test_rows_are_counted_without_classes(spark, data):
    numbers = sw.data.from_arrays(spark, np.zeros((9, 1)), np.arange(9) / 2, partitions=2)
    survey = survey_partitions(numbers)
    assert sum(survey.rows) == 9
    assert "labels must be classes" in survey.description
    nothing = survey_partitions(sw.data.from_arrays(spark, np.zeros((9, 1)), partitions=2))
    assert "no labels" in nothing.description
    assert survey_partitions(data, sample_rows=0).label_basis == "none"
    with pytest.raises(sw.ConfigurationError, match="sample_rows"):
        survey_partitions(data, sample_rows=-1)
