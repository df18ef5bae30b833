import itertools
import math
from fractions import Fraction
from typing import get_args

import hypothesis.strategies as st
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn
from tests.cases import cases

import sparkwright as sw
from sparkwright.evaluation import RegressionMetric
from sparkwright.evaluation.pair_sample import PairSample
from sparkwright.evaluation.reports import Figure

mpl.use("agg")
METRICS = get_args(RegressionMetric)


def regression(labels, predictions, **options):
    return sw.RegressionEvaluation.from_predictions(labels, predictions, **options)


THEIRS = {
    "mean_squared_error": sklearn.mean_squared_error,
    "root_mean_squared_error": sklearn.root_mean_squared_error,
    "mean_absolute_error": sklearn.mean_absolute_error,
    "max_error": sklearn.max_error,
    "mean_error": lambda y, p: np.mean(p - y),
    "relative_squared_error": lambda y, p: 1 - sklearn.r2_score(y, p),
    "pearson_correlation": lambda y, p: np.corrcoef(y, p)[0, 1],
    "r2": sklearn.r2_score,
}


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    rows=st.integers(1, 300),
    outputs=st.integers(1, 4),
    parts=st.integers(1, 60),
    mean=st.sampled_from([0.0, 3.0, -100.0]),
)
def test_metrics_equal_scikit_learns_for_any_grouping(seed, rows, outputs, parts, mean):
    rng = np.random.default_rng(seed)
    labels = mean + rng.normal(size=(rows, outputs)) * rng.integers(1, 100, outputs)
    predictions = labels + rng.normal(0.5, 1, labels.shape)
    mask = rng.random(labels.shape) < 0.8
    mask[:2] = True
    if outputs == 1:
        mask = mask[:, 0]
    evaluation = sw.RegressionEvaluation()
    for at in np.array_split(rng.permutation(rows), parts):
        evaluation = evaluation.updated(labels[at], predictions[at], mask=mask[at])
    mask = mask.reshape(labels.shape)
    close = {"rel": 1e-12, "abs": 1e-12}
    for metric in METRICS if rows > 1 else METRICS[:5]:
        expected = [
            THEIRS[metric](labels[mask[:, k], k], predictions[mask[:, k], k])
            for k in range(outputs)
        ]
        assert evaluation.per_output(metric).tolist() == pytest.approx(expected, **close)
        assert getattr(evaluation, metric)(of=0) == evaluation.per_output(metric)[0]
        combined = max(expected) if metric == "max_error" else np.mean(expected)
        assert getattr(evaluation, metric)() == pytest.approx(combined, **close)
    assert evaluation.examples == mask.any(axis=1).sum()


@cases("mean", 1e6, 1e9)
def test_large_means_keep_precision_in_small_parts(mean):
    labels = mean + np.random.default_rng(0).standard_normal(1_000)
    values = list(map(Fraction, labels.tolist()))
    center = sum(values) / len(values)
    exact = float(sum((value - center) ** 2 for value in values))
    parts = [regression(labels[i : i + 7], labels[i : i + 7]) for i in range(0, 1_000, 7)]
    moments = sum(parts[1:], parts[0]).moments
    assert moments.products.values[0, 0] == pytest.approx(exact, rel=1e-14)


@cases(
    "labels, predictions, r2, relative",
    ([0.1, 0.1, 0.1], [0.1, 0.1, 0.1], 1, 0),
    ([0.1, 0.1, 0.1], [0.2, 0.2, 0.2], 0, 1),
    ([5.0], [5.0], 1, 0),
    ([5.0], [4.0], 0, 1),
)
def test_constant_labels_have_the_documented_values(labels, predictions, r2, relative):
    evaluation = regression(labels, predictions)
    assert evaluation.r2() == r2
    assert evaluation.relative_squared_error() == relative
    assert evaluation.pearson_correlation() == 0


def test_metrics_of_extreme_values_are_not_nan():
    evaluation = regression([1e-130, 2e-130, 1e-131], [1e150, -1e150, 1e150])
    assert evaluation.r2() == -math.inf
    assert evaluation.relative_squared_error() == math.inf
    assert evaluation.mean_squared_error() == pytest.approx(1e300)
    assert evaluation.root_mean_squared_error() == pytest.approx(1e150)
    many = regression(np.full((4, 9), 1e150), np.full((4, 9), -1e150))
    assert many.mean_squared_error() == pytest.approx(4e300)


