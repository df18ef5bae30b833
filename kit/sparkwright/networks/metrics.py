"""Training metrics of classes that Keras lacks: for class numbers, one-hot labels, yes and no.

They are sums over examples, so that the metric of several workers' data is exactly that of all of
it. Importing this module loads Keras and registers them; Keras alone reads a saved model with one
of them after `import sparkwright.networks.metrics`, or with `compile=False`.
"""

from typing import Any

import keras
from keras import ops

_PACKAGE = "sparkwright"


class _OfClasses(keras.metrics.Metric):
    """Counts true positives, false positives and false negatives of each class."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or self.own_name, dtype=dtype)
        self._counts: list[Any] = []

    own_name = ""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count a minibatch.

        Args:
            y_true: class numbers, (n,) or (n, 1); one-hot, (n, C); or 0 and 1 for one output. Time
                steps may stand before the last axis.
            y_pred: (n, C) scores, of which the largest wins; or (n, 1) probabilities of class 1,
                which must exceed 0.5.
            sample_weight: weights of the rows; default None: 1.
        """
        actual, scores, weights = _rows(y_true, y_pred, sample_weight)
        classes = scores.shape[-1]
        if not self._counts:
            self._counts = [
                self.add_variable((classes,), "zeros", name=name)
                for name in ("true_positives", "false_positives", "false_negatives")
            ]
        predicted = (
            ops.cast(scores > 0.5, self.dtype)
            if classes == 1
            else ops.one_hot(ops.argmax(scores, axis=-1), classes, dtype=self.dtype)
        )
        for variable, found in zip(
            self._counts,
            (actual * predicted, (1 - actual) * predicted, actual * (1 - predicted)),
            strict=True,
        ):
            variable.assign(variable + ops.sum(found * weights, axis=0))

    def result(self) -> Any:
        """The mean over the classes for which it is defined; 0 if there are none."""
        if not self._counts:
            return ops.zeros((), self.dtype)
        right, whole = self.fraction(*(ops.convert_to_tensor(each) for each in self._counts))
        share = ops.where(whole > 0, right / ops.maximum(whole, 1e-30), 0.0)
        defined = ops.sum(ops.cast(whole > 0, self.dtype))
        return ops.sum(share) / ops.maximum(defined, 1.0)

    def fraction(self, true: Any, false: Any, missed: Any) -> tuple[Any, Any]:
        """(C,) numerator and denominator of true and false positives and false negatives."""
        raise NotImplementedError


@keras.saving.register_keras_serializable(_PACKAGE)
class MacroPrecision(_OfClasses):
    """Mean over the classes of the share of right ones among the predicted."""

    own_name = "macro_precision"

    def fraction(self, true: Any, false: Any, missed: Any) -> tuple[Any, Any]:
        """See the base."""
        del missed
        return true, true + false


@keras.saving.register_keras_serializable(_PACKAGE)
class MacroRecall(_OfClasses):
    """Mean over the classes of the share of predicted ones among those of the class."""

    own_name = "macro_recall"

    def fraction(self, true: Any, false: Any, missed: Any) -> tuple[Any, Any]:
        """See the base."""
        del false
        return true, true + missed


@keras.saving.register_keras_serializable(_PACKAGE)
class F1(_OfClasses):
    """Harmonic mean of precision and recall: of class 1 for one output, else mean over classes."""

    own_name = "f1"

    def fraction(self, true: Any, false: Any, missed: Any) -> tuple[Any, Any]:
        """See the base."""
        return 2 * true, 2 * true + false + missed


@keras.saving.register_keras_serializable(_PACKAGE)
class MacroAUC(keras.metrics.Metric):
    """Mean over the classes of the area under the ROC curve of each class against the rest.

    As `keras.metrics.AUC`, it interpolates between 200 thresholds. Classes of which no example, or
    no other, has been seen are left out.
    """

    own_name = "macro_auc"

    def __init__(
        self, num_thresholds: int = 200, name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(name=name or self.own_name, dtype=dtype)
        self.num_thresholds = num_thresholds
        self._counts: list[Any] = []

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Count a minibatch; see `F1`."""
        actual, scores, weights = _rows(y_true, y_pred, sample_weight)
        classes, buckets = scores.shape[-1], self.num_thresholds
        if not self._counts:
            self._counts = [
                self.add_variable((buckets, classes), "zeros", name=name)
                for name in ("positives", "negatives")
            ]
        # Row k counts the scores from k to k + 1 parts of the range.
        rows = ops.cast(ops.clip(ops.floor(scores * buckets), 0, buckets - 1), "int32")
        places = ops.reshape(rows * classes + ops.arange(classes), (-1,))
        for variable, found in zip(self._counts, (actual, 1 - actual), strict=True):
            counted = ops.segment_sum(
                ops.reshape(found * weights, (-1,)), places, buckets * classes
            )
            variable.assign(variable + ops.reshape(counted, (buckets, classes)))

    def result(self) -> Any:
        """The mean area over the classes for which it is defined; 0 if there are none."""
        if not self._counts:
            return ops.zeros((), self.dtype)
        positives, negatives = (ops.convert_to_tensor(each) for each in self._counts)
        # Each positive beats the negatives in lower buckets, and half of those in its own.
        beaten = ops.cumsum(negatives, axis=0) - negatives / 2
        pairs = ops.sum(positives, axis=0) * ops.sum(negatives, axis=0)
        areas = ops.sum(positives * beaten, axis=0) / ops.maximum(pairs, 1e-30)
        defined = ops.cast(pairs > 0, self.dtype)
        return ops.sum(areas * defined) / ops.maximum(ops.sum(defined), 1.0)

    def get_config(self) -> dict[str, Any]:
        """As Keras keeps it."""
        return {**super().get_config(), "num_thresholds": self.num_thresholds}


def _rows(y_true: Any, y_pred: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """(rows, C) labels of 0 and 1, (rows, C) scores, and (rows, 1) weights."""
    scores: Any = ops.cast(y_pred, "float32")
    labels: Any = ops.convert_to_tensor(y_true)
    classes = scores.shape[-1]
    one_hot = len(labels.shape) == len(scores.shape) and labels.shape[-1] == classes
    shape = ops.shape(scores)[:-1]
    scores = ops.reshape(scores, (-1, classes))
    if one_hot or classes == 1:
        actual = ops.cast(ops.reshape(labels, (-1, classes)), "float32")
    else:
        numbers = ops.cast(ops.reshape(labels, (-1,)), "int32")
        actual = ops.one_hot(numbers, classes, dtype="float32")
    if sample_weight is None:
        return actual, scores, ops.ones((1, 1), "float32")
    weights: Any = ops.cast(sample_weight, "float32")
    while len(weights.shape) < len(shape):
        weights = ops.expand_dims(weights, -1)
    return actual, scores, ops.reshape(ops.broadcast_to(weights, shape), (-1, 1))
