import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.partitions import PartitionSurvey
from sparkwright.partitions.survey import LabelSample


def sample_of(labels, *, most_rows, chunk=7, partition=0, masks=None):
    dataset = sw.DataSet(np.zeros((len(labels), 1)), labels, labels_masks=masks)
    sample, start = LabelSample.empty(most_rows), 0
    for piece in dataset.batches(chunk):
        sample = sample.extended(piece, output=None, start=start, partition=partition, seed=3)
        start += len(piece)
    return sample


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 70), st.integers(1, 20))
def test_sample_has_the_requested_size_and_real_rows_in_chunks_of_any_size(
    labels, most_rows, chunk
):
    labels = np.array(labels)
    sample = sample_of(labels, most_rows=most_rows, chunk=chunk)
    assert sample.rows == min(most_rows, len(labels))
    assert sample.complete == (len(labels) <= most_rows)
    assert np.array_equal(sample.classes, labels[sample.numbers])
    assert len(set(sample.numbers.tolist())) == sample.rows
    in_other_chunks = sample_of(labels, most_rows=most_rows, chunk=8)
    assert np.array_equal(sample.numbers, in_other_chunks.numbers)


def test_samples_of_sequences_keep_all_unmasked_labels_of_a_row():
    labels = np.arange(5)[:, None].repeat(3, axis=1)
    mask = np.array([[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 1]])
    sample = sample_of(labels, most_rows=100, masks=mask)
    assert np.bincount(sample.classes, minlength=5).tolist() == [3, 1, 0, 2, 3]
    assert np.array_equal(sample.numbers, sample.classes)
    assert sample.complete
    survey = PartitionSurvey.of_samples([5], [sample])
    assert survey.label_basis == "counted"
    long = sample_of(np.zeros((10, 40), np.int64), most_rows=4)  # fewer rows of longer sequences
    assert (long.rows, long.complete) == (1, False)


def test_classes_without_examples_count_and_names_must_cover_all():
    sample = sample_of(np.eye(4, dtype=np.float32)[[1, 1, 2]], most_rows=10)
    survey = PartitionSurvey.of_samples([3], [sample])
    assert survey.label_counts == ((0, 2, 1, 0),)
    assert survey.class_names == ("0", "1", "2", "3")
    sample = sample_of(np.array([0, 5]), most_rows=10)
    fits = PartitionSurvey.of_samples([2], [sample], class_names=["a", "b", "c", "d", "e", "f"])
    assert fits.label_counts == ((1, 0, 0, 0, 0, 1),)
    other = PartitionSurvey.of_samples([2], [sample], class_names=["a", "b"])
    assert other.class_names == ("0", "5")


def test_labels_that_are_not_classes_raise():
    survey = PartitionSurvey.of_samples([1500], [sample_of(np.arange(1500), most_rows=2000)])
    assert survey.label_basis == "none"
    assert "more than 1,000 different labels" in survey.description
    for labels in (np.array([0.5, 1.0]), np.array([[1.0, 1.0]])):
        with pytest.raises(sw.DataError, match="labels must be classes"):
            sample_of(labels, most_rows=10)


def test_survey_distinguishes_counted_from_sampled_values():
    assert "all counted" in PartitionSurvey(rows=(3, 1), label_counts=((3, 0), (0, 1))).description
    assert "not counted yet" in PartitionSurvey(rows=(3, 1)).description
    sampled = PartitionSurvey(
        rows=(1000, 500), label_counts=((60, 40), (0, 100)), rows_looked_at=(100, 100)
    )
    assert sampled.label_basis == "sampled"
    assert "a sample of 200 of 1,500 rows, at most 100 of each" in sampled.description
    assert "accurate to about 10 percentage points" in sampled.description
    small = PartitionSurvey(
        rows=(1, 0, 1000), label_counts=((1,), (0,), (100,)), rows_looked_at=(1, 0, 100)
    )
    assert "accurate to about 10 percentage points" in small.description
    assert sampled.labels.tolist() == [[600.0, 400.0], [0.0, 500.0]]


@cases(
    "settings, match",
    ({"rows": (3, -1)}, "at least 0"),
    ({"rows": (3, 1.5)}, "integers"),
    ({"rows": (3,), "label_counts": ((1,), (2,))}, "each of the 1 partitions"),
    ({"rows": (3, 1), "label_counts": ((1, 1), (2,))}, "2 entries per partition"),
    ({"rows": (3,), "label_counts": ((1,),), "rows_looked_at": (4,)}, "must not exceed"),
)
def test_inconsistent_survey_raises(settings, match):
    with pytest.raises(sw.DataError, match=match):
        PartitionSurvey(**settings)
