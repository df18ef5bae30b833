"""Calibration: whether of the rows given a probability of 0.8, 80 % are what was predicted."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._calibration_counts import CalibrationCounts
from ._calibration_plots import Curve, plot_histograms, plot_reliability
from ._calibration_report import html_report, text_report
from ._class_rows import class_rows
from ._exact_sums import as_fraction
from ._histogram import Histogram
from ._output_names import checked_names, number_of
from ._plots import COLOURS
from ._reading import reading
from ._reliability import ReliabilityDiagram

CalibrationAverage = Literal["confidence", "macro"]
_MOST_BINS = 10_000
_CLASSES_DRAWN = len(COLOURS)
_OPTIONS = ("reliability_bins", "histogram_bins", "exclude_empty_bins", "class_names")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class EvaluationCalibration(AbstractEvaluation):
    """How far predicted probabilities can be taken at their word.

    Predictions are counted in equal bins of their probability, once for each class (how probable
    is class k, and is it k?) and once for the predicted class (how sure, and is it right?, its
    "confidence"). Sums of real numbers are exact, so parts of the data add up to the last bit.
    Memory and wire size grow with classes times bins.

    A probability lies in bin i of n if it is at least i/n and less than (i + 1)/n; the last bin
    ends with 1. Edges are rounded to the precision of the predictions, so that what was written
    as 0.7 lies in [0.7, 0.8) in any precision. Probabilities beyond 0 and 1 by up to 0.001 count
    as 0 and 1. They need not add up to 1. Without any rows every metric is 0.

    Attributes:
        reliability_bins: bins of reliability diagrams and calibration errors, 1 to 10,000;
            default 10.
        histogram_bins: bins of histograms, 1 to 10,000; default 50.
        exclude_empty_bins: whether reliability diagrams leave out bins without rows; default
            True. Calibration errors do so always.
        class_names: C names, or None for "0", "1", ...
        counts: what was counted; None before any data.

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

    reliability_bins: int = 10
    histogram_bins: int = 50
    exclude_empty_bins: bool = True
    class_names: tuple[str, ...] | None = None
    counts: CalibrationCounts | None = field(default=None)

    def __post_init__(self) -> None:
        """Check the options, and that names fit.

        Raises:
            ConfigurationError: naming the option that cannot be.
        """
        for option in ("reliability_bins", "histogram_bins"):
            value = getattr(self, option)
            if type(value) is not int or not 1 <= value <= _MOST_BINS:
                raise ConfigurationError(
                    f"`{option}` must be an integer from 1 to {_MOST_BINS}. "
                    f"Received: {option}={value!r}."
                )
        if type(self.exclude_empty_bins) is not bool:
            raise ConfigurationError(
                "`exclude_empty_bins` must be True or False. "
                f"Received: exclude_empty_bins={self.exclude_empty_bins!r}."
            )
        names = checked_names("class_names", self.class_names)
        if names is not None and self.counts is not None and len(names) != self.counts.classes:
            raise ConfigurationError(
                "`class_names` must name every class. "
                f"Received: {len(names)} names for {self.counts.classes} classes."
            )
        object.__setattr__(self, "class_names", names)

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        reliability_bins: int = 10,
        histogram_bins: int = 50,
        exclude_empty_bins: bool = True,
        class_names: Sequence[str] | None = None,
    ) -> "EvaluationCalibration":
        """Count predictions; the options are those of the class.

        Args:
            labels: (n, C) one-hot or (n,) integer classes; with time steps (n, T, C) or (n, T).
            predictions: (n, C) or (n, T, C) probabilities; or (n, 1) or (n, T, 1) probabilities
                of class 1, for two classes.
            mask: (n,), or (n, T) per step; rows where it is 0 do not count.
            reliability_bins: bins of reliability diagrams.
            histogram_bins: bins of histograms.
            exclude_empty_bins: whether reliability diagrams leave out bins without rows.
            class_names: C names, for one output column 2.

        Returns:
            The evaluation of these rows.

        Raises:
            DataError: if shapes do not fit, a prediction is no probability or a label names no
                class; the message names the row.
            ConfigurationError: if an option cannot be.
        """
        empty = cls(
            reliability_bins=reliability_bins,
            histogram_bins=histogram_bins,
            exclude_empty_bins=exclude_empty_bins,
            class_names=checked_names("class_names", class_names),
        )
        return empty.updated(labels, predictions, mask=mask)

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> "EvaluationCalibration":
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        rows = class_rows(labels, predictions, mask=mask)
        counts = CalibrationCounts.of_rows(
            rows, reliability_bins=self.reliability_bins, histogram_bins=self.histogram_bins
        )
        return self + self._with(counts)

    def __add__(self, other: "EvaluationCalibration") -> "EvaluationCalibration":
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if the two have different options or numbers of classes.
        """
        if self._options() != other._options():
            raise DataError(
                "only calibrations with the same options can be added. "
                f"Received: {self._options()} and {other._options()}."
            )
        if self.counts is None or other.counts is None:
            return other if self.counts is None else self
        if self.counts.classes != other.counts.classes:
            raise DataError(
                "only calibrations of the same number of classes can be added. "
                f"Received: {self.counts.classes} and {other.counts.classes} classes."
            )
        return self._with(self.counts + other.counts)

    def __eq__(self, other: object) -> bool:
        """Same options, same counts and sums."""
        return (
            isinstance(other, EvaluationCalibration)
            and self._options() == other._options()
            and self.counts == other.counts
        )

    # What was counted

    @property
    def classes(self) -> int:
        """Number of classes; 0 before any data."""
        return 0 if self.counts is None else self.counts.classes

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each class: the given one or its number."""
        return self.class_names or tuple(map(str, range(self.classes)))

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""
        return 0 if self.counts is None else self.counts.rows

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """(C,) rows of each class."""
        return np.zeros(0, np.int64) if self.counts is None else self.counts.actual

    @property
    def prediction_counts(self) -> NDArray[np.int64]:
        """(C,) rows predicted as each class."""
        return np.zeros(0, np.int64) if self.counts is None else self.counts.predicted

    # Diagrams

    def reliability(self, *, of: int | str | None = None) -> ReliabilityDiagram:
        """Mean probability and fraction of positives in each bin.

        Args:
            of: a class, by number or name: its probability, and the share of rows of it; default
                None: the probability of the predicted class, and the share predicted right.

        Raises:
            ConfigurationError: if there is no such class.
        """
        question = self._question(of)
        if self.counts is None:
            nothing = np.zeros(self.reliability_bins, np.int64)
            whole = ReliabilityDiagram.of(nothing, nothing, [0] * self.reliability_bins)
        else:
            bins = slice(question * self.reliability_bins, (question + 1) * self.reliability_bins)
            whole = ReliabilityDiagram.of(
                self.counts.in_bin[question],
                self.counts.positive[question],
                self.counts.in_bin_sums[bins],
            )
        return whole.without_empty_bins() if self.exclude_empty_bins else whole

    def residual_histogram(self, *, of: int | str | None = None) -> Histogram:
        """How often label and probability differ by how much, |label - p| with label 0 or 1.

        Args:
            of: a class, by number or name: its rows, and the probability of it; default None: all
                rows and all classes, n C numbers.
        """
        if self.counts is None:
            self._question(of)
            return Histogram(counts=np.zeros(self.histogram_bins, np.int64))
        others, _, residuals = self.counts.histograms
        if of is not None:
            return Histogram(counts=residuals[self._question(of)].copy())
        # For rows of other classes the label is 0, and the residual is the probability.
        return Histogram(counts=(others + residuals).sum(axis=0))

    def probability_histogram(
        self, *, of: int | str | None = None, others: bool = False
    ) -> Histogram:
        """How often which probability was predicted.

        Args:
            of: a class, by number or name: the probability of it, in its rows; default None: all
                rows and all classes, n C numbers.
            others: with `of`: in the rows of the other classes instead.
        """
        if self.counts is None:
            self._question(of)
            return Histogram(counts=np.zeros(self.histogram_bins, np.int64))
        if of is not None:
            return Histogram(
                counts=self.counts.histograms[0 if others else 1, self._question(of)].copy()
            )
        return Histogram(counts=self.counts.histograms[:2].sum(axis=(0, 1)))

    # Metrics

    def expected_calibration_error(
        self, average: CalibrationAverage = "confidence", *, of: int | str | None = None
    ) -> float:
        """Mean over the rows of |mean probability - fraction of positives| of the row's bin.

        Args:
            average: "confidence": of the predicted class, which is the usual one; "macro": mean of
                the classes' errors.
            of: one class, by number or name, instead.

        Returns:
            From 0 to 1.

        Raises:
            ConfigurationError: if there is no such class or average.

        References:
            C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On calibration of modern neural
            networks", ICML 2017.
        """
        return self._over_questions(CalibrationCounts.expected_error, average, of)

    def maximum_calibration_error(
        self, average: CalibrationAverage = "confidence", *, of: int | str | None = None
    ) -> float:
        """Largest |mean probability - fraction of positives| of a bin with any rows.

        Arguments as in `expected_calibration_error`.
        """
        return self._over_questions(CalibrationCounts.maximum_error, average, of)

    def brier_score(self, *, of: int | str | None = None) -> float:
        """Mean squared difference of probabilities and one-hot labels.

        Args:
            of: a class, by number or name: mean of (p - label)², 0 to 1. Default None: the sum
                over the classes, 0 to 2; of two classes half of it, 0 to 1, as is usual.
        """
        if not self.examples or self.counts is None:
            self._question(of)  # there must be such a class
            return 0.0
        if of is not None:
            return float(self.counts.squared_errors(self._question(of)) / self.examples)
        total = sum(self.counts.squared_errors(k) for k in range(self.classes))
        return float(total / self.examples / (2 if self.classes == 2 else 1))

    def log_loss(self, *, of: int | str | None = None) -> float:
        """Mean of -ln p of the right class, the cross-entropy in nats.

        Probabilities below 2**-52 count as 2**-52, so that one row adds at most 36.04.

        Args:
            of: a class, by number or name: over its rows only; 0 without any.
        """
        question = self._question(of)
        if self.counts is None:
            return 0.0
        chosen = slice(None) if of is None else slice(question, question + 1)
        rows = int(self.counts.actual[chosen].sum())
        return float(as_fraction(sum(self.counts.log_losses[chosen])) / max(rows, 1))

    def headline(self) -> dict[str, float]:
        """A few metrics to compare by."""
        return {
            "expected calibration error": self.expected_calibration_error(),
            "maximum calibration error": self.maximum_calibration_error(),
            "Brier score": self.brier_score(),
            "log loss": self.log_loss(),
        }

    # Reports, plots and JSON

    def summary(self, *, max_classes: int = 20) -> str:
        """A report for a terminal.

        Args:
            max_classes: with more classes, the table by class is left out.
        """
        return text_report(self, max_classes=max_classes)

    def __repr__(self) -> str:
        return (
            f"EvaluationCalibration({self.examples} examples, {self.classes} classes, "
            f"expected_calibration_error={self.expected_calibration_error():.4f})"
        )

    def _repr_html_(self) -> str:
        return html_report(self, max_classes=20)

    def plot(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw the reliability diagram, and below it how many rows each bin holds.

        Args:
            axes: the matplotlib Axes to draw on; default None: of a new figure.
            of: a class, by number or name; default None: class 1 of two, each of up to six, and
                of more the predicted class.

        Returns:
            The axes.

        Raises:
            ConfigurationError: if matplotlib is not installed, or there is no such class.
        """
        chosen: list[int | None] = list(range(self.classes))
        if of is not None:
            chosen = [self._question(of)]
        elif self.classes == 2:
            chosen = [1]
        elif self.classes > _CLASSES_DRAWN:
            chosen = [None]
        curves = [
            Curve(
                name="predicted class" if k is None else self.names[k],
                diagram=self.reliability(of=k).without_empty_bins(),
                error=self.expected_calibration_error(of=k),
            )
            for k in chosen
        ]
        return plot_reliability(curves, bins=self.reliability_bins, axes=axes)

    def plot_residuals(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw `residual_histogram`, of all classes or one; see `plot`."""
        title = "Residuals" if of is None else f"Residuals of class {self._name(of)}"
        return plot_histograms(
            {"": self.residual_histogram(of=of)}, title=title, x="|label - probability|", axes=axes
        )

    def plot_probabilities(self, *, axes: Any | None = None, of: int | str | None = None) -> Any:
        """Draw `probability_histogram`, of all classes, or of one in its rows and others."""
        if of is None:
            histograms, title = {"": self.probability_histogram()}, "Predicted probabilities"
        else:
            name = self._name(of)
            title = f"Predicted probability of class {name}"
            histograms = {
                f"rows of {name}": self.probability_histogram(of=of),
                "other rows": self.probability_histogram(of=of, others=True),
            }
        return plot_histograms(histograms, title=title, x="probability", axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values."""
        names = None if self.class_names is None else list(self.class_names)
        return {
            "name": self.name,
            **self._options(),
            "class_names": names,
            "counts": None if self.counts is None else self.counts.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EvaluationCalibration":
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is not such an evaluation.
        """
        cls._check_name(values, *_OPTIONS, "counts")
        with reading(cls.__name__):
            empty = cls(**{option: values[option] for option in _OPTIONS})
            if values["counts"] is None:
                return empty
            counts = CalibrationCounts.from_dict(
                values["counts"],
                reliability_bins=empty.reliability_bins,
                histogram_bins=empty.histogram_bins,
            )
            return empty._with(counts)

    def _options(self) -> dict[str, Any]:
        return {option: getattr(self, option) for option in _OPTIONS}

    def _with(self, counts: CalibrationCounts) -> "EvaluationCalibration":
        return EvaluationCalibration(**self._options(), counts=counts)

    def _question(self, of: int | str | None) -> int:
        """The number of a class; for None that of the question after all classes."""
        return self.classes if of is None else number_of(of, self.names)

    def _name(self, of: int | str) -> str:
        return self.names[self._question(of)]

    def _over_questions(
        self, error: Callable[[CalibrationCounts, int], float], average: str, of: int | str | None
    ) -> float:
        if average not in get_args(CalibrationAverage):
            raise ConfigurationError(
                f"`average` must be 'confidence' or 'macro'. Received: average={average!r}."
            )
        question = self._question(of)
        if self.counts is None:
            return 0.0
        if of is not None or average == "confidence":
            return error(self.counts, question)
        return math.fsum(error(self.counts, k) for k in range(self.classes)) / self.classes
