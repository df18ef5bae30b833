"""Render evaluations as blocks for panels and reports.

Every figure has alt text, a caption, and a table of its data.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation import (
    AbstractEvaluation,
    RegressionEvaluation,
    WorstExamples,
)
from sparkwright.evaluation.comparison import comparison_figures
from sparkwright.evaluation.reports import Figure, Table

from ._block import Block
from ._figure_svg import figure_block, tabled
from ._format import count_text, escaped, number_text
from ._fragments import figure_list
from ._worst_examples import worst_blocks as worst_blocks


def evaluation_figures(evaluations: Any) -> list[Block]:
    """All blocks of one evaluation, or of a list of them, in the order given."""
    return [block for evaluation in _listed(evaluations) for block in blocks_of(evaluation)]


def blocks_of(evaluation: Any, **options: Any) -> list[Block]:
    """Headline and figures of one evaluation, or the cards of the worst examples."""
    if isinstance(evaluation, WorstExamples):
        return worst_blocks(evaluation, **options)
    if not isinstance(evaluation, AbstractEvaluation):
        raise ConfigurationError(
            "`evaluations` must be evaluations, such as `Evaluation` or `ROC`. "
            f"Received: {type(evaluation).__name__}."
        )
    named = {}
    if isinstance(evaluation, RegressionEvaluation):
        named = {"kind": "regression-metrics", "label": "Errors of each output"}
    return [headline_block(evaluation), *_shown(evaluation.figures(**options), **named)]


def comparison_blocks(results: Mapping[str, Sequence[AbstractEvaluation]]) -> list[Block]:
    """A table of the headline metrics of each result, and their overlaid ROC curves."""
    return _shown(comparison_figures(results), kind="comparison", label="Comparison")


def headline_block(evaluation: AbstractEvaluation) -> Block:
    figures = [("Examples", count_text(evaluation.examples))]
    figures += [(name, number_text(value)) for name, value in evaluation.headline().items()]
    words = "\n".join(f"{name}: {value}" for name, value in figures)
    return Block(html=figure_list(figures), text=words, kind="headline")


def _shown(
    figures: Sequence[Figure | Table], *, kind: str = "errors", label: str = "Errors"
) -> list[Block]:
    return [
        figure_block(each) if isinstance(each, Figure) else tabled(each, label=label, kind=kind)
        for each in figures
    ]


def evaluation_section(evaluations: Any) -> list[Block]:
    """All blocks of evaluations, of one, a list, or a dict of these, with a heading for each."""
    if evaluations is None:
        return []
    if not isinstance(evaluations, Mapping):
        return [block for each in _listed(evaluations) for block in _headed(_kind(each), each)]
    blocks = compared(evaluations) if len(evaluations) > 1 else []
    return blocks + [
        block for name, each in evaluations.items() for block in _headed(str(name), each)
    ]


def compared(evaluations: Mapping[str, Any]) -> list[Block]:
    """Headline figures and curves side by side, of one evaluation or a list of them by name."""
    known = {
        str(name): [each for each in _listed(given) if isinstance(each, AbstractEvaluation)]
        for name, given in evaluations.items()
    }
    return comparison_blocks({name: given for name, given in known.items() if given})


def _headed(name: str, evaluations: Any) -> list[Block]:
    heading = Block(html=f"<h3>{escaped(name)}</h3>", text=name, kind="heading")
    return [heading, *evaluation_figures(evaluations)]


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _kind(evaluation: Any) -> str:
    """The title of an evaluation's type."""
    name = type(evaluation).__name__
    titles = {
        "Evaluation": "Classes",
        "EvaluationBinary": "Binary outputs",
        "EvaluationCalibration": "Calibration",
        "RegressionEvaluation": "Regression",
        "ROCMultiClass": "ROC of each class",
        "ROCBinary": "ROC of each output",
        "WorstExamples": "Examples with the highest loss",
    }
    return titles.get(name, name)
