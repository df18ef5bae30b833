import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn

from sparkwright.evaluation import Evaluation

confusions = st.integers(2, 6).flatmap(
    lambda c: npst.arrays(np.int64, (c, c), elements=st.just(0) | st.integers(0, 30))
)


def of_matrix(confusion, names=None):
    return Evaluation(names, confusion=np.asarray(confusion))


def rows_of(confusion):
    """Actual and predicted class of each row that the matrix counts."""
    actual, predicted = np.indices(confusion.shape)
    counts = confusion.ravel()
    return np.repeat(actual.ravel(), counts), np.repeat(predicted.ravel(), counts)


# Against scikit-learn and direct counting


@settings(max_examples=40)
@given(confusion=confusions)
def test_metrics_equal_scikit_learns(confusion):
    if confusion.sum() == 0:
        return
    actual, predicted = rows_of(confusion)
    evaluation = of_matrix(confusion)
    options = {"labels": range(confusion.shape[0])}
    assert evaluation.accuracy == pytest.approx(sklearn.accuracy_score(actual, predicted))
    theirs = {
        "precision": sklearn.precision_score,
        "recall": sklearn.recall_score,
        "f1": sklearn.f1_score,
    }
    for name, score in theirs.items():
        for average in ("micro", "macro"):
            # NaN for 0/0 leaves such classes out of scikit-learn's mean too.
            expected = score(actual, predicted, zero_division=np.nan, average=average, **options)
            assert getattr(evaluation, name)(average) == pytest.approx(expected)
        each = score(actual, predicted, zero_division=0.0, average=None, **options)
        np.testing.assert_allclose(evaluation.per_class(name), each)
    if len(set(actual) | set(predicted)) > 1:  # scikit-learn has its own values for one class
        correlation = sklearn.matthews_corrcoef(actual, predicted)
        assert evaluation.matthews_correlation() == pytest.approx(correlation, abs=1e-12)


def test_rates_equal_a_worked_example():
    # Class 0: TP 3, FN 1, FP 2, TN 4.
    evaluation = of_matrix([[3, 1], [2, 4]])
    assert evaluation.false_positive_rate(of=0) == pytest.approx(2 / 6)
    assert evaluation.false_negative_rate(of=0) == pytest.approx(1 / 4)
    assert evaluation.false_alarm_rate(of=0) == pytest.approx((2 / 6 + 1 / 4) / 2)
    assert evaluation.g_measure(of=0) == pytest.approx(np.sqrt(3 / 5 * 3 / 4))
    assert evaluation.f_beta(0.5, of=0) == pytest.approx(1.25 * 3 / (1.25 * 3 + 0.25 * 1 + 2))
    correlation = (3 * 4 - 2 * 1) / np.sqrt(5 * 4 * 6 * 5)
    assert evaluation.matthews_correlation() == pytest.approx(correlation)
    assert evaluation.matthews_correlation("macro") == pytest.approx(correlation)
    assert evaluation.matthews_correlation(of=1) == pytest.approx(correlation)


def test_classes_without_a_value_are_excluded_from_macro_averages():
    # Class 2 never occurs and is never predicted; class 1 occurs but is never predicted.
    evaluation = of_matrix([[4, 0, 0], [2, 0, 0], [0, 0, 0]], ("a", "b", "c"))
    assert evaluation.left_out("precision") == ("b", "c")
    assert evaluation.precision() == pytest.approx(4 / 6)
    assert evaluation.precision(of="b") == 0.0
    assert evaluation.left_out("recall") == ("c",)
    assert evaluation.recall() == pytest.approx(1 / 2)
    # b's F1 is 0, not undefined: it was missed each time.
    assert evaluation.left_out("f1") == ("c",)
    assert evaluation.f1() == pytest.approx((8 / 10 + 0) / 2)
    assert evaluation.left_out("false_positive_rate") == ()
    assert evaluation.left_out("false_negative_rate") == ("c",)
    assert evaluation.false_negative_rate() == pytest.approx(1 / 2)


# Labels, predictions and masks


@given(
    scores=npst.arrays(
        np.float32,
        st.tuples(st.integers(0, 20), st.integers(2, 5)),
        elements=st.floats(0, 1, width=32),
    ),
    data=st.data(),
)
def test_one_hot_and_integer_labels_give_the_same_counts(scores, data):
    n, classes = scores.shape
    labels = data.draw(npst.arrays(np.int32, n, elements=st.integers(0, classes - 1)))
    oracle = np.zeros((classes, classes), np.int64)
    np.add.at(oracle, (labels, scores.argmax(axis=1)), 1)
    forms = [labels, labels[:, None], labels.astype(np.float64), np.eye(classes)[labels]]
    for form in forms:
        found = Evaluation.from_predictions(form, scores).confusion
        np.testing.assert_array_equal(found, oracle)


def test_single_outputs_and_smoothed_labels_mean_a_class():
    scores = np.array([[0.2], [0.5], [0.51], [0.9]])
    for labels in ([0, 1, 0, 1], [[0], [1], [0], [1]], [False, True, False, True]):
        evaluation = Evaluation.from_predictions(labels, scores)
        assert evaluation.confusion.tolist() == [[1, 1], [1, 1]]
    evaluation = Evaluation.from_predictions([[0.05, 0.9, 0.05]], [[0.1, 0.8, 0.1]])
    assert evaluation.true_positives.tolist() == [0, 1, 0]


def test_counts_beyond_double_precision_stay_exact():
    large = of_matrix([[2**60 + 1, 0], [0, 0]])
    copy = Evaluation.from_json(large.to_json())
    assert (copy + of_matrix([[1, 0], [0, 0]])).confusion[0, 0] == 2**60 + 2


def test_summary_is_a_table_for_the_terminal():
    evaluation = of_matrix([[3, 1, 0], [2, 4, 0], [0, 0, 0]], ("cat", "dog", "emu"))
    assert str(evaluation) == (
        "Evaluation of 10 examples, 3 classes\n"
        "\n"
        "accuracy              0.7000\n"
        "precision (macro)     0.7000  (without 1 of 3 classes: 0/0)\n"
        "recall (macro)        0.7083  (without 1 of 3 classes: 0/0)\n"
        "F1 (macro)            0.6970  (without 1 of 3 classes: 0/0)\n"
        "Matthews correlation  0.4082\n"
        "\n"
        "class  examples  predicted  precision  recall      F1\n"
        "cat           4          5     0.6000  0.7500  0.6667\n"
        "dog           6          5     0.8000  0.6667  0.7273\n"
        "emu           0          0          —       —       —\n"
        "\n"
        "Confusion matrix (rows: actual, columns: predicted)\n"
        "\n"
        "     cat  dog  emu\n"
        "cat    3    1    0\n"
        "dog    2    4    0\n"
        "emu    0    0    0"
    )
    assert repr(evaluation) == "Evaluation(10 examples, 3 classes, accuracy=0.7000)"


def test_many_classes_are_shown_only_on_request():
    evaluation = of_matrix(np.eye(30, dtype=int))
    assert "Confusion" not in evaluation.summary()
    assert "max_rows=30" in evaluation.summary()
    assert "Confusion" in evaluation.summary(max_rows=30)
    assert "max_rows=30" in evaluation._repr_html_()
