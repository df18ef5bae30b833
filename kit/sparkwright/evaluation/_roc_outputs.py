"""ROC of several outputs, and of several classes each against the rest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

from ._class_rows import class_rows
from ._output_names import checked_names
from ._roc_columns import RocColumns
from ._roc_rows import float_scores, require_scores
from ._rows import output_rows


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROCBinary(RocColumns):
    """A `ROC` for each of several independent yes-or-no outputs.

    Attributes:
        thresholds: 0, the default: exact; or n steps, see `ROC`.
        names: of the outputs; default None: "0", "1", ...
        rocs: one for each output; none before any data.
        rows: rows of which at least one output counts.

    Example:
        >>> outputs = ROCBinary.from_predictions(
        ...     [[0, 1], [1, 1], [1, 0]], [[0.2, 0.6], [0.7, 0.9], [0.1, 0.8]], names=["a", "b"]
        ... )
        >>> outputs.auc(of="a"), outputs.auc(of="b"), outputs.auc()
        (0.5, 0.5, 0.5)
    """

    name: ClassVar[str] = "roc_binary"

    names: tuple[str, ...] | None = None

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        thresholds: int = 0,
        names: Sequence[str] | None = None,
    ) -> Self:
        """Count predictions.

        Args:
            labels: (n, C) or (n, T, C), 0 or 1.
            predictions: scores of the same shape, higher for surer; from 0 to 1 if `thresholds`
                are given. (n,) counts as (n, 1).
            mask: (n,) or (n, T), per row; or of the predictions' shape, per output.
            thresholds: 0, the default: exact; or the number of steps.
            names: of the C outputs.

        Raises:
            DataError: if shapes do not fit, a score is NaN, infinite or, if thresholded, outside
                0 to 1, or a label is not 0 or 1; the message names the row.
            ConfigurationError: if `names` does not fit the number of outputs.
        """
        return cls(thresholds, checked_names("names", names)).updated(
            labels, predictions, mask=mask
        )

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> Self:
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        rows = output_rows(labels, predictions, mask=mask)
        scores = float_scores(rows.predictions)
        where = rows.where
        require_scores(scores, where.shape, where.kept, probabilities=self.thresholds > 0)
        positive = rows.labels == 1
        wrong = (~positive & (rows.labels != 0)).any(axis=1)
        if wrong.any():
            first, place = where(wrong)
            raise DataError(
                f"labels must be 0 or 1. Received: {rows.labels[first].tolist()} at {place}. "
                "Mask outputs without a label."
            )
        return self._counted(
            len(scores),
            (
                (scores[counts & yes, column], scores[counts & ~yes, column])
                for column, (counts, yes) in enumerate(zip(rows.counts.T, positive.T, strict=True))
            ),
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each output: the given one or its number."""
        return self.names or tuple(map(str, range(len(self.rocs))))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ROCMultiClass(RocColumns):
    """A `ROC` for each class against all the others.

    Attributes:
        thresholds: 0, the default: exact; or n steps, see `ROC`.
        class_names: of the classes; default None: "0", "1", ...
        rocs: one for each class; none before any data.
        rows: rows counted.

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

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        thresholds: int = 0,
        class_names: Sequence[str] | None = None,
    ) -> Self:
        """Count predictions.

        Args:
            labels: (n, C) one-hot or (n,) integer classes; with time steps (n, T, C) or (n, T).
            predictions: (n, C) or (n, T, C) scores, higher for surer; from 0 to 1 if `thresholds`
                are given. Or (n, 1), (n, T, 1) probabilities of class 1 of two.
            mask: (n,), or (n, T) per step; rows where it is 0 do not count.
            thresholds: 0, the default: exact; or the number of steps.
            class_names: of the C classes.

        Raises:
            DataError: if shapes do not fit, a score is NaN, infinite or, if thresholded, outside
                0 to 1, or a label names no class; the message names the row.
            ConfigurationError: if `class_names` does not fit the number of classes.
        """
        return cls(thresholds, checked_names("class_names", class_names)).updated(
            labels, predictions, mask=mask
        )

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> Self:
        """This evaluation with a batch counted in; arguments as in `from_predictions`."""
        rows = class_rows(labels, predictions, mask=mask)
        where = rows.where
        scores = float_scores(rows.scores)
        require_scores(scores, where.shape, where.kept, probabilities=self.thresholds > 0)
        if scores.shape[1] == 1:
            scores = np.concatenate([1 - scores, scores], axis=1)
        return self._counted(len(scores), _one_against_all(rows.actual, scores))

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each class: the given one or its number."""
        return self.class_names or tuple(map(str, range(len(self.rocs))))


def _one_against_all(
    actual: NDArray[np.int64], scores: NDArray[Any]
) -> Iterable[tuple[NDArray[Any], NDArray[Any]]]:
    for column in range(scores.shape[1]):
        of_class = actual == column
        yield scores[of_class, column], scores[~of_class, column]
