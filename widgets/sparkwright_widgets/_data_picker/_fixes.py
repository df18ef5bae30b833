"""Fixes of data problems: changes of the source, each shown as a button. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sparkwright.data import DataPreview, DataProblem, DataSource
from sparkwright.data.wording import clipped
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._format import count_text

_FILLS = {"median": "Fill with the median", "mean": "Fill with the mean", 0.0: "Fill with 0"}
# Problems of a whole column, fixed by excluding it.
_LEFT_OUT = (
    *("empty column", "decimal comma", "feature of text", "constant column"),
    *("many categories", "row numbers", "repeated column"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """A change of the source that fixes a problem."""

    label: str  # text of the button
    source: DataSource


def fixes(problem: DataProblem, preview: DataPreview) -> tuple[Fix, ...]:
    """Return the known fixes of a problem of `preview`, the most common first."""
    found: list[Fix] = []
    for label, change in _changes(problem, preview):
        try:
            changed = change()
        except ConfigurationError:  # such as an option that this format or version lacks
            continue
        if changed != preview.source:
            found.append(Fix(label=label, source=changed))
    return tuple(found)


def _changes(
    problem: DataProblem, preview: DataPreview
) -> Iterator[tuple[str, Callable[[], DataSource]]]:
    """Yield label and change of each fix; an inapplicable change raises ConfigurationError."""
    column, received, source = problem.column, problem.received, preview.source
    is_all = preview.looked_at == preview.in_all and not preview.is_estimate
    several = f"{count_text(problem.count)} rows" if problem.count > 1 else "the row"
    rows = several if is_all else "such rows"

    def options(**changed: Any) -> Callable[[], DataSource]:
        return lambda: replace(source, options={**source.options, **changed})

    match problem.code:
        case "missing value" if problem.can_skip:
            yield f"Skip {rows}", options(missing="skip")
            for value, label in _FILLS.items() if column != source.label else ():
                yield label, options(missing=value)
            return
        case "not a number" if received:
            known = source.all_options.get("missing_values", ())
            change = options(missing_values=(*known, received))
            yield f"Treat '{clipped(received, limit=30)}' as missing", change
        case "label of text":
            yield "Use classification", lambda: replace(source, task="classification")
        case "many classes":
            yield "Use regression", lambda: replace(source, task="regression")
        case "feature of text":
            categories = (*source.categories, column)
            yield f"Treat '{column}' as categorical", lambda: replace(source, categories=categories)
        case _:
            pass
    if problem.can_skip:
        yield f"Skip {rows}", options(on_error="skip")
    if problem.code in _LEFT_OUT and column != source.label:
        yield f"Exclude '{column}'", lambda: _without(preview, column)


def _without(preview: DataPreview, column: str) -> DataSource:
    """Return the source without `column` among its features; an empty tuple would mean all."""
    source = preview.source
    names = source.features or tuple(each.name for each in preview.columns)
    unused = {column, source.label, source.options.get("weights")}
    features = tuple(name for name in names if name not in unused)
    if not features:
        raise ConfigurationError(f"at least one column must be a feature. Received: {column}.")
    categories = tuple(name for name in source.categories if name != column)
    return replace(source, features=features, categories=categories)
