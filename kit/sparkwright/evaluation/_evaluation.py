"""Classification: accuracy, precision, recall and the rest, from a confusion matrix.

The state is the matrix, one more count, and the errors that are remembered in a fixed order; so
evaluations of parts of the data add up exactly, in any grouping, and still do after a trip through
JSON.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._binary_counts import (
    BinaryCounts,
    Counts,
    Rates,
    check_number,
    multiclass_correlation,
)
from ._binary_rates import Average, BinaryRates, Metric
from ._class_rows import class_rows
from ._confusion import checked_confusion, checked_top_n
from ._evaluation_plots import plot_confusion, plot_rates
from ._output_names import checked_names, number_of
from ._prediction_errors import PredictionError, checked_errors, errors_of, most_certain
from ._probabilities import check_threshold, checked_costs
from ._reading import reading
from ._report import confusion_csv, confusion_html, html_report, text_report


def _no_counts() -> Counts:
    return np.zeros((0, 0), np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(BinaryRates, AbstractEvaluation):
    """How often each class was predicted as each class, and the metrics that follow.

    Without data it counts nothing and fixes no number of classes: adding it changes nothing.
    Memory and wire size are C² int64, and the errors that are kept.

    Every metric that would be 0/0 has the value 0. In macro averages, classes whose metric is 0/0
    are left out, instead of counting as 0; `left_out` names them. Averages are macro by default,
    for two classes too: ask for the positive one with `of=1`.

    Departures from Deeplearning4j: F-measures are computed from counts, so a class that occurs
    but is never predicted has F1 0 and is averaged in (there it is left out, which flatters); the
    micro average of the false negative rate is FN / (FN + TP); false positive and negative rates
    leave out 0/0 as the others do.

    Attributes:
        class_names: C names, or None for "0", "1", ...
        confusion: (C, C) int64, rows actual, columns predicted; read-only copy.
        top_n: N of `top_n_accuracy`; default 1.
        threshold: the probability of class 1 that must be exceeded, 0 to 1, for one or two
            outputs; default None: 0.5 for one output, the larger one for two.
        costs: C factors; the class with the largest product of factor and probability is
            predicted. One output counts as two classes. Excludes `threshold`; default None.
        keep_errors: how many wrong predictions to remember, those of the highest probability;
            default 0.
        top_n_correct: rows whose class is among the N most probable; needed only where a matrix
            of counts is given and `top_n` is above 1.
        kept_errors: the errors that are remembered, the most certain one first; `errors` gives
            some of them. Ties are decided by record.

    Example:
        >>> evaluation = Evaluation.from_predictions(
        ...     [0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], class_names=["cat", "dog"]
        ... )
        >>> evaluation.confusion
        array([[1, 0],
               [1, 1]])
        >>> evaluation.recall(of="dog")
        0.5
        >>> (evaluation + evaluation).examples
        6
    """

    name: ClassVar[str] = "evaluation"

    class_names: tuple[str, ...] | None = None
    confusion: Counts = field(default_factory=_no_counts, kw_only=True)
    top_n: int = field(default=1, kw_only=True)
    threshold: float | None = field(default=None, kw_only=True)
    costs: tuple[float, ...] | None = field(default=None, kw_only=True)
    keep_errors: int = field(default=0, kw_only=True)
    top_n_correct: int | None = field(default=None, kw_only=True)
    kept_errors: tuple[PredictionError, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Check the options, that the matrix is one of counts, and that all fits together.

        Raises:
            DataError: if `confusion` is not square, whole and non-negative, or other counts or
                errors contradict it.
            ConfigurationError: if an option is wrong, or names are not one for each class.
        """
        check_number("top_n", self.top_n, least=1)
        check_number("keep_errors", self.keep_errors, least=0)
        if self.threshold is not None:
            check_threshold("threshold", self.threshold)
            object.__setattr__(self, "threshold", float(self.threshold))
        costs = checked_costs(self.costs)
        if costs is not None and self.threshold is not None:
            raise ConfigurationError(
                "`costs` and `threshold` exclude each other. "
                f"Received: costs={costs}, threshold={self.threshold}."
            )
        names = self.class_names
        if names is not None and not isinstance(names, str):
            names = tuple(map(str, names))
        names = checked_names("class_names", names)
        confusion = checked_confusion(self.confusion, names, costs)
        plain = costs is None and self.threshold is None
        right = checked_top_n(self.top_n_correct, confusion, self.top_n, least_is_diagonal=plain)
        errors = checked_errors(self.kept_errors, confusion, self.keep_errors)
        object.__setattr__(self, "class_names", names)
        object.__setattr__(self, "costs", costs)
        object.__setattr__(self, "confusion", confusion)
        object.__setattr__(self, "top_n_correct", right)
        object.__setattr__(self, "kept_errors", errors)

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
        class_names: Sequence[str] | None = None,
        top_n: int = 1,
        threshold: float | None = None,
        costs: Sequence[float] | None = None,
        keep_errors: int = 0,
    ) -> "Evaluation":
        """Count predictions.

        Args:
            labels: (n, C) one-hot or (n,) integer classes; with time steps (n, T, C) or (n, T).
            predictions: (n, C) or (n, T, C) probabilities, the largest wins (the first of equal
                ones); or (n, 1) or (n, T, 1) probabilities of class 1, which must exceed 0.5.
            mask: (n,), or (n, T) per step; rows where it is 0 do not count.
            records: n names of the examples for `keep_errors`: texts, whole numbers, or lists of
                these. Without them errors have no name: a row's number in its batch says nothing
                when batches are added up.
            class_names: C names, for one output column 2.
            top_n: see the class; so are the rest.
            threshold: for one or two columns.
            costs: C numbers.
            keep_errors: how many.

        Returns:
            The evaluation of these rows.

        Raises:
            DataError: if shapes do not fit, a prediction is NaN or a label names no class; the
                message names the row.
            ConfigurationError: if `class_names` does not fit the number of classes, or another
                option is wrong.
        """
        options: dict[str, Any] = {
            "top_n": top_n,
            "threshold": threshold,
            "costs": costs,
            "keep_errors": keep_errors,
        }
        prototype = cls(**options)
        return prototype._counted(labels, predictions, mask, records, class_names)

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> "Evaluation":
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        return self + self._counted(labels, predictions, mask, records, None)

    def _counted(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        mask: ArrayLike | None,
        records: Sequence[Any] | None,
        class_names: Sequence[str] | None,
    ) -> "Evaluation":
        """A batch alone, with the options of this one."""
        rows = class_rows(
            labels, predictions, mask=mask, threshold=self.threshold, costs=self.costs
        )
        cells = np.bincount(rows.actual * rows.classes + rows.predicted, minlength=rows.classes**2)
        return replace(
            self,
            class_names=None if class_names is None else tuple(class_names),
            confusion=cells.reshape(rows.classes, rows.classes).astype(np.int64),
            top_n_correct=rows.right_within(self.top_n) if self.top_n > 1 else None,
            kept_errors=errors_of(rows, records, self.keep_errors) if self.keep_errors else (),
        )

    def __add__(self, other: "Evaluation") -> "Evaluation":
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if the two have different options, or numbers or names of classes.
        """
        if not isinstance(other, Evaluation):
            return NotImplemented
        if self._options != other._options:
            raise DataError(
                "only evaluations with the same options can be added. "
                f"Received: {self._options} and {other._options}."
            )
        if self.class_names and other.class_names and self.class_names != other.class_names:
            raise DataError(
                "only evaluations of the same classes can be added. "
                f"Received: {list(self.class_names)} and {list(other.class_names)}."
            )
        if 0 not in (self.classes, other.classes) and self.classes != other.classes:
            raise DataError(
                "only evaluations of the same number of classes can be added. "
                f"Received: {self.classes} and {other.classes} classes."
            )
        confusion = (other if self.classes == 0 else self).confusion
        if 0 not in (self.classes, other.classes):
            confusion = self.confusion + other.confusion
        return replace(
            self,
            class_names=self.class_names or other.class_names,
            confusion=confusion,
            top_n_correct=(self.top_n_correct or 0) + (other.top_n_correct or 0),
            kept_errors=most_certain((*self.kept_errors, *other.kept_errors), self.keep_errors),
        )

    def __eq__(self, other: object) -> bool:
        """Same options, same classes, same counts, same errors."""
        return (
            isinstance(other, Evaluation)
            and self._options == other._options
            and self.class_names == other.class_names
            and np.array_equal(self.confusion, other.confusion)
            and self.top_n_correct == other.top_n_correct
            and self.kept_errors == other.kept_errors
        )

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "top_n": self.top_n,
            "threshold": self.threshold,
            "costs": None if self.costs is None else list(self.costs),
            "keep_errors": self.keep_errors,
        }

    # What was counted

    @property
    def classes(self) -> int:
        """Number of classes; 0 before any data when no names were given."""
        return self.confusion.shape[0]

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each class: the given one or its number."""
        return self.class_names or tuple(map(str, range(self.classes)))

    @property
    def _all_names(self) -> tuple[str, ...]:
        return self.names

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""
        return int(self.confusion.sum())

    @property
    def confusion_matrix(self) -> Counts:
        """(C, C) int64, rows actual, columns predicted; read-only."""
        return self.confusion

    @property
    def counts(self) -> BinaryCounts:
        """True and false positives and negatives of each class, (C,) each."""
        return BinaryCounts.from_confusion(self.confusion)

    @property
    def keeps_records(self) -> bool:
        """Whether it remembers errors."""
        return self.keep_errors > 0

    def errors(
        self, *, actual: int | str | None = None, predicted: int | str | None = None
    ) -> tuple[PredictionError, ...]:
        """Errors that are remembered, the most certain one first.

        Args:
            actual: only those of this class, by number or name; default None: of all.
            predicted: only those predicted as this class; default None: as any.

        Raises:
            ConfigurationError: if there is no such class.
        """
        is_class, as_class = (
            None if of is None else number_of(of, self.names) for of in (actual, predicted)
        )
        return tuple(
            error
            for error in self.kept_errors
            if is_class in (None, error.actual) and as_class in (None, error.predicted)
        )

    # Metrics

    @property
    def accuracy(self) -> float:
        """Share of rows predicted right, 0 to 1; 0 without rows."""
        return int(np.trace(self.confusion)) / max(self.examples, 1)

    @property
    def top_n_accuracy(self) -> float:
        """Share of rows whose class is among the `top_n` most probable, 0 to 1; 0 without rows.

        It is, if fewer than `top_n` classes have a higher probability: ties count as right. The
        plain probabilities count, whatever `costs` or `threshold` decide. For top_n=1 this is
        `accuracy`.
        """
        return (self.top_n_correct or 0) / max(self.examples, 1)

    def matthews_correlation(
        self,
        average: Average | Literal["multiclass"] = "multiclass",
        *,
        of: int | str | None = None,
    ) -> float:
        """Correlation between what was and what was predicted, -1 to 1; 0 is guessing.

        Args:
            average: "multiclass": one coefficient for all classes together; "macro": mean of the
                coefficients of each class against the rest, which is what Deeplearning4j gives;
                "micro": from the counts of all classes together. For two classes the first two
                agree.
            of: one class against the rest, by number or name, instead.

        References:
            J. Gorodkin, "Comparing two K-category assignments by a K-category correlation
            coefficient", Computational Biology and Chemistry 28 (2004).
        """
        if average != "multiclass" or of is not None:
            return self._rate(
                BinaryCounts.matthews_correlation,
                "macro" if average == "multiclass" else average,
                of,
            )
        return multiclass_correlation(self.confusion)

    def per_class(self, metric: Metric) -> Rates:
        """(C,) float64, the metric of each class; 0 where it is 0/0.

        Raises:
            ConfigurationError: if there is no such metric.
        """
        return np.nan_to_num(self._each(metric), nan=0.0)

    def headline(self) -> dict[str, float]:
        """Accuracy, averages over classes, and correlation."""
        top = {f"top-{self.top_n} accuracy": self.top_n_accuracy} if self.top_n > 1 else {}
        return {
            "accuracy": self.accuracy,
            **top,
            "precision (macro)": self.precision(),
            "recall (macro)": self.recall(),
            "F1 (macro)": self.f1(),
            "Matthews correlation": self.matthews_correlation(),
        }

    # Reports, plots and JSON

    def summary(self, *, max_classes: int = 20) -> str:
        """A report for a terminal.

        Args:
            max_classes: with more classes, the tables by class and the matrix are left out.
        """
        return text_report(self, max_classes=max_classes)

    def __repr__(self) -> str:
        return (
            f"Evaluation({self.examples} examples, {self.classes} classes, "
            f"accuracy={self.accuracy:.4f})"
        )

    def _repr_html_(self) -> str:
        return html_report(self, max_classes=20)

    def confusion_csv(self) -> str:
        """The confusion matrix as CSV: a head of predicted classes, a row for each actual one."""
        return confusion_csv(self)

    def confusion_html(self) -> str:
        """The confusion matrix as an HTML table, tinted by the share of the actual class."""
        return confusion_html(self)

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw the confusion matrix, tinted by the share of the actual class.

        Up to 20 classes have their counts written in. See `AbstractEvaluation.plot`.
        """
        return plot_confusion(self.confusion, self.names, axes=axes)

    def plot_metrics(self, *, axes: Any | None = None) -> Any:
        """Draw precision, recall and F1 of each class, of many the 20 with the lowest F1.

        See `AbstractEvaluation.plot`.
        """
        return plot_rates(self.counts, self.names, axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values."""
        return {
            "name": self.name,
            "class_names": None if self.class_names is None else list(self.class_names),
            **self._options,
            "confusion": self.confusion.tolist(),
            "top_n_correct": self.top_n_correct,
            "kept_errors": [error.to_dict() for error in self.kept_errors],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Evaluation":
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is not an evaluation.
        """
        cls._check_name(values, "confusion")
        names = values.get("class_names")
        with reading("an evaluation"):
            if names is not None and len(names) != len(values["confusion"]):
                # Refused before a matrix for so many names is made.
                raise DataError(
                    "`class_names` must name every class. "
                    f"Received: {len(names)} names for {len(values['confusion'])} classes."
                )
            return cls(
                None if names is None else tuple(names),
                confusion=np.asarray(values["confusion"]) if values["confusion"] else _no_counts(),
                top_n=values.get("top_n", 1),
                threshold=values.get("threshold"),
                costs=values.get("costs"),
                keep_errors=values.get("keep_errors", 0),
                top_n_correct=values.get("top_n_correct"),
                kept_errors=tuple(map(PredictionError.from_dict, values.get("kept_errors", ()))),
            )
