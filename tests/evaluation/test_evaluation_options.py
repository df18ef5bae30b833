import csv
import io

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.evaluation import Evaluation, PredictionError

MATPLOTLIB = pytest.importorskip("matplotlib")
MATPLOTLIB.use("Agg")

# Coarse, so that probabilities tie.
coarse = st.integers(0, 8).map(lambda n: n / 8)


@st.composite
def batches(draw, *, classes=None):
    """Labels (n,) and predictions (n, C)."""
    width = classes or draw(st.integers(2, 4))
    n = draw(st.integers(0, 20))
    labels = draw(npst.arrays(np.int64, n, elements=st.integers(0, width - 1)))
    return labels, draw(npst.arrays(np.float32, (n, width), elements=coarse))


@given(batch=batches(), top_n=st.integers(1, 5))
def test_top_n_counts_rows_with_fewer_than_n_higher_probabilities(batch, top_n):
    labels, scores = batch
    evaluation = Evaluation.from_predictions(labels, scores, top_n=top_n)
    right = sum(
        sum(other > row[label] for other in row) < top_n
        for label, row in zip(labels, scores.tolist(), strict=True)
    )
    # Of tied classes only one is predicted, but each is among the first.
    expected = right / max(len(labels), 1) if top_n > 1 else evaluation.accuracy
    assert evaluation.top_n_accuracy == expected


def test_top_n_ignores_costs():
    evaluation = Evaluation.from_predictions(
        [0, 2], [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], top_n=2, costs=[0, 1, 1]
    )
    assert evaluation.accuracy == 0.0
    assert evaluation.top_n_accuracy == 0.5


# Thresholds and costs


@given(
    scores=npst.arrays(np.float32, st.integers(0, 20), elements=st.floats(0, 1, width=32)),
    threshold=st.floats(0, 1),
    data=st.data(),
)
def test_one_and_two_outputs_with_a_threshold_agree(scores, threshold, data):
    labels = data.draw(npst.arrays(np.int64, len(scores), elements=st.integers(0, 1)))
    one = Evaluation.from_predictions(labels, scores[:, None], threshold=threshold)
    two = Evaluation.from_predictions(
        labels, np.stack([1 - scores, scores], axis=1), threshold=threshold
    )
    assert one == two
    predicted = scores > np.float32(threshold)
    assert one.confusion[:, 1].sum() == predicted.sum()
    assert one.true_positives[1] == (predicted & (labels == 1)).sum()


def test_float32_score_equal_to_the_threshold_does_not_exceed_it():
    scores = np.array([[0.3], [0.7]], np.float32)
    evaluation = Evaluation.from_predictions([0, 1], scores, threshold=0.3)
    assert evaluation.accuracy == 1.0


@given(batch=batches(), data=st.data())
def test_costs_multiply_probabilities(batch, data):
    labels, scores = batch
    width = scores.shape[1]
    costs = data.draw(st.lists(st.integers(1, 5), min_size=width, max_size=width))
    evaluation = Evaluation.from_predictions(labels, scores, costs=costs)
    predicted = (scores.astype(np.float64) * costs).argmax(axis=1)
    oracle = np.zeros((width, width), np.int64)
    np.add.at(oracle, (labels, predicted), 1)
    np.testing.assert_array_equal(evaluation.confusion, oracle)


def test_one_output_with_costs_counts_as_two_classes():
    scores = np.array([[0.2], [0.3], [0.4]])
    evaluation = Evaluation.from_predictions([1, 1, 1], scores, costs=[1, 3])
    assert evaluation.confusion.tolist() == [[0, 0], [1, 2]]  # 3 * 0.3 > 0.7, 3 * 0.2 < 0.8
    assert Evaluation(costs=[[1, 3]]) == Evaluation(costs=np.array([1.0, 3.0]))


def test_bfloat16_predictions_are_supported():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    scores = np.array([[0.25, 0.75], [0.5, 0.25]], bfloat16)
    options = {"top_n": 2, "keep_errors": 2}
    expected = Evaluation.from_predictions([0, 0], scores.astype(np.float32), **options)
    assert Evaluation.from_predictions([0, 0], scores, **options) == expected


