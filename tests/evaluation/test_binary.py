import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn

from sparkwright.evaluation import EvaluationBinary, ROCBinary

pytest.importorskip("matplotlib").use("Agg")

coarse = st.integers(0, 8).map(lambda n: n / 8)


@st.composite
def batches(draw, *, outputs=None):
    """Labels, predictions and a mask per output, (n, C) each."""
    shape = (draw(st.integers(0, 15)), outputs or draw(st.integers(2, 4)))
    labels = draw(npst.arrays(np.int64, shape, elements=st.integers(0, 1)))
    scores = draw(npst.arrays(np.float32, shape, elements=coarse))
    mask = draw(npst.arrays(np.bool_, shape, elements=st.booleans()))
    return labels, scores, mask


@pytest.mark.thorough
@settings(max_examples=30)
@given(batch=batches(), threshold=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_counts_and_rates_of_each_output_equal_scikit_learns(batch, threshold):
    labels, scores, mask = batch
    evaluation = EvaluationBinary.from_predictions(labels, scores, mask=mask, thresholds=threshold)
    assert evaluation.examples == mask.any(axis=1).sum()
    for k in range(labels.shape[1]):
        keep = mask[:, k]
        was, said = labels[keep, k], (scores[keep, k] > threshold).astype(int)
        if not keep.any():
            continue
        assert evaluation.accuracy(of=k) == pytest.approx(sklearn.accuracy_score(was, said))
        f1 = sklearn.f1_score(was, said, zero_division=0.0)
        assert evaluation.f1(of=k) == evaluation.per_output("f1")[k] == pytest.approx(f1)
        counts = sklearn.confusion_matrix(was, said, labels=[0, 1])
        np.testing.assert_array_equal(evaluation.confusion[k], counts)


def test_outputs_have_thresholds_and_without_a_value_no_part_in_averages():
    evaluation = EvaluationBinary.from_predictions([[1, 0], [1, 0]], [[0.9, 0.1], [0.1, 0.1]])
    assert evaluation.left_out("recall") == ("1",)
    assert evaluation.recall() == 0.5
    assert evaluation.recall(of=1) == 0.0
    assert EvaluationBinary().accuracy() == EvaluationBinary().f1() == 0.0
    scores = np.full((1, 3), 0.3, np.float32)
    evaluation = EvaluationBinary.from_predictions(
        [[1, 1, 1]], scores, thresholds=[0.2, 0.3, 0.4], names=["a", "b", "c"]
    )
    assert [evaluation.recall(of=name) for name in "abc"] == [1.0, 0.0, 0.0]
    same = EvaluationBinary.from_predictions([[1, 1, 1]], scores, thresholds=0.3)
    assert same.recall() == 0.0


def test_steps_and_masks_of_every_shape_are_supported():
    scores = np.array([[[0.9], [np.nan]], [[0.2], [0.8]]])
    labels = np.array([[1, -1], [1, 1]])
    evaluation = EvaluationBinary.from_predictions(labels, scores, mask=[[1, 0], [1, 1]])
    assert evaluation.confusion.tolist() == [[[0, 0], [1, 2]]]
    assert evaluation.examples == 3
    assert EvaluationBinary.from_predictions([1, 0], [0.9, 0.1], mask=[1, 0]).examples == 1
    nothing = EvaluationBinary.from_predictions(labels, scores, mask=[0, 0])
    assert (nothing.examples, nothing.outputs) == (0, 1)
    assert nothing + evaluation == evaluation


@given(batch=batches(outputs=2))
def test_inner_roc_uses_the_same_data(batch):
    labels, scores, mask = batch
    evaluation = EvaluationBinary.from_predictions(labels, scores, mask=mask, roc_thresholds=0)
    assert evaluation.roc == ROCBinary.from_predictions(labels, scores, mask=mask)
    assert evaluation.headline()["AUC (macro)"] == evaluation.roc.auc()
    assert "AUC" in evaluation.summary()


def test_a_summary_shows_averages_and_each_output():
    evaluation = EvaluationBinary.from_predictions(
        [[0, 0], [1, 0], [1, 0]], [[0.2, 0.1], [0.9, 0.4], [0.3, 0.7]], names=["rain", "<wind>"]
    )
    text = evaluation.summary()
    assert text.startswith("Evaluation of 3 examples, 2 outputs (yes above 0.5)\n")
    assert "recall (macro)                0.5000  (without 1 of 2 outputs: 0/0)\n" in text
    assert text.endswith(
        "\n<wind>         3    0              1    0.6667          0       —       0"
    )
    assert "max_rows=2" in evaluation.summary(max_rows=1)
    assert len(evaluation.plot().patches) == 3 * 2  # bars
