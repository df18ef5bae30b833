"""Calibration of predicted probabilities."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from sparkwright.options import check_choice, check_flag

from .abstract import AbstractEvaluation, Batch
from .calibration_counts import CalibrationCounts, Histogram, ReliabilityDiagram
from .calibration_figures import (
    CALIBRATION_ERRORS,
    histogram_figure,
    reliability_figure,
)
from .checks import check_count, number_of, state
from .numbers import number_text
from .reports import Figure, Report, Table
from .rows import labeled_rows

CalibrationAverage = Literal["confidence", "macro"]
_MOST_BINS = 10_000


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class EvaluationCalibration(AbstractEvaluation):
    """Calibration errors, reliability diagrams and histograms of predicted probabilities.

    Probabilities are counted in bins of equal width: for each class against the rest, and for the
    predicted class (its "confidence"). Evaluations of parts of the data add up to the whole:
    counts exactly, sums up to rounding. Memory and wire size grow with classes times bins.

    Labels are one-hot (n, C) or integer classes (n,); with time steps (n, T, C) or (n, T).
    Predictions are (n, C) or (n, T, C) probabilities; or (n, 1) or (n, T, 1) probabilities of
    class 1 of two.

    Bin i of n is [i/n, (i + 1)/n); the last bin includes 1. Edges are rounded to the precision of
    the predictions, so 0.7 lies in [0.7, 0.8) in any precision. Probabilities up to 0.001 outside
    of [0, 1] are clipped. They need not add up to 1. Without any rows, every metric is 0.

    Attributes:
        reliability_bins: bins of reliability diagrams and calibration errors, 1 to 10,000;
            default 10.
        histogram_bins: bins of histograms, 1 to 10,000; default 50.
        exclude_empty_bins: whether reliability diagrams omit bins without rows; default True.
            Calibration errors always omit them.
        class_names: C names, or None for "0", "1", ...
        counts: counts and sums; None before any data.

    Example:
        >>> evaluation = EvaluationCalibration.from_predictions(
        ...     [1, 1, 0, 1], [[0.25], [0.75], [0.75], [0.75]]
        ... )
        >>> evaluation.reliability(of=1).fraction_positive
        array([1.        , 0.66666667])
        >>> evaluation.expected_calibration_error(of=1), evaluation.brier_score()
        (0.25, 0.3125)
    """

    name: ClassVar[str] = "evaluation_calibration"
    _names_key: ClassVar[str] = "class_names"
    _columns: ClassVar[str] = "classes"

    reliability_bins: int = 10
    histogram_bins: int = 50
    exclude_empty_bins: bool = True
    class_names: tuple[str, ...] | None = None
    counts: CalibrationCounts | None = field(
        default=None, kw_only=True, metadata=state(CalibrationCounts)
    )

    def __post_init__(self) -> None:
        for option in ("reliability_bins", "histogram_bins"):
            check_count(option, getattr(self, option), minimum=1, maximum=_MOST_BINS)
        check_flag("exclude_empty_bins", self.exclude_empty_bins)
        self._check_names()

    def _counted(self, batch: Batch) -> Self:
        rows = labeled_rows(batch.labels, batch.predictions, mask=batch.mask)
        counts = CalibrationCounts.of_rows(
            rows, reliability_bins=self.reliability_bins, histogram_bins=self.histogram_bins
        )
        return replace(self, class_names=None, counts=counts)

    # Counts

    @property
    def classes(self) -> int:
        """Number of classes; 0 before any data."""
        return 0 if self.counts is None else self.counts.classes

    _width = classes  # pyright: ignore[reportIncompatibleMethodOverride]
    names = AbstractEvaluation.output_names

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""
        return 0 if self.counts is None else self.counts.rows

    # Diagrams

    def reliability(self, *, of: int | str | None = None) -> ReliabilityDiagram:
        """Mean probability and fraction of positives in each bin.

        Args:
            of: a class, by number or name: its probability against the fraction of its rows;
                default None: the confidence against the fraction of correct predictions.

        Raises:
            ConfigurationError: if the class does not exist.
        """
        question, counts = self._question(of), self.counts
        found: Any = np.zeros((3, self.reliability_bins), np.int64)
        if counts is not None:
            found = (
                each[question]
                for each in (counts.in_bin, counts.positive, counts.in_bin_sums.values)
            )
        whole = ReliabilityDiagram.of(*found)
        return whole.without_empty_bins() if self.exclude_empty_bins else whole

    def residual_histogram(self, *, of: int | str | None = None) -> Histogram:
        """Histogram of |label - probability|, with label 0 or 1.

        Args:
            of: a class, by number or name: its probability in its rows; default None: all rows
                and all classes, n C numbers.
        """
        # For rows of other classes the label is 0: the residual is the probability.
        return self._histogram(of, [2], [0, 2])

    def probability_histogram(
        self, *, of: int | str | None = None, others: bool = False
    ) -> Histogram:
        """Histogram of predicted probabilities.

        Args:
            of: a class, by number or name: its probability in its rows; default None: all rows
                and all classes, n C numbers.
            others: with `of`: in the rows of the other classes instead; default False.
        """
        return self._histogram(of, [0 if others else 1], [0, 1])

    def _histogram(self, of: int | str | None, one: list[int], every: list[int]) -> Histogram:
        question = self._question(of)
        if self.counts is None:
            return Histogram(counts=np.zeros(self.histogram_bins, np.int64))
        found = self.counts.histograms
        chosen = found[every] if of is None else found[one, question][:, None]
        return Histogram(counts=chosen.sum(axis=(0, 1)))

    # Metrics

    def expected_calibration_error(
        self, average: CalibrationAverage = "confidence", *, of: int | str | None = None
    ) -> float:
        """Weighted mean over the bins of |mean probability - fraction of positives|.

        Args:
            average: "confidence": of the predicted class, the usual expected calibration error;
                "macro": mean of the class-wise errors.
            of: a class, by number or name: its class-wise error, of its probability in all rows.
                It differs from "confidence", even for two classes.

        Returns:
            From 0 to 1.

        Raises:
            ConfigurationError: if the class or average does not exist.

        References:
            C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural
            networks", ICML 2017.
        """
        return self._over_questions(CalibrationCounts.expected_error, average, of)

    def maximum_calibration_error(
        self, average: CalibrationAverage = "confidence", *, of: int | str | None = None
    ) -> float:
        """Largest error of a bin with rows; arguments as in `expected_calibration_error`."""
        return self._over_questions(CalibrationCounts.maximum_error, average, of)

    def brier_score(self, *, of: int | str | None = None) -> float:
        """Mean squared difference between probabilities and one-hot labels.

        Args:
            of: a class, by number or name: mean of (p - label)², 0 to 1. Default None: the sum
                over the classes, 0 to 2; for two classes half of it, 0 to 1, by convention.
        """
        if not self.examples or self.counts is None:
            self._question(of)  # raises if the class does not exist
            return 0.0
        errors = self.counts.squared_errors.values / self.examples
        if of is not None:
            return float(errors[self._question(of)])
        return float(errors.sum() / (2 if self.classes == 2 else 1))

    def log_loss(self, *, of: int | str | None = None) -> float:
        """Mean of -ln p of the actual class: the cross-entropy in nats.

        Probabilities below 2**-52 count as 2**-52, so one row adds at most 36.04.

        Args:
            of: a class, by number or name: mean over its rows only; 0 without rows.
        """
        question = self._question(of)
        if self.counts is None:
            return 0.0
        chosen = slice(None) if of is None else slice(question, question + 1)
        rows = int(self.counts.actual[chosen].sum())
        return float(self.counts.log_losses.values[chosen].sum() / max(rows, 1))

    def headline(self) -> dict[str, float]:
        """Calibration errors, Brier score and log loss."""
        return {
            "expected calibration error": self.expected_calibration_error(),
            "maximum calibration error": self.maximum_calibration_error(),
            "Brier score": self.brier_score(),
            "log loss": self.log_loss(),
        }

    # Reports, plots and JSON

    def __repr__(self) -> str:
        return (
            f"EvaluationCalibration({self.examples} examples, {self.classes} classes, "
            f"expected_calibration_error={number_text(self.expected_calibration_error())})"
        )

    def _report(self, most: int) -> Report:
        rows = [["class", "examples", "predicted", "class-wise error", "in a bin", "Brier score"]]
        errors = (self.expected_calibration_error, self.maximum_calibration_error, self.brier_score)
        for k in range(self.classes if self.classes <= most else 0):
            counts: Any = self.counts
            rows.append(
                [
                    self.names[k],
                    f"{counts.actual[k]:,}",
                    f"{counts.predicted[k]:,}",
                    *(number_text(error(of=k)) for error in errors),
                ]
            )
        return Report(
            title=f"Calibration of {self.examples:,} examples, {self.classes} classes",
            headline=self._headlines(),
            notes=[CALIBRATION_ERRORS],
            tables=[Table(rows)] if len(rows) > 1 else [],
        )

    def plot(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw the reliability diagram, and below it the number of rows in each bin.

        `of` is a class, by number or name; default None: class 1 of two, else the predicted class.
        See `AbstractEvaluation.plot`.
        """
        return self._reliability(self._drawn_class(of)).plot(axes)

    def figures(self, *, of: int | str | None = None) -> list[Figure]:
        """Reliability diagram and histogram of probabilities; `of` as in `plot`."""
        if not self.examples:
            return []
        of = self._drawn_class(of)
        return [self._reliability(of), self._probabilities(of)]

    def _drawn_class(self, of: int | str | None) -> int | str | None:
        return 1 if of is None and self.classes == 2 else of

    def plot_residuals(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw `residual_histogram` of all classes or one; see `plot`."""
        of_class = "" if of is None else f" of class {self.names[self._question(of)]}"
        return histogram_figure(
            {"": self.residual_histogram(of=of)},
            kind="residuals",
            label=f"Residuals{of_class}",
            x="|label - probability|",
        ).plot(axes)

    def plot_probabilities(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw `probability_histogram` of all classes, or of one in its own and other rows."""
        return self._probabilities(of).plot(axes)

    def _reliability(self, of: int | str | None) -> Figure:
        return reliability_figure(
            self.reliability(of=of).without_empty_bins(),
            (self.expected_calibration_error(of=of), self.maximum_calibration_error(of=of)),
            bins=self.reliability_bins,
            of=None if of is None else self.names[self._question(of)],
        )

    def _probabilities(self, of: int | str | None) -> Figure:
        histograms = {"": self.probability_histogram()}
        label = "Histogram of predicted probabilities"
        if of is not None:
            name = self.names[self._question(of)]
            label = f"{label} of class {name}"
            histograms = {
                f"rows of {name}": self.probability_histogram(of=of),
                "other rows": self.probability_histogram(of=of, others=True),
            }
        return histogram_figure(histograms, kind="probabilities", label=label, x="probability")

    def _question(self, of: int | str | None) -> int:
        """Index of a class in the counts; for None that of the predicted class."""
        return self.classes if of is None else number_of(of, self.names)

    def _over_questions(
        self, error: Callable[[CalibrationCounts, int], float], average: str, of: int | str | None
    ) -> float:
        check_choice("average", average, get_args(CalibrationAverage))
        question = self._question(of)
        if self.counts is None:
            return 0.0
        if of is not None or average == "confidence":
            return error(self.counts, question)
        return math.fsum(error(self.counts, k) for k in range(self.classes)) / self.classes
