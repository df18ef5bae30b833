"""ROC of several binary outputs, and of several classes each against the rest."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from .abstract import AbstractEvaluation, Batch
from .checks import LARGEST_COUNT, check_count, number_of, state
from .numbers import number_text
from .reports import Figure, Report
from .roc import ROC, float_scores
from .roc_digest import ROCDigest
from .roc_figures import AREAS, Which, areas_table, curves_figure
from .rows import (
    labeled_rows,
    output_rows,
    require_answers,
    require_probabilities,
    with_both_classes,
)


def _read_rocs(_: str, values: Any) -> tuple[ROC | ROCDigest, ...]:
    kinds = [ROCDigest if each.get("name") == ROCDigest.name else ROC for each in values]
    return tuple(kind.from_dict(each) for kind, each in zip(kinds, values, strict=True))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RocColumns(AbstractEvaluation):
    """One `ROC` for each of several columns.

    Attributes:
        thresholds: 0 (default) for exact ROCs; n > 0 for n steps, as in `ROC`.
        rocs: one for each column; empty before any data. On a cluster, exact ROCs of many rows
            become digests. An evaluation with digests cannot be added to others.
        rows: rows in which at least one column is not masked.
    """

    _names_key: ClassVar[str] = "names"

    thresholds: int = 0
    rocs: tuple[ROC | ROCDigest, ...] = field(default=(), kw_only=True, metadata=state(_read_rocs))
    rows: int = field(default=0, kw_only=True, metadata=state())

    def __post_init__(self) -> None:
        ROC(self.thresholds)
        self._check_names()
        check_count("rows", self.rows, minimum=0, maximum=LARGEST_COUNT)

    @property
    def examples(self) -> int:
        """Number of rows counted: examples, or their time steps."""
        return self.rows

    @property
    def scores_kept(self) -> int | None:
        """Number of scores kept by all columns; None if thresholded."""
        return None if self.thresholds else sum(roc.examples for roc in self.rocs)

    @property
    def _width(self) -> int:
        return len(self.rocs)

    def roc(self, of: int | str) -> ROC | ROCDigest:
        """The `ROC` of one column, by number or name.

        Raises:
            ConfigurationError: if the column does not exist.
        """
        number = number_of(of, self.output_names)
        return self.rocs[number] if self.rocs else ROC(self.thresholds)

    def left_out(self) -> tuple[str, ...]:
        """Names of the columns without positives or negatives, omitted from macro averages."""
        return tuple(
            name
            for name, roc in zip(self.output_names, self.rocs, strict=False)
            if not (roc.positives and roc.negatives)
        )

    def auc(self, *, of: int | str | None = None) -> float:
        """Area under the ROC curve.

        Args:
            of: a column, by number or name; default None: the mean over the columns with both
                positives and negatives.

        Returns:
            From 0 to 1; 0.5 without positives or without negatives.

        Raises:
            ConfigurationError: if the column does not exist.
        """
        return self._area("auc", of)

    def auprc(self, *, of: int | str | None = None) -> float:
        """Area under the linear precision-recall curve; `of` as in `auc`."""
        return self._area("auprc", of)

    def average_precision(self, *, of: int | str | None = None) -> float:
        """Area under the precision-recall curve as a step function; `of` as in `auc`."""
        return self._area("average_precision", of)

    # Plots and reports

    def plot_roc(self, *, axes: Any | None = None) -> Any:
        """Draw a ROC curve for each column; for more than 10 columns, their mean and range.

        Columns without positives or without negatives have no curve.
        """
        title = f"ROC, mean AUC {number_text(self.auc())}"
        return self._figure("roc").plot(axes, title=title)

    plot = plot_roc

    def plot_precision_recall(self, *, axes: Any | None = None) -> Any:
        """Draw a precision-recall curve for each column; see `plot_roc`."""
        title = f"Precision and recall, mean AUPRC {number_text(self.auprc())}"
        return self._figure("precision_recall").plot(axes, title=title)

    def figures(self) -> list[Figure]:
        """Both curves of each column; empty if all lack positives or negatives."""
        if not self._defined():
            return []
        return [self._figure("roc"), self._figure("precision_recall")]

    def _figure(self, which: Which) -> Figure:
        named = self._defined()
        area, key = AREAS[which]
        lowest, name = min(
            ((getattr(roc, key), name) for name, roc in named),
            key=lambda pair: pair[0],
            default=(0.0, "none"),
        )
        caption = (
            f"The mean {area} is {number_text(self._area(key, None))}; "
            f"the lowest is {number_text(lowest)} ({name})."
        )
        return curves_figure(named, which, caption=caption, what=self._columns)

    def headline(self) -> dict[str, float]:
        """Areas under the curves, averaged over the columns."""
        return {
            "AUC (macro)": self.auc(),
            "AUPRC (macro)": self.auprc(),
            "average precision (macro)": self.average_precision(),
        }

    def __repr__(self) -> str:
        counted = f"{self.rows} examples, {len(self.rocs)} {self._columns}"
        return f"{type(self).__name__}({counted}, {self._kind()})"

    def _report(self, most: int) -> Report:
        left_out = dict.fromkeys(self.headline(), len(self.left_out()))
        named = list(zip(self.output_names, self.rocs, strict=False))
        return Report(
            title=f"ROC of {self.rows:,} examples, {len(self.rocs)} {self._columns} "
            f"({self._kind()})",
            headline=self._headlines(left_out),
            tables=[areas_table(named)] if 0 < len(named) <= most else [],
        )

    def _area(self, key: str, of: int | str | None) -> float:
        if of is not None:
            return getattr(self.roc(of), key)
        found = [getattr(roc, key) for _, roc in self._defined()]
        return sum(found) / len(found) if found else getattr(ROC(self.thresholds), key)

    def _of_sides(self, rows: int, sides: Iterable[tuple[Any, Any]]) -> Self:
        """Evaluate one batch, given scores of (positives, negatives) for each column."""
        rocs = tuple(ROC(self.thresholds).including(*side) for side in sides)
        return type(self)(self.thresholds, rocs=rocs if rows else (), rows=rows)

    def _defined(self) -> list[tuple[str, ROC | ROCDigest]]:
        """Names and ROCs of the columns with positives and negatives."""
        pairs = zip(self.output_names, self.rocs, strict=False)
        return [(name, roc) for name, roc in pairs if roc.positives and roc.negatives]

    def _kind(self) -> str:
        return f"{self.thresholds} thresholds" if self.thresholds else "exact"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROCBinary(RocColumns):
    """A `ROC` for each of several independent binary outputs.

    Labels are 0 or 1 of shape (n, C) or (n, T, C); predictions are scores of the same shape,
    higher for label 1; from 0 to 1 if thresholded. (n,) counts as (n, 1). A mask of the
    predictions' shape masks single outputs.

    Attributes:
        names: C names, or None for "0", "1", ... For other attributes see `RocColumns`.

    Example:
        >>> outputs = ROCBinary.from_predictions(
        ...     [[0, 1], [1, 1], [1, 0]], [[0.2, 0.6], [0.7, 0.9], [0.1, 0.8]], names=["a", "b"]
        ... )
        >>> outputs.auc(of="a"), outputs.auc(of="b"), outputs.auc()
        (0.5, 0.5, 0.5)
    """

    name: ClassVar[str] = "roc_binary"

    names: tuple[str, ...] | None = None

    def _counted(self, batch: Batch) -> Self:
        rows = output_rows(batch.labels, batch.predictions, mask=batch.mask)
        scores = float_scores(rows.predictions, rows.where, probabilities=self.thresholds > 0)
        positive = require_answers(rows.labels, rows.where)
        return self._of_sides(
            len(scores),
            (
                (scores[counts & yes, column], scores[counts & ~yes, column])
                for column, (counts, yes) in enumerate(zip(rows.counts.T, positive.T, strict=True))
            ),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROCMultiClass(RocColumns):
    """A `ROC` for each class against the rest.

    Labels are one-hot (n, C) or integer classes (n,); with time steps (n, T, C) or (n, T).
    Predictions are (n, C) or (n, T, C) scores, higher for the class; from 0 to 1 if thresholded.
    Or (n, 1) or (n, T, 1) probabilities of class 1 of two.

    Attributes:
        class_names: C names, or None for "0", "1", ... For other attributes see `RocColumns`.

    Example:
        >>> classes = ROCMultiClass.from_predictions(
        ...     [0, 1, 2], [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.6, 0.1]]
        ... )
        >>> classes.auc(of=0), classes.auc(of=1), classes.auc(of=2)
        (1.0, 0.5, 0.25)
    """

    name: ClassVar[str] = "roc_multi_class"
    _columns: ClassVar[str] = "classes"
    _names_key: ClassVar[str] = "class_names"

    class_names: tuple[str, ...] | None = None

    def _counted(self, batch: Batch) -> Self:
        rows = labeled_rows(batch.labels, batch.predictions, mask=batch.mask)
        given = float_scores(rows.scores, rows.where, probabilities=self.thresholds > 0)
        if given.shape[1] == 1:
            require_probabilities(given, rows.where, "a single output")
        scores = with_both_classes(given)
        mine = [rows.actual == k for k in range(scores.shape[1])]
        sides = ((scores[of, k], scores[~of, k]) for k, of in enumerate(mine))
        return self._of_sides(len(scores), sides)
