"""The results of evaluating a network: evaluations by kind, and their sections. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_blocks import blocks_of

# Key in a result -> its types and the heading of its section.
_PLACES: dict[str, tuple[tuple[type[Any], ...], str]] = {
    "evaluation": ((Evaluation, EvaluationBinary), "Classes and confusion matrix"),
    "roc": ((RocReadings, RocColumns), "ROC and precision-recall"),
    "calibration": ((EvaluationCalibration,), "Calibration"),
    "regression": ((RegressionEvaluation,), "Errors and residuals"),
    "worst": ((WorstExamples,), "Worst examples"),
    "others": ((AbstractEvaluation,), "Other evaluations"),
}
# Blocks of these kinds share a row; others take a full row.
_NARROW = frozenset(
    (
        *("roc", "precision-recall", "reliability", "probabilities", "predicted-actual"),
        *("residuals", "residual-histogram", "rates", "confusion", "errors", "threshold"),
    )
)


class Section(NamedTuple):
    """The drawn blocks of one entry of `Results.places`."""

    key: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Results:
    """Evaluations of one network on one data set."""

    # By key of `_PLACES`.
    places: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])

    @classmethod
    def of(cls, found: Any) -> "Results":
        """Create results from `Results`, an evaluation, `WorstExamples`, or a list of these."""
        if isinstance(found, Results):
            return found
        single = isinstance(found, AbstractEvaluation | WorstExamples)
        several: Iterable[Any] = [found] if single else found
        places: dict[str, list[Any]] = {key: [] for key in _PLACES}
        for each in several:
            place = _place(each)
            if places[place] and place != "others":
                raise ConfigurationError(
                    "a result must have at most one evaluation of a kind. "
                    f"Received: duplicate `{place}`. Give each result a unique name."
                )
            places[place].append(each)
        return cls(places={key: each for key, each in places.items() if each})

    def _only(self, place: str) -> Any:
        return next(iter(self.places.get(place, ())), None)

    @property
    def evaluation(self) -> Evaluation | EvaluationBinary | None:
        """The evaluation of classes or binary outputs; None if there is none."""
        return self._only("evaluation")

    @property
    def roc(self) -> RocReadings | RocColumns | None:
        """The ROC of one score, or of several outputs or classes; None if there is none."""
        return self._only("roc")

    @property
    def calibration(self) -> EvaluationCalibration | None:
        """The calibration of probabilities; None if there is none."""
        return self._only("calibration")

    @property
    def regression(self) -> RegressionEvaluation | None:
        """The regression evaluation; None if there is none."""
        return self._only("regression")

    @property
    def worst(self) -> WorstExamples | None:
        """The examples with the highest loss; None if there are none."""
        return self._only("worst")

    @property
    def evaluations(self) -> tuple[AbstractEvaluation, ...]:
        """All evaluations, without the worst examples."""
        return tuple(e for key, each in self.places.items() if key != "worst" for e in each)

    @property
    def examples(self) -> int:
        scored = 0 if self.worst is None else self.worst.scored
        return max((each.examples for each in self.evaluations), default=scored)

    def curves(self) -> list[tuple[str, RocReadings]]:
        """Name and ROC of each class or output with positive and negative rows."""
        roc = self.roc
        columns = isinstance(roc, RocColumns)
        named = zip(roc.output_names, roc.rocs, strict=False) if columns else [("", roc)]
        return [(name, each) for name, each in named if each and each.positives and each.negatives]

    def sections(self) -> list[Section]:
        """All non-empty sections, in order; drawing takes about 0.2 s each."""
        found: list[Section] = []
        for key, evaluations in self.places.items():
            title = _PLACES[key][1]
            if isinstance(evaluations[0], EvaluationBinary):
                title = "Binary outputs"
            blocks = [block for each in evaluations for block in blocks_of(each)]
            found.append(Section(key, title, blocks))
        return found


def grid_html(blocks: Sequence[Block]) -> str:
    """Arrange blocks in a grid; wide blocks take a full row."""
    inside = "".join(block.inside(wide=block.kind not in _NARROW) for block in blocks)
    return f'<div class="sparkwright-evaluation-grid">{inside}</div>'


def _place(each: Any) -> str:
    for place, (kinds, _) in _PLACES.items():
        if isinstance(each, kinds):
            return place
    raise ConfigurationError(
        "a result must be made of evaluations, such as `Evaluation` or `ROC`. "
        f"Received: {type(each).__name__}."
    )
