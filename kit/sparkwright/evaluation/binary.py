"""Evaluation of several independent binary outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from .abstract import Batch
from .checks import LARGEST_COUNT, Counts, check_count, check_share, checked_counts, state
from .class_figures import rate_text, rates_figure
from .numbers import number_text
from .rates import RATES, BinaryCounts, BinaryRates, averaged
from .reports import Figure, Report, Table
from .roc_columns import ROCBinary
from .rows import exceeds, output_rows, require_answers, require_probabilities


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EvaluationBinary(BinaryRates):
    """Confusion counts and rates of several binary outputs.

    Labels are 0 or 1. Predictions are probabilities of the same shape: (n, C) or (n, T, C), or (n,)
    for one output. A mask of the predictions' shape masks single outputs.

    Rates are per output (`of=`) or averaged over outputs. The default is the mean over the outputs
    whose rate is not 0/0; `left_out` names the others. A single rate of 0/0 is 0 (NaN in
    Deeplearning4j).

    Attributes:
        names: C names, or None for "0", "1", ...
        thresholds: probabilities above it are predicted positive; one number from 0 to 1, or C of
            them; default 0.5, also for None.
        roc_thresholds: 0 adds an exact `ROCBinary`, n > 0 one with n + 1 thresholds; default
            None: no ROC.
        confusion: (C, 2, 2) int64, actual then predicted, negative before positive; read-only copy.
        rows: rows in which at least one output is not masked.
        roc: the `ROCBinary`, or None.

    Example:
        >>> evaluation = EvaluationBinary.from_predictions(
        ...     [[0, 1], [1, 1]], [[0.2, 0.9], [0.7, 0.4]], names=["rain", "wind"]
        ... )
        >>> evaluation.recall(of="wind"), evaluation.accuracy()
        (0.5, 0.75)
    """

    name: ClassVar[str] = "evaluation_binary"
    _names_key: ClassVar[str] = "names"
    _shown: ClassVar[int] = 50

    names: tuple[str, ...] | None = None
    thresholds: float | tuple[float, ...] = field(default=0.5, kw_only=True)
    roc_thresholds: int | None = field(default=None, kw_only=True)
    confusion: Counts = field(
        default_factory=lambda: np.zeros((0, 2, 2), np.int64), kw_only=True, metadata=state()
    )
    rows: int = field(default=0, kw_only=True, metadata=state())
    roc: ROCBinary | None = field(default=None, kw_only=True, metadata=state(ROCBinary))

    def __post_init__(self) -> None:
        thresholds = _checked_thresholds(self.thresholds)
        if self.roc_thresholds is not None:
            check_count("roc_thresholds", self.roc_thresholds, minimum=0)
        given = checked_counts("confusion", self.confusion)
        if given.shape in ((0,), (0, 2, 2)):
            each = thresholds if isinstance(thresholds, tuple) else ()
            given = np.zeros((len(self.names or each), 2, 2), np.int64)
        confusion = checked_counts("confusion", given, (None, 2, 2))
        if isinstance(thresholds, tuple) and len(thresholds) != len(confusion):
            raise ConfigurationError(
                "`thresholds` must have one value for each output. "
                f"Received: {len(thresholds)} for {len(confusion)} outputs."
            )
        object.__setattr__(self, "thresholds", thresholds)
        object.__setattr__(self, "confusion", confusion)
        self._check_names()
        object.__setattr__(self, "roc", self._checked_roc())
        check_count("rows", self.rows, minimum=0, maximum=LARGEST_COUNT)

    def _checked_roc(self) -> ROCBinary | None:
        if self.roc_thresholds is None and self.roc is None:
            return None
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
                "`roc` must be a ROCBinary of the same rows, with `roc_thresholds` thresholds. "
                f"Received: roc={roc!r:.80} with roc_thresholds={self.roc_thresholds}."
            )
        return replace(roc, names=self.names)

    def _counted(self, batch: Batch) -> Self:
        rows = output_rows(batch.labels, batch.predictions, mask=batch.mask)
        width = rows.predictions.shape[1]
        if isinstance(self.thresholds, tuple) and len(self.thresholds) != width:
            raise DataError(
                "`thresholds` must have one value for each output. "
                f"Received: {len(self.thresholds)} for {width} outputs."
            )
        require_probabilities(rows.predictions, rows.where, "every output")
        actual = require_answers(rows.labels, rows.where)
        predicted = exceeds(rows.predictions, np.asarray(self.thresholds, np.float64))
        cells = 4 * np.arange(width) + 2 * actual + predicted
        confusion = np.bincount(cells[rows.counts], minlength=4 * width).reshape(width, 2, 2)
        roc = None
        if self.roc_thresholds is not None:
            labels, predictions, mask, _ = batch
            roc = ROCBinary(self.roc_thresholds).updated(labels, predictions, mask=mask)
        return replace(self, names=None, confusion=confusion, rows=len(rows.predictions), roc=roc)

    @property
    def outputs(self) -> int:
        """Number of outputs; 0 if neither data nor options define it."""
        return self.confusion.shape[0]

    @property
    def _width(self) -> int:
        return self.outputs

    @property
    def examples(self) -> int:
        """Rows with an unmasked output: examples, or their time steps."""
        return self.rows

    @property
    def scores_kept(self) -> int | None:
        """Number of scores kept by an exact `ROCBinary`; None without one."""
        return None if self.roc is None else self.roc.scores_kept

    @property
    def counts(self) -> BinaryCounts:
        """True and false positives and negatives of each output, (C,) each."""
        return BinaryCounts(*self.confusion.reshape(-1, 4).T)

    accuracy = averaged("accuracy", "Fraction of correct predictions.")
    matthews_correlation = averaged(
        "matthews_correlation", "Correlation of predictions and labels, -1 to 1."
    )

    per_output = BinaryRates._per_column

    def headline(self) -> dict[str, float]:
        """Metrics averaged over the outputs."""
        areas = {} if self.roc is None else {"AUC (macro)": self.roc.auc()}
        return {
            "accuracy (macro)": self.accuracy(),
            "precision (macro)": self.precision(),
            "recall (macro)": self.recall(),
            "F1 (macro)": self.f1(),
            "Matthews correlation (macro)": self.matthews_correlation(),
            **areas,
        }

    def __repr__(self) -> str:
        return (
            f"EvaluationBinary({self.rows} examples, {self.outputs} outputs, "
            f"accuracy={number_text(self.accuracy())})"
        )

    def _report(self, most: int) -> Report:
        title = f"Evaluation of {self.examples:,} examples, {self.outputs} outputs"
        if not isinstance(self.thresholds, tuple):
            title = f"{title} (yes above {self.thresholds:g})"
        left_out = self._left_out()
        left_out["AUC (macro)"] = 0 if self.roc is None else len(self.roc.left_out())
        table = self._table(range(self.outputs))
        if self.outputs > most:
            table = Table(
                title=f"{self.outputs} outputs: summary(max_rows={self.outputs}) lists each one."
            )
        return Report(
            title=title,
            headline=self._headlines(left_out),
            tables=[table] if self.outputs else [],
        )

    def _table(self, chosen: Sequence[int]) -> Table:
        counts, each = self.counts, self.thresholds
        columns: dict[str, Any] = {"output": np.array(self.output_names)}
        if isinstance(each, tuple):
            columns["yes above"] = np.array([f"{threshold:g}" for threshold in each])
        columns |= {
            "examples": counts.positives + counts.negatives,
            "yes": counts.positives,
            "predicted yes": counts.true_positives + counts.false_positives,
        }
        for name in ("accuracy", "precision", "recall", "F1"):
            columns[name] = [rate_text(value) for value in RATES[name.lower()](counts)]
        if self.roc is not None:
            areas = [roc.auc for roc in self.roc.rocs] or [self.roc.auc()] * self.outputs
            columns["AUC"] = [number_text(area) for area in areas]
        rows = [[str(column[k]) for column in columns.values()] for k in chosen]
        return Table([list(columns), *rows])

    def figures(self) -> list[Figure | Table]:
        """Metrics of each output, and the curves of `roc` if present."""
        if not self.examples:
            return []
        return [self._rates(), *([] if self.roc is None else self.roc.figures())]

    def _rates(self) -> Figure:
        return rates_figure(self.counts, self.output_names, what="output", table=self._table)

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw precision, recall and F1 of the 20 outputs with the lowest F1.

        See `AbstractEvaluation.plot`.
        """
        return self._rates().plot(axes)


def _checked_thresholds(given: Any) -> float | tuple[float, ...]:
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values: list[Any] = list(given) if several else [0.5 if given is None else given]
    if not values:
        raise ConfigurationError("`thresholds` must not be empty. Received: thresholds=[].")
    for value in values:
        check_share("thresholds", value)
    numbers = tuple(map(float, values))
    return numbers if several else numbers[0]
