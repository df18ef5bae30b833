"""The thresholds that can be chosen, and what each of them would give. Pure.

The same is computed in the browser by `static/threshold.mjs`, so that the slider answers at once.
"""

import math
from dataclasses import dataclass

import numpy as np

from sparkwright.evaluation import RocReadings, ThresholdCounts

MOST_POINTS = 1000  # a slider has hardly more pixels


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ThresholdPoints:
    """Exact counts at some thresholds, the highest first; the first one is infinity.

    Attributes:
        counts: at the thresholds.
        best_f1: place of the largest F1.
        best_youden: place of the largest Youden index.
    """

    counts: ThresholdCounts
    best_f1: int
    best_youden: int

    @classmethod
    def of(cls, roc: RocReadings, *, most: int = MOST_POINTS) -> "ThresholdPoints":
        """Some points of the curve, the best ones among them.

        Args:
            roc: of rows of both classes.
            most: how many, but for the best ones and infinity.
        """
        whole = roc.threshold_counts()
        best = [whole.best("f1"), whole.best("youden")]
        wanted = whole.thinned(most).thresholds
        half = whole.at_or_above(0.5)
        places = [*np.searchsorted(-whole.thresholds, -wanted).tolist(), *best]
        chosen = np.unique([*places, *([] if half is None else [half])])
        counts = whole.rows(chosen).started()
        found = [1 + int(np.searchsorted(chosen, place)) for place in best]
        return cls(counts=counts, best_f1=found[0], best_youden=found[1])

    def __len__(self) -> int:
        return len(self.counts)

    def to_bytes(self) -> bytes:
        """(3, k) float64, little-endian: thresholds, true positives, false positives."""
        counts = self.counts
        rows = [counts.thresholds, counts.true_positives, counts.false_positives]
        return np.stack(rows).astype("<f8").tobytes()

    def place_of(self, threshold: float) -> int:
        """The place of the lowest threshold that is not below `threshold`."""
        return self.counts.at_or_above(threshold) or 0

    def place_of_least_cost(self, false_positive: float, false_negative: float) -> int:
        """Where errors cost least; of equally cheap places that of the highest threshold."""
        missed = self.counts.positives - self.counts.true_positives
        costs = false_positive * self.counts.false_positives + false_negative * missed
        return int(np.argmin(costs))

    def at(self, place: int) -> "ThresholdReading":
        """What the threshold at a place gives."""
        counts = self.counts
        true, false = int(counts.true_positives[place]), int(counts.false_positives[place])
        return ThresholdReading(
            threshold=float(counts.thresholds[place]),
            true_positives=true,
            false_positives=false,
            true_negatives=counts.negatives - false,
            false_negatives=counts.positives - true,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdReading:
    """What predicting positive from a threshold on gives.

    Attributes:
        threshold: infinity where nothing is predicted positive.
        true_positives: rows of the class that are found.
        false_positives: rows of others that are taken for it.
        true_negatives: rows of others that are not.
        false_negatives: rows of the class that are missed.
    """

    threshold: float
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int

    @property
    def precision(self) -> float:
        """TP / (TP + FP); 1 where nothing is predicted positive."""
        predicted = self.true_positives + self.false_positives
        return self.true_positives / predicted if predicted else 1.0

    @property
    def recall(self) -> float:
        """TP / (TP + FN); 0 without positives."""
        return self.true_positives / max(self.true_positives + self.false_negatives, 1)

    @property
    def false_positive_rate(self) -> float:
        """FP / (FP + TN); 0 without negatives."""
        return self.false_positives / max(self.false_positives + self.true_negatives, 1)

    @property
    def f1(self) -> float:
        """2 TP / (2 TP + FP + FN); 0 where that is 0/0."""
        whole = 2 * self.true_positives + self.false_positives + self.false_negatives
        return 2 * self.true_positives / whole if whole else 0.0

    @property
    def accuracy(self) -> float:
        """(TP + TN) / all; 0 without rows."""
        right = self.true_positives + self.true_negatives
        return right / max(right + self.false_positives + self.false_negatives, 1)

    def cost(self, false_positive: float, false_negative: float) -> float:
        """What the errors cost, at a price for each kind."""
        return false_positive * self.false_positives + false_negative * self.false_negatives

    @property
    def threshold_text(self) -> str:
        """The threshold as it is shown."""
        return "above all scores" if math.isinf(self.threshold) else f"{self.threshold:.4g}"
