"""Evaluations of made-up predictions, for tests of what they look like."""

from types import SimpleNamespace

import numpy as np

import sparkwright as sw
from sparkwright.evaluation import WorstExamples

NAMES = ("ant", "<b>bee</b>", "cat")


def predicted(classes=3, rows=300, *, noise=1.5, seed=0):
    """Labels (rows,) and probabilities (rows, classes)."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, rows)
    logits = random.normal(size=(rows, classes)) * noise
    logits[np.arange(rows), labels] += 2
    odds = np.exp(logits)
    return labels, odds / odds.sum(axis=1, keepdims=True)


def of_classes(*, noise=1.5, names=NAMES):
    """All evaluations that fit several classes, the worst examples among them."""
    labels, p = predicted(len(names), noise=noise)
    worst = WorstExamples.of_rows(
        -np.log(p[np.arange(len(labels)), labels]),
        {"image": np.random.default_rng(1).random((len(labels), 10, 10, 1))},
        {"kind": labels},
        {"kind": p},
        count=4,
        class_names={"kind": names},
    )
    return [
        sw.Evaluation.from_predictions(labels, p, class_names=names, keep_errors=3),
        sw.ROCMultiClass.from_predictions(labels, p, class_names=names),
        sw.EvaluationCalibration.from_predictions(labels, p, class_names=names),
        worst,
    ]


def of_scores(*, noise=1.5):
    """Those that fit one score of two classes."""
    labels, p = predicted(2, noise=noise)
    return [
        sw.Evaluation.from_predictions(labels, p),
        sw.ROC.from_predictions(labels, p),
        sw.EvaluationCalibration.from_predictions(labels, p),
    ]


def of_answers():
    labels, p = predicted(3)
    answers = np.eye(3)[labels]
    return [
        sw.EvaluationBinary.from_predictions(answers, p, names=NAMES),
        sw.ROCBinary.from_predictions(answers, p, names=NAMES),
    ]


def of_numbers(outputs=1):
    random = np.random.default_rng(0)
    actual = random.normal(size=(200, outputs))
    return [sw.RegressionEvaluation.from_predictions(actual, 0.9 * actual + 0.1)]


class Network:
    """Stands for a `SparkNetwork`: evaluates."""

    def __init__(self, *, width=3, loss="sparse_categorical_crossentropy"):
        tensor = SimpleNamespace(shape=(None, width))
        layer = SimpleNamespace(name="kind", activation=None)
        self.model = SimpleNamespace(
            output_names=["kind"], outputs=[tensor], layers=[layer], loss=loss
        )
        self.class_names = {}

    def do_evaluation(self, data, evaluations):
        labels, p = data.predictions
        return [each.updated(labels, p) for each in evaluations]

    def worst_examples(self, data, count=12):
        labels, p = data.predictions
        losses = -np.log(p[np.arange(len(labels)), labels])
        return WorstExamples.of_rows(losses, {"x": p}, {"kind": labels}, {"kind": p}, count=count)


class Data:
    """Stands for a `DistributedDataSet`."""

    is_counted = True

    def __init__(self, *, classes=3, names=None, noise=1.5):
        self.predictions = predicted(classes, noise=noise)
        self.class_names = {} if names is None else {"kind": names}

    def count(self):
        return len(self.predictions[0])
