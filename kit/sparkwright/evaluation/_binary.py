"""Several yes-or-no outputs, each counted on its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._binary_counts import BinaryCounts, Counts, Rates, check_number, checked_counts
from ._binary_rates import Average, BinaryRates, Metric
from ._binary_report import html_report, text_report
from ._evaluation_plots import plot_rates
from ._output_names import checked_names
from ._probabilities import check_threshold, exceeds, require_probabilities
from ._reading import reading
from ._rows import OutputRows, output_rows

if TYPE_CHECKING:
    from ._roc_outputs import ROCBinary


def _no_counts() -> Counts:
    return np.zeros((0, 2, 2), np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EvaluationBinary(BinaryRates, AbstractEvaluation):
    """How often each of several outputs said yes or no, and was right.

    Labels are 0 or 1 and predictions probabilities; rows, or single outputs of them, can be masked.
    Rates are per output (`of=`) or averaged over outputs: by default the mean, without outputs
    where the rate is 0/0; `left_out` names these. A single rate that is 0/0 has the value 0
    (in Deeplearning4j: NaN).

    Attributes:
        names: C names, or None for "0", "1", ...
        thresholds: what a probability must exceed to be a yes, 0 to 1: one number, or C; default
            0.5, which None stands for too.
        roc_thresholds: of a `ROCBinary` that is kept too: 0: exact, n: at n + 1 thresholds;
            default None: none is kept.
        confusion: (C, 2, 2) int64, actual no and yes, predicted no and yes; read-only copy.
        rows: rows of which any output counts.
        roc: the `ROCBinary`, or None.

    Example:
        >>> evaluation = EvaluationBinary.from_predictions(
        ...     [[0, 1], [1, 1]], [[0.2, 0.9], [0.7, 0.4]], names=["rain", "wind"]
        ... )
        >>> evaluation.recall(of="wind"), evaluation.accuracy()
        (0.5, 0.75)
    """

    name: ClassVar[str] = "evaluation_binary"

    names: tuple[str, ...] | None = None
    thresholds: float | tuple[float, ...] = field(default=0.5, kw_only=True)
    roc_thresholds: int | None = field(default=None, kw_only=True)
    confusion: Counts = field(default_factory=_no_counts, kw_only=True)
    rows: int = field(default=0, kw_only=True)
    roc: "ROCBinary | None" = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options, and that the counts fit them.

        Raises:
            DataError: if counts contradict each other.
            ConfigurationError: if an option is wrong, or not one for each output.
        """
        names = checked_names("names", self.names)
        thresholds = _checked_thresholds(self.thresholds)
        if self.roc_thresholds is not None:
            check_number("roc_thresholds", self.roc_thresholds, least=0)
        given = np.asarray(self.confusion)
        if given.shape == (0, 2, 2):
            each = thresholds if isinstance(thresholds, tuple) else ()
            given = np.zeros((len(names or each), 2, 2), np.int64)
        if given.ndim != 3 or given.shape[1:] != (2, 2):
            raise DataError(f"`confusion` must be (C, 2, 2). Received: shape {given.shape}.")
        for option, values in (("names", names), ("thresholds", thresholds)):
            if isinstance(values, tuple) and len(values) != len(given):
                raise ConfigurationError(
                    f"`{option}` must have one for each output. "
                    f"Received: {len(values)} for {len(given)} outputs."
                )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "confusion", checked_counts("confusion", given))
        object.__setattr__(self, "roc", self._checked_roc())
        self._check_rows()

    def _check_rows(self) -> None:
        check_number("rows", self.rows, least=0)
        each = self.confusion.sum(axis=(1, 2))
        if not each.max(initial=0) <= self.rows <= int(each.sum()):
            raise DataError(
                "`rows` must be those of which an output is counted. "
                f"Received: rows={self.rows} with {each.tolist()} counted by output."
            )

    def _checked_roc(self) -> "ROCBinary | None":
        if self.roc_thresholds is None and self.roc is None:
            return None
        from ._roc_outputs import ROCBinary

        roc = self.roc
        if roc is None and not self.rows:
            return ROCBinary(self.roc_thresholds or 0, self.names)
        fits = (
            isinstance(roc, ROCBinary)
            and roc.thresholds == self.roc_thresholds
            and roc.rows == self.rows
            and len(roc.rocs) in (0, self.outputs)
        )
        if roc is None or not fits:
            raise DataError(
                "`roc` must be a ROCBinary of the same rows with `roc_thresholds`. "
                f"Received: roc={roc!r:.80} with roc_thresholds={self.roc_thresholds}."
            )
        return replace(roc, names=self.names)

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        thresholds: float | Sequence[float] | None = None,
        roc_thresholds: int | None = None,
    ) -> "EvaluationBinary":
        """Count predictions.

        Args:
            labels: (n, C) or (n, T, C), each 0 or 1; (n,) for one output.
            predictions: probabilities of the same shape.
            mask: (n,), or (n, T) per step, or of the predictions' shape, per output: where it is
                0 nothing counts.
            names: see the class; so are the rest.
            thresholds: one number or C.
            roc_thresholds: of a `ROCBinary`.

        Raises:
            DataError: if shapes do not fit, a label is not 0 or 1, or a prediction no probability;
                the message names the row.
            ConfigurationError: if an option is wrong, or not one for each output.
        """
        options: dict[str, Any] = {"thresholds": thresholds, "roc_thresholds": roc_thresholds}
        return cls(None, **options)._counted(labels, predictions, mask, names)

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> "EvaluationBinary":
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        return self + self._counted(labels, predictions, mask, None)

    def _counted(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        mask: ArrayLike | None,
        names: Sequence[str] | None,
    ) -> "EvaluationBinary":
        """A batch alone, with the options of this one."""
        rows = output_rows(labels, predictions, mask=mask)
        width = rows.predictions.shape[1]
        if isinstance(self.thresholds, tuple) and len(self.thresholds) != width:
            raise DataError(
                "`thresholds` must have one for each output. "
                f"Received: {len(self.thresholds)} for {width} outputs."
            )
        require_probabilities(rows.predictions, rows.where, "every output")
        _require_answers(rows)
        actual = rows.labels == 1
        predicted = exceeds(rows.predictions, np.asarray(self.thresholds, np.float64))
        confusion = np.zeros((width, 2, 2), np.int64)
        for was in (0, 1):
            for said in (0, 1):
                cell = rows.counts & (actual == was) & (predicted == said)
                confusion[:, was, said] = np.count_nonzero(cell, axis=0)
        prototype = replace(self, names=None, confusion=_no_counts(), rows=0, roc=None)
        roc = prototype.roc
        return replace(
            prototype,
            names=None if names is None else tuple(names),
            confusion=confusion,
            rows=len(rows.predictions),
            roc=None if roc is None else roc.updated(labels, predictions, mask=mask),
        )

    def __add__(self, other: "EvaluationBinary") -> "EvaluationBinary":
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if the two have different options, or numbers or names of outputs.
        """
        if not isinstance(other, EvaluationBinary):
            return NotImplemented
        if self._options != other._options:
            raise DataError(
                "only evaluations with the same options can be added. "
                f"Received: {self._options} and {other._options}."
            )
        if self.names and other.names and self.names != other.names:
            raise DataError(
                "only evaluations of the same outputs can be added. "
                f"Received: {list(self.names)} and {list(other.names)}."
            )
        if 0 not in (self.outputs, other.outputs) and self.outputs != other.outputs:
            raise DataError(
                "only evaluations of the same number of outputs can be added. "
                f"Received: {self.outputs} and {other.outputs} outputs."
            )
        roc = self.roc
        if roc is not None and other.roc is not None:
            roc = replace(roc, names=None) + replace(other.roc, names=None)
        confusion = (other if self.outputs == 0 else self).confusion
        if 0 not in (self.outputs, other.outputs):
            confusion = self.confusion + other.confusion
        return replace(
            self,
            names=self.names or other.names,
            confusion=confusion,
            rows=self.rows + other.rows,
            roc=roc,
        )

    def __eq__(self, other: object) -> bool:
        """Same options, same outputs, same counts."""
        return (
            isinstance(other, EvaluationBinary)
            and self._options == other._options
            and self.names == other.names
            and np.array_equal(self.confusion, other.confusion)
            and self.rows == other.rows
            and self.roc == other.roc
        )

    @property
    def _options(self) -> dict[str, Any]:
        each = self.thresholds
        return {
            "thresholds": list(each) if isinstance(each, tuple) else each,
            "roc_thresholds": self.roc_thresholds,
        }

    @property
    def outputs(self) -> int:
        """Number of outputs; 0 before any data when no options told it."""
        return self.confusion.shape[0]

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each output: the given one or its number."""
        return self.names or tuple(map(str, range(self.outputs)))

    @property
    def _all_names(self) -> tuple[str, ...]:
        return self.output_names

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps, of which any output counts."""
        return self.rows

    @property
    def keeps_rows(self) -> bool:
        """Whether an exact `ROCBinary` grows with the rows."""
        return self.roc_thresholds == 0

    @property
    def counts(self) -> BinaryCounts:
        """True and false positives and negatives of each output, (C,) each."""
        return BinaryCounts(
            true_positives=self.confusion[:, 1, 1],
            false_positives=self.confusion[:, 0, 1],
            true_negatives=self.confusion[:, 0, 0],
            false_negatives=self.confusion[:, 1, 0],
        )

    def accuracy(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Share of answers that are right. Arguments as in `precision`."""
        return self._rate(BinaryCounts.accuracy, average, of)

    def matthews_correlation(
        self, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Correlation between answers and truth, -1 to 1. Arguments as in `precision`."""
        return self._rate(BinaryCounts.matthews_correlation, average, of)

    def per_output(self, metric: Metric | Literal["accuracy"]) -> Rates:
        """(C,) float64, the metric of each output; 0 where it is 0/0.

        Raises:
            ConfigurationError: if there is no such metric.
        """
        values = self.counts.accuracy() if metric == "accuracy" else self._each(metric)
        return np.nan_to_num(values, nan=0.0)

    def headline(self) -> dict[str, float]:
        """Averages over outputs."""
        areas = {} if self.roc is None else {"AUC (macro)": self.roc.auc()}
        return {
            "accuracy (macro)": self.accuracy(),
            "precision (macro)": self.precision(),
            "recall (macro)": self.recall(),
            "F1 (macro)": self.f1(),
            "Matthews correlation (macro)": self.matthews_correlation(),
            **areas,
        }

    def summary(self, *, max_outputs: int = 50) -> str:
        """A report for a terminal.

        Args:
            max_outputs: with more outputs, the table by output is left out.
        """
        return text_report(self, max_outputs=max_outputs)

    def __repr__(self) -> str:
        return (
            f"EvaluationBinary({self.rows} examples, {self.outputs} outputs, "
            f"accuracy={self.accuracy():.4f})"
        )

    def _repr_html_(self) -> str:
        return html_report(self, max_outputs=50)

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw precision, recall and F1 of each output, of many the 20 with the lowest F1.

        See `AbstractEvaluation.plot`.
        """
        return plot_rates(self.counts, self.output_names, title="Metrics by output", axes=axes)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values."""
        return {
            "name": self.name,
            "names": None if self.names is None else list(self.names),
            **self._options,
            "confusion": self.confusion.tolist(),
            "rows": self.rows,
            "roc": None if self.roc is None else self.roc.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "EvaluationBinary":
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is not such an evaluation.
        """
        cls._check_name(values, "names", "thresholds", "roc_thresholds", "confusion", "rows", "roc")
        names, roc, found = values["names"], values["roc"], values["confusion"]
        if roc is not None:
            from ._roc_outputs import ROCBinary

            roc = ROCBinary.from_dict(roc if isinstance(roc, Mapping) else {})
        with reading("an EvaluationBinary"):
            return cls(
                None if names is None else tuple(names),
                thresholds=values["thresholds"],
                roc_thresholds=values["roc_thresholds"],
                confusion=np.asarray(found) if found else _no_counts(),
                rows=values["rows"],
                roc=roc,
            )


def _checked_thresholds(given: Any) -> float | tuple[float, ...]:
    if given is None:
        return 0.5
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        values: list[Any] = list(given)
        for value in values:
            check_threshold("thresholds", value)
        if not values:
            raise ConfigurationError("`thresholds` must not be empty. Received: thresholds=[].")
        return tuple(map(float, values))
    check_threshold("thresholds", given)
    return float(given)


def _require_answers(rows: OutputRows) -> None:
    wrong: NDArray[np.bool_] = (rows.labels != 0) & (rows.labels != 1)
    if wrong.any():
        first, place = rows.where(np.asarray(wrong.any(axis=1)))
        raise DataError(
            f"labels must be 0 or 1. Received: {rows.labels[first].tolist()} at {place}. "
            "Mask what has no label."
        )
