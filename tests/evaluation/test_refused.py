import math

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw

NAN, INF = math.nan, math.inf


def custom(evaluate=lambda *_: 1, merge=max, **options):
    return sw.CustomEvaluation(evaluate, merge, **options)


OPTIONS = [
    (sw.Evaluation, {"class_names": ("a", "a")}, "unique names"),
    (sw.Evaluation, {"class_names": ("a",), "confusion": [[1, 0], [0, 1]]}, "1 names for 2"),
    (sw.Evaluation, {"top_n": 0}, "top_n=0"),
    (sw.Evaluation, {"keep_errors": -1}, "keep_errors=-1"),
    (sw.Evaluation, {"threshold": 1.5}, r"threshold=1\.5"),
    (sw.Evaluation, {"costs": [1, -1]}, r"at least 0.*costs=\[1, -1\]"),
    (sw.Evaluation, {"costs": [1, INF]}, "finite.*inf"),
    (sw.Evaluation, {"costs": [0, 0]}, "at least one above 0"),
    (sw.Evaluation, {"costs": [[1, 2], [3, 4]]}, "a finite number of at least 0 for each class"),
    (sw.Evaluation, {"costs": [1, 2], "threshold": 0.5}, "mutually exclusive"),
    (sw.EvaluationBinary, {"thresholds": 1.1}, r"thresholds=1\.1"),
    (sw.EvaluationBinary, {"thresholds": [0.5, "a"]}, "thresholds='a'"),
    (sw.EvaluationBinary, {"names": ("a",), "thresholds": (0.5, 0.5)}, "2 for 1"),
    (sw.EvaluationBinary, {"roc_thresholds": -1}, "roc_thresholds=-1"),
    (sw.ROC, {"thresholds": 2_000_000}, "thresholds=2000000"),
    (sw.ROC, {"thresholds": 1.5}, r"thresholds=1\.5"),
    (sw.ROCBinary, {"thresholds": -1}, "thresholds=-1"),
    (sw.ROCBinary, {"names": ("a", "a")}, "unique names"),
    (sw.EvaluationCalibration, {"reliability_bins": 0}, "reliability_bins=0"),
    (sw.EvaluationCalibration, {"histogram_bins": 10_001}, "histogram_bins=10001"),
    (sw.EvaluationCalibration, {"exclude_empty_bins": 1}, "exclude_empty_bins=1"),
    (sw.EvaluationCalibration, {"class_names": "ab"}, "class_names"),
    (sw.RegressionEvaluation, {"names": ["a", 5]}, "names"),
    (custom, {"evaluate": 3}, "`evaluate`.*3"),
    (custom, {"merge": None}, "`merge`.*None"),
    (custom, {"title": ""}, "title=''"),
    (sw.compare, {"evaluations": {}}, "a dict of evaluations by name"),
    (sw.compare, {"evaluations": {"a": 3}}, "a dict of evaluations by name"),
]


@cases("kind, options, message", *OPTIONS)
def test_invalid_options_are_rejected(kind, options, message):
    with pytest.raises(sw.ConfigurationError, match=message):
        kind(**options)


