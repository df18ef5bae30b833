"""What evaluations look like in panels and reports: `evaluation_figures`, or a kind at a time.

Every block is a figure with alt text, one sentence below it, and a table that says the same.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation import (
    AbstractEvaluation,
    Evaluation,
    EvaluationBinary,
    EvaluationCalibration,
    RegressionEvaluation,
    RocColumns,
    RocReadings,
    WorstExamples,
)

from ._block import Block
from ._evaluation_figures import (
    binary_blocks as binary_blocks,
    calibration_blocks as calibration_blocks,
    classification_blocks as classification_blocks,
    comparison_blocks as comparison_blocks,
    regression_blocks as regression_blocks,
    roc_blocks as roc_blocks,
    worst_blocks as worst_blocks,
)
from ._evaluation_figures._blocks import headline_block

_KINDS: tuple[tuple[type[Any] | tuple[type[Any], ...], Callable[[Any], list[Block]]], ...] = (
    (Evaluation, classification_blocks),
    (EvaluationBinary, binary_blocks),
    ((RocReadings, RocColumns), roc_blocks),
    (EvaluationCalibration, calibration_blocks),
    (RegressionEvaluation, regression_blocks),
    (WorstExamples, worst_blocks),
    (AbstractEvaluation, lambda evaluation: [headline_block(evaluation)]),
)


def evaluation_figures(evaluations: Any) -> list[Block]:
    """All blocks of one evaluation or of several, in the order given.

    Args:
        evaluations: an evaluation, or `WorstExamples`; a list of these; or a dict by name, whose
            names are not shown: `comparison_blocks` sets several side by side.

    Raises:
        ConfigurationError: if something else is among them.
    """
    if isinstance(evaluations, Mapping):
        given: Iterable[Any] = evaluations.values()
    elif isinstance(evaluations, AbstractEvaluation | WorstExamples):
        given = [evaluations]
    else:
        given = evaluations
    return [block for evaluation in given for block in _blocks_of(evaluation)]


def _blocks_of(evaluation: Any) -> list[Block]:
    for kind, blocks in _KINDS:
        if isinstance(evaluation, kind):
            return blocks(evaluation)
    raise ConfigurationError(
        "`evaluations` must be evaluations, such as `Evaluation` or `ROC`. "
        f"Received: {type(evaluation).__name__}."
    )
