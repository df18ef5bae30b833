"""Training metrics of classes that Keras lacks: for class numbers, one-hot labels, yes and no.

Their variables are counts, so the metric of several workers' data is exactly that of all of it.
Importing this module loads Keras and registers them: Keras alone reads a saved model with one of
them after `import sparkwright.networks.metrics`, or with `compile=False`.
"""

from typing import Any, ClassVar

import keras
from keras import ops

_registered = keras.saving.register_keras_serializable("sparkwright")
_THRESHOLDS = 200


class _OfClasses(keras.metrics.Metric):
    """A metric of each class against the rest, and the mean of those that are defined."""

    _own_name: ClassVar[str]
    _counted: ClassVar[tuple[str, ...]]

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or self._own_name, dtype=dtype)
        self._counts: list[Any] = []

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count a minibatch.

        Args:
            y_true: class numbers, (n,) or (n, 1); one-hot, (n, C); or 0 and 1 for one output. Time
                steps may stand before the last axis.
            y_pred: (n, C) scores, of which the largest wins; or (n, 1) probabilities of class 1,
                which must exceed 0.5.
            sample_weight: weights of the rows; default None: 1.
        """
        found = self._count(*_rows(y_true, y_pred, sample_weight))
        self._counts = self._counts or [
            self.add_variable(each.shape, "zeros", name=name)
            for name, each in zip(self._counted, found, strict=True)
        ]
        for variable, each in zip(self._counts, found, strict=True):
            variable.assign(variable + each)

    def result(self) -> Any:
        """The mean over the classes for which it is defined; 0 if there are none."""
        if not self._counts:
            return ops.zeros(())
        share, whole = self._fraction(*map(ops.convert_to_tensor, self._counts))
        defined: Any = ops.cast(whole > 0, "float32")
        mean: Any = ops.sum(share / ops.maximum(whole, 1e-30) * defined)
        return mean / ops.maximum(ops.sum(defined), 1.0)

    def _count(self, actual: Any, scores: Any, weights: Any) -> tuple[Any, ...]:
        """What is counted in (rows, C) labels and scores of (rows, 1) weights."""
        raise NotImplementedError

    def _fraction(self, *counts: Any) -> tuple[Any, Any]:
        """(C,) numerator and denominator."""
        raise NotImplementedError


class _OfDecisions(_OfClasses):
    """True positives over themselves and shares of false positives and false negatives."""

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
    """Mean over the classes of the share of right ones among the predicted."""

    _own_name, _shares = "macro_precision", (1, 0)


@_registered
class MacroRecall(_OfDecisions):
    """Mean over the classes of the share of predicted ones among those of the class."""

    _own_name, _shares = "macro_recall", (0, 1)


@_registered
class F1(_OfDecisions):
    """Harmonic mean of precision and recall: of class 1 for one output, else mean over classes."""

    _own_name, _shares = "f1", (0.5, 0.5)


@_registered
class MacroAUC(_OfClasses):
    """Mean over the classes of the area under the ROC curve of each class against the rest.

    As `keras.metrics.AUC`, it interpolates between 200 thresholds.
    """

    _own_name, _counted = "macro_auc", ("positives", "negatives")

    def _count(self, actual: Any, scores: Any, weights: Any) -> tuple[Any, ...]:
        # Row k of a table counts the scores from k to k + 1 parts of the range.
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
        # Each positive beats the negatives with lower scores, and half of those in its own row.
        beaten = ops.cumsum(negatives, axis=0) - negatives / 2
        there: Any = ops.sum(positives, axis=0)
        return ops.sum(positives * beaten, axis=0), there * ops.sum(negatives, axis=0)


def _rows(y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """(rows, C) labels of 0 and 1, (rows, C) scores, and (rows, 1) weights."""
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