# Prototype, labels, predictions, and what the message says.
ROWS = [
    (sw.Evaluation(), [0, 1], [[0.1, 0.9], [NAN, 0.5]], "must not be NaN.*row 1.*mask padded"),
    (sw.Evaluation(), np.zeros((2, 3)), np.full((2, 3, 2), NAN), "NaN.*row 0, step 0"),
    (sw.Evaluation(), [0, 2], [[0.1, 0.9]] * 2, r"from 0 to 1, for 2 classes.*: 2 at row 1"),
    (sw.Evaluation(), [0.5, 1], [[0.1, 0.9]] * 2, r"whole numbers.*Received: 0\.5 at row 0"),
    (sw.Evaluation(), [[0, 1], [0, 0]], [[0.1, 0.9]] * 2, r"one largest entry.*\[0, 0\] at row 1"),
    (sw.Evaluation(), [[1, 1], [0, 1]], [[0.1, 0.9]] * 2, r"one largest entry.*\[1, 1\] at row 0"),
    (sw.Evaluation(), [1, 0], [[0.3], [-4.0]], r"a probability.*\[-4\.0\] at row 1.*sigmoid"),
    (sw.Evaluation(), [0, 1], [0.1, 0.9], r"last axis.*Received: predictions of shape \(2,\)"),
    (sw.Evaluation(), [0, 1, 1], [[0.1, 0.9]] * 2, r"\(2, 2\) \(one-hot\) or \(2,\).*\(3,\)"),
    (sw.Evaluation(), [[0, 1, 0]], [[0.1]], r"must have shape \(1, 2\) .* or \(1,\)\. .*\(1, 3\)"),
    (sw.Evaluation(), ["a"], [[0.5]], "`labels` must be an array of"),
    (sw.Evaluation(), [[0], [1, 2]], [[0.5]], "`labels` must be an array of"),
    (sw.Evaluation(threshold=0.4), [0], [[0.1, 0.2, 0.7]], "one or two columns.*: 3 columns"),
    (sw.Evaluation(threshold=0.4), [0], [[-3.0, 4.0]], r"for `threshold` must be.*-3\.0.*row 0"),
    (sw.Evaluation(costs=(1, 2)), [0], [[0.1, 0.2, 0.7]], "Received: 2 costs for 3 classes"),
    (sw.Evaluation(costs=(1, 2)), [0, 0], [[0, 1], [0, INF]], r"for `costs` must.*inf\] at row 1"),
    (sw.Evaluation(keep_errors=1), [0, 0], [[0, 1], [0, INF]], "finite for `keep_errors`.*row 1"),
    (sw.EvaluationBinary(), [[0, 1], [2, 1]], [[0.1, 0.9]] * 2, r"labels must be 0 or 1.*at row 1"),
    (sw.EvaluationBinary(), [[0, 1]], [[0.1, NAN]], "must not be NaN.*row 0"),
    (sw.EvaluationBinary(), [[0, 1]], [[0.1, INF]], r"every output must be a prob.*inf\] at row 0"),
    (sw.EvaluationBinary(), [[0, 1]], [[0.1, 0.2, 0.3]], "shape of `predictions`"),
    (sw.EvaluationBinary(), np.ones(()), np.ones(()), "shape of `predictions`"),
    (sw.EvaluationBinary(), np.ones((3, 0)), np.ones((3, 0)), "shape of `predictions`"),
    (sw.EvaluationBinary(thresholds=(0.5, 0.5)), [[1]], [[0.5]], "2 for 1"),
    (sw.EvaluationBinary(("a", "b")), [[1]], [[0.5]], "2 and 1 outputs"),
    (sw.ROC(), [0, 1], [0.1, INF], r"scores must be finite.*\[inf\] at row 1.*log-odds"),
    (sw.ROC(), [0], [[0.1, 0.2, 0.7]], r"shape \(1, 3\)\. Use ROCMultiClass"),
    (sw.ROC(5), [0, 1], [0.1, 2.0], r"must be from 0 to 1.*\[2\.0\] at row 1"),
    (sw.ROCBinary(), [[0, 1], [2, 0]], [[0.1, 0.2]] * 2, r"0 or 1\. Received: \[2, 0\] at row 1"),
    (sw.ROCBinary(), [[0, 1]], [[0.1, INF]], r"finite.*\[0\.1, inf\] at row 0"),
    (sw.ROCBinary(3), [[0, 1]], [[0.1, 1.5]], r"0 to 1.*1\.5\] at row 0"),
    (sw.ROCMultiClass(), [[0, 1]], [[[0.1, 0.2], [0.1, INF]]], "finite.*row 0, step 1"),
    (sw.EvaluationCalibration(), [[0, 0]], [[[0.5], [1.01]]], "row 0, step 1"),
    (sw.EvaluationCalibration(), [0], [[0.2, 0.2, -0.01]], "row 0"),
    (sw.RegressionEvaluation(), [[[1]], [[INF]]], [[[1]], [[1]]], "labels.*row 1, step 0"),
    (sw.RegressionEvaluation(), [1, 2], [1, 1e151], "predictions.*row 1"),
    (custom(), [1, 2], [1], r"the same number of rows.*\(2,\), \(1,\)"),
    (custom(), 1, 2, "the same number of rows"),
    (custom(lambda *_: {1, 2}), [1], [1], r"`evaluate` must return.*\{1, 2\}"),
    (custom(lambda *_: [NAN]), [1], [1], r"finite.*\[nan\]"),
]


