"""How far a ROC could have come out otherwise: a bootstrap over what it keeps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._binary_counts import check_number
from ._roc_readings import RocReadings

Floats = NDArray[np.float64]
_POINTS = 400  # of the curve; more change the band by less than the bootstrap itself does


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RocBand:
    """Bounds that hold a share of resampled curves, at each place of the horizontal axis.

    Attributes:
        confidence: that share, 0 to 1.
        grid: (g,) float64 false positive rates, and recalls, from 0 to 1.
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
    roc: RocReadings,
    *,
    confidence: float = 0.95,
    replicates: int = 200,
    grid_points: int = 101,
    seed: int = 0,
) -> RocBand:
    """Bounds from resampling positives and negatives, each among themselves, with replacement.

    The curve is first thinned to 400 points, and rows between two of them count as tied. Time and
    memory therefore do not depend on the number of rows, and exact ROCs, thresholded ones and
    digests are treated alike.

    Args:
        roc: of rows of both classes.
        confidence: share of the resampled curves between the bounds, above 0 and below 1.
        replicates: how many curves to resample; default 200.
        grid_points: g of `RocBand`, at least 2; default 101.
        seed: of the resampling.

    Raises:
        ConfigurationError: if an option cannot be.
        DataError: if there are no positives or no negatives.

    References:
        B. Efron, R. J. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall (1993),
        chapter 13: percentile intervals.
    """
    if not 0 < confidence < 1:
        raise ConfigurationError(
            f"`confidence` must be above 0 and below 1. Received: confidence={confidence!r}."
        )
    check_number("replicates", replicates, least=2)
    check_number("grid_points", grid_points, least=2)
    counts = roc.threshold_counts().thinned(_POINTS)
    if not (counts.positives and counts.negatives):
        raise DataError(
            "a band needs rows of both classes. Received: "
            f"{counts.positives} positives and {counts.negatives} negatives."
        )
    random = np.random.default_rng(seed)
    hits = _resampled(random, counts.true_positives, counts.positives, replicates)
    alarms = _resampled(random, counts.false_positives, counts.negatives, replicates)
    recall, false_rate = hits / counts.positives, alarms / counts.negatives
    said = hits + alarms
    precision = np.divide(hits, said, out=np.ones(said.shape), where=said > 0)
    grid = np.linspace(0.0, 1.0, grid_points)
    heights = np.stack([np.interp(grid, x, y) for x, y in zip(false_rate, recall, strict=True)])
    reached = [np.searchsorted(x, grid, side="left").clip(max=x.size - 1) for x in recall]
    kept = np.stack([y[places] for y, places in zip(precision, reached, strict=True)])
    areas = np.sum(np.diff(false_rate) * (recall[:, 1:] + recall[:, :-1]) / 2, axis=1)
    averages = np.sum(np.diff(recall) * precision[:, 1:], axis=1)
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    return RocBand(
        confidence=confidence,
        grid=grid,
        true_positive_rate=np.percentile(heights, tails, axis=0),
        precision=np.percentile(kept, tails, axis=0),
        auc=_pair(np.percentile(areas, tails)),
        average_precision=_pair(np.percentile(averages, tails)),
    )


def _resampled(
    random: np.random.Generator, reached: NDArray[np.int64], total: int, replicates: int
) -> NDArray[np.int64]:
    """(replicates, k + 1) how many of `total` rows reach each threshold; the first one none.

    Args:
        random: where chance comes from.
        reached: (k,) how many do in the data, growing to `total`.
        total: rows.
        replicates: how often to resample.
    """
    gained = np.diff(reached, prepend=0, append=total)
    drawn = random.multinomial(total, gained / total, size=replicates)
    started = np.zeros((replicates, 1), np.int64)
    return np.concatenate([started, drawn.cumsum(axis=1)], axis=1)


def _pair(bounds: Floats) -> tuple[float, float]:
    return float(bounds[0]), float(bounds[1])
