from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sparkwright as sw
from sparkwright.partitions import (
    PartitionSurvey,
    RepartitionMode,
    RepartitionStrategy,
    advice_on,
    compare_repartitions,
    forecast,
    recommended,
)
from sparkwright.partitions.survey import LabelSample

MODES = get_args(RepartitionMode)
STRATEGIES = get_args(RepartitionStrategy)
COUNTS = st.lists(st.integers(0, 60), min_size=1, max_size=6)


def survey_of(partitions, most_rows=10_000):
    """A survey of labels, as a look at the data gives it."""
    samples = []
    for number, labels in enumerate(partitions):
        sample = LabelSample.empty(most_rows)
        if len(labels):
            chunk = sw.DataSet(np.zeros((len(labels), 1)), np.asarray(labels))
            sample = sample.extended(chunk, output=None, start=0, partition=number, seed=0)
        samples.append(sample)
    return PartitionSurvey.of_samples([len(labels) for labels in partitions], samples)


@given(
    st.lists(st.lists(st.integers(0, 3), max_size=40), min_size=1, max_size=5).filter(any),
    st.integers(1, 5),
    st.sampled_from(MODES),
    st.sampled_from(STRATEGIES),
)
def test_counted_labels_are_forecast_exactly(partitions, workers, mode, strategy):
    survey = survey_of(partitions)
    found = forecast(survey, workers=workers, mode=mode, strategy=strategy)
    classes = [int(name) for name in survey.class_names]
    held = np.zeros((workers, len(classes)))
    placement = found.plan.placement()
    for source, labels in enumerate(partitions):
        targets = placement.destinations(source, 0, len(labels))
        for target, label in zip(targets, labels, strict=True):
            held[target, classes.index(label)] += 1
    assert found.label_forecast == "exact"
    assert np.array_equal(found.after.labels, held)


@given(COUNTS, st.integers(1, 5), st.sampled_from(MODES), st.sampled_from(STRATEGIES))
def test_total_label_counts_are_preserved(counts, workers, mode, strategy):
    halves = tuple((n // 2, n - n // 2) for n in counts)
    survey = PartitionSurvey(rows=tuple(counts), label_counts=halves)
    found = forecast(survey, workers=workers, mode=mode, strategy=strategy)
    assert found.after.labels.sum(axis=0) == pytest.approx(survey.labels.sum(axis=0))
    assert found.after.labels.sum(axis=1) == pytest.approx(found.after.rows)
    assert found.after.rows == found.plan.target_counts


def test_labels_without_positions_are_reported_as_expected_values():
    mixed = PartitionSurvey(rows=(40, 0), label_counts=((20, 20), (0, 0)))
    assert forecast(mixed, workers=2).label_forecast == "expected"
    assert forecast(mixed, workers=2, mode="never").label_forecast == "exact"
    alike = PartitionSurvey(rows=(40, 0), label_counts=((40, 0), (0, 0)))
    assert forecast(alike, workers=2).label_forecast == "exact"
    assert forecast(PartitionSurvey(rows=(40, 0)), workers=2).label_forecast == "none"


def test_sorted_labels_within_a_partition_are_detected():
    """A partition that is mixed as a whole, but sorted: each worker gets one class of it."""
    survey = survey_of([[0] * 500 + [1] * 500])
    found = forecast(survey, workers=2)
    assert found.now.label_skew == 0
    assert found.after.label_skew == 0.5
    assert found.has_uneven_labels
    assert any("Labels are uneven" in line for line in advice_on(found, ()))
    dealt = forecast(survey, workers=2, strategy="spark_default")
    assert dealt.after.label_skew == 0
    assert recommended(compare_repartitions(survey, workers=2)).plan.strategy == "spark_default"


def test_sample_predicts_the_effect_on_sorted_labels():
    survey = survey_of([[0] * 5000 + [1] * 5000], most_rows=200)
    assert survey.label_basis == "sampled"
    found = forecast(survey, workers=2)
    assert found.label_forecast == "estimated"
    assert found.after.label_skew == pytest.approx(0.5, abs=0.05)


def test_random_skew_of_few_rows_is_not_reported_as_uneven():
    random = np.random.default_rng(0)
    survey = survey_of([random.integers(0, 10, 40) for _ in range(8)])
    found = forecast(survey, workers=8)
    assert found.after.label_skew > 0.15
    assert not found.has_uneven_labels


@settings(max_examples=50)
@given(COUNTS, st.integers(1, 5), st.integers(1, 40))
def test_trained_and_idle_minibatches_add_up(counts, workers, batch_size):
    survey = PartitionSurvey(rows=tuple(counts))
    for found in compare_repartitions(survey, workers=workers, batch_size=batch_size):
        assert 0 <= found.idle_after < 1
        assert found.minibatches_after >= -(-survey.total // (workers * batch_size))
        trained = sum(found.after.minibatches(batch_size))
        waited = found.minibatches_after * workers * found.idle_after
        assert trained + waited == pytest.approx(found.minibatches_after * workers)
        assert found.minibatches_saved == found.minibatches_without - found.minibatches_after


def test_cost_is_shown_beside_the_benefit():
    survey = PartitionSurvey(rows=(900, 100), size_bytes=(450_000_000, 50_000_000))
    found = forecast(survey, workers=2, batch_size=10, step_s=0.5)
    assert found.minibatches_saved == 40
    assert found.seconds_saved == 20
    assert (found.rows_moved, found.bytes_moved, found.move_s) == (400, 2e8, 2)
    assert found.epochs_to_pay_off == pytest.approx(0.1)
    assert "pays off within the first epoch" in advice_on(found, ())[0]
    grouped = forecast(PartitionSurvey(rows=(5, 5, 5, 5)), workers=2, mode="never")
    assert (grouped.plan.action, grouped.rows_moved) == ("grouped", 0)
    assert "only grouped" in advice_on(grouped, ())[0]
    shared = forecast(
        PartitionSurvey(rows=(90, 10)), workers=2, mode="never", batch_size=10, kind="sharing"
    )
    assert (shared.minibatches_after, shared.idle_after) == (5, 0)  # workers that are done help
    unknown = forecast(PartitionSurvey(rows=(900, 100)), workers=2, batch_size=10)
    assert (unknown.bytes_moved, unknown.move_s, unknown.epochs_to_pay_off) == (None,) * 3


def test_advice_names_a_better_repartition_and_what_is_uneven():
    survey = PartitionSurvey(rows=(960, 64))
    forecasts = compare_repartitions(survey, workers=2, batch_size=32)
    never = next(each for each in forecasts if each.plan.mode == "never")
    text = " ".join(advice_on(never, forecasts))
    assert 'Better: mode "always"' in text
    best = recommended(forecasts)
    assert not any(line.startswith(("Better", "Cheaper")) for line in advice_on(best, forecasts))
    found = forecast(PartitionSurvey(rows=(33,)), workers=3, mode="never", batch_size=32)
    text = " ".join(advice_on(found, ()))
    assert "2 of 3 workers get no rows" in text
    assert "only 1 of 32 rows" in text
    assert "no rows" in advice_on(forecast(PartitionSurvey(rows=()), workers=1), ())[0]


def test_invalid_batch_size_raises():
    with pytest.raises(sw.ConfigurationError, match="batch_size"):
        forecast(PartitionSurvey(rows=(3,)), workers=1, batch_size=0)
