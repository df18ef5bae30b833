"""From labels, predictions and masks of any usual shape to rows; and names for wrong rows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

Array = NDArray[Any]


class Where(NamedTuple):
    """Names a row that counts by its place in what the caller gave.

    Attributes:
        shape: examples, and then time steps or pixels if there are any.
        kept: numbers of the rows that count, of all rows in order.
    """

    shape: tuple[int, ...]
    kept: NDArray[np.intp]

    def __call__(self, wrong: NDArray[np.bool_]) -> tuple[int, str]:
        """The first wrong one among the rows that count, and what the caller calls it."""
        first = int(np.flatnonzero(wrong)[0])
        place = [int(i) for i in np.unravel_index(int(self.kept[first]), self.shape)]
        if len(place) == 1:
            return first, f"row {place[0]}"
        return first, f"row {place[0]}, step {', '.join(map(str, place[1:]))}"

    @property
    def examples(self) -> NDArray[np.intp]:
        """(rows,) the example that each row that counts belongs to."""
        steps = int(np.prod(self.shape[1:], dtype=np.int64))
        return self.kept // max(steps, 1)


class OutputRows(NamedTuple):
    """Labels and predictions of several outputs that are looked at one by one.

    Attributes:
        labels: (rows, C).
        predictions: (rows, C).
        counts: (rows, C) whether the entry counts; what does not count is 0 in both.
        where: names rows.
    """

    labels: Array
    predictions: Array
    counts: NDArray[np.bool_]
    where: Where


def as_numbers(values: ArrayLike, what: str) -> Array:
    """An array of real numbers: bool, integers or floats; bfloat16 and the like as float32.

    Args:
        values: of any shape.
        what: "predictions" or "labels".

    Raises:
        DataError: if they are anything else, such as text or rows of different lengths.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "V":  # NumPy knows the formats of other packages so
            array = array.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"`{what}` must be an array of numbers. Received: {error}.") from None
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"`{what}` must be an array of real numbers. Received: dtype {array.dtype}."
        )
    return array


def row_mask(mask: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """(rows,) which rows count; a mask per example counts or drops all of its steps.

    Raises:
        DataError: if the mask fits neither rows nor examples.
    """
    if mask is None:
        return np.ones(int(np.prod(shape, dtype=np.int64)), np.bool_)
    counts = np.asarray(mask) != 0
    if counts.shape == (*shape, 1):
        counts = counts.reshape(shape)
    if counts.ndim == 0 or counts.shape != shape[: counts.ndim]:
        raise DataError(
            f"`mask` must have shape {shape}, one entry per row, or its first axes. "
            f"Received: mask of shape {counts.shape}."
        )
    for size in shape[counts.ndim :]:
        counts = np.repeat(counts[..., None], size, axis=-1)
    return counts.reshape(-1)


def output_rows(
    labels: ArrayLike, predictions: ArrayLike, *, mask: ArrayLike | None = None
) -> OutputRows:
    """Rows of outputs that are looked at one by one.

    Args:
        labels: the predictions' shape; the last axis may be left out if it is 1.
        predictions: (n, C), (n, T, C), ...; the last axis is the outputs. (n,) counts as (n, 1).
        mask: (n,) or (n, T), ..., per row; or of the predictions' shape, per output.

    Returns:
        All rows in order, but for those of which no output counts.

    Raises:
        DataError: if shapes do not fit, one of the two holds no real numbers, or a prediction or
            label that counts is NaN.
    """
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
    require_numbers(np.where(counts, scores, 0), where, "predictions")
    require_numbers(np.where(counts, truth, 0), where, "labels")
    return OutputRows(np.where(counts, truth, 0), np.where(counts, scores, 0), counts, where)


def require_numbers(values: Array, where: Where, what: str) -> None:
    """Raise DataError if one of (rows, C) `values` is NaN, and say where.

    Args:
        values: of the rows that count.
        where: names them.
        what: "predictions" or "labels".
    """
    wrong = np.asarray(np.isnan(values).any(axis=1)) if values.dtype.kind == "f" else None
    if wrong is None or not wrong.any():
        return
    first, place = where(wrong)
    remedy = (
        "Check that training did not diverge, and that the features hold no NaN; mask padded steps."
        if what == "predictions"
        else "Mask what has no label."
    )
    raise DataError(
        f"{what} must not be NaN. Received: {values[first].tolist()} at {place}. {remedy}"
    )
