"""Classification metrics that Keras lacks, for integer, one-hot and binary labels.

Their variables are counts, so summing them over workers gives exactly the metric of all data.
Importing this module loads Keras and registers the metrics. `keras.saving.load_model` reads a saved
model with one of them only after `import sparkwright.networks.metrics`, or with `compile=False`.
"""

from typing import Any, ClassVar

import keras
from keras import ops

_registered = keras.saving.register_keras_serializable("sparkwright")
_THRESHOLDS = 200


class _OfClasses(keras.metrics.Metric):
    """Base of metrics that compare each class with the rest, averaged over classes."""

    _direction = "up"  # for Keras' callbacks: higher is better
    _own_name: ClassVar[str]
    _counted: ClassVar[tuple[str, ...]]

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or self._own_name, dtype=dtype)
        self._counts: list[Any] = []

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count a minibatch.

        Args:
            y_true: integer labels (n,) or (n, 1); one-hot labels (n, C); or 0 and 1 for a single
                output. A time axis may precede the last one.
            y_pred: (n, C) scores, where the largest is the prediction; or (n, 1) probabilities of
                class 1, predicted above 0.5.
            sample_weight: weights of the rows; default: 1 each.
        """
        found = self._count(*_rows(y_true, y_pred, sample_weight))
        self._counts = self._counts or [
            self.add_variable(each.shape, "zeros", name=name)
            for name, each in zip(self._counted, found, strict=True)
        ]
        for variable, each in zip(self._counts, found, strict=True):
            variable.assign(variable + each)

    def result(self) -> Any:
        """Return the mean over the classes with a defined value; 0 if there are none."""
        if not self._counts:
            return ops.zeros(())
        share, whole = self._fraction(*map(ops.convert_to_tensor, self._counts))
        defined: Any = ops.cast(whole > 0, "float32")
        mean: Any = ops.sum(share / ops.maximum(whole, 1e-30) * defined)
        return mean / ops.maximum(ops.sum(defined), 1.0)

    def _count(self, actual: Any, scores: Any, weights: Any) -> tuple[Any, ...]:
        """Return the counts for (rows, C) labels and scores with (rows, 1) weights."""
        raise NotImplementedError

    def _fraction(self, *counts: Any) -> tuple[Any, Any]:
        """Return the (C,) numerators and denominators of the metric."""
        raise NotImplementedError


class _OfDecisions(_OfClasses):
    """TP / (TP + a FP + b FN), where `_shares` is (a, b)."""

    _counted = ("true_positives", "false_positives", "false_negatives")
    _shares: ClassVar[tuple[float, float]]

    def _count(self, actual: Any, scores: Any, weights: Any) -> tuple[Any, ...]:
        classes = scores.shape[-1]
        chosen: Any = ops.one_hot(ops.argmax(scores, axis=-1), classes, dtype="float32")
        if classes == 1:
            chosen = ops.cast(scores > 0.5, "float32")
        kinds = actual * chosen, (1 - actual) * chosen, actual * (1 - chosen)
        return tuple(ops.sum(kind * weights, axis=0) for kind in kinds)

    def _fraction(self, *counts: Any) -> tuple[Any, Any]:
        true, false, missed = counts
        return true, true + self._shares[0] * false + self._shares[1] * missed


@_registered
class MacroPrecision(_OfDecisions):
    """Precision of each class, averaged over classes: TP / (TP + FP)."""

    _own_name, _shares = "macro_precision", (1, 0)


@_registered
class MacroRecall(_OfDecisions):
    """Recall of each class, averaged over classes: TP / (TP + FN)."""

    _own_name, _shares = "macro_recall", (0, 1)


@_registered
class F1(_OfDecisions):
    """Harmonic mean of precision and recall, averaged over classes; of class 1 for one output."""

    _own_name, _shares = "f1", (0.5, 0.5)


@_registered
class MacroAUC(_OfClasses):
    """Area under the ROC curve of each class against the rest, averaged over classes.

    Like `keras.metrics.AUC`, it interpolates between 200 thresholds.
    """

    _own_name, _counted = "macro_auc", ("positives", "negatives")

    def _count(self, actual: Any, scores: Any, weights: Any) -> tuple[Any, ...]:
        # Row k counts the scores in [k / 200, (k + 1) / 200).
        classes, last = scores.shape[-1], _THRESHOLDS - 1
        rows: Any = ops.cast(ops.clip(ops.floor(scores * _THRESHOLDS), 0, last), "int32")
        places = ops.reshape(rows * classes + ops.arange(classes), (-1,))

        def table(counted: Any) -> Any:
            flat = ops.reshape(counted * weights, (-1,))
            sums = ops.segment_sum(flat, places, _THRESHOLDS * classes)
            return ops.reshape(sums, (_THRESHOLDS, classes))

        return table(actual), table(1 - actual)

    def _fraction(self, *counts: Any) -> tuple[Any, Any]:
        positives, negatives = counts
        # A positive ranks above the negatives in lower rows, and above half of those in its row.
        beaten = ops.cumsum(negatives, axis=0) - negatives / 2
        there: Any = ops.sum(positives, axis=0)
        return ops.sum(positives * beaten, axis=0), there * ops.sum(negatives, axis=0)


def _rows(y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return (rows, C) labels of 0 and 1, (rows, C) scores, and (rows, 1) weights."""
    scores: Any = ops.cast(y_pred, "float32")
    labels: Any = ops.convert_to_tensor(y_true)
    whole_shape: Any = ops.shape(scores)
    classes, shape = scores.shape[-1], whole_shape[:-1]
    same = len(labels.shape) == len(scores.shape) and labels.shape[-1] == classes
    if same or classes == 1:
        actual = ops.cast(ops.reshape(labels, (-1, classes)), "float32")
    else:
        numbers = ops.cast(ops.reshape(labels, (-1,)), "int32")
        actual = ops.one_hot(numbers, classes, dtype="float32")
    weights: Any = ops.cast(1.0 if sample_weight is None else sample_weight, "float32")
    while 0 < len(weights.shape) < len(shape):
        weights = ops.expand_dims(weights, -1)
    weights = ops.reshape(ops.broadcast_to(weights, shape), (-1, 1))
    return actual, ops.reshape(scores, (-1, classes)), weights
