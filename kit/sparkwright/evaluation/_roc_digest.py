"""An exact ROC without its scores: what is left when they are too many for one place."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from sparkwright.errors import ConfigurationError, DataError

from ._evaluation import Evaluation
from ._exact_sums import exact_sum, from_text, to_text
from ._roc import confusion
from ._roc_areas import PrecisionSums, auc_of, share_of
from ._roc_ranges import RangeSummary
from ._roc_readings import RocReadings
from ._threshold_counts import ThresholdCounts


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class ROCDigest(RocReadings):
    """Read like a `ROC`; areas and best thresholds equal those of the exact one to the last bit.

    Its curves have fewer points, each of which lies on the true curve. The scores are gone, so
    digests cannot be added.

    Attributes:
        counts: at the thresholds that were kept.
        auc_numerator: of the area under the ROC curve, over 2 · positives · negatives.
        precision_sums: of the areas under the precision-recall curve, over the positives.
    """

    name: ClassVar[str] = "roc_digest"

    counts: ThresholdCounts
    auc_numerator: int
    precision_sums: PrecisionSums

    @classmethod
    def from_ranges(cls, summaries: Iterable[RangeSummary]) -> "ROCDigest":
        """Put the ranges of one plan together.

        Args:
            summaries: of every range, in any order.

        Raises:
            DataError: if a range is missing, or came twice.
        """
        ranges = sorted(
            (summary for summary in summaries),
            key=lambda summary: summary.place.positives_above + summary.place.negatives_above,
        )
        totals = {(r.place.all_positives, r.place.all_negatives) for r in ranges}
        covered = (
            sum(r.place.positives for r in ranges),
            sum(r.place.negatives for r in ranges),
        )
        if totals != {covered}:
            raise DataError(
                "a digest needs every range of one plan once. Received: "
                f"{len(ranges)} ranges with {covered[0]} positives and {covered[1]} negatives, of "
                f"{' or '.join(f'{p} and {n}' for p, n in sorted(totals)) or 'no plan'}."
            )
        points = [r.points for r in ranges]
        return cls(
            counts=ThresholdCounts(
                thresholds=np.concatenate([p.thresholds for p in points]),
                true_positives=np.concatenate([p.true_positives for p in points]),
                false_positives=np.concatenate([p.false_positives for p in points]),
                positives=covered[0],
                negatives=covered[1],
            ),
            auc_numerator=sum(r.auc_numerator for r in ranges),
            precision_sums=sum((r.precision_sums for r in ranges), PrecisionSums(0, 0)),
        )

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> NoReturn:
        """Refused: the scores are gone.

        Raises:
            DataError: always, with what to do instead.
        """
        self._refuse("be counted on")

    def __add__(self, other: Any) -> NoReturn:
        """Refused: the scores are gone.

        Raises:
            DataError: always, with what to do instead.
        """
        self._refuse("be added to others")

    def _refuse(self, what: str) -> NoReturn:
        raise DataError(
            f"a ROCDigest cannot {what}: the scores it was made of are gone. "
            f"Received: {self!r}. Evaluate the union of the data, or use ROC(thresholds=n), "
            "which adds up."
        )

    @property
    def positives(self) -> int:
        """Rows of class 1."""
        return self.counts.positives

    @property
    def negatives(self) -> int:
        """Rows of class 0."""
        return self.counts.negatives

    @property
    def auc(self) -> float:
        """Area under the ROC curve, exact; 0.5 without positives or without negatives."""
        return auc_of(self.auc_numerator, self.positives, self.negatives)

    @property
    def auprc(self) -> float:
        """Area under the lines of the precision-recall curve, exact; 0 without positives."""
        return share_of(self.precision_sums.trapezoids, self.positives)

    @property
    def average_precision(self) -> float:
        """Area under the steps of the precision-recall curve, exact; 0 without positives."""
        return share_of(self.precision_sums.steps, self.positives)

    def threshold_counts(self) -> ThresholdCounts:
        """Counts at the thresholds that were kept, the highest first."""
        return self.counts

    def confusion_at(self, threshold: float) -> Evaluation:
        """The confusion matrix if scores of at least `threshold` are predicted positive.

        Args:
            threshold: one of `threshold_counts().thresholds`, or more or less than all of these.

        Raises:
            ConfigurationError: if `threshold` is NaN, or another one.
        """
        kept = self.counts.thresholds
        row = None if math.isnan(threshold) else self.counts.at_or_above(threshold)
        if row is None and not math.isnan(threshold):
            return confusion(0, 0, self.positives, self.negatives)
        if row is None or not (kept[row] == threshold or row == len(self.counts) - 1):
            near = "" if row is None else f", between {kept[row + 1]} and {kept[row]}"
            raise ConfigurationError(
                f"`threshold` must be one of the {len(kept)} that were kept, "
                f"`threshold_counts().thresholds`. Received: threshold={threshold}{near}."
            )
        true_positives = int(self.counts.true_positives[row])
        false_positives = int(self.counts.false_positives[row])
        return confusion(true_positives, false_positives, self.positives, self.negatives)

    def _kind(self) -> str:
        return f"exact, {len(self.counts)} points kept"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `from_dict` is the inverse."""
        return {
            "name": self.name,
            "auc_numerator": self.auc_numerator,
            "trapezoids": to_text(self.precision_sums.trapezoids),
            "steps": to_text(self.precision_sums.steps),
            "counts": self.counts.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ROCDigest":
        """The inverse of `to_dict`.

        Raises:
            DataError: if `values` is no such evaluation.
        """
        cls._check_name(values, "auc_numerator", "trapezoids", "steps", "counts")
        counts = ThresholdCounts.from_dict(values["counts"])
        sums = PrecisionSums(from_text(values["trapezoids"]), from_text(values["steps"]))
        numerator = values["auc_numerator"]
        largest = exact_sum(np.array([float(counts.positives)]))
        reached = [
            int(column[-1])
            for column in (counts.true_positives, counts.false_positives)
            if column.size
        ]
        if (
            type(numerator) is not int
            or not 0 <= numerator <= 2 * counts.positives * counts.negatives
            or any(not 0 <= total <= largest for total in sums)
            or (reached or [0, 0]) != [counts.positives, counts.negatives]
        ):
            raise DataError(
                "areas must be from 0 to 1, and the last point of a curve must be that of all "
                f"rows. Received: auc_numerator={numerator!r:.40} and others for "
                f"{counts.positives} positives and {counts.negatives} negatives."
            )
        return cls(counts=counts, auc_numerator=numerator, precision_sums=sums)
