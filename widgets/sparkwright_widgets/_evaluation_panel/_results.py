"""What one evaluation of a network came to: its evaluations, by what they say. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Results:
    """Evaluations of one network on one set of data; None where there is none.

    Attributes:
        evaluation: of classes, or of yes-or-no answers.
        roc: of one score, of several outputs or classes.
        calibration: of probabilities.
        regression: of numbers.
        worst: the examples with the highest loss.
        others: any other kinds.
    """

    evaluation: Evaluation | EvaluationBinary | None = None
    roc: RocReadings | RocColumns | None = None
    calibration: EvaluationCalibration | None = None
    regression: RegressionEvaluation | None = None
    worst: WorstExamples | None = None
    others: tuple[AbstractEvaluation, ...] = ()

    @classmethod
    def of(cls, found: Any) -> "Results":
        """Put evaluations in their places.

        Args:
            found: `Results`, an evaluation, `WorstExamples`, or some of these.

        Raises:
            ConfigurationError: if something else is among them, or two of a kind.
        """
        if isinstance(found, Results):
            return found
        single = isinstance(found, AbstractEvaluation | WorstExamples)
        several: Iterable[Any] = [found] if single else found
        places: dict[str, Any] = {}
        others: list[AbstractEvaluation] = []
        for each in several:
            place = _place(each)
            if place == "others":
                others.append(each)
            elif place in places:
                raise ConfigurationError(
                    "a result must have at most one evaluation of a kind. "
                    f"Received: two as its `{place}`. Add them under two names."
                )
            else:
                places[place] = each
        return cls(**places, others=tuple(others))

    @property
    def evaluations(self) -> tuple[AbstractEvaluation, ...]:
        """All of them, without the worst examples."""
        found = (self.evaluation, self.roc, self.calibration, self.regression)
        return (*(each for each in found if each is not None), *self.others)

    @property
    def examples(self) -> int:
        """How many were counted."""
        scored = 0 if self.worst is None else self.worst.scored
        return max((each.examples for each in self.evaluations), default=scored)

    def curves(self) -> list[tuple[str, RocReadings]]:
        """Name and ROC of each class or output that has rows of both kinds."""
        roc = self.roc
        if roc is None:
            return []
        if isinstance(roc, RocReadings):
            named: list[tuple[str, RocReadings]] = [("", roc)]
        else:
            named = list(zip(roc.output_names, roc.rocs, strict=False))
        return [(name, each) for name, each in named if each.positives and each.negatives]


def _place(each: Any) -> str:
    for kind, place in (
        ((Evaluation, EvaluationBinary), "evaluation"),
        ((RocReadings, RocColumns), "roc"),
        ((EvaluationCalibration,), "calibration"),
        ((RegressionEvaluation,), "regression"),
        ((WorstExamples,), "worst"),
        ((AbstractEvaluation,), "others"),
    ):
        if isinstance(each, kind):
            return place
    raise ConfigurationError(
        "a result must be made of evaluations, such as `Evaluation` or `ROC`. "
        f"Received: {type(each).__name__}."
    )
