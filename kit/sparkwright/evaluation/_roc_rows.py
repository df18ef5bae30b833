"""From labels, predictions and a mask to the scores that a ROC counts."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

from ._rows import Where, require_numbers, row_mask
from ._sorted_scores import Scores

Array = NDArray[Any]
_PROBABILITY_SLACK = 1e-3  # averages of probabilities may pass 0 and 1 a little


class ScoredRows(NamedTuple):
    """What was and how sure the network was, for every row that counts."""

    positive: NDArray[np.bool_]  # (rows,)
    scores: Scores  # (rows,) float32 or float64, finite


def scored_rows(
    labels: ArrayLike, predictions: ArrayLike, *, mask: ArrayLike | None, probabilities: bool
) -> ScoredRows:
    """Read the score of class 1, and whether the row is of class 1.

    Args:
        labels: 0 or 1 of shape (n,), (n, 1), (n, T, 1), ..., or one-hot (n, 2), (n, T, 2), ...
        predictions: (n,), (n, 1), (n, T, 1), ..., or (n, 2), ... of which the last column counts.
        mask: (n,) or (n, T), ...: rows where it is 0 do not count, whatever they hold.
        probabilities: whether scores must be from 0 to 1.

    Returns:
        The rows that count, in order.

    Raises:
        DataError: if shapes do not fit, a score is NaN or infinite, or a label is neither 0 nor 1;
            the message names the row.
    """
    scores, truth = np.asarray(predictions), np.asarray(labels)
    if scores.ndim == 1:
        scores = scores[:, None]
    if scores.ndim < 2 or scores.shape[-1] not in (1, 2):
        raise DataError(
            "`predictions` must be one score per row, or two columns of which the second counts: "
            f"(n,), (n, 1), (n, 2), (n, T, 1). Received: predictions of shape "
            f"{np.shape(predictions)}. ROCMultiClass takes more classes, ROCBinary more outputs."
        )
    rows_shape = scores.shape[:-1]
    one_hot = truth.shape == (*rows_shape, 2)
    if not one_hot and truth.shape not in (rows_shape, (*rows_shape, 1)):
        raise DataError(
            f"`labels` for predictions of shape {np.shape(predictions)} must have shape "
            f"{rows_shape}, {(*rows_shape, 1)} or, one-hot, {(*rows_shape, 2)}. "
            f"Received: labels of shape {truth.shape}."
        )
    scores = scores[..., -1].reshape(-1)
    truth = truth.reshape(-1, 2) if one_hot else truth.reshape(-1)
    kept = None
    if mask is not None:
        kept = np.flatnonzero(row_mask(mask, rows_shape))
        scores, truth = scores[kept], truth[kept]
    scores = float_scores(scores)
    if truth.dtype.kind not in "fiub":
        truth = float_scores(truth, "labels")
    if one_hot:
        # Smoothed labels name the larger entry; 0, 0 and NaN name none.
        positive = truth[:, 1] > truth[:, 0]
        right = (truth[:, 0] != truth[:, 1]) & (truth.max(axis=1) > 0)
    else:
        positive = truth.astype(np.bool_)
        right = positive == truth
    if not right.all():
        first, place = Where(rows_shape, _numbers(kept, truth))(~right)
        raise DataError(
            f"labels must be 0 or 1{', one-hot' if one_hot else ''}. "
            f"Received: {truth[first].tolist()} at {place}. Mask rows without a label."
        )
    require_scores(scores, rows_shape, kept, probabilities=probabilities)
    return ScoredRows(positive, scores)


def require_scores(
    scores: Scores, shape: tuple[int, ...], kept: NDArray[np.intp] | None, *, probabilities: bool
) -> None:
    """Raise DataError if a score is not finite or, if asked, no probability; say in which row.

    Args:
        scores: (rows,) or (rows, C).
        shape: of all rows, as `Where` takes it.
        kept: numbers of the rows that count; None if all do.
        probabilities: whether they must be from 0 to 1.
    """
    right = np.isfinite(scores)
    if probabilities:
        right &= (scores >= -_PROBABILITY_SLACK) & (scores <= 1 + _PROBABILITY_SLACK)
    if right.all():
        return
    columns = scores.reshape(len(scores), -1)
    where = Where(shape, _numbers(kept, scores))
    require_numbers(columns, where, "predictions")
    first, place = where(np.asarray(~right.reshape(columns.shape).all(axis=1)))
    infinite = not np.isfinite(columns[first]).all()
    raise DataError(
        f"{'scores must be finite' if infinite else 'thresholds lie from 0 to 1, so scores must'}. "
        f"Received: {columns[first].tolist()} at {place}. "
        + (
            "Evaluate probabilities instead of their log-odds."
            if infinite
            else "Apply a sigmoid to logits, or use an exact ROC: thresholds=0."
        )
    )


def float_scores(scores: Array, what: str = "predictions") -> Scores:
    """float32 of what float32 holds exactly (half precision), float64 of everything else.

    Raises:
        DataError: if these are no real numbers.
    """
    if scores.dtype.kind == "f" and scores.dtype.itemsize <= 4:
        return scores.astype(np.float32, copy=False)
    if scores.dtype.name == "bfloat16":
        return scores.astype(np.float32)
    if scores.dtype.kind not in "fiub":
        raise DataError(f"{what} must be real numbers. Received: dtype {scores.dtype}.")
    return scores.astype(np.float64, copy=False)


def _numbers(kept: NDArray[np.intp] | None, rows: Array) -> NDArray[np.intp]:
    return np.arange(len(rows)) if kept is None else kept
