"""From labels, predictions and a mask, in any usual shape, to one pair of classes per row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

from ._probabilities import exceeds, require_probabilities
from ._rows import Where, as_numbers, require_numbers, row_mask

Array = NDArray[Any]
Classes = NDArray[np.int64]


class ClassRows(NamedTuple):
    """What was and what was predicted, for every row that counts."""

    actual: Classes  # (rows,)
    predicted: Classes  # (rows,)
    classes: int
    scores: Array  # (rows, C), or (rows, 1): of class 1
    where: Where

    def probability_of(self, classes: Classes, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The probability, or score, of one class for each of some rows.

        Args:
            classes: (n,).
            rows: (n,) numbers of rows that count.
        """
        if self.scores.shape[1] > 1:
            return self.scores[rows, classes].astype(np.float64)
        probability = self.scores[rows, 0].astype(np.float64)
        return np.where(classes == 1, probability, 1 - probability)

    def right_within(self, n: int) -> int:
        """Rows of which fewer than `n` classes have a higher probability than the actual one.

        Args:
            n: at least 2.
        """
        if self.classes <= n:
            return len(self.actual)
        own = np.take_along_axis(self.scores, self.actual[:, None], axis=1)
        return int(np.count_nonzero(np.count_nonzero(self.scores > own, axis=1) < n))


def class_rows(
    labels: ArrayLike,
    predictions: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    threshold: float | None = None,
    costs: tuple[float, ...] | None = None,
) -> ClassRows:
    """Read classes off labels and predictions.

    The last axis of the predictions is the classes, or of length 1 for a probability of class 1;
    what comes before is examples and, if any, time steps or pixels, each of which is a row.
    Of equal predictions the first class wins; a single probability must exceed 0.5.

    Args:
        labels: one-hot of the predictions' shape (the unique largest entry names the class, so
            smoothed labels will do); or integer classes of that shape without its last axis, or
            with a last axis of 1.
        predictions: (n, C) or (n, T, C), ... probabilities or scores; (n, 1) or (n, T, 1), ...
            probabilities of class 1.
        mask: (n,) or (n, T), ...: rows where it is 0 do not count, whatever they hold.
        threshold: what the probability of class 1 must exceed, for one or two outputs.
        costs: C factors of the probabilities; the largest product wins.

    Returns:
        The rows that count, in order.

    Raises:
        DataError: if shapes do not fit, one of the two holds no real numbers, a prediction is NaN,
            one that must be a probability lies outside 0 to 1, or a label names no class; the
            message names the row.
    """
    scores, truth = as_numbers(predictions, "predictions"), as_numbers(labels, "labels")
    if scores.ndim < 2 or scores.shape[-1] == 0:
        raise DataError(
            "`predictions` must have a last axis of classes, or of one probability: (n, C), "
            f"(n, 1), (n, T, C). Received: predictions of shape {scores.shape}."
        )
    rows_shape, width = scores.shape[:-1], scores.shape[-1]
    one_hot = width > 1 and truth.shape == scores.shape
    if not one_hot and truth.shape not in (rows_shape, (*rows_shape, 1)):
        allowed = [scores.shape, rows_shape] if width > 1 else [rows_shape, scores.shape]
        raise DataError(
            f"`labels` for predictions of shape {scores.shape} must have shape "
            f"{' (one-hot) or '.join(map(str, allowed)) if width > 1 else allowed[0]}. "
            f"Received: labels of shape {truth.shape}."
        )
    classes = max(width, 2)
    _check_decision(width, classes, threshold, costs)
    kept = np.flatnonzero(row_mask(mask, rows_shape))
    scores = scores.reshape(-1, width)[kept]
    truth = truth.reshape(-1, width)[kept] if one_hot else truth.reshape(-1)[kept]
    where = Where(rows_shape, kept)
    return ClassRows(
        _hot_class(truth, where) if one_hot else _named_class(truth, classes, where),
        _predicted_class(scores, where, threshold, costs),
        classes,
        scores,
        where,
    )


def _check_decision(
    width: int, classes: int, threshold: float | None, costs: tuple[float, ...] | None
) -> None:
    if threshold is not None and width > 2:
        raise DataError(
            "`threshold` decides between two classes: predictions must have one or two columns. "
            f"Received: {width} columns. Use `costs` to favour some of more classes."
        )
    if costs is not None and len(costs) != classes:
        raise DataError(
            "`costs` must have a number for each class. "
            f"Received: {len(costs)} costs for {classes} classes."
        )


def _predicted_class(
    scores: Array, where: Where, threshold: float | None, costs: tuple[float, ...] | None
) -> Classes:
    require_numbers(scores, where, "predictions")
    width = scores.shape[1]
    if width > 1 and threshold is None and costs is None:
        return scores.argmax(axis=1).astype(np.int64)
    if width == 1:
        require_probabilities(scores, where, "a single output")
    else:
        deciding = "`costs`" if threshold is None else "`threshold`"
        require_probabilities(scores, where, f"every prediction for {deciding}")
    if costs is not None:
        wide = scores.astype(np.float64)
        both = np.concatenate([1 - wide, wide], axis=1) if width == 1 else wide
        return (both * np.asarray(costs)).argmax(axis=1).astype(np.int64)
    return exceeds(scores[:, -1], 0.5 if threshold is None else threshold).astype(np.int64)


def _hot_class(labels: Array, where: Where) -> Classes:
    top = labels.max(axis=1, keepdims=True)
    wrong = ~(top[:, 0] > 0) | (np.count_nonzero(labels == top, axis=1) != 1)
    if wrong.any():
        first, place = where(wrong)
        raise DataError(
            "one-hot labels must have one largest entry, above 0. "
            f"Received: {labels[first].tolist()} at {place}. Mask rows without a label."
        )
    return labels.argmax(axis=1).astype(np.int64)


def _named_class(labels: Array, classes: int, where: Where) -> Classes:
    wrong = ~((labels >= 0) & (labels < classes) & (labels == np.floor(labels)))
    if wrong.any():
        first, place = where(wrong)
        raise DataError(
            f"labels must be whole numbers from 0 to {classes - 1}, for {classes} classes. "
            f"Received: {labels[first].item()} at {place}. Mask rows without a label."
        )
    return labels.astype(np.int64)
