"""Reading evaluations of any kind, and comparing them."""

import json
from typing import Any

import numpy as np
import pytest

from sparkwright import evaluation as package
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import (
    ROC,
    AbstractEvaluation,
    CustomEvaluation,
    Evaluation,
    EvaluationBinary,
    EvaluationCalibration,
    RegressionEvaluation,
    ROCBinary,
    ROCDigest,
    ROCMultiClass,
    compare,
    cut_ranges,
    evaluation_from_dict,
    evaluation_from_json,
    plan_ranges,
    score_histogram,
    summarize_range,
)

LABELS, SCORES = [0, 1, 1, 0], [[0.25], [0.75], [0.5], [0.125]]
BOTH = [[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.875, 0.125]]


def digest_of(roc: ROC) -> ROCDigest:
    plan = plan_ranges(score_histogram(roc), rows_per_range=10)
    pieces = zip(cut_ranges(roc, plan), plan.ranges, strict=True)
    return ROCDigest.from_ranges(summarize_range(piece, place, points=4) for piece, place in pieces)


COUNTED: list[AbstractEvaluation] = [
    Evaluation.from_predictions(LABELS, SCORES, keep_errors=2, records=list("abcd")),
    EvaluationBinary.from_predictions(LABELS, SCORES, roc_thresholds=0),
    CustomEvaluation(lambda *_: 3, max).updated(LABELS, SCORES),
    ROC.from_predictions(LABELS, SCORES),
    ROC.from_predictions(LABELS, SCORES, thresholds=10),
    ROCBinary.from_predictions(LABELS, SCORES),
    ROCMultiClass.from_predictions(LABELS, BOTH),
    digest_of(ROC.from_predictions(LABELS, SCORES)),
    RegressionEvaluation.from_predictions(LABELS, SCORES),
    EvaluationCalibration.from_predictions(LABELS, BOTH),
]


@pytest.mark.parametrize("counted", COUNTED, ids=lambda counted: counted.name)
def test_every_kind_is_read_back_by_its_name(counted: AbstractEvaluation) -> None:
    for read in (
        evaluation_from_json(counted.to_json()),
        evaluation_from_dict(json.loads(json.dumps(counted.to_dict()))),
    ):
        assert type(read) is type(counted)
        assert read == counted


def test_every_kind_of_the_package_can_be_read() -> None:
    kinds = {
        found
        for found in vars(package).values()
        if isinstance(found, type) and issubclass(found, AbstractEvaluation)
    }
    assert {type(counted) for counted in COUNTED} == kinds - {AbstractEvaluation}


@pytest.mark.parametrize(
    "values",
    [{}, {"name": "accuracy"}, {"name": "_abstract"}, {"name": ["roc"]}, {"name": None}, [1], 3],
)
def test_unknown_kinds_are_refused_and_the_known_ones_listed(values: Any) -> None:
    with pytest.raises(DataError, match=r"'evaluation', 'evaluation_binary'.*'roc_multi_class'"):
        evaluation_from_dict(values)
    with pytest.raises(DataError, match=r"'regression_evaluation'"):
        evaluation_from_json(json.dumps(values))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"name": "evaluation"}'])
def test_text_that_is_no_evaluation_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        evaluation_from_json(text)


# Comparisons


def test_a_comparison_has_a_row_for_each_evaluation_and_all_metrics() -> None:
    first = Evaluation(confusion=np.array([[3, 1], [2, 4]]))
    second = Evaluation(confusion=np.array([[4, 0], [2, 4]]))
    custom = CustomEvaluation(lambda *_: {"accuracy": 0.75, "cost": 1234567}, max)
    compared = compare({"first": first, "<second>": second, "own": custom.updated([1], [1])})
    assert compared.to_dict()["first"] == first.headline()
    assert compared.to_dict()["own"] == {"accuracy": 0.75, "cost": 1234567.0}
    assert compared.best("accuracy") == "<second>"
    assert compared.best("accuracy", smallest=True) == "first"
    assert compared.best("cost") == "own"
    lines = str(compared).splitlines()
    assert lines[0].split()[:2] == ["examples", "accuracy"]
    assert lines[1].split()[:3] == ["first", "10", "0.7000"]
    assert lines[3].split() == ["own", "1", "0.7500", "1.235e+06"]
    assert "&lt;second&gt;" in compared._repr_html_()
    with pytest.raises(ConfigurationError, match=r"'accuracy'.*metric='loss'"):
        compared.best("loss")


def test_every_kind_has_a_headline() -> None:
    compared = compare({str(number): counted for number, counted in enumerate(COUNTED)})
    assert all(compared.to_dict().values())


@pytest.mark.parametrize("wrong", [{}, {"a": 3}, [Evaluation()], None])
def test_only_evaluations_by_name_are_compared(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="a dict of evaluations by name"):
        compare(wrong)
