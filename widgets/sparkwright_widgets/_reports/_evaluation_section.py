"""Evaluations in a report: side by side if there are several, then each by itself. Pure."""

from collections.abc import Mapping
from typing import Any

from sparkwright.evaluation import AbstractEvaluation
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_blocks import comparison_blocks, evaluation_figures
from sparkwright_widgets._format import escaped


def evaluation_section(evaluations: Any) -> list[Block]:
    """All blocks of evaluations, with a heading for each.

    Args:
        evaluations: one, a list, or one or a list by name; None: none.

    Raises:
        ConfigurationError: if something else is among them.
    """
    if evaluations is None:
        return []
    if not isinstance(evaluations, Mapping):
        return [block for each in _listed(evaluations) for block in _headed(_kind(each), each)]
    blocks = compared(evaluations) if len(evaluations) > 1 else []
    return blocks + [
        block for name, each in evaluations.items() for block in _headed(str(name), each)
    ]


def compared(evaluations: Mapping[str, Any]) -> list[Block]:
    """Headline figures and curves side by side.

    Args:
        evaluations: name -> one evaluation or a list of them.
    """
    known = {
        str(name): [each for each in _listed(given) if isinstance(each, AbstractEvaluation)]
        for name, given in evaluations.items()
    }
    return comparison_blocks({name: given for name, given in known.items() if given})


def _headed(name: str, evaluations: Any) -> list[Block]:
    heading = Block(html=f"<h3>{escaped(name)}</h3>", text=name, kind="heading")
    return [heading, *evaluation_figures(_listed(evaluations))]


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _kind(evaluation: Any) -> str:
    """What kind of evaluation it is, in words.

    Example:
        >>> from sparkwright.evaluation import EvaluationCalibration, ROC
        >>> _kind(EvaluationCalibration()), _kind(ROC())
        ('Calibration', 'ROC')
    """
    name = type(evaluation).__name__
    titles = {
        "Evaluation": "Classes",
        "EvaluationBinary": "Yes-or-no outputs",
        "EvaluationCalibration": "Calibration",
        "RegressionEvaluation": "Numbers",
        "ROCMultiClass": "ROC of each class",
        "ROCBinary": "ROC of each output",
        "WorstExamples": "Examples with the highest loss",
    }
    return titles.get(name, name)
