"""Regression metrics."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.options import check_choice

from .abstract import AbstractEvaluation, Batch
from .accumulators import FORMULAS, LABEL, Floats, Moments
from .checks import LARGEST_COUNT, check_count, number_of, state
from .numbers import number_text
from .pair_sample import LARGEST, PairSample, points_per_output
from .regression_figures import Pairs, regression_figures
from .reports import MOST_ROWS, Figure, Report, Table
from .rows import Where, output_rows

RegressionMetric = Literal[
    "mean_squared_error",
    "root_mean_squared_error",
    "mean_absolute_error",
    "max_error",
    "mean_error",
    "relative_squared_error",
    "pearson_correlation",
    "r2",
]


def _metric_of(metric: RegressionMetric, help: str):
    """Create a method that returns a metric of one output, or its mean over the outputs."""

    def method(self: Any, *, of: int | str | None = None) -> float:
        return self._metric(metric, of)

    method.__name__, method.__doc__ = metric, f"{help} `of` as in `mean_squared_error`."
    return method


def _read_samples(_: str, values: Any) -> tuple[PairSample, ...]:
    size = points_per_output(len(values))
    return tuple(PairSample.from_dict({**each, "size": size}) for each in values)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegressionEvaluation(AbstractEvaluation):
    """Regression metrics of each output, and their averages.

    The state is a few moments of each output, computed without loss of precision for large means.
    Evaluations of parts add up to the whole up to rounding. Absolute values are at most 1e150.

    Predictions are (n, C), or (n, T, C) with time steps; (n,) for one output. Labels have the same
    shape; a last axis of 1 may be omitted. A mask of the predictions' shape masks single outputs.

    Averages are plain means over the outputs that have rows; `left_out` names the others.
    Without any rows, every metric is 0.

    Metrics use all rows. Plots show a sample, the same for any grouping of the data: up to 1,000
    unique pairs of label and prediction for each output, fewer for more than 20 outputs.

    Attributes:
        names: C names, or None for "0", "1", ...
        moments: moments of the outputs; None before any data.
        samples: a sample for each output; empty before any data.
        rows: rows in which at least one output is not masked.

    Example:
        >>> evaluation = RegressionEvaluation.from_predictions([1.0, 2.0, 3.0], [1.5, 2.0, 2.5])
        >>> round(evaluation.mean_absolute_error(), 12), evaluation.r2()
        (0.333333333333, 0.75)
        >>> (evaluation + evaluation).examples
        6
    """

    name: ClassVar[str] = "regression_evaluation"
    _names_key: ClassVar[str] = "names"

    names: tuple[str, ...] | None = None
    moments: Moments | None = field(default=None, kw_only=True, metadata=state(Moments))
    samples: tuple[PairSample, ...] = field(default=(), kw_only=True, metadata=state(_read_samples))
    rows: int = field(default=0, kw_only=True, metadata=state())

    def __post_init__(self) -> None:
        self._check_names()
        check_count("rows", self.rows, minimum=0, maximum=LARGEST_COUNT)
        if len(self.samples) != self._width:
            raise DataError(
                "a regression evaluation must have a sample for each output. "
                f"Received: {len(self.samples)} samples for {self._width} outputs."
            )

    def _counted(self, batch: Batch) -> Self:
        found = output_rows(batch.labels, batch.predictions, mask=batch.mask)
        actual = _read(found.labels, found.where, "labels")
        predicted = _read(found.predictions, found.where, "predictions")
        size = points_per_output(actual.shape[1])
        columns = zip(actual.T, predicted.T, found.counts.T, strict=True)
        return type(self)(
            moments=Moments.of(actual, predicted, found.counts),
            samples=tuple(PairSample.of(y[kept], p[kept], size=size) for y, p, kept in columns),
            rows=len(actual),
        )

    @property
    def examples(self) -> int:
        """Rows with an unmasked output: examples, or their time steps."""
        return self.rows

    @property
    def _width(self) -> int:
        return 0 if self.moments is None else self.moments.counts.size

    # Metrics

    def mean_squared_error(self, *, of: int | str | None = None) -> float:
        """Mean of (prediction - label)².

        Args:
            of: an output, by number or name; default None: the mean over all outputs.

        Raises:
            ConfigurationError: if the output does not exist.
        """
        return self._metric("mean_squared_error", of)

    root_mean_squared_error = _metric_of("root_mean_squared_error", "√ of the mean squared error.")
    mean_absolute_error = _metric_of("mean_absolute_error", "Mean of |prediction - label|.")
    mean_error = _metric_of(
        "mean_error", "Mean of prediction - label, the bias: above 0 if predictions are too high."
    )
    relative_squared_error = _metric_of(
        "relative_squared_error",
        "Squared error relative to that of always predicting the mean label: 1 - R².",
    )
    pearson_correlation = _metric_of(
        "pearson_correlation",
        "Correlation of labels and predictions, -1 to 1; 0 if one of them is constant.",
    )
    r2 = _metric_of(
        "r2",
        "Coefficient of determination, 1 - Σ (label - prediction)² / Σ (label - mean)², at most 1. "
        "For constant labels, including a single row, it is 1 if all predictions are exact, else "
        "0, as in scikit-learn. Below the range of float64 it is -inf.",
    )

    def max_error(self, *, of: int | str | None = None) -> float:
        """Largest |prediction - label|; over all outputs (not the mean) if `of` is None."""
        if of is None:
            return float(self.per_output("max_error").max(initial=0.0))
        return self._metric("max_error", of)

    def per_output(self, metric: RegressionMetric) -> NDArray[np.float64]:
        """(C,) float64, the metric of each output; 0 without rows; (0,) before any data.

        Raises:
            ConfigurationError: if the metric does not exist.
        """
        check_choice("metric", metric, get_args(RegressionMetric))
        if self.moments is None:
            return np.zeros(0)
        with np.errstate(over="ignore"):  # `r2` may be -inf
            values = FORMULAS[metric](self.moments)
        return np.where(self.moments.counts > 0, values, 0.0)

    def left_out(self) -> tuple[str, ...]:
        """Names of the outputs without rows."""
        counts = np.zeros(len(self.names or ())) if self.moments is None else self.moments.counts
        return tuple(name for name, n in zip(self.output_names, counts, strict=True) if not n)

    def headline(self) -> dict[str, float]:
        """The main metrics, averaged over the outputs."""
        return {
            "root mean squared error": self.root_mean_squared_error(),
            "mean absolute error": self.mean_absolute_error(),
            "R²": self.r2(),
        }

    def _metric(self, metric: RegressionMetric, of: int | str | None) -> float:
        if of is not None:
            number = number_of(of, self.output_names)
            return float(self.per_output(metric)[number]) if self.moments is not None else 0.0
        if self.moments is None:
            return 0.0
        values = self.per_output(metric)[self.moments.counts > 0].tolist()
        # Divide first: the sum of two large metrics may overflow.
        return math.fsum(value / len(values) for value in values)

    # Reports, plots and JSON

    def __repr__(self) -> str:
        return (
            f"RegressionEvaluation({self.examples} examples, {self._width} outputs, "
            f"root_mean_squared_error={number_text(self.root_mean_squared_error())}, "
            f"r2={number_text(self.r2())})"
        )

    def _report(self, most: int) -> Report:
        width = self._width
        outputs = "1 output" if width == 1 else f"{width} outputs"
        title = f"Regression of {self.examples:,} examples, {outputs}"
        if not self.examples:
            return Report(title=title)
        left_out = dict.fromkeys(self.headline(), len(self.left_out()))
        some = [f"The {most} outputs with the largest errors:"] if width > most else []
        return Report(
            title=title,
            headline=self._headlines(left_out),
            notes=some,
            tables=[self._errors(most)],
        )

    def plot(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw predictions against labels for a sample of the rows, with the line of equality.

        `of` is an output, by number or name; default None: the first one.
        See `AbstractEvaluation.plot`.
        """
        return self._drawn(of)[0].plot(axes)

    def plot_residuals(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw label - prediction against the prediction for a sample; arguments as in `plot`."""
        return self._drawn(of)[1].plot(axes)

    def figures(self, *, of: int | str | None = None) -> list[Figure | Table]:
        """Table of errors of all rows, and three plots of a sample of one output.

        `of` is the output to plot, by number or name; default None: the first one.
        """
        if not self.examples:
            return []
        return [self._errors(MOST_ROWS), *self._drawn(of)]

    def _drawn(self, of: int | str | None) -> list[Figure]:
        if self.moments is None:
            empty = PairSample.of(np.zeros(0), np.zeros(0), size=1)
            return regression_figures(Pairs("", empty, 0, 0.0, 0.0))
        k = number_of(0 if of is None else of, self.output_names)
        name = self.output_names[k] if self._width > 1 or self.names else ""
        rows, bias, correlation = (
            int(self.moments.counts[k]),
            self.mean_error(of=k),
            self.pearson_correlation(of=k),
        )
        return regression_figures(Pairs(name, self.samples[k], rows, bias, correlation))

    def _errors(self, most: int) -> Table:
        """Return the errors of each output; of more than `most`, the largest."""
        if self.moments is None:
            return Table()
        counts = self.moments.counts
        deviations = np.sqrt(self.moments.products.values[LABEL] / np.maximum(counts, 1))
        roots, r2 = self.per_output("root_mean_squared_error"), self.r2()
        order = np.argsort(-roots, kind="stable")
        chosen = order[:most] if len(roots) > most else np.arange(len(roots))
        columns = [self.per_output("mean_absolute_error"), roots, deviations]
        columns += [self.per_output(each) for each in ("r2", "mean_error", "max_error")]
        rows = [
            [
                self.output_names[k],
                f"{counts[k]:,}",
                *(number_text(float(column[k])) for column in columns),
            ]
            for k in chosen.tolist()
            if counts[k]
        ]
        heads = ["output", "rows", "MAE", "RMSE", "RMSE of the mean", "R²", "bias", "largest error"]
        return Table(
            [heads, *rows],
            f"{'Better' if r2 > 0 else 'No better'} than always predicting the mean: R² "
            f"{number_text(r2)} compares the squared errors of both.",
            left_out=len(roots) - len(chosen),
        )


def _read(values: NDArray[Any], where: Where, what: str) -> Floats:
    """Return (rows, C) float64 whose squares do not overflow."""
    numbers = values.astype(np.float64)
    rule = f"{what} of a regression must be finite and at most {LARGEST:g} in size"
    where.require(np.abs(numbers) <= LARGEST, values, rule)
    return numbers + 0.0  # -0.0 becomes 0.0
