"""Convert labels, predictions and masks of supported shapes to checked rows.

Each time step or pixel of labels and predictions is one row. Errors name the row by its position
in the caller's arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

Array = NDArray[Any]
Bools = NDArray[np.bool_]
Classes = NDArray[np.int64]
_SLACK = 1e-3  # half precision sigmoids and averages may slightly exceed [0, 1]


class Where(NamedTuple):
    """Positions of the unmasked rows in the caller's arrays."""

    shape: tuple[int, ...]  # number of examples, and of time steps or pixels if any
    # Indices of the unmasked rows among all rows, ascending; None: all.
    kept: NDArray[np.intp] | None

    def require(self, right: Bools, values: Array, rule: str, remedy: str = "") -> None:
        """Raise DataError naming the first row where (rows,) or (rows, C) `right` is False."""
        if right.all():
            return
        first = int(np.flatnonzero(~right.reshape(len(right), -1).all(axis=1))[0])
        number = first if self.kept is None else int(self.kept[first])
        example, *steps = (int(i) for i in np.unravel_index(number, self.shape))
        step = f", step {', '.join(map(str, steps))}" if steps else ""
        received = f"{values[first].tolist()!r:.200} at row {example}{step}"
        raise DataError(f"{rule}. Received: {received}. {remedy}".rstrip())

    @property
    def numbers(self) -> NDArray[np.intp]:
        """(rows,) index of each unmasked row among all rows."""
        return np.arange(np.prod(self.shape, dtype=int)) if self.kept is None else self.kept

    @property
    def examples(self) -> NDArray[np.intp]:
        """(rows,) index of the example of each unmasked row."""
        return self.numbers // max(int(np.prod(self.shape[1:], dtype=np.int64)), 1)


class OutputRows(NamedTuple):
    """Labels and predictions of several independent outputs."""

    labels: Array  # (rows, C)
    predictions: Array  # (rows, C)
    counts: Bools  # (rows, C) unmasked; masked entries are 0 in both arrays
    where: Where


