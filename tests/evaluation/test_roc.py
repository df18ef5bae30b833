import math

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn

from sparkwright.errors import DataError
from sparkwright.evaluation import ROC

matplotlib.use("Agg")

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


@st.composite
def scored(draw, *, least=0, both=False):
    """Labels and scores: few distinct ones, so tied; or any; float32 or float64."""
    n = draw(st.integers(max(least, 2 if both else 0), 40))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = 32 if dtype is np.float32 else 64
    elements = draw(
        st.sampled_from(
            [
                st.sampled_from([0.0, 0.25, 0.5, 1.0]),
                st.floats(0, 1, width=width),
                st.floats(-100, 100, width=width),
                st.just(0.5),
            ]
        )
    )
    scores = draw(npst.arrays(dtype, n, elements=elements))
    labels = draw(npst.arrays(np.int64, n, elements=st.integers(0, 1)))
    if both:
        labels[:2] = [0, 1]
    return labels, scores


probabilities = st.integers(2, 40).flatmap(
    lambda n: st.tuples(
        npst.arrays(np.int64, n, elements=st.integers(0, 1)),
        npst.arrays(
            np.float64, n, elements=st.floats(0, 1) | st.sampled_from([0.0, 0.3, 0.7, 1.0])
        ),
    )
)


# Against scikit-learn


@pytest.mark.thorough
@settings(max_examples=150)
@given(rows=scored(both=True))
def test_areas_and_curves_equal_scikit_learns(rows):
    labels, scores = rows
    roc = ROC.from_predictions(labels, scores)
    assert roc.auc == pytest.approx(sklearn.roc_auc_score(labels, scores), rel=1e-12, abs=1e-12)
    average_precision = sklearn.average_precision_score(labels, scores)
    assert roc.average_precision == pytest.approx(average_precision, rel=1e-12)
    curve, trade = roc.curve(), roc.precision_recall_curve()
    precision, recall, thresholds = sklearn.precision_recall_curve(labels, scores)
    assert roc.auprc == pytest.approx(sklearn.auc(recall, precision), rel=1e-12)
    theirs = (*sklearn.roc_curve(labels, scores), precision, recall)
    ours = (curve.false_positive_rate, curve.true_positive_rate, curve.thresholds)
    for left, right in zip((*ours, trade.precision, trade.recall), theirs, strict=True):
        np.testing.assert_allclose(left, right, **CLOSE)
    np.testing.assert_array_equal(trade.thresholds, [*thresholds, math.inf])


@settings(max_examples=150)
@given(rows=scored(), threshold=st.floats(-2, 2) | st.sampled_from([0.25, 0.5, 1.0]))
def test_confusion_at_any_threshold_counts_row_by_row(rows, threshold):
    labels, scores = rows
    found = ROC.from_predictions(labels, scores).confusion_at(threshold).confusion
    oracle = np.zeros((2, 2), np.int64)
    np.add.at(oracle, (labels, (scores.astype(np.float64) >= threshold).astype(np.int64)), 1)
    np.testing.assert_array_equal(found, oracle)


def test_auc_is_exact_where_a_sum_of_floats_would_round():
    # One pair of 3 · 10⁹ is in the wrong order: no trapezoid in float64 tells it so exactly.
    negatives = np.arange(30_000.0)
    positives = np.arange(100_000.0) + 29_998.5
    roc = ROC().including(positives, negatives)
    assert roc.auc == (3 * 10**9 - 1) / (3 * 10**9)


# Thresholds


