import math
import re
from fractions import Fraction

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn

from sparkwright.evaluation import EvaluationCalibration
from sparkwright.evaluation.calibration_counts import bin_edges, bin_numbers, mirrored_bin_numbers

mpl.use("agg")
few = settings(max_examples=60)
# Tied ones on edges of bins, ends, tiny ones, and whatever else.
probabilities = (
    st.integers(0, 10).map(lambda i: i / 10)
    | st.integers(0, 50).map(lambda i: i / 50)
    | st.sampled_from([0.0, 1.0, 1e-20, 1 - 2**-53, 1e-300])
    | st.floats(0, 1)
)


@st.composite
def tables(draw, most=15):
    """Integer labels (n,), probabilities (n, C) of some float type or (n, 1), and a mask (n,)."""
    n, width = draw(st.integers(0, most)), draw(st.integers(1, 4))
    values = draw(npst.arrays(np.float64, (n, width), elements=probabilities))
    kind = draw(st.sampled_from([np.float64, np.float32]))
    classes = st.integers(0, draw(st.sampled_from([0, max(width, 2) - 1])))
    labels = draw(npst.arrays(np.int64, n, elements=classes))
    return labels, values.astype(kind), draw(npst.arrays(np.bool_, n, elements=st.booleans()))


def calibration(labels, predictions, **options):
    return EvaluationCalibration.from_predictions(labels, predictions, **options)


def both_classes(predictions):
    wide = predictions.astype(np.float64)
    return np.concatenate([1 - wide, wide], axis=1) if wide.shape[1] == 1 else wide


def exact_reliability(p, yes, bin_of, bins):
    """Rows, mean probability and fraction of yes of each bin, by the definition."""
    found = []
    for number in range(bins):
        inside = bin_of == number
        if inside.any():
            mean = sum(map(Fraction, p[inside].tolist())) / int(inside.sum())
            share = Fraction(int(yes[inside].sum()), int(inside.sum()))
            found.append((number, int(inside.sum()), mean, share))
    return found


@few
@given(table=tables(), bins=st.sampled_from([1, 3, 10, 50]))
def test_reliability_and_its_errors_equal_their_definition(table, bins):
    labels, predictions, mask = table
    evaluation = calibration(labels, predictions, mask=mask, reliability_bins=bins)
    labels, predictions = labels[mask], predictions[mask]
    wide, n = both_classes(predictions), len(labels)
    own = bin_numbers(predictions, bins)
    single = wide.shape[1] != predictions.shape[1]
    bin_of = np.concatenate([mirrored_bin_numbers(predictions, bins), own], 1) if single else own
    # Of one probability, class 1 must exceed one half.
    top = (predictions[:, 0] > 0.5).astype(int) if single else wide.argmax(axis=1)
    row = np.arange(n)
    questions = [(k, wide[:, k], labels == k, bin_of[:, k]) for k in range(wide.shape[1])]
    questions.append((None, wide[row, top], labels == top, bin_of[row, top]))
    for of, p, yes, numbers in questions:
        expected = exact_reliability(p, yes, numbers, bins)
        diagram = evaluation.reliability(of=of)
        assert diagram.bins.tolist() == [each[0] for each in expected]
        assert diagram.counts.tolist() == [each[1] for each in expected]
        close = {"rtol": 1e-12, "atol": 1e-130}
        means, shares = ([float(each[i]) for each in expected] for i in (2, 3))
        np.testing.assert_allclose(diagram.mean_predicted, means, **close)
        np.testing.assert_allclose(diagram.fraction_positive, shares, **close)
        gaps = [(count, abs(mean - share)) for _, count, mean, share in expected]
        error = float(sum((count * gap for count, gap in gaps), Fraction(0)) / max(n, 1))
        assert evaluation.expected_calibration_error(of=of) == pytest.approx(error, abs=1e-15)
        largest = float(max((gap for _, gap in gaps), default=0))
        assert evaluation.maximum_calibration_error(of=of) == pytest.approx(largest, abs=1e-15)
    macro = [evaluation.expected_calibration_error(of=k) for k in range(evaluation.classes)]
    assert evaluation.expected_calibration_error("macro") == pytest.approx(np.mean(macro))
    assert evaluation.examples == n
    counts = evaluation.counts
    for found, classes in ((counts.actual, labels), (counts.predicted, top)):
        assert found.tolist() == [int((classes == k).sum()) for k in range(len(macro))]


