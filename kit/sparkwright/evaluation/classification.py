"""Classification metrics from a confusion matrix: accuracy, precision, recall and others."""

import csv
import io
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from .abstract import AbstractEvaluation, Batch
from .checks import (
    LARGEST_COUNT,
    Counts,
    check_count,
    check_share,
    checked_costs,
    checked_counts,
    number_of,
    state,
)
from .class_figures import confusion_figure, confusion_table, rates_figure, rates_table
from .numbers import number_text
from .prediction_errors import PredictionError, errors_of, errors_table, most_certain
from .rates import RATES, Average, BinaryCounts, BinaryRates, multiclass_correlation
from .reports import MOST_ROWS, Figure, Report, Table
from .rows import decision_texts, labeled_rows

_SHOWN_ERRORS = 10


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(BinaryRates):
    """Confusion matrix and classification metrics.

    An evaluation without data does not fix the number of classes; adding it changes nothing.
    Memory and wire size are C² int64, plus the kept errors.

    Every metric of 0/0 is 0. Macro averages omit classes whose metric is 0/0 instead of counting
    them as 0; `left_out` names them. Averages are macro by default, also for two classes;
    `of=1` selects the positive class.

    Labels are one-hot (n, C) or integer classes (n,); with time steps (n, T, C) or (n, T).
    Predictions are (n, C) or (n, T, C) probabilities; the class with the largest is predicted, the
    first of equal ones. Or they are (n, 1) or (n, T, 1) probabilities of class 1, which is
    predicted above 0.5. `records` name the examples for `keep_errors`: texts, integers, or lists
    of these.

    Differences from Deeplearning4j: F-measures are computed from counts, so a class that occurs
    but is never predicted has F1 0 and is included in the average. The micro average of the false
    negative rate is FN / (FN + TP). Averages of false positive and negative rates omit 0/0.

    Attributes:
        class_names: C names, or None for "0", "1", ...
        confusion: (C, C) int64, rows actual, columns predicted; read-only copy.
        top_n: N of `top_n_accuracy`; default 1.
        threshold: class 1 is predicted above this probability, 0 to 1, for one or two outputs;
            default None: 0.5 for one output, the larger one for two.
        costs: C factors; the class with the largest product of factor and probability is
            predicted. One output counts as two classes. Cannot be combined with `threshold`;
            default None.
        keep_errors: number of wrong predictions to keep, highest probability first; default 0.
        top_n_correct: rows whose class is among the N most probable; default: the correct
            rows.
        kept_errors: the kept errors, highest probability first; `errors` filters them. Ties are
            ordered by record.

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
    _names_key: ClassVar[str] = "class_names"
    _columns: ClassVar[str] = "classes"
    _required: ClassVar[tuple[str, ...] | None] = ("confusion",)

    class_names: tuple[str, ...] | None = None
    confusion: Counts = field(
        default_factory=lambda: np.zeros((0, 0), np.int64), kw_only=True, metadata=state()
    )
    top_n: int = field(default=1, kw_only=True)
    threshold: float | None = field(default=None, kw_only=True)
    costs: tuple[float, ...] | None = field(default=None, kw_only=True)
    keep_errors: int = field(default=0, kw_only=True)
    top_n_correct: int | None = field(default=None, kw_only=True, metadata=state())
    kept_errors: tuple[PredictionError, ...] = field(
        default=(),
        kw_only=True,
        metadata=state(lambda _, errors: tuple(map(PredictionError.from_dict, errors))),
    )

    def __post_init__(self) -> None:
        check_count("top_n", self.top_n, minimum=1)
        check_count("keep_errors", self.keep_errors, minimum=0)
        threshold, costs = self.threshold, checked_costs(self.costs)
        if threshold is not None:
            check_share("threshold", threshold)
            threshold = float(threshold)
        if costs is not None and threshold is not None:
            raise ConfigurationError(
                "`costs` and `threshold` are mutually exclusive. "
                f"Received: costs={costs}, threshold={threshold}. Set only one of them."
            )
        confusion = checked_counts("confusion", self.confusion)
        if confusion.shape in ((0,), (0, 0)):
            confusion = np.zeros((len(self.class_names or ()),) * 2, np.int64)
        confusion = checked_counts("confusion", confusion, (*confusion.shape, 0)[:1] * 2)
        found: dict[str, Any] = {
            "threshold": threshold,
            "costs": costs,
            "confusion": confusion,
            "kept_errors": most_certain(self.kept_errors, self.keep_errors),
        }
        if self.top_n == 1 or self.top_n_correct is None:
            found["top_n_correct"] = int(np.trace(confusion))
        else:
            check_count("top_n_correct", self.top_n_correct, minimum=0, maximum=LARGEST_COUNT)
        for key, value in found.items():
            object.__setattr__(self, key, value)
        self._check_names()
        if any(max(error.actual, error.predicted) >= self.classes for error in self.kept_errors):
            raise DataError(
                "`kept_errors` must have only classes of `confusion`. "
                f"Received: {self.kept_errors!r:.200} with {self.classes} classes."
            )

    def _counted(self, batch: Batch) -> Self:
        rows = labeled_rows(batch.labels, batch.predictions, mask=batch.mask)
        predicted, classes = rows.predicted(self.threshold, self.costs), rows.classes
        cells = np.bincount(rows.actual * classes + predicted, minlength=classes**2)
        kept = self.keep_errors and errors_of(rows, predicted, batch.records, self.keep_errors)
        return replace(
            self,
            class_names=None,
            confusion=cells.reshape(classes, classes),
            top_n_correct=rows.right_within(self.top_n) if self.top_n > 1 else None,
            kept_errors=kept or (),
        )

    def _merged(self, other: Self) -> Self:
        return replace(
            self,
            confusion=self.confusion + other.confusion,
            top_n_correct=(self.top_n_correct or 0) + (other.top_n_correct or 0),
            kept_errors=most_certain((*self.kept_errors, *other.kept_errors), self.keep_errors),
        )

    # Counts

    @property
    def classes(self) -> int:
        """Number of classes; 0 before any data without class names."""
        return self.confusion.shape[0]

    _width = classes  # pyright: ignore[reportIncompatibleMethodOverride]
    names = AbstractEvaluation.output_names

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""
        return int(self.confusion.sum())

    @property
    def counts(self) -> BinaryCounts:
        """True and false positives and negatives of each class, (C,) each."""
        return BinaryCounts.from_confusion(self.confusion)

    @property
    def keeps_records(self) -> bool:
        """Whether it keeps errors."""
        return self.keep_errors > 0

    def errors(
        self, *, actual: int | str | None = None, predicted: int | str | None = None
    ) -> tuple[PredictionError, ...]:
        """Kept errors, highest probability first.

        Args:
            actual: only errors of this class, by number or name; default None: of all classes.
            predicted: only errors predicted as this class; default None: as any class.

        Raises:
            ConfigurationError: if the class does not exist.
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
        """Fraction of rows predicted correctly, 0 to 1; 0 without rows."""
        return int(np.trace(self.confusion)) / max(self.examples, 1)

    @property
    def top_n_accuracy(self) -> float:
        """Fraction of rows whose class is among the `top_n` most probable; 0 without rows.

        A class is among them if fewer than `top_n` classes have a higher probability, so ties
        count as correct. `costs` and `threshold` are ignored. For top_n=1 this is `accuracy`.
        """
        return (self.top_n_correct or 0) / max(self.examples, 1)

    def matthews_correlation(
        self,
        average: Average | Literal["multiclass"] = "multiclass",
        *,
        of: int | str | None = None,
    ) -> float:
        """Matthews correlation coefficient, -1 to 1; 0 is chance level.

        Args:
            average: "multiclass": one coefficient for all classes; "macro": mean of the
                coefficients of each class against the rest, as in Deeplearning4j;
                "micro": from the pooled counts of all classes. For two classes, the first two
                agree.
            of: instead, one class against the rest, by number or name.

        References:
            J. Gorodkin, "Comparing two K-category assignments by a K-category correlation
            coefficient", Computational Biology and Chemistry 28 (2004).
        """
        if average == "multiclass" and of is None:
            return multiclass_correlation(self.confusion)
        one = "macro" if average == "multiclass" else average
        return self._rate(RATES["matthews_correlation"], one, of)

    per_class = BinaryRates._per_column

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

    def __repr__(self) -> str:
        return (
            f"Evaluation({self.examples} examples, {self.classes} classes, "
            f"accuracy={number_text(self.accuracy)})"
        )

    def figures(self) -> list[Figure | Table]:
        """Confusion matrix, metrics by class, and the kept errors."""
        if not self.examples:
            return []
        found: list[Figure | Table] = [
            confusion_figure(self.confusion, self.names),
            rates_figure(self.counts, self.names, what="class"),
        ]
        if self.kept_errors:
            errors = errors_table(self.kept_errors, self.names, MOST_ROWS)
            title = f"{errors.title}. On Spark, a record is partition and row."
            found.append(replace(errors, title=title))
        return found

    def _report(self, most: int) -> Report:
        tables: list[Table] = []
        if self.classes > most:
            lists = f"summary(max_rows={self.classes}) lists each one and the confusion matrix."
            tables.append(Table(title=f"{self.classes} classes: {lists}"))
        elif self.classes:
            every = range(self.classes)
            tables += [
                rates_table(self.counts, self.names, every, what="class"),
                confusion_table(self.confusion, self.names),
            ]
        if self.kept_errors:
            tables.append(errors_table(self.kept_errors, self.names, _SHOWN_ERRORS))
        return Report(
            title=f"Evaluation of {self.examples:,} examples, {self.classes} classes",
            headline=self._headlines(self._left_out()),
            notes=decision_texts(self.threshold, self.costs),
            tables=tables,
        )

    def confusion_csv(self) -> str:
        """The confusion matrix as CSV: a header of predicted classes, a row for each actual one."""
        text = io.StringIO()
        head, *rows = confusion_table(self.confusion, self.names).rows
        csv.writer(text, lineterminator="\n").writerows([["actual", *head[1:]], *rows])
        return text.getvalue()

    def confusion_html(self) -> str:
        """The confusion matrix as an HTML table, tinted by the fraction of the actual class."""
        return replace(confusion_table(self.confusion, self.names), title="").html()

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw the confusion matrix, tinted by the fraction of the actual class.

        Counts are written for up to 20 classes. See `AbstractEvaluation.plot`.
        """
        return confusion_figure(self.confusion, self.names).plot(axes)

    def plot_metrics(self, *, axes: Any | None = None) -> Any:
        """Draw precision, recall and F1 of the 20 classes with the lowest F1.

        See `AbstractEvaluation.plot`.
        """
        return rates_figure(self.counts, self.names, what="class").plot(axes)
