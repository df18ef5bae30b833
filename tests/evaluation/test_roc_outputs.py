import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn

from sparkwright.evaluation import ROC, ROCBinary, ROCMultiClass

matplotlib.use("Agg")


probabilities = st.floats(0, 1, width=32) | st.sampled_from([0.0, 0.25, 0.5, 1.0])


@st.composite
def binary_rows(draw):
    shape = (draw(st.integers(0, 30)), draw(st.integers(1, 4)))
    return (
        draw(npst.arrays(np.int64, shape, elements=st.integers(0, 1))),
        draw(npst.arrays(np.float32, shape, elements=probabilities)),
        draw(npst.arrays(np.bool_, shape)),
    )


@st.composite
def class_rows(draw, classes=None):
    n, c = draw(st.integers(0, 30)), classes or draw(st.integers(2, 5))
    return (
        draw(npst.arrays(np.int64, n, elements=st.integers(0, c - 1))),
        draw(npst.arrays(np.float64, (n, c), elements=probabilities)),
    )


@settings(max_examples=40)
@given(rows=binary_rows(), thresholds=st.sampled_from([0, 6]))
def test_each_output_is_the_roc_of_its_unmasked_rows(rows, thresholds):
    labels, scores, mask = rows
    spoiled = np.where(mask, scores, np.nan)
    outputs = ROCBinary.from_predictions(labels, spoiled, mask=mask, thresholds=thresholds)
    width = labels.shape[1]
    assert outputs.examples == mask.any(axis=1).sum()
    for column in range(width if outputs.rocs else 0):
        keep = mask[:, column]
        alone = ROC.from_predictions(
            labels[keep, column], scores[keep, column], thresholds=thresholds
        )
        assert outputs.roc(column) == alone
        assert outputs.auc(of=column) == alone.auc


@settings(max_examples=100)
@given(rows=class_rows())
def test_classes_against_the_rest_equal_scikit_learns(rows):
    labels, scores = rows
    classes = ROCMultiClass.from_predictions(labels, scores)
    assert classes == ROCMultiClass.from_predictions(np.eye(scores.shape[1])[labels], scores)
    defined = [k for k in range(scores.shape[1]) if 0 < (labels == k).sum() < len(labels)]
    areas = [sklearn.roc_auc_score(labels == k, scores[:, k]) for k in defined]
    precisions = [sklearn.average_precision_score(labels == k, scores[:, k]) for k in defined]
    close = {"rel": 1e-12, "abs": 1e-12}
    assert [classes.auc(of=k) for k in defined] == pytest.approx(areas, **close)
    if defined:
        assert classes.auc() == pytest.approx(np.mean(areas), **close)
        assert classes.average_precision() == pytest.approx(np.mean(precisions), **close)
        everything = np.eye(scores.shape[1])[labels].ravel(), scores.ravel()
        micro = sklearn.roc_auc_score(*everything)
        pooled = sum(classes.rocs, ROC())
        assert pooled.auc == pytest.approx(micro, **close)
        assert pooled == ROC.from_predictions(*everything)
    left_out = {str(k) for k in range(scores.shape[1]) if k not in defined}
    assert set(classes.left_out()) == (left_out if len(labels) else set())


def test_macro_averages_exclude_outputs_without_positives_or_negatives():
    outputs = ROCBinary.from_predictions(
        [[0, 1, 0], [1, 1, 0]], [[0.2, 0.5, 0.5], [0.7, 0.5, 0.1]], names=["a", "b", "c"]
    )
    assert outputs.left_out() == ("b", "c")
    assert (outputs.auc(), outputs.auprc(), outputs.average_precision()) == (1.0, 1.0, 1.0)
    assert (outputs.auc(of="b"), outputs.auprc(of="b")) == (0.5, 1.0)
    assert (outputs.auc(of="c"), outputs.auprc(of="c")) == (0.5, 0.0)
    assert "without 2 of 3 outputs: 0/0" in outputs.summary()


def test_single_probability_gives_a_roc_of_two_classes():
    scores = np.array([[0.1], [0.4], [0.35], [0.8]])
    classes = ROCMultiClass.from_predictions([0, 0, 1, 1], scores)
    assert classes.auc(of=0) == classes.auc(of=1) == 0.75


def of_classes(count):
    generator = np.random.default_rng(0)
    return ROCMultiClass.from_predictions(
        generator.integers(0, count, 200), generator.random((200, count))
    )


def test_plots_show_a_curve_per_output_or_the_mean_of_many():
    few, many = of_classes(3), of_classes(12)
    for plot, value in ((few.plot, few.auc(of=1)), (few.plot_precision_recall, few.auprc(of=1))):
        axes = plot()
        names = [text.get_text() for text in axes.get_legend().get_texts()]
        assert f"1  {value:.4f}" in names
    for plot in (many.plot_roc, many.plot_precision_recall):
        names = [text.get_text() for text in plot().get_legend().get_texts()]
        assert names[:2] == ["mean of 12 classes", "lowest to highest"]
    ROCBinary().plot_precision_recall()
    matplotlib.pyplot.close("all")