class LabeledRows(NamedTuple):
    """The actual class and the scores of each unmasked row."""

    actual: Array  # (rows,) of bool for two classes, otherwise int64
    scores: Array  # (rows, C), or (rows, 1): of class 1
    classes: int  # C, at least 2
    where: Where

    def predicted(
        self, threshold: float | None = None, costs: tuple[float, ...] | None = None
    ) -> Classes:
        """Return the (rows,) predicted class of each row; the first of tied classes."""
        # `threshold`: class 1 is predicted above it; None: 0.5 for one output. `costs`: factors of
        # the classes' probabilities.
        width = self.scores.shape[1]
        if threshold is not None and width > 2:
            raise DataError(
                "`threshold` needs two classes: predictions must have one or two columns. "
                f"Received: {width} columns. Use `costs` for more classes."
            )
        if costs is not None and len(costs) != self.classes:
            raise DataError(
                "`costs` must have a number for each class. "
                f"Received: {len(costs)} costs for {self.classes} classes."
            )
        if width > 1 and threshold is None and costs is None:
            return self.scores.argmax(axis=1).astype(np.int64)
        deciding = "`costs`" if threshold is None else "`threshold`"
        what = "a single output" if width == 1 else f"every prediction for {deciding}"
        require_probabilities(self.scores, self.where, what)
        if costs is not None:
            both = with_both_classes(self.scores.astype(np.float64))
            return (both * np.asarray(costs)).argmax(axis=1).astype(np.int64)
        limit = 0.5 if threshold is None else threshold
        return exceeds(self.scores[:, -1], limit).astype(np.int64)

    def probability_of(self, classes: Classes, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the (n,) probability, or score, of the given class in each of n rows."""
        if self.scores.shape[1] > 1:
            return self.scores[rows, classes].astype(np.float64)
        probability = self.scores[rows, 0].astype(np.float64)
        return np.where(classes == 1, probability, 1 - probability)

    def right_within(self, n: int) -> int:
        """Count rows in which fewer than `n` classes have a higher probability than the actual."""
        if self.classes <= n:
            return len(self.actual)
        own = np.take_along_axis(self.scores, self.actual.astype(np.int64)[:, None], axis=1)
        return int(np.count_nonzero(np.count_nonzero(self.scores > own, axis=1) < n))


def as_numbers(values: ArrayLike, what: str) -> Array:
    """Return an array of bool, integers or floats; other floats, such as bfloat16, as float32."""
    try:
        array = np.asarray(values)
        if array.dtype.kind == "V":  # dtypes from other packages
            array = array.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"`{what}` must be an array of numbers. Received: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"`{what}` must be an array of real numbers. Received: dtype {array.dtype}."
        )
    return array


def row_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> Bools:
    """Return (rows,) unmasked rows, from a mask per row or example; raise DataError otherwise."""
    if mask is None:
        return np.ones(int(np.prod(shape, dtype=np.int64)), np.bool_)
    counts = np.asarray(mask) != 0
    if counts.shape == (*shape, 1):
        counts = counts.reshape(shape)
    if counts.ndim == 0 or counts.shape != shape[: counts.ndim]:
        raise DataError(
            f"`mask` must have shape {shape}, one entry per row, or a prefix of it. "
            f"Received: mask of shape {counts.shape}."
        )
    for size in shape[counts.ndim :]:
        counts = np.repeat(counts[..., None], size, axis=-1)
    return counts.reshape(-1)


def output_rows(
    labels: ArrayLike, predictions: ArrayLike, *, mask: ArrayLike | None = None
) -> OutputRows:
    """Return the rows of (n, C), (n, T, C), ... independent outputs, without fully masked ones."""
    # `labels` may omit a last axis of 1; predictions (n,) count as (n, 1). The mask is per row, or
    # of the predictions' shape.
    scores, truth = as_numbers(predictions, "predictions"), as_numbers(labels, "labels")
    given_shapes = f"labels of shape {truth.shape}, predictions of shape {scores.shape}"
    if scores.ndim == 1:
        scores = scores[:, None]
    if truth.shape == scores.shape[:-1]:
        truth = truth[..., None]
    if scores.ndim < 2 or scores.shape[-1] == 0 or truth.shape != scores.shape:
        raise DataError(
            "`labels` must have the shape of `predictions`, whose last axis is the outputs: "
            f"(n, C), (n, T, C). Received: {given_shapes}."
        )
    rows_shape, width = scores.shape[:-1], scores.shape[-1]
    given = None if mask is None else np.asarray(mask)
    if given is not None and given.shape == scores.shape and width > 1:
        counts = (given != 0).reshape(-1, width)
    else:
        counts = np.repeat(row_mask(given, rows_shape)[:, None], width, axis=1)
    kept = np.flatnonzero(counts.any(axis=1))
    counts, where = counts[kept], Where(rows_shape, kept)
    truth, scores = truth.reshape(-1, width)[kept], scores.reshape(-1, width)[kept]
    truth, scores = np.where(counts, truth, 0), np.where(counts, scores, 0)
    require_numbers(scores, where, "predictions")
    require_numbers(truth, where, "labels")
    return OutputRows(truth, scores, counts, where)


def labeled_rows(
    labels: ArrayLike, predictions: ArrayLike, *, mask: ArrayLike | None = None
) -> LabeledRows:
    """Return the unmasked rows, in order, with one class each."""
    # Labels: one-hot (n, C), (n, T, C), ..., where the unique largest entry is the class, so
    # smoothed labels are valid; or integer classes (n,), (n, T), ..., or with a last axis of 1. One
    # column of predictions is the probability of class 1 of two.
    scores, truth = as_numbers(predictions, "predictions"), as_numbers(labels, "labels")
    if scores.ndim < 2 or scores.shape[-1] == 0:
        raise DataError(
            "`predictions` must have a last axis of classes, or of one probability: (n, C), "
            f"(n, 1), (n, T, C). Received: predictions of shape {scores.shape}."
        )
    rows_shape, width = scores.shape[:-1], scores.shape[-1]
    classes = max(width, 2)
    one_hot = truth.shape == (*rows_shape, classes)
    if not one_hot and truth.shape not in (rows_shape, (*rows_shape, 1)):
        raise DataError(
            f"`labels` for predictions of shape {scores.shape} must have shape "
            f"{(*rows_shape, classes)} (one-hot) or {rows_shape}. "
            f"Received: labels of shape {truth.shape}."
        )
    scores = scores.reshape(-1, width)
    truth = truth.reshape(-1, classes) if one_hot else truth.reshape(-1)
    where = Where(rows_shape, None)
    if mask is not None:
        where = Where(rows_shape, np.flatnonzero(row_mask(mask, rows_shape)))
        scores, truth = scores[where.kept], truth[where.kept]
    require_numbers(scores, where, "predictions")
    actual = _hot_class(truth, where) if one_hot else _named_class(truth, classes, where)
    return LabeledRows(actual, scores, classes, where)


def _hot_class(labels: Array, where: Where) -> Array:
    top = labels.max(axis=1, keepdims=True, initial=-np.inf if labels.dtype.kind == "f" else 0)
    right = (top[:, 0] > 0) & (np.count_nonzero(labels == top, axis=1) == 1)
    rule = "one-hot labels must have one largest entry, above 0"
    where.require(right, labels, rule, "Mask rows without a label.")
    actual = labels.argmax(axis=1)
    return actual.astype(np.bool_) if labels.shape[1] == 2 else actual.astype(np.int64)


def _named_class(labels: Array, classes: int, where: Where) -> Array:
    if classes == 2:
        actual = labels.astype(np.bool_)
        right = actual == labels
    else:
        actual = labels
        right = (labels >= 0) & (labels < classes) & (labels == np.floor(labels))
    rule = f"labels must be whole numbers from 0 to {classes - 1}, for {classes} classes"
    where.require(np.asarray(right), labels, rule, "Mask rows without a label.")
    return actual if classes == 2 else actual.astype(np.int64)


def require_numbers(values: Array, where: Where, what: str) -> None:
    """Raise DataError if one of (rows, C) `values`, "predictions" or "labels", is NaN."""
    remedy = (
        "Check that training did not diverge, and that the features hold no NaN; mask padded steps."
        if what == "predictions"
        else "Mask entries without a label."
    )
    if values.dtype.kind == "f":
        where.require(~np.isnan(values), values, f"{what} must not be NaN", remedy)


def decision_texts(threshold: float | None, costs: tuple[float, ...] | None) -> list[str]:
    """Describe the rule of `LabeledRows.predicted`; empty for the highest probability."""
    if threshold is not None:
        return [f"class 1 where its probability exceeds {threshold:g}"]
    if costs is not None:
        shown = ", ".join(f"{cost:g}" for cost in costs[:20])
        return [f"probabilities multiplied by costs {shown}{', …' * (len(costs) > 20)}"]
    return []


def require_answers(labels: Array, where: Where) -> Bools:
    """Return whether (rows, C) labels are 1; raise DataError if one is neither 0 nor 1."""
    positive = labels == 1
    remedy = "Mask entries without a label."
    where.require(positive | (labels == 0), labels, "labels must be 0 or 1", remedy)
    return positive


def require_probabilities(values: Array, where: Where, what: str) -> None:
    """Raise DataError if one of (rows, C) `values` is not a probability; `what` names it."""
    right = (values >= -_SLACK) & (values <= 1 + _SLACK)
    rule = f"{what} must be a probability, from 0 to 1"
    where.require(right, values, rule, "Apply a sigmoid or softmax to logits.")


def exceeds(values: Array, threshold: float | NDArray[np.float64]) -> Bools:
    """Whether (rows,) or (rows, C) probabilities exceed one threshold or (C,) ones."""
    # The comparison uses the precision of the probabilities: float32 0.3 does not exceed 0.3,
    # although its value is 0.30000001192….
    kind = values.dtype if values.dtype.kind == "f" else np.float64
    return values > np.asarray(threshold, kind)


def with_both_classes(scores: Array) -> Array:
    """Return (rows, C) scores; for one column, both it and its complement as two classes."""
    return np.concatenate([1 - scores, scores], axis=1) if scores.shape[1] == 1 else scores
