"""The two curves that a ROC draws, as points that can be asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._binary_counts import Rates
from ._threshold_counts import Floats, ThresholdCounts


class CurvePoint(NamedTuple):
    """What predicting positive from a threshold on gives.

    Attributes:
        threshold: infinity where nothing is predicted positive.
        precision: TP / (TP + FP); 1 where nothing is predicted positive.
        recall: TP / positives, the true positive rate; 0 without positives.
        false_positive_rate: FP / negatives; 0 without negatives.
    """

    threshold: float
    precision: float
    recall: float
    false_positive_rate: float


@dataclass(frozen=True, slots=True)
class _Curve:
    """Points by threshold.

    Attributes:
        counts: at each threshold, the first of which is infinity.
    """

    name: ClassVar[str]

    counts: ThresholdCounts

    def __len__(self) -> int:
        return len(self.counts)

    def point_at_threshold(self, threshold: float) -> CurvePoint:
        """The point of the lowest threshold that is not below `threshold`.

        Raises:
            ConfigurationError: if it is NaN.
        """
        if np.isnan(threshold):
            raise ConfigurationError(
                f"`threshold` must be a number. Received: threshold={threshold}."
            )
        return self._point(self.counts.at_or_above(threshold) or 0)

    def point_at_precision(self, precision: float) -> CurvePoint:
        """The point of most recall whose precision is at least `precision`, from 0 to 1.

        Raises:
            ConfigurationError: if `precision` is not from 0 to 1.
        """
        _check_share("precision", precision)
        return self._point(int(np.flatnonzero(self.counts.precision() >= precision)[-1]))

    def point_at_recall(self, recall: float) -> CurvePoint:
        """The point of the highest threshold whose recall is at least `recall`, from 0 to 1.

        Raises:
            ConfigurationError: if `recall` is not from 0 to 1.
            DataError: if there are no positives, and `recall` is not 0.
        """
        _check_share("recall", recall)
        reached = np.flatnonzero(self.counts.recall() >= recall)
        if not reached.size:
            raise DataError(
                f"recall is 0 at every threshold without positives. Received: recall={recall}."
            )
        return self._point(int(reached[0]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        return {"name": self.name, **self.counts.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            DataError: if `values` is no such curve.
        """
        if values.get("name") != cls.name:
            raise DataError(
                f'{cls.__name__} is read from a dict with "name": "{cls.name}". '
                f"Received: name={values.get('name')!r:.40}."
            )
        return cls(ThresholdCounts.from_dict(values).started())

    def _point(self, row: int) -> CurvePoint:
        found = self.counts.rows(np.array([row]))
        return CurvePoint(
            float(found.thresholds[0]),
            float(found.precision()[0]),
            float(found.recall()[0]),
            float(found.false_positive_rate()[0]),
        )


@dataclass(frozen=True, slots=True)
class RocCurve(_Curve):
    """True positive rate over false positive rate, from (0, 0) to (1, 1).

    Attributes:
        counts: at each threshold, descending from infinity.
    """

    name: ClassVar[str] = "roc_curve"

    @property
    def thresholds(self) -> Floats:
        """(k,) float64, descending, the first is infinity."""
        return self.counts.thresholds

    @property
    def false_positive_rate(self) -> Rates:
        """(k,) float64, ascending; 0 without negatives."""
        return self.counts.false_positive_rate()

    @property
    def true_positive_rate(self) -> Rates:
        """(k,) float64, ascending; 0 without positives."""
        return self.counts.recall()


@dataclass(frozen=True, slots=True)
class PrecisionRecallCurve(_Curve):
    """Precision over recall; the last point is precision 1 at recall 0, threshold infinity.

    Attributes:
        counts: at each threshold, descending from infinity.
    """

    name: ClassVar[str] = "precision_recall_curve"

    @property
    def thresholds(self) -> Floats:
        """(k,) float64, ascending, the last is infinity."""
        return self.counts.thresholds[::-1]

    @property
    def precision(self) -> Rates:
        """(k,) float64; 1 at infinity."""
        return self.counts.precision()[::-1]

    @property
    def recall(self) -> Rates:
        """(k,) float64, descending; 0 without positives."""
        return self.counts.recall()[::-1]


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigurationError(f"`{name}` must be from 0 to 1. Received: {name}={value!r}.")
