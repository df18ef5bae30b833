"""Several results side by side: a table with the best marked, and their curves together."""

from collections.abc import Mapping, Sequence

from sparkwright.evaluation import AbstractEvaluation, RocColumns, RocReadings
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import count_text
from sparkwright_widgets._table import Markup

from ._blocks import number_text, table_block
from ._roc import curves_block

_SMALLER_IS_BETTER = ("error", "loss", "brier")

Results = Mapping[str, Sequence[AbstractEvaluation]]


def comparison_blocks(results: Results) -> list[Block]:
    """A table of the headline metrics of each result, and their ROC curves over each other.

    Args:
        results: name -> its evaluations, of any kinds. Metrics that only one of them has are left
            out if there are several results.
    """
    if not results:
        return []
    blocks = [_table(results)]
    if len(results) > 1:
        blocks += _curves(results)
    return blocks


def smaller_is_better(metric: str) -> bool:
    """Whether a metric counts what went wrong.

    Example:
        >>> smaller_is_better("Brier score"), smaller_is_better("accuracy")
        (True, False)
    """
    return any(word in metric.lower() for word in _SMALLER_IS_BETTER)


def _table(results: Results) -> Block:
    values = {
        name: {metric: v for each in evaluations for metric, v in each.headline().items()}
        for name, evaluations in results.items()
    }
    counted = {name: max((e.examples for e in each), default=0) for name, each in results.items()}
    metrics = list(dict.fromkeys(metric for found in values.values() for metric in found))
    if len(results) > 1:
        metrics = [m for m in metrics if sum(m in found for found in values.values()) > 1]
    best: dict[str, float] = {}
    for metric in metrics:
        found = [each[metric] for each in values.values() if metric in each]
        if min(found) < max(found):  # else none is better than the others
            best[metric] = min(found) if smaller_is_better(metric) else max(found)

    def cell(metric: str, found: Mapping[str, float]) -> str:
        if metric not in found:
            return "—"
        text = number_text(found[metric])
        is_best = found[metric] == best.get(metric)
        return Markup(f"<b>★ {text}</b>") if is_best else text

    rows = [
        [name, count_text(counted[name]), *(cell(metric, found) for metric in metrics)]
        for name, found in values.items()
    ]
    plain = [[Markup(c).removeprefix("<b>").removesuffix("</b>") for c in row] for row in rows]
    heads = ["result", "examples", *metrics]
    caption = f"{len(results)} result{'s' if len(results) != 1 else ''}"
    caption += "; ★ marks the best of each column." if best else "."
    block = table_block(heads, rows, caption=caption, label="Comparison", kind="comparison")
    words = table_block(heads, plain, caption=caption, label="Comparison", kind="comparison").text
    return Block(html=block.html, text=words, kind=block.kind)


def _curves(results: Results) -> list[Block]:
    """Of all results that keep a single curve, or of each the class of lowest AUC."""
    named: list[tuple[str, RocReadings]] = []
    for name, evaluations in results.items():
        for each in evaluations:
            if isinstance(each, RocReadings) and each.positives and each.negatives:
                named.append((name, each))
    if len(named) < 2:
        return _columns(results)
    return _both(named, what="")


def _columns(results: Results) -> list[Block]:
    """Of several classes, that class in which the results differ most."""
    several = {
        name: each
        for name, evaluations in results.items()
        for each in evaluations
        if isinstance(each, RocColumns) and each.rocs
    }
    names = [set(each.output_names) for each in several.values()]
    common = sorted(set.intersection(*names)) if len(names) > 1 else []
    spread: dict[str, float] = {}
    for column in common:
        rocs = [each.roc(column) for each in several.values()]
        if all(roc.positives and roc.negatives for roc in rocs):
            areas = [roc.auc for roc in rocs]
            spread[column] = max(areas) - min(areas)
    if not spread:
        return []
    column = max(spread, key=lambda name: spread[name])
    return _both([(name, each.roc(column)) for name, each in several.items()], what=column)


def _both(named: list[tuple[str, RocReadings]], *, what: str) -> list[Block]:
    best = max(named, key=lambda pair: pair[1].auc)
    of = f" of {what}, the class that differs most," if what else ""
    heads = ["result", "positive", "negative", "AUC", "average precision"]
    rows = [
        [
            name,
            count_text(roc.positives),
            count_text(roc.negatives),
            f"{roc.auc:.4f}",
            f"{roc.average_precision:.4f}",
        ]
        for name, roc in named
    ]
    surest = max(named, key=lambda pair: pair[1].average_precision)
    return [
        curves_block(
            named, "roc", heads=heads, rows=rows, label="ROC curves of all results",
            caption=f"The largest AUC{of} is {best[1].auc:.4f} ({best[0]}).",
        ),
        curves_block(
            named, "precision_recall", heads=heads, rows=rows,
            label="Precision-recall curves of all results",
            caption=f"The largest average precision{of} is {surest[1].average_precision:.4f} "
            f"({surest[0]}).",
        ),
    ]  # fmt: skip
