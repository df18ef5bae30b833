"""Classification: accuracy, precision, recall and the rest, from a confusion matrix.

The matrix is all the state there is, so evaluations of parts of the data add up exactly, in any
grouping, and still do after a trip through JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._binary_counts import BinaryCounts, Counts, Rates
from ._class_rows import class_rows
from ._report import html_report, text_report

Average = Literal["macro", "micro"]
Metric = Literal[
    "precision",
    "recall",
    "f1",
    "false_positive_rate",
    "false_negative_rate",
    "false_alarm_rate",
    "g_measure",
    "matthews_correlation",
]


def _no_counts() -> Counts:
    return np.zeros((0, 0), np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(AbstractEvaluation):
    """How often each class was predicted as each class, and the metrics that follow.

    Without data it counts nothing and fixes no number of classes: adding it changes nothing.
    Memory and wire size are C² int64.

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

    def __post_init__(self) -> None:
        """Check that the matrix is one of counts, and that names fit.

        Raises:
            DataError: if `confusion` is not square, whole and non-negative.
            ConfigurationError: if the names are not unique, or not one for each class.
        """
        names = _checked_names(self.class_names)
        given = np.asarray(self.confusion)
        if given.shape == (0, 0):
            given = np.zeros((len(names or ()), len(names or ())), np.int64)
        if given.ndim != 2 or given.shape[0] != given.shape[1]:
            raise DataError(f"`confusion` must be square. Received: shape {given.shape}.")
        if given.dtype.kind not in "iu" or bool((given < 0).any()):
            raise DataError(
                "`confusion` must hold counts: integers of at least 0. "
                f"Received: dtype {given.dtype}, minimum {given.min()}."
            )
        if names is not None and len(names) != given.shape[0]:
            raise ConfigurationError(
                "`class_names` must name every class. "
                f"Received: {len(names)} names for {given.shape[0]} classes."
            )
        confusion = given.astype(np.int64)  # a copy: the caller's array may change
        confusion.setflags(write=False)
        object.__setattr__(self, "class_names", names)
        object.__setattr__(self, "confusion", confusion)

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
    ) -> "Evaluation":
        """Count predictions.

        Args:
            labels: (n, C) one-hot or (n,) integer classes; with time steps (n, T, C) or (n, T).
            predictions: (n, C) or (n, T, C) probabilities, the largest wins (the first of equal
                ones); or (n, 1) or (n, T, 1) probabilities of class 1, which must exceed 0.5.
            mask: (n,), or (n, T) per step; rows where it is 0 do not count.
            class_names: C names, for one output column 2.

        Returns:
            The evaluation of these rows.

        Raises:
            DataError: if shapes do not fit, a prediction is NaN or a label names no class; the
                message names the row.
            ConfigurationError: if `class_names` does not fit the number of classes.
        """
        rows = class_rows(labels, predictions, mask=mask)
        cells = np.bincount(rows.actual * rows.classes + rows.predicted, minlength=rows.classes**2)
        return cls(
            _checked_names(class_names),
            confusion=cells.reshape(rows.classes, rows.classes).astype(np.int64),
        )

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> "Evaluation":
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        return self + Evaluation.from_predictions(labels, predictions, mask=mask)

    def __add__(self, other: "Evaluation") -> "Evaluation":
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if the two have different numbers or names of classes.
        """
        if self.class_names and other.class_names and self.class_names != other.class_names:
            raise DataError(
                "only evaluations of the same classes can be added. "
                f"Received: {list(self.class_names)} and {list(other.class_names)}."
            )
        names = self.class_names or other.class_names
        if 0 not in (self.classes, other.classes) and self.classes != other.classes:
            raise DataError(
                "only evaluations of the same number of classes can be added. "
                f"Received: {self.classes} and {other.classes} classes."
            )
        if 0 in (self.classes, other.classes):
            return Evaluation(names, confusion=(other if self.classes == 0 else self).confusion)
        return Evaluation(names, confusion=self.confusion + other.confusion)

    def __eq__(self, other: object) -> bool:
        """Same classes, same counts."""
        return (
            isinstance(other, Evaluation)
            and self.class_names == other.class_names
            and np.array_equal(self.confusion, other.confusion)
        )

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
    def true_positives(self) -> Counts:
        """(C,) rows of the class, predicted so."""
        return self.counts.true_positives

    @property
    def false_positives(self) -> Counts:
        """(C,) rows of another class, predicted as this one."""
        return self.counts.false_positives

    @property
    def true_negatives(self) -> Counts:
        """(C,) rows of another class, predicted as another."""
        return self.counts.true_negatives

    @property
    def false_negatives(self) -> Counts:
        """(C,) rows of the class, predicted as another."""
        return self.counts.false_negatives

    # Metrics

    @property
    def accuracy(self) -> float:
        """Share of rows predicted right, 0 to 1; 0 without rows."""
        return int(np.trace(self.confusion)) / max(self.examples, 1)

    def precision(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Of the rows predicted as the class, the share that belongs to it.

        Args:
            average: "macro": mean over the classes, without those where it is 0/0; "micro": from
                the counts of all classes together.
            of: one class, by number or name, instead of an average.

        Returns:
            From 0 to 1; 0 for 0/0.

        Raises:
            ConfigurationError: if there is no such class or average.
        """
        return self._rate(BinaryCounts.precision, average, of)

    def recall(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Of the rows of the class, the share predicted so. Arguments as in `precision`."""
        return self._rate(BinaryCounts.recall, average, of)

    def f1(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Harmonic mean of precision and recall. Arguments as in `precision`.

        The macro average is the mean of the classes' F1, not the F1 of mean precision and recall.
        """
        return self.f_beta(1.0, average, of=of)

    def f_beta(
        self, beta: float, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Harmonic mean of precision and recall, recall `beta` times as important.

        Args:
            beta: greater than 0.
            average: as in `precision`.
            of: as in `precision`.

        Raises:
            ConfigurationError: if `beta` is not finite and above 0.
        """
        if not (np.isfinite(beta) and beta > 0):
            raise ConfigurationError(
                f"`beta` must be finite and greater than 0. Received: beta={beta!r}."
            )
        return self._rate(lambda counts: counts.f_beta(beta), average, of)

    def false_positive_rate(
        self, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Of the rows of other classes, the share predicted so. Arguments as in `precision`."""
        return self._rate(BinaryCounts.false_positive_rate, average, of)

    def false_negative_rate(
        self, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Of the rows of the class, the share missed. Arguments as in `precision`."""
        return self._rate(BinaryCounts.false_negative_rate, average, of)

    def false_alarm_rate(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Mean of false positive and false negative rate. Arguments as in `precision`."""
        return self._rate(BinaryCounts.false_alarm_rate, average, of)

    def g_measure(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Geometric mean of precision and recall. Arguments as in `precision`."""
        return self._rate(BinaryCounts.g_measure, average, of)

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
        confusion = self.confusion.astype(np.float64)
        rows, actual, predicted = confusion.sum(), confusion.sum(axis=1), confusion.sum(axis=0)
        varied = (rows**2 - predicted @ predicted) * (rows**2 - actual @ actual)
        if varied == 0:
            return 0.0
        correlation = (np.trace(confusion) * rows - actual @ predicted) / np.sqrt(varied)
        return float(np.clip(correlation, -1.0, 1.0))  # rounding can give 1 + 2e-16

    def per_class(self, metric: Metric) -> Rates:
        """(C,) float64, the metric of each class; 0 where it is 0/0.

        Raises:
            ConfigurationError: if there is no such metric.
        """
        return np.nan_to_num(self._per_class(metric), nan=0.0)

    def left_out(self, metric: Metric) -> tuple[str, ...]:
        """Names of the classes whose metric is 0/0, which its macro average leaves out.

        Raises:
            ConfigurationError: if there is no such metric.
        """
        undefined = np.isnan(self._per_class(metric))
        return tuple(name for name, out in zip(self.names, undefined, strict=True) if out)

    # Reports and JSON

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

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw the confusion matrix; see `AbstractEvaluation.plot`."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_report(self, max_classes=20)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values."""
        return {
            "name": self.name,
            "class_names": None if self.class_names is None else list(self.class_names),
            "confusion": self.confusion.tolist(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Evaluation":
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is not an evaluation.
        """
        cls._check_name(values, "confusion")
        names = values.get("class_names")
        return cls(
            None if names is None else tuple(names),
            confusion=np.asarray(values["confusion"]) if values["confusion"] else _no_counts(),
        )

    def _per_class(self, metric: Metric) -> Rates:
        if metric not in get_args(Metric):
            raise ConfigurationError(
                f"`metric` must be one of {', '.join(map(repr, get_args(Metric)))}. "
                f"Received: metric={metric!r}."
            )
        counts = self.counts
        return counts.f_beta(1.0) if metric == "f1" else getattr(counts, metric)()

    def _rate(
        self, rate: Callable[[BinaryCounts], Rates], average: str, of: int | str | None
    ) -> float:
        if average not in get_args(Average):
            raise ConfigurationError(
                f"`average` must be 'macro' or 'micro'. Received: average={average!r}."
            )
        if of is not None:
            values = rate(self.counts)[[self._class_number(of)]]
        else:
            values = rate(self.counts.pooled() if average == "micro" else self.counts)
        defined = values[~np.isnan(values)]
        return float(defined.mean()) if defined.size else 0.0

    def _class_number(self, of: int | str) -> int:
        names = self.names
        if isinstance(of, str) and of in names:
            return names.index(of)
        if not isinstance(of, str) and 0 <= of < len(names):
            return int(of)
        raise ConfigurationError(
            f"`of` must be a class: a number from 0 to {len(names) - 1} or one of "
            f"{list(names[:20])}. Received: of={of!r}."
        )


def _checked_names(names: Iterable[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    checked = (names,) if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or len(set(checked)) != len(checked) or not checked:
        raise ConfigurationError(
            f"`class_names` must be different names, one for each class. Received: {names!r}."
        )
    return tuple(map(str, checked))
