"""Several evaluations side by side."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from .abstract import AbstractEvaluation
from .checks import check_choice
from .reports import Report, Table, aligned


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The headline metrics of several evaluations, a row for each.

    Attributes:
        names: of the n evaluations.
        examples: of each, n.
        metrics: names of the m metrics, in the order in which evaluations have them.
        values: n times m; None where an evaluation has no such metric.
    """

    names: tuple[str, ...]
    examples: tuple[int, ...]
    metrics: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]

    def best(self, metric: str, *, smallest: bool = False) -> str:
        """The name of the evaluation with the largest value; the first of equal ones.

        Args:
            metric: one of `metrics`.
            smallest: the smallest value instead, for errors and losses; default False.

        Raises:
            ConfigurationError: if no evaluation has the metric.
        """
        check_choice("metric", metric, self.metrics)
        column = self.metrics.index(metric)
        found = [(row[column], name) for row, name in zip(self.values, self.names, strict=True)]
        sign = -1 if smallest else 1
        known = [(sign * value, name) for value, name in found if value is not None]
        return max(known, key=lambda pair: pair[0])[1]

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Evaluation -> metric -> value, for a DataFrame or JSON."""
        return {
            name: {
                metric: value
                for metric, value in zip(self.metrics, row, strict=True)
                if value is not None
            }
            for name, row in zip(self.names, self.values, strict=True)
        }

    def summary(self) -> str:
        """A table for a terminal."""
        return "\n".join(aligned(self._table()))

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        title = f"{len(self.names)} evaluations"
        return Report(title=title, tables=[Table(self._table())]).html()

    def _table(self) -> list[list[str]]:
        rows = [["", "examples", *self.metrics]]
        for name, examples, values in zip(self.names, self.examples, self.values, strict=True):
            cells = ["" if value is None else _shown(value) for value in values]
            rows.append([name, f"{examples:,}", *cells])
        return rows


def compare(evaluations: Mapping[str, AbstractEvaluation]) -> Comparison:
    """Set evaluations side by side, of one kind or of several.

    Args:
        evaluations: name -> evaluation, in the order of the table.

    Raises:
        ConfigurationError: if there are none, or something else is among them.

    Example:
        >>> from sparkwright.evaluation import Evaluation
        >>> labels = [0, 1, 1]
        >>> print(compare({
        ...     "small": Evaluation.from_predictions(labels, [[0.2], [0.7], [0.3]]),
        ...     "large": Evaluation.from_predictions(labels, [[0.2], [0.7], [0.6]]),
        ... }).best("accuracy"))
        large
    """
    found: dict[Any, Any] = dict(evaluations) if isinstance(evaluations, Mapping) else {}
    if not found or not all(isinstance(value, AbstractEvaluation) for value in found.values()):
        raise ConfigurationError(
            "`evaluations` must be a dict of evaluations by name, at least one. "
            f"Received: evaluations={evaluations!r:.100}."
        )
    headlines = [value.headline() for value in found.values()]
    metrics = tuple(dict.fromkeys(metric for headline in headlines for metric in headline))
    return Comparison(
        names=tuple(map(str, found)),
        examples=tuple(value.examples for value in found.values()),
        metrics=metrics,
        values=tuple(tuple(headline.get(metric) for metric in metrics) for headline in headlines),
    )


def _shown(value: float) -> str:
    """Four decimals for rates; four digits for what is far from 1."""
    small = value == 0 or 1e-3 <= abs(value) < 1e3
    return f"{value:.4f}" if small or not math.isfinite(value) else f"{value:.4g}"