@pytest.mark.thorough
@settings(max_examples=150)
@given(rows=probabilities, thresholds=st.integers(1, 40))
def test_thresholded_equals_exact_of_scores_rounded_down(rows, thresholds):
    labels, scores = rows
    edges = np.arange(thresholds + 1) / thresholds
    down = np.array([max(edge for edge in edges if edge <= score) for score in scores])
    roc = ROC.from_predictions(labels, scores, thresholds=thresholds)
    exact = ROC.from_predictions(labels, down)
    assert roc.auc == exact.auc
    assert roc.headline() == pytest.approx(exact.headline(), rel=1e-12)
    for threshold in edges:
        assert roc.confusion_at(threshold) == exact.confusion_at(threshold)
        true_positives = int(((scores >= threshold) & (labels == 1)).sum())
        assert roc.confusion_at(threshold).true_positives[1] == true_positives
    assert roc.confusion_at(1.5) == exact.confusion_at(1.5)
    assert roc.confusion_at(-3.0) == exact.confusion_at(-3.0)


def test_float32_scores_are_compared_with_thresholds_exactly():
    # 0.1 in float32 is a little more than 0.1, 0.3 in float32 a little more, 0.7 a little less.
    roc = ROC.from_predictions([1, 1, 1], np.float32([0.1, 0.3, 0.7]), thresholds=10)
    assert np.flatnonzero(roc.counts[1]).tolist() == [1, 3, 6]


# 0/0


@pytest.mark.parametrize("thresholds", [0, 10])
@pytest.mark.parametrize(("labels", "auprc"), [([], 0.0), ([1, 1], 1.0), ([0, 0], 0.0)])
def test_single_class_has_the_auc_of_guessing(labels, auprc, thresholds):
    roc = ROC.from_predictions(labels, [0.3, 0.6][: len(labels)], thresholds=thresholds)
    assert (roc.auc, roc.auprc, roc.average_precision) == (0.5, auprc, auprc)
    curve = roc.curve()
    rates = (curve.false_positive_rate, curve.true_positive_rate)
    for values in (*rates, roc.precision_recall_curve().precision):
        assert np.isfinite(values).all()
    assert "0/0" in roc.summary()
    with pytest.raises(DataError, match="needs both positives"):
        roc.best_threshold()
    if not auprc:
        with pytest.raises(DataError, match="without positives"):
            curve.point_at_recall(0.5)


# Labels, predictions and masks


def test_all_shapes_of_labels_and_predictions_are_equivalent():
    labels = np.array([0, 1, 1, 0])
    scores = np.array([0.1, 0.8, 0.4, 0.6])
    both, one_hot = np.stack([1 - scores, scores], axis=1), np.eye(2)[labels]
    expected = ROC.from_predictions(labels, scores)
    assert expected.auc == 0.75
    for truth in (labels, labels[:, None], labels.astype(bool), one_hot, 0.9 * one_hot + 0.05):
        for given_scores in (scores, scores[:, None], both):
            assert ROC.from_predictions(truth, given_scores) == expected
    for shape in ((2, 2), (2, 2, 1)):  # time steps are rows
        steps = ROC.from_predictions(labels.reshape(shape), scores.reshape(2, 2, 1))
        assert steps == ROC.from_predictions(labels.reshape(shape), both.reshape(2, 2, 2))
        assert steps == expected


def test_positive_and_negative_zero_are_the_same_score():
    roc = ROC.from_predictions([1, 0], [-0.0, 0.0])
    assert roc.auc == 0.5
    assert roc.to_json() == ROC.from_predictions([1, 0], [0.0, -0.0]).to_json()


# Merging and JSON


def test_float32_is_kept_until_float64_scores_are_added():
    single = ROC.from_predictions([1, 0, 1], np.float32([0.1, 0.2, 0.3]))
    double = ROC.from_predictions([1, 1], [0.1, 0.3])
    assert single.to_dict()["positives"]["dtype"] == "float32"
    assert (single + double).to_json() == (double + single).to_json()
    # 0.1 in float32 is more than 0.1: nothing is rounded on the way.
    scores = (single + double).positive_scores.values.tolist()
    assert scores == [0.1, float(np.float32(0.1)), 0.3, float(np.float32(0.3))]


