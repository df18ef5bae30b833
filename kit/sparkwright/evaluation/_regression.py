"""Regression: how far predictions are from the numbers they predict, from exact sums."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._output_names import checked_names, number_of
from ._output_sums import OutputSums
from ._reading import reading
from ._regression_metrics import FORMULAS, RegressionMetric
from ._regression_plots import plot_predictions, plot_residuals
from ._regression_report import html_report, text_report
from ._rows import output_rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegressionEvaluation(AbstractEvaluation):
    """How far predicted numbers are from the labels, for each output and on average.

    The state is a few sums for each output, without any rounding, so that the metrics are those
    of the exact numbers, rounded once: large means cost no digits, and parts of the data add up
    to the last bit. Numbers must be at most 1e150 in size; those below 1e-130 count as 0.

    Averages are plain means over the outputs. Outputs of which no row counted are left out of
    them; `left_out` names them. Without any rows every metric is 0.

    Plots show a sample of the rows, up to 1,000 different pairs of label and prediction for each
    output, fewer of more than 20 outputs; the metrics are of all rows. The sample too is the same
    whatever parts the data came in.

    Attributes:
        names: a name for each output, or None for "0", "1", ...
        outputs: the sums of each output; none before any data.
        rows: rows of which at least one output counted.

    Example:
        >>> evaluation = RegressionEvaluation.from_predictions([1.0, 2.0, 3.0], [1.5, 2.0, 2.5])
        >>> evaluation.mean_absolute_error(), evaluation.r2()
        (0.3333333333333333, 0.75)
        >>> (evaluation + evaluation).examples
        6
    """

    name: ClassVar[str] = "regression_evaluation"

    names: tuple[str, ...] | None = None
    outputs: tuple[OutputSums, ...] = field(default=(), kw_only=True)
    rows: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        """Check that names fit.

        Raises:
            ConfigurationError: if the names are not unique, or not one for each output.
        """
        names = checked_names("names", self.names)
        if names is not None and self.outputs and len(names) != len(self.outputs):
            raise ConfigurationError(
                "`names` must name every output. "
                f"Received: {len(names)} names for {len(self.outputs)} outputs."
            )
        object.__setattr__(self, "names", names)

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> "RegressionEvaluation":
        """Count predictions.

        Args:
            labels: the predictions' shape; a last axis of 1 may be left out. Integers count as
                float64.
            predictions: (n, C), or (n, T, C) with time steps; (n,) for one output.
            mask: (n,), or (n, T) per step; or of the predictions' shape, per output. What it is 0
                for does not count.
            names: C names.

        Returns:
            The evaluation of these rows.

        Raises:
            DataError: if shapes do not fit, or a number that counts is NaN, infinite or above
                1e150 in size; the message names the row.
            ConfigurationError: if `names` does not fit the number of outputs.
        """
        found = output_rows(labels, predictions, mask=mask)
        return cls(
            checked_names("names", names),
            outputs=OutputSums.of_rows(found),
            rows=len(found.where.kept),
        )

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> "RegressionEvaluation":
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        return self + RegressionEvaluation.from_predictions(
            labels, predictions, mask=mask, names=self.names
        )

    def __add__(self, other: "RegressionEvaluation") -> "RegressionEvaluation":
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if the two have different names or numbers of outputs.
        """
        if self.names != other.names:
            raise DataError(
                "only evaluations of the same outputs can be added. "
                f"Received: names={self.names!r} and names={other.names!r}."
            )
        if not self.outputs or not other.outputs:
            return self if self.outputs else other
        if len(self.outputs) != len(other.outputs):
            raise DataError(
                "only evaluations of the same number of outputs can be added. "
                f"Received: {len(self.outputs)} and {len(other.outputs)} outputs."
            )
        both = zip(self.outputs, other.outputs, strict=True)
        return RegressionEvaluation(
            self.names,
            outputs=tuple(one + another for one, another in both),
            rows=self.rows + other.rows,
        )

    def __eq__(self, other: object) -> bool:
        """Same names, same sums, same sample."""
        return (
            isinstance(other, RegressionEvaluation)
            and (self.names, self.rows) == (other.names, other.rows)
            and self.outputs == other.outputs
        )

    @property
    def examples(self) -> int:
        """Rows counted, of which at least one output counts: examples, or their time steps."""
        return self.rows

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each output: the given one or its number."""
        return self.names or tuple(map(str, range(len(self.outputs))))

    # Metrics

    def mean_squared_error(self, *, of: int | str | None = None) -> float:
        """Mean of (prediction - label)².

        Args:
            of: one output, by number or name; default None: the mean over all outputs.

        Raises:
            ConfigurationError: if there is no such output.
        """
        return self._metric("mean_squared_error", of)

    def root_mean_squared_error(self, *, of: int | str | None = None) -> float:
        """√ of the mean squared error; on average, the mean of the outputs' roots."""
        return self._metric("root_mean_squared_error", of)

    def mean_absolute_error(self, *, of: int | str | None = None) -> float:
        """Mean of |prediction - label|."""
        return self._metric("mean_absolute_error", of)

    def max_error(self, *, of: int | str | None = None) -> float:
        """Largest |prediction - label|; of all outputs (not their mean) if `of` is None."""
        if of is None:
            return max((each.largest_error for each in self.outputs), default=0.0)
        return self._metric("max_error", of)

    def mean_error(self, *, of: int | str | None = None) -> float:
        """Mean of prediction - label, the bias: above 0 if predictions are too high."""
        return self._metric("mean_error", of)

    def relative_squared_error(self, *, of: int | str | None = None) -> float:
        """Squared errors in units of those of always predicting the mean label: 1 - R²."""
        return self._metric("relative_squared_error", of)

    def pearson_correlation(self, *, of: int | str | None = None) -> float:
        """Correlation of labels and predictions, -1 to 1; 0 if one of them is constant."""
        return self._metric("pearson_correlation", of)

    def r2(self, *, of: int | str | None = None) -> float:
        """R², 1 - Σ (label - prediction)² / Σ (label - mean label)², at most 1.

        Of constant labels, and so of a single row, it is 1 if all predictions are right and 0
        otherwise, as in scikit-learn. Below float64's range it is -inf.
        """
        return self._metric("r2", of)

    def explained_variance(self, *, of: int | str | None = None) -> float:
        """1 - variance of the errors / variance of the labels: R² but for a constant error.

        Of constant labels it is 1 if the error is constant too and 0 otherwise.
        """
        return self._metric("explained_variance", of)

    def per_output(self, metric: RegressionMetric) -> NDArray[np.float64]:
        """(C,) float64, the metric of each output; 0 where no row counted; (0,) before any data.

        Raises:
            ConfigurationError: if there is no such metric.
        """
        if metric not in get_args(RegressionMetric):
            raise ConfigurationError(
                f"`metric` must be one of {', '.join(map(repr, get_args(RegressionMetric)))}. "
                f"Received: metric={metric!r}."
            )
        formula = FORMULAS[metric]
        return np.array([formula(each) if each.count else 0.0 for each in self.outputs], float)

    def left_out(self) -> tuple[str, ...]:
        """Names of the outputs of which no row counted."""
        outputs = self.outputs
        return tuple(
            name
            for k, name in enumerate(self.output_names)
            if k >= len(outputs) or outputs[k].count == 0
        )

    def headline(self) -> dict[str, float]:
        """A few metrics to compare by, averaged over the outputs."""
        return {
            "root mean squared error": self.root_mean_squared_error(),
            "mean absolute error": self.mean_absolute_error(),
            "R²": self.r2(),
        }

    # Reports, plots and JSON

    def summary(self, *, max_outputs: int = 20) -> str:
        """A report for a terminal.

        Args:
            max_outputs: with more outputs, the table shows only their average.
        """
        return text_report(self, max_outputs=max_outputs)

    def __repr__(self) -> str:
        return (
            f"RegressionEvaluation({self.examples} examples, {len(self.outputs)} outputs, "
            f"root_mean_squared_error={self.root_mean_squared_error():.6g}, r2={self.r2():.4f})"
        )

    def _repr_html_(self) -> str:
        return html_report(self, max_outputs=20)

    def plot(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw predictions against labels: a sample of the rows, and where they would be equal.

        Args:
            axes: the matplotlib Axes to draw on; default None: of a new figure.
            of: one output, by number or name; default None: all of them, the first six of more.

        Returns:
            The axes.

        Raises:
            ConfigurationError: if matplotlib is not installed, or there is no such output.
        """
        return plot_predictions(self._samples(of), axes=axes)

    def plot_residuals(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw label - prediction against the prediction, and beside it how often it occurs.

        Of the sample of the rows, as `plot`, which names the arguments.
        """
        return plot_residuals(self._samples(of), axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values."""
        return {
            "name": self.name,
            "names": None if self.names is None else list(self.names),
            "rows": self.rows,
            "outputs": [each.to_dict() for each in self.outputs],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RegressionEvaluation":
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is not such an evaluation.
        """
        cls._check_name(values, "names", "outputs", "rows")
        names, rows, outputs = values["names"], values["rows"], values["outputs"]
        if not isinstance(outputs, list):
            raise DataError(
                f"`outputs` of a regression evaluation must be a list. Received: {outputs!r:.60}."
            )
        several: list[Any] = outputs  # pyright: ignore[reportUnknownVariableType]
        sums = tuple(OutputSums.from_dict(each, outputs=len(several)) for each in several)
        counts = [each.count for each in sums] or [0]
        if type(rows) is not int or not max(counts) <= rows <= sum(counts):
            raise DataError(
                f"`rows` of a regression evaluation must be from {max(counts)} to {sum(counts)}, "
                f"as its outputs count. Received: rows={rows!r:.60}."
            )
        with reading(cls.__name__):
            return cls(names, outputs=sums, rows=rows)

    def _metric(self, metric: RegressionMetric, of: int | str | None) -> float:
        if of is not None:
            number = number_of(of, self.output_names)
            return float(self.per_output(metric)[number]) if self.outputs else 0.0
        counted = np.array([each.count > 0 for each in self.outputs], bool)
        values = self.per_output(metric)[counted].tolist()
        # Divided first: the sum of two large metrics need not fit float64.
        return math.fsum(value / len(values) for value in values)

    def _samples(self, of: int | str | None) -> list[tuple[str, Any]]:
        names = self.output_names
        chosen = range(len(names)) if of is None else [number_of(of, names)]
        return [(names[k], self.outputs[k].sample) for k in chosen if self.outputs]
