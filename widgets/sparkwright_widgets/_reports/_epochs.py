"""A run epoch by epoch: losses, metrics, which epoch was the best. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparkwright_widgets._contract import Rows

from ._facts import RunFacts

# What the engine logs beside the metrics that were compiled.
_NO_METRICS = {
    *("worker", "epoch", "round", "step", "loss", "examples", "time_s", "examples_per_s"),
    *("threshold", "sparsity", "message_bytes", "staleness", "learning_rate", "update_ratio"),
    *("residual_p50", "residual_p99", "residual_max"),
}
_MORE_IS_BETTER = ("acc", "auc", "precision", "recall", "f1", "iou", "r2", "cosine")
_LESS_IS_BETTER = ("loss", "error", "mae", "mse", "rmse", "entropy", "hinge", "poisson")


@dataclass(frozen=True, kw_only=True, slots=True)
class Epoch:
    """One epoch.

    Attributes:
        number: from 1.
        loss: mean over the examples as they were trained; nan: unknown.
        metrics: name -> the same for the compiled metrics, as far as they were reported.
        validation_loss: of the averaged network at its end; None: not validated.
        validation_metrics: name -> likewise.
    """

    number: int
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    validation_loss: float | None = None
    validation_metrics: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def gap(self) -> float | None:
        """Validation loss minus training loss; None if one of them is unknown."""
        if self.validation_loss is None or not math.isfinite(self.loss):
            return None
        return self.validation_loss - self.loss


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """The epoch that is told first, and by which figure.

    Attributes:
        epoch: from 1.
        name: "validation accuracy", "loss", …
        value: the figure.
    """

    epoch: int
    name: str
    value: float


def epochs_of(facts: RunFacts) -> tuple[Epoch, ...]:
    """Every epoch of which something is known, in order."""
    rows, validation = facts.rows, {point.epoch: point for point in facts.status.validation}
    numbers = sorted({*np.unique(rows["epoch"]).tolist(), *validation} - {0})
    found: list[Epoch] = []
    for number in numbers:
        here = rows["epoch"] == number
        point = validation.get(number)
        found.append(
            Epoch(
                number=int(number),
                loss=_mean(rows["loss"][here], rows["examples"][here]),
                metrics=_metrics(rows, here),
                validation_loss=None if point is None else point.loss,
                validation_metrics={} if point is None else dict(point.metrics),
            )
        )
    return tuple(found)


def best_of(facts: RunFacts, epochs: Sequence[Epoch]) -> Best | None:
    """The best epoch: as early stopping judged, by the first metric, or by the loss.

    A metric counts if its name says whether more of it is better.
    """
    judged = facts.status.early_stopping
    if judged is not None and judged.best_epoch is not None and judged.best_score is not None:
        name = f"validation {judged.monitor}"
        return Best(epoch=judged.best_epoch, name=name, value=judged.best_score)
    validated = [epoch for epoch in epochs if epoch.validation_loss is not None]
    for name in validated[0].validation_metrics if validated else ():
        if (sign := direction_of(name)) == 0:
            continue
        scores = {e.number: e.validation_metrics.get(name, math.nan) for e in validated}
        if (best := _best(scores, sign)) is not None:
            return Best(epoch=best, name=f"validation {name}", value=scores[best])
    for title, scores in (
        ("validation loss", {e.number: e.validation_loss or 0.0 for e in validated}),
        ("training loss", {e.number: e.loss for e in epochs}),
    ):
        if (best := _best(scores, -1)) is not None:
            return Best(epoch=best, name=title, value=scores[best])
    return None


def metric_names(epochs: Sequence[Epoch]) -> list[str]:
    """The compiled metrics, validated ones first."""
    names = [name for epoch in epochs for name in epoch.validation_metrics]
    names += [name for epoch in epochs for name in epoch.metrics]
    return list(dict.fromkeys(names))


def direction_of(name: str) -> int:
    """1 if more is better, -1 if less is, 0 if the name does not say."""
    name = name.lower()
    if any(part in name for part in _LESS_IS_BETTER):
        return -1
    return 1 if any(part in name for part in _MORE_IS_BETTER) else 0


def _best(scores: Mapping[int, float], sign: int) -> int | None:
    known = {epoch: sign * score for epoch, score in scores.items() if math.isfinite(score)}
    # The first of several that are equally good.
    return max(known, key=lambda epoch: (known[epoch], -epoch)) if known else None


def _mean(values: "np.ndarray", weights: "np.ndarray") -> float:
    known = np.isfinite(values) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else math.nan


def _metrics(rows: Rows, here: "np.ndarray") -> dict[str, float]:
    """Each worker's last figure in the epoch: it is a mean since the epoch began."""
    found: dict[str, float] = {}
    for name in rows.keys() - _NO_METRICS:
        known = here & np.isfinite(rows[name])
        if not known.any():
            continue
        values: list[float] = []
        weights: list[float] = []
        for worker in np.unique(rows["worker"][known]):
            mine = here & (rows["worker"] == worker)
            values.append(float(rows[name][known & mine][-1]))
            weights.append(float(rows["examples"][mine].sum()))
        found[name] = _mean(np.array(values), np.array(weights))
    return dict(sorted(found.items()))