# Remembered errors


@given(batch=batches(), keep=st.integers(0, 5))
def test_most_confident_errors_are_kept(batch, keep):
    labels, scores = batch
    records = [f"r{row:02}" for row in range(len(labels))]
    evaluation = Evaluation().from_predictions(labels, scores, records=records, keep_errors=keep)
    predicted = scores.argmax(axis=1)
    wrong = [
        (-float(scores[row, predicted[row]]), records[row])
        for row in range(len(labels))
        if predicted[row] != labels[row]
    ]
    found = [(-error.probability, error.record) for error in evaluation.errors()]
    assert found == sorted(wrong)[:keep]


def test_an_error_names_classes_probability_record_and_step():
    scores = np.zeros((2, 3, 2), np.float32)
    scores[..., 0] = 1.0
    scores[1, 2] = [0.25, 0.75]
    evaluation = Evaluation.from_predictions(
        np.zeros((2, 3)),
        scores,
        records=[["a", 1], ("b", np.int64(2))],
        class_names=["cat", "dog"],
        keep_errors=5,
    )
    expected = PredictionError(actual=0, predicted=1, probability=0.75, record=("b", 2), step=(2,))
    assert evaluation.errors() == (expected,)
    assert expected.place == "b, 2, step 2"
    assert evaluation.errors(actual="cat", predicted=1) == (expected,)
    assert evaluation.errors(actual="dog") == evaluation.errors(predicted="cat") == ()


def test_one_output_gives_the_probability_of_the_predicted_class():
    evaluation = Evaluation.from_predictions([1, 0], [[0.25], [0.875]], keep_errors=2)
    found = [(e.predicted, e.probability, e.record) for e in evaluation.errors()]
    assert found == [(1, 0.875, None), (0, 0.75, None)]


def test_a_summary_shows_options_and_errors():
    evaluation = Evaluation.from_predictions(
        [0, 1, 1],
        [[0.2, 0.8], [0.1, 0.9], [0.6, 0.4]],
        records=["x<1>", "y", "z"],
        class_names=["cat", "dog"],
        costs=[1, 2.5],
        keep_errors=3,
        top_n=2,
    )
    text = evaluation.summary()
    assert "top-2 accuracy        1.0000" in text
    assert "probabilities multiplied by costs 1, 2.5" in text
    assert "record  actual  predicted  probability\nx<1>    cat     dog             0.8000" in text
    assert "x&lt;1&gt;" in evaluation._repr_html_()
    assert "exceeds 0.25" in Evaluation(threshold=0.25).summary()
    assert evaluation.headline()["top-2 accuracy"] == 1.0


def test_confusion_csv_quotes_names_with_commas():
    evaluation = Evaluation(('a,"b"', "c"), confusion=np.array([[1, 2], [3, 4]]))
    rows = list(csv.reader(io.StringIO(evaluation.confusion_csv())))
    assert rows == [["actual", 'a,"b"', "c"], ['a,"b"', "1", "2"], ["c", "3", "4"]]
    assert evaluation.confusion_html().count("<tr>") == 3


def test_correlation_of_huge_unbalanced_counts_is_exact():
    n = 10**12
    found = Evaluation(confusion=np.array([[n, 1], [1, 1]])).matthews_correlation()
    # (n - 1) / (n + 1) * 1 / 2 to first order in 1 / n
    assert found == pytest.approx((n - 1) / (2 * (n + 1)), rel=1e-12)


@pytest.mark.parametrize("classes", [0, 20, 50])
def test_plots_show_counts_for_at_most_20_classes(classes):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    evaluation = Evaluation(confusion=np.full((classes, classes), 123, np.int64))
    axes = evaluation.plot()
    assert len(axes.texts) == (classes**2 if classes <= 20 else 0)
    assert len(axes.get_xticks()) <= 20
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "actual")
    bars = evaluation.plot_metrics()
    assert len(bars.patches) == 3 * min(classes, 20)
    pyplot.close("all")
