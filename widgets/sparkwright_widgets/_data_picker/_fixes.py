"""What solves a problem that was found in data: changes of the source, each a button. Pure."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sparkwright.data import DataPreview, DataProblem, DataSource
from sparkwright.errors import ConfigurationError

_COUNT = re.compile(r"([\d,]+) (?:rows|times) in all")
_RECEIVED = re.compile(r"Received: '([^']+)'")
_FILLS = {"median": "Fill with the median", "mean": "Fill with the mean", 0.0: "Fill with 0"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fix:
    """One way to solve a problem.

    Attributes:
        label: what the button reads.
        source: the changed source.
    """

    label: str
    source: DataSource


def fixes(problem: DataProblem, preview: DataPreview) -> tuple[Fix, ...]:
    """What solves a problem of `preview`, the usual way first; empty: nothing that is known."""
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
    """Label and change of each fix; a change raises a ConfigurationError if it does not apply."""
    sentence, column, source = problem.sentence, problem.column, preview.source
    counted = _COUNT.search(sentence)
    is_all = preview.looked_at == preview.in_all and not preview.is_estimate
    several = f"{counted[1]} rows" if counted and is_all else "such rows"
    rows = several if counted or not is_all else "the row"

    def options(**changed: Any) -> Callable[[], DataSource]:
        return lambda: replace(source, options={**source.options, **changed})

    if "must hold a value" in sentence and problem.can_skip:
        yield f"Skip {rows}", options(missing="skip")
        if column != source.label:
            for value, label in _FILLS.items():
                yield label, options(missing=value)
        return
    if "`missing_values`" in sentence and (text := _RECEIVED.search(sentence)):
        known = tuple(source.all_options.get("missing_values", ()))
        yield f"Treat '{text[1]}' as missing", options(missing_values=(*known, text[1]))
    if problem.can_skip:
        yield f"Skip {rows}", options(on_error="skip")
    if "Choose the task classification" in sentence:
        yield "Predict a class", lambda: replace(source, task="classification")
    if "Choose the task regression" in sentence:
        yield "Predict a number", lambda: replace(source, task="regression")
    if "Make it a category" in sentence:
        categories = (*source.categories, column)
        yield f"Make '{column}' a category", lambda: replace(source, categories=categories)
    if "eave it out" in sentence or "leave the column out" in sentence:
        yield f"Leave out '{column}'", lambda: _without(preview, column)


def _without(preview: DataPreview, column: str) -> DataSource:
    """The source without a column among its features.

    Raises:
        ConfigurationError: if no feature would be left, which would stand for all of them.
    """
    source = preview.source
    names = source.features or tuple(each.name for each in preview.columns)
    unused = {column, source.label, source.options.get("weights")}
    features = tuple(name for name in names if name not in unused)
    if not features:
        raise ConfigurationError(f"at least one column must be a feature. Received: {column}.")
    categories = tuple(name for name in source.categories if name != column)
    return replace(source, features=features, categories=categories)