@cases("prototype, labels, predictions, message", *ROWS)
def test_invalid_rows_are_rejected_by_place(prototype, labels, predictions, message):
    with pytest.raises((sw.DataError, sw.ConfigurationError), match=message):
        prototype.updated(labels, predictions)


@cases(
    "records, message",
    ([1], "Received: 1 records for 2 examples"),
    ([1.5, 2.5], r"text, an integer.*1\.5"),
    ([{"a": 1}, 2], r"text, an integer.*\{'a': 1\}"),
    ([[[1]], 2], r"text, an integer.*\[\[1\]\]"),
)
def test_invalid_records_are_rejected(records, message):
    with pytest.raises(sw.DataError, match=message):
        sw.Evaluation.from_predictions([1, 1], [[0.9, 0.1]] * 2, records=records, keep_errors=3)


CLASSES = sw.Evaluation.from_predictions([0, 1], [[0.9, 0.1]] * 2, class_names=["a", "b"])
TWO = sw.ROCBinary.from_predictions([[0, 1], [1, 0]], [[0.2, 0.5], [0.7, 0.5]], names=["a", "b"])
ONE = sw.ROC.from_predictions([0, 1], [0.1, 0.2])
PROBABLE = sw.EvaluationCalibration.from_predictions([0, 1], [[0.5], [0.5]], class_names=["a", "b"])
NUMBERS = sw.RegressionEvaluation.from_predictions(
    np.ones((2, 2)), np.ones((2, 2)), names=["a", "b"]
)
QUESTIONS = [
    (lambda: CLASSES.f_beta(0.0), r"beta=0\.0"),
    (lambda: CLASSES.f1("weighted"), "'weighted'"),
    (lambda: CLASSES.recall(of="c"), "of='c'"),
    (lambda: CLASSES.recall(of=-1), "of=-1"),
    (lambda: CLASSES.per_class("auc"), "metric='auc'"),
    (lambda: CLASSES.errors(actual="emu"), "of='emu'"),
    (lambda: sw.EvaluationBinary().per_output("auc"), "metric='auc'"),
    (lambda: ONE.best_threshold("accuracy"), "by='accuracy'"),
    (lambda: ONE.curve(2), "max_points=2"),
    (lambda: ONE.curve().point_at_recall(1.5), r"recall=1\.5"),
    (lambda: ONE.curve().point_at_precision(-1), "precision=-1"),
    (lambda: ONE.curve().point_at_threshold(NAN), "threshold=nan"),
    (lambda: ONE.confusion_at(NAN), "threshold=nan"),
    (lambda: (ONE + ONE).updated([], []) and sw.ROC(4).confusion_at(0.3), "one of the 5 .*between"),
    (lambda: TWO.roc("c"), "of='c'"),
    (lambda: TWO.auc(of=2), "of=2"),
    (lambda: PROBABLE.brier_score(of=True), "`of` must be"),
    (lambda: PROBABLE.expected_calibration_error("micro"), "`average`"),
    (lambda: NUMBERS.r2(of="c"), "`of` must be"),
    (lambda: NUMBERS.per_output("mse"), "`metric` must be"),
    (lambda: custom().from_json(custom().to_json()).updated([1], [0]), "no functions"),
]


@cases("call, message", *QUESTIONS)
def test_invalid_questions_are_rejected(call, message):
    with pytest.raises(sw.ConfigurationError, match=message):
        call()


@cases(
    "confusion, message",
    ([[1, 2, 3], [4, 5, 6]], r"shape \(2, 2\).*\(2, 3\)"),
    ([[-1, 0], [0, 0]], "at least 0.*minimum -1"),
    ([[0.5, 0], [0, 0]], "integers.*float64"),
)
def test_invalid_confusion_counts_raise(confusion, message):
    with pytest.raises(sw.DataError, match=message):
        sw.Evaluation(confusion=np.array(confusion))