def test_outputs_without_rows_are_excluded_from_averages():
    mask = [[1, 0], [1, 0]]
    evaluation = regression([[1, 5], [3, 5]], [[2.0, 9], [5.0, 9]], mask=mask, names=["a", "b"])
    assert evaluation.left_out() == ("b",)
    assert evaluation.mean_absolute_error() == 1.5
    assert evaluation.mean_absolute_error(of="b") == 0
    assert "without 1 of 2" in evaluation.summary()


@cases("dtype", np.float16, np.float32, np.int8, np.uint64, np.bool_)
def test_numbers_of_any_type_keep_their_value(dtype):
    labels = np.array([0, 1, 1, 0]).astype(dtype)
    predictions = np.array([0.25, 0.5, 1, 0]).astype(dtype)
    assert regression(labels, predictions) == regression(
        labels.astype(np.float64), predictions.astype(np.float64)
    )


def test_sample_is_uniform_and_counts_all_duplicates_of_its_pairs():
    values = np.arange(100_000.0)
    sample = PairSample.of(values, values, size=1000)
    counts, _ = np.histogram(sample.labels, bins=10, range=(0, 100_000))
    assert counts.min() > 60  # four standard deviations from 100
    rng = np.random.default_rng(0)
    values = rng.permutation(np.repeat(np.arange(1500.0), 100))
    assert set(PairSample.of(values, values, size=1000).counts.tolist()) == {100}
    whole = PairSample.of(values, -values, size=1500)
    np.testing.assert_array_equal(np.sort(whole.labels), np.arange(1500))


def test_positive_and_negative_zero_are_the_same_number():
    one, other = regression([0.0, -0.0], [-0.0, 0.0]), regression([0.0, 0.0], [0.0, 0.0])
    assert one == other
    assert one.to_json() == other.to_json()


def test_plots_show_the_sample():
    rng = np.random.default_rng(0)
    labels = rng.normal(size=(3000, 8))
    evaluation = regression(labels, labels + rng.normal(size=labels.shape))
    axes = evaluation.plot(of=1)
    points = axes.collections[0].get_offsets()
    sample = evaluation.samples[1]
    np.testing.assert_array_equal(points, np.stack([sample.labels, sample.predictions], axis=1))
    assert axes.get_legend().get_texts()[1].get_text() == "1,000 of 3,000 rows"
    axes = evaluation.plot_residuals(of=1)
    points = axes.collections[0].get_offsets()
    np.testing.assert_array_equal(points[:, 0], sample.predictions)
    np.testing.assert_array_equal(points[:, 1], sample.labels - sample.predictions)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "actual - predicted")
    assert "of 0" in evaluation.plot().get_title()
    plt.close("all")


@cases("scale, middle", (1e-9, 0), (1, 5), (220, 0), (1e12, 5))
def test_no_tick_labels_collide(scale, middle):
    rng = np.random.default_rng(0)
    labels = scale * (middle + rng.normal(size=(20_000, 1)))
    evaluation = regression(labels, labels + scale * rng.normal(size=labels.shape))
    for figure in evaluation.figures()[1:]:
        assert isinstance(figure, Figure)
        drawn = mpl.figure.Figure(figsize=figure.size, layout="constrained")
        figure.draw(drawn.add_subplot())
        drawn.draw_without_rendering()
        for axis in (axis for axes in drawn.axes for axis in (axes.xaxis, axes.yaxis)):
            low, high = axis.get_view_interval()
            pairs = zip(axis.get_majorticklocs(), axis.get_major_ticks(), strict=True)
            shown = [tick.label1 for place, tick in pairs if low <= place <= high]
            boxes = [each.get_window_extent() for each in shown if each.get_visible()]
            assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))
        assert {axes.xaxis.get_offset_text().get_text() for axes in drawn.axes} == {""}


def test_numbers_are_formatted_without_exponents():
    labels = np.arange(0.0, 1e5, 1e3)[:, None]
    evaluation = regression(labels, labels + 21_979.6)
    found = [evaluation.summary(), repr(evaluation), str(evaluation.figures()[0])]
    for text in found:
        assert "21,980" in text
        assert "e+" not in text


def test_outputs_have_names():
    one = np.arange(10.0)[:, None]
    assert regression(one, one).output_names == ("output",)
    two = np.hstack([one, one])
    named = sw.RegressionEvaluation().named(["length", "width"])
    assert named.updated(two, two).output_names == ("length", "width")
    assert named.named(["a", "b"]) is named
    assert sw.RegressionEvaluation().named([]).updated(two, two).output_names == ("0", "1")
    answers = sw.EvaluationBinary(thresholds=[0.5, 0.2, 0.1])
    assert answers.named(["one", "two"]) is answers
    assert sw.Evaluation().named(["a"]).class_names is None
