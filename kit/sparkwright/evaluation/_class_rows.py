"""From labels, predictions and a mask, in any usual shape, to one pair of classes per row."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

from ._rows import Where, require_numbers, row_mask

Array = NDArray[Any]
Classes = NDArray[np.int64]
_PROBABILITY_SLACK = 1e-3  # half precision sigmoids and averages may pass 0 and 1 a little


class ClassRows(NamedTuple):
    """What was and what was predicted, for every row that counts."""

    actual: Classes  # (rows,)
    predicted: Classes  # (rows,)
    classes: int


def class_rows(
    labels: ArrayLike, predictions: ArrayLike, *, mask: ArrayLike | None = None
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

    Returns:
        The rows that count, in order.

    Raises:
        DataError: if shapes do not fit, a prediction is NaN, a single probability lies outside
            0 to 1, or a label names no class; the message names the row.
    """
    scores, truth = np.asarray(predictions), np.asarray(labels)
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
    kept = np.flatnonzero(row_mask(mask, rows_shape))
    scores = scores.reshape(-1, width)[kept]
    truth = truth.reshape(-1, width)[kept] if one_hot else truth.reshape(-1)[kept]
    where = Where(rows_shape, kept)
    classes = max(width, 2)
    return ClassRows(
        _hot_class(truth, where) if one_hot else _named_class(truth, classes, where),
        _predicted_class(scores, where),
        classes,
    )


def _predicted_class(scores: Array, where: Where) -> Classes:
    require_numbers(scores, where, "predictions")
    if scores.shape[1] > 1:
        return scores.argmax(axis=1).astype(np.int64)
    probability = scores[:, 0]
    wrong = (probability < -_PROBABILITY_SLACK) | (probability > 1 + _PROBABILITY_SLACK)
    if wrong.any():
        first, place = where(wrong)
        raise DataError(
            "a single output must be a probability, from 0 to 1. "
            f"Received: {float(probability[first])} at {place}. Apply a sigmoid to logits."
        )
    return (probability > 0.5).astype(np.int64)


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
