"""A result as sections, each a title and blocks, for the panel and its static copy. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.evaluation import Evaluation
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_blocks import (
    binary_blocks,
    calibration_blocks,
    classification_blocks,
    regression_blocks,
    roc_blocks,
    worst_blocks,
)
from sparkwright_widgets._evaluation_figures._blocks import headline_block
from sparkwright_widgets._format import escaped

from ._results import Results

_NARROW = ("roc", "precision-recall", "reliability", "probabilities", "predicted-actual")
_NARROW_TOO = ("residuals", "residual-histogram", "rates", "confusion", "errors")


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One of the things a result shows.

    Attributes:
        key: which one: "evaluation", "roc", "calibration", "regression", "worst" or "others".
        title: its heading.
        blocks: what it shows.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]


def sections_of(results: Results) -> list[Section]:
    """All sections that a result has, in order; drawing takes about 0.2 s for each."""
    found: list[Section] = []

    def add(key: str, title: str, blocks: Sequence[Block]) -> None:
        found.append(Section(key=key, title=title, blocks=tuple(blocks)))

    if isinstance(results.evaluation, Evaluation):
        add("evaluation", "Classes and confusion matrix", classification_blocks(results.evaluation))
    elif results.evaluation is not None:
        add("evaluation", "Answers", binary_blocks(results.evaluation))
    if results.roc is not None:
        add("roc", "ROC and precision-recall", roc_blocks(results.roc))
    if results.calibration is not None:
        add("calibration", "Calibration", calibration_blocks(results.calibration))
    if results.regression is not None:
        add("regression", "Errors and residuals", regression_blocks(results.regression))
    if results.worst is not None:
        add("worst", "Worst examples", worst_blocks(results.worst))
    if results.others:
        add("others", "Others", [headline_block(each) for each in results.others])
    return found


def grid_html(blocks: Sequence[Block]) -> str:
    """Blocks beside each other where there is room; what is wide by nature takes a whole row."""
    inside = "".join(
        f'<section class="sparkwright-block sparkwright-{escaped(block.kind)}'
        f'{"" if block.kind in (*_NARROW, *_NARROW_TOO) else " sparkwright-wide"}">'
        f"{block.html}</section>"
        for block in blocks
    )
    return f'<div class="sparkwright-evaluation-grid">{inside}</div>'
