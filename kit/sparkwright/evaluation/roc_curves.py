"""ROC and precision-recall curves, and their bootstrap confidence band."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_number

from .checks import check_count
from .rates import Rates
from .roc_counts import Floats, ThresholdCounts, precision_of

if TYPE_CHECKING:
    from .roc_readings import RocReadings

_POINTS = 400  # points of the curve; more change the band by less than the bootstrap error


class CurvePoint(NamedTuple):
    """A point of a curve: the rates if scores of at least a threshold are predicted positive.

    Attributes:
        threshold: infinity where no row is predicted positive.
        precision: TP / (TP + FP); 1 where no row is predicted positive.
        recall: TP / positives, the true positive rate; 0 without positives.
        false_positive_rate: FP / negatives; 0 without negatives.
    """

    threshold: float
    precision: float
    recall: float
    false_positive_rate: float


@dataclass(frozen=True, slots=True)
class _Curve:
    """Points in descending order of threshold, starting at infinity."""

    name: ClassVar[str]

    counts: ThresholdCounts

    def __len__(self) -> int:
        return len(self.counts)

    def point_at_threshold(self, threshold: float) -> CurvePoint:
        """The point of the lowest threshold >= `threshold`; raise ConfigurationError for NaN."""
        check_no_nan(threshold)
        return self._point(self.counts.at_or_above(threshold) or 0)

    def point_at_precision(self, precision: float) -> CurvePoint:
        """The point of highest recall whose precision is at least `precision`, from 0 to 1.

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
        """Return plain JSON values; `from_dict` is the inverse."""
        return {"name": self.name, **self.counts.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore a curve from `to_dict`.

        Raises:
            DataError: if `values` are not such a curve.
        """
        if values.get("name") != cls.name:
            raise DataError(
                f'{cls.__name__}.from_dict needs a dict with "name": "{cls.name}". '
                f"Received: name={values.get('name')!r:.40}."
            )
        return cls(ThresholdCounts.from_dict(values).started())

    def _point(self, row: int) -> CurvePoint:
        at = self.counts.rows(np.array([row]))
        rates = (at.thresholds, at.precision(), at.recall(), at.false_positive_rate())
        return CurvePoint(*(float(rate[0]) for rate in rates))


@dataclass(frozen=True, slots=True)
class RocCurve(_Curve):
    """True positive rate over false positive rate, from (0, 0) to (1, 1)."""

    name: ClassVar[str] = "roc_curve"

    @property
    def thresholds(self) -> Floats:
        """(k,) float64, descending; the first is infinity."""
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
    """Precision over recall; the last point has precision 1, recall 0 and threshold infinity."""

    name: ClassVar[str] = "precision_recall_curve"

    @property
    def thresholds(self) -> Floats:
        """(k,) float64, ascending; the last is infinity."""
        return self.counts.thresholds[::-1]

    @property
    def precision(self) -> Rates:
        """(k,) float64; 1 at threshold infinity."""
        return self.counts.precision()[::-1]

    @property
    def recall(self) -> Rates:
        """(k,) float64, descending; 0 without positives."""
        return self.counts.recall()[::-1]


def check_no_nan(threshold: float) -> None:
    """Raise ConfigurationError if a threshold is NaN."""
    if np.isnan(threshold):
        raise ConfigurationError(f"`threshold` must be a number. Received: threshold={threshold}.")


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigurationError(f"`{name}` must be from 0 to 1. Received: {name}={value!r}.")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RocBand:
    """Pointwise bootstrap bounds of the curves and their areas.

    Attributes:
        confidence: the fraction, 0 to 1.
        grid: (g,) float64 false positive rates or recalls, from 0 to 1.
        true_positive_rate: (2, g) lower and upper bound of the ROC curve.
        precision: (2, g) lower and upper bound of the precision-recall curve.
        auc: lower and upper bound of the area under the ROC curve.
        average_precision: lower and upper bound of the area under the precision-recall curve.
    """

    confidence: float
    grid: Floats
    true_positive_rate: Floats
    precision: Floats
    auc: tuple[float, float]
    average_precision: tuple[float, float]


def bootstrap_band(
    roc: "RocReadings",
    *,
    confidence: float = 0.95,
    replicates: int = 200,
    grid_points: int = 101,
    seed: int = 0,
) -> RocBand:
    """Compute bounds by resampling positives and negatives separately, with replacement.

    The curve is first thinned to 400 points; rows between two points count as tied. Time and
    memory do not depend on the number of rows, and all kinds of ROC are supported.

    Args:
        roc: ROC of rows of both classes.
        confidence: fraction of the resampled curves within the bounds, between 0 and 1.
        replicates: number of curves to resample; default 200.
        grid_points: g of `RocBand`, at least 2; default 101.
        seed: seed of the resampling.

    Raises:
        ConfigurationError: if an option is invalid.
        DataError: if there are no positives or no negatives.

    References:
        B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall (1993),
        chapter 13: percentile intervals.
    """
    check_number("confidence", confidence, above=0, below=1)
    check_count("replicates", replicates, minimum=2)
    check_count("grid_points", grid_points, minimum=2)
    counts = roc.threshold_counts().thinned(_POINTS)
    if not (counts.positives and counts.negatives):
        raise DataError(
            "a band needs rows of both classes. Received: "
            f"{counts.positives} positives and {counts.negatives} negatives."
        )
    random = np.random.default_rng(seed)
    sides = (counts.true_positives, counts.positives), (counts.false_positives, counts.negatives)
    hits, alarms = (_resampled(random, *side, replicates) for side in sides)
    recall, false_rate = hits / counts.positives, alarms / counts.negatives
    precision = precision_of(hits, alarms)
    grid = np.linspace(0.0, 1.0, grid_points)
    heights = np.stack([np.interp(grid, x, y) for x, y in zip(false_rate, recall, strict=True)])
    reached = [np.searchsorted(x, grid, side="left").clip(max=x.size - 1) for x in recall]
    kept = np.stack([y[places] for y, places in zip(precision, reached, strict=True)])
    areas = np.sum(np.diff(false_rate) * (recall[:, 1:] + recall[:, :-1]) / 2, axis=1)
    averages = np.sum(np.diff(recall) * precision[:, 1:], axis=1)
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    low_and_high: Any = [np.percentile(found, tails).tolist() for found in (areas, averages)]
    return RocBand(
        confidence=confidence,
        grid=grid,
        true_positive_rate=np.percentile(heights, tails, axis=0),
        precision=np.percentile(kept, tails, axis=0),
        auc=tuple(low_and_high[0]),
        average_precision=tuple(low_and_high[1]),
    )


def _resampled(
    random: np.random.Generator, reached: NDArray[np.int64], total: int, replicates: int
) -> NDArray[np.int64]:
    """Resample (replicates, k + 1) rows of `total` that reach each threshold; 0 at the first."""
    gained = np.diff(reached, prepend=0, append=total)
    drawn = random.multinomial(total, gained / total, size=replicates)
    return np.pad(drawn.cumsum(axis=1), ((0, 0), (1, 0)))