@pytest.mark.thorough
@few
@given(table=tables(), bins=st.sampled_from([1, 7, 10, 50]))
def test_histograms_equal_their_definition(table, bins):
    labels, predictions, mask = table
    evaluation = calibration(labels, predictions, mask=mask, histogram_bins=bins)
    labels, predictions = labels[mask], predictions[mask]
    if predictions.shape[1] == 1:
        own, other = bin_numbers(predictions, bins), mirrored_bin_numbers(predictions, bins)
        place, mirror = np.concatenate([other, own], 1), np.concatenate([own, other], 1)
    else:
        place, mirror = bin_numbers(predictions, bins), mirrored_bin_numbers(predictions, bins)
    is_class = labels[:, None] == np.arange(place.shape[1])
    residual = np.where(is_class, mirror, place)

    def count(numbers):
        return np.bincount(numbers.ravel(), minlength=bins).tolist()

    assert evaluation.probability_histogram().counts.tolist() == count(place)
    assert evaluation.residual_histogram().counts.tolist() == count(residual)
    for k in range(place.shape[1]):
        mine = labels == k
        histograms = (
            (evaluation.probability_histogram(of=k), place[mine, k]),
            (evaluation.probability_histogram(of=k, others=True), place[~mine, k]),
            (evaluation.residual_histogram(of=k), residual[mine, k]),
        )
        for histogram, numbers in histograms:
            assert histogram.counts.tolist() == count(numbers)
            assert histogram.edges.tolist() == [i / bins for i in range(bins + 1)]


@few
@given(
    seed=st.integers(0, 1 << 32), n=st.integers(1, 60), width=st.integers(1, 4), hard=st.booleans()
)
def test_scores_equal_scikit_learns(seed, n, width, hard):
    rng = np.random.default_rng(seed)
    classes = max(width, 2)
    p = rng.dirichlet(np.full(classes, 0.3), size=n)
    if hard:
        p = np.eye(classes)[rng.integers(0, classes, n)]
    if width == 1:
        p[:, 0] = 1 - p[:, 1]
    labels = rng.integers(0, classes, n)
    evaluation = calibration(labels, p[:, 1:] if width == 1 else p)
    close = {"rel": 1e-12, "abs": 1e-15}
    options = {"labels": list(range(classes))}
    assert evaluation.log_loss() == pytest.approx(sklearn.log_loss(labels, p, **options), **close)
    if classes == 2:
        expected = sklearn.brier_score_loss(labels, p[:, 1], pos_label=1, labels=[0, 1])
    else:
        expected = sklearn.brier_score_loss(labels, p, **options)
    assert evaluation.brier_score() == pytest.approx(expected, **close)
    for k in range(classes):
        mine = labels == k
        mean = np.mean((p[:, k] - mine) ** 2)
        assert evaluation.brier_score(of=k) == pytest.approx(mean, **close)
        losses = -np.log(np.maximum(p[mine, k], 2.0**-52))
        expected = losses.mean() if mine.any() else 0.0
        assert evaluation.log_loss(of=k) == pytest.approx(expected, **close)


def test_log_loss_is_clipped_as_documented():
    assert calibration([1], [[1.0, 0.0]]).log_loss() == pytest.approx(52 * math.log(2))
    assert calibration([0], [[1.0, 0.0]]).log_loss() == 0


