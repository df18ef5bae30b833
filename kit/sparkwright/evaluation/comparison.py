"""Compare several evaluations."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError

from .abstract import AbstractEvaluation
from .numbers import number_text
from .reports import Figure, Table
from .roc_columns import RocColumns
from .roc_figures import AREAS, curves_figure
from .roc_readings import RocReadings

_MORE_IS_BETTER = ("acc", "auc", "precision", "recall", "f1", "iou", "r2", "cosine", "dice")
_LESS_IS_BETTER = ("loss", "error", "mae", "mse", "entropy", "hinge", "poisson", "brier")


def compare(evaluations: Mapping[str, AbstractEvaluation]) -> Any:
    """Compare evaluations, of one kind or of several.

    Args:
        evaluations: name -> evaluation, in the order of the table.

    Returns:
        A pandas DataFrame with a row for each name. Columns: examples, and the metrics of
        `headline`; NaN where an evaluation does not have the metric.

    Raises:
        ConfigurationError: if `evaluations` is empty or contains anything else.

    Example:
        >>> from sparkwright.evaluation import Evaluation
        >>> labels = [0, 1, 1]
        >>> compare({
        ...     "small": Evaluation.from_predictions(labels, [[0.2], [0.7], [0.3]]),
        ...     "large": Evaluation.from_predictions(labels, [[0.2], [0.7], [0.6]]),
        ... })["accuracy"].idxmax()
        'large'
    """
    import pandas as pd

    found: dict[Any, Any] = dict(evaluations) if isinstance(evaluations, Mapping) else {}
    if not found or not all(isinstance(value, AbstractEvaluation) for value in found.values()):
        raise ConfigurationError(
            "`evaluations` must be a dict of evaluations by name, at least one. "
            f"Received: evaluations={evaluations!r:.100}."
        )
    rows = [{"examples": each.examples, **each.headline()} for each in found.values()]
    return pd.DataFrame(rows, index=pd.Index([str(name) for name in found]))


def comparison_figures(
    results: Mapping[str, Sequence[AbstractEvaluation]],
) -> list[Figure | Table]:
    """Return a table of headline metrics with the best values marked, and the ROC curves."""
    # Metrics of only one of several results are omitted.
    if not results:
        return []
    table = _marked(results)
    if len(results) < 2:
        return [table]
    named, of = _curves(results)
    if len(named) < 2:
        return [table]
    what = f" of {of}, the class with the largest difference," if of else ""
    found: list[Figure | Table] = [table]
    for which, (area, key) in AREAS.items():
        areas = [(getattr(roc, key), name) for name, roc in named]
        best, name = max(areas, key=lambda pair: pair[0])
        caption = f"The largest {area}{what} is {number_text(best)} ({name})."
        found.append(curves_figure(named, which, caption=caption, what="results"))
    return found


def direction_of(metric: str) -> int:
    """Return 1 if more of a metric is better, -1 if less is, 0 if its name does not indicate it.

    Example:
        >>> [direction_of(name) for name in ("accuracy", "Brier score", "cost")]
        [1, -1, 0]
    """
    name = metric.lower()
    if any(part in name for part in _LESS_IS_BETTER):
        return -1
    return 1 if any(part in name for part in _MORE_IS_BETTER) else 0


def _marked(results: Mapping[str, Sequence[AbstractEvaluation]]) -> Table:
    found = [{k: v for e in each for k, v in e.headline().items()} for each in results.values()]
    counts = [max((e.examples for e in each), default=0) for each in results.values()]
    heads, columns = ["result", "examples"], [list(results), [f"{n:,}" for n in counts]]
    for metric in dict.fromkeys(metric for headline in found for metric in headline):
        values = [headline.get(metric) for headline in found]
        known = [value for value in values if value is not None]
        if len(known) == 1 < len(results):
            continue
        best = min(known) if direction_of(metric) < 0 else max(known)
        differ = min(known) < max(known)  # no mark if all are equal
        heads.append(metric)
        columns.append(
            [
                "—" if v is None else f"{'★ ' * (differ and v == best)}{number_text(v)}"
                for v in values
            ]
        )
    rows = [list(row) for row in zip(*columns, strict=True)]
    title = f"{len(results)} result{'s' if len(results) != 1 else ''}"
    stars = any("★" in cell for row in rows for cell in row[2:])
    return Table([heads, *rows], title + ("; ★ marks the best of each column." if stars else "."))


def _curves(
    results: Mapping[str, Sequence[AbstractEvaluation]],
) -> tuple[list[tuple[str, RocReadings]], str]:
    """Return a ROC of each result, and the name of its class: the one whose AUC differs most."""
    every = [(name, each) for name, evaluations in results.items() for each in evaluations]
    named = [
        (name, each)
        for name, each in every
        if isinstance(each, RocReadings) and each.positives and each.negatives
    ]
    if len(named) > 1:
        return named, ""
    several = {name: each for name, each in every if isinstance(each, RocColumns) and each.rocs}
    names = [set(each.output_names) for each in several.values()]
    spread: dict[str, float] = {}
    for column in sorted(set.intersection(*names)) if len(names) > 1 else []:
        rocs = [each.roc(column) for each in several.values()]
        if all(roc.positives and roc.negatives for roc in rocs):
            areas = [roc.auc for roc in rocs]
            spread[column] = max(areas) - min(areas)
    if not spread:
        return [], ""
    widest = max(spread, key=lambda column: spread[column])
    return [(name, each.roc(widest)) for name, each in several.items()], widest