def test_many_small_batches_are_merged_in_few_runs():
    roc = ROC()
    generator = np.random.default_rng(0)
    scores = generator.random(3000)
    for score in scores:
        roc = roc.updated([1], [score])
    assert len(roc.positive_scores.runs) <= 12
    np.testing.assert_array_equal(roc.positive_scores.values, np.sort(scores))


# What curves answer


@settings(max_examples=100)
@given(rows=scored(both=True), share=st.floats(0, 1))
def test_points_are_the_best_that_reach_the_target(rows, share):
    labels, scores = rows
    roc = ROC.from_predictions(labels, scores)
    trade = roc.precision_recall_curve()
    at = list(zip(trade.thresholds, trade.precision, trade.recall, strict=True))
    point = trade.point_at_precision(share)
    assert point.threshold == min(t for t, precision, _ in at if precision >= share)
    point = trade.point_at_recall(share)
    assert point.threshold == max(t for t, _, recall in at if recall >= share)
    point, evaluation = trade.point_at_threshold(share), roc.confusion_at(share)
    assert point.recall == evaluation.recall(of=1)
    assert point.false_positive_rate == evaluation.false_positive_rate(of=1)
    # Nothing is predicted positive above every score: 0/0 is 1, where the curve begins.
    is_any = evaluation.confusion[:, 1].any()
    assert point.precision == (evaluation.precision(of=1) if is_any else 1.0)


@settings(max_examples=50)
@given(rows=scored(both=True))
def test_best_threshold_maximizes_f1_and_youden(rows):
    labels, scores = rows
    roc = ROC.from_predictions(labels, scores)

    def f1(threshold):
        return sklearn.f1_score(labels, scores >= threshold)

    def youden(threshold):
        says = scores >= threshold
        return float(says[labels == 1].mean() - says[labels == 0].mean())

    for by, value in (("f1", f1), ("youden", youden)):
        found = roc.best_threshold(by)
        values = {t: value(t) for t in np.unique(scores).astype(float)}
        assert values[found] == pytest.approx(max(values.values()), abs=1e-12)


def test_highest_of_equally_good_thresholds_is_selected():
    roc = ROC.from_predictions([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.6])
    assert roc.best_threshold("youden") == 0.9
    assert roc.best_threshold() == 0.7


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), points=st.integers(3, 60), rows=st.integers(2, 3000))
def test_thinned_curves_keep_exact_points_and_both_ends(seed, points, rows):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, rows)
    labels[:2] = [0, 1]
    roc = ROC.from_predictions(labels, generator.random(rows))
    for curve in (roc.curve, roc.precision_recall_curve):
        full, kept = (
            list(zip(c.thresholds, c.true_positives, c.false_positives, strict=True))
            for c in (curve().counts, curve(points).counts)
        )
        assert len(kept) <= points
        assert set(kept) <= set(full)
        assert kept[0][0] == math.inf
        assert kept[-1][1:] == (roc.positives, roc.negatives)


# Reports and plots


def test_a_summary_shows_areas_and_best_thresholds():
    text = str(ROC.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]))
    assert text.startswith(
        "ROC of 4 examples, 2 positive (exact)\n\nAUC                   0.7500\n"
    )
    assert "\nbest F1               0.8000  at threshold 0.35\n" in text
    assert text.endswith("best Youden index     0.5000  at threshold 0.8")


def test_plots_show_the_curve_its_area_and_the_chance_line():
    roc = ROC.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    axes = roc.plot()
    curve = axes.lines[0].get_xydata()
    assert curve[0].tolist() == [0, 0]
    assert curve[-1].tolist() == [1, 1]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[:3] == ["AUC 0.7500", "best F1 at threshold 0.3500", "guessing"]
    trade = roc.plot_precision_recall()
    assert "AUPRC 0.7917" in trade.get_legend().get_texts()[0].get_text()
    assert list(trade.lines[2].get_ydata()) == [0.5, 0.5]
    ROC().plot_precision_recall()
    matplotlib.pyplot.close("all")