def test_empty_bins_are_omitted_on_request():
    predictions = [[0.05], [0.95]]
    without = calibration([0, 1], predictions, exclude_empty_bins=True).reliability(of=1)
    assert without.bins.tolist() == [0, 9]
    whole = calibration([0, 1], predictions, exclude_empty_bins=False).reliability(of=1)
    assert whole.counts.tolist() == [1] + [0] * 8 + [1]
    assert whole.mean_predicted[1:9] == pytest.approx(np.arange(1, 9) / 10 + 0.05)
    assert whole.fraction_positive.tolist() == [0.0] * 9 + [1.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bins", [1, 7, 10, 100])
def test_bin_edges_belong_to_the_bin_they_start_in_any_precision(bins, dtype):
    edges = bin_edges(bins).astype(dtype)
    assert bin_numbers(edges, bins).tolist() == [*range(bins), bins - 1]
    below = np.nextafter(edges[1:], dtype(0))
    assert bin_numbers(below, bins).tolist() == list(range(bins))
    assert mirrored_bin_numbers(edges, bins).tolist() == [bins - 1, *reversed(range(bins))]


def test_probabilities_slightly_outside_0_and_1_are_clipped():
    ends = calibration([0, 1], [[0.0], [1.0]])
    assert calibration([0, 1], [[-0.0005], [1.0005]]) == calibration([0, 1], [[0], [1]]) == ends


def test_the_plot_shows_the_diagram_and_its_counts():
    rng = np.random.default_rng(0)
    p = rng.random((500, 1))
    evaluation = calibration(rng.random(500) < p[:, 0], p, class_names=["no", "yes"])
    axes, diagram = evaluation.plot(), evaluation.reliability(of="yes")
    line, below = axes.lines[1], axes.figure.axes[1]
    assert line.get_label().startswith("yes (error")
    np.testing.assert_array_equal(line.get_xdata(), diagram.mean_predicted)
    np.testing.assert_array_equal(line.get_ydata(), diagram.fraction_positive)
    np.testing.assert_array_equal(below.patches[0].get_data().values, diagram.counts)
    p = rng.dirichlet(np.ones(6), size=50)
    line = calibration(np.arange(50) % 6, p).plot().lines[1]
    assert line.get_label().startswith("predicted class (error")
    plt.close("all")


def test_histograms_are_drawn():
    evaluation = calibration(
        [0, 1, 1, 0], [[0.25], [0.75], [0.5], [0.125]], histogram_bins=2, class_names=["a", "b"]
    )
    axes = evaluation.plot_residuals(of="b")
    counts = evaluation.residual_histogram(of="b").counts
    np.testing.assert_array_equal(axes.patches[0].get_data().values, counts)
    assert "b" in axes.get_title()
    texts = evaluation.plot_probabilities(of=1).get_legend().get_texts()
    assert [text.get_text() for text in texts] == ["rows of b", "other rows"]
    _, axes = plt.subplots()
    evaluation.plot_probabilities(axes=axes)
    assert axes.get_legend() is None
    for empty in (EvaluationCalibration(), EvaluationCalibration(class_names=("a", "b"))):
        empty.plot_residuals()
        empty.plot_probabilities()
    axes.figure.canvas.draw()
    plt.close("all")


def test_report_shows_a_single_expected_calibration_error():
    rng = np.random.default_rng(0)
    p = rng.random((500, 1))
    evaluation = calibration(rng.random(500) < p[:, 0] ** 2, p, class_names=["no", "yes"])
    whole = evaluation.expected_calibration_error()
    assert whole != pytest.approx(evaluation.expected_calibration_error(of="yes"), rel=0.01)
    captions = [figure.caption for figure in evaluation.figures()]
    page = "\n".join([evaluation.summary(), *captions])
    assert set(re.findall(r"expected calibration error\D*?(\d\.\d+)", page)) == {f"{whole:.4f}"}
    assert "class-wise calibration error (of the probability of yes in all rows) is " in page
    predicted = calibration([0, 1, 2], np.eye(3)).figures()[0].caption
    assert "expected calibration error (of the predicted class) is 0," in predicted
