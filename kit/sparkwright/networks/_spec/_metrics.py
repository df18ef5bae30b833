"""Metrics: what they say, and which labels they understand."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ._losses import Labels


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricKind:
    """One metric.

    Attributes:
        name: Keras' name.
        title: its name for people.
        labels: that it understands.
        sentence: what it says.
    """

    name: str
    title: str
    labels: tuple[Labels, ...]
    sentence: str


_CLASSES: tuple[Labels, ...] = ("class numbers", "one-hot", "zeros and ones")
_NUMBERS: tuple[Labels, ...] = ("numbers", "zeros and ones", "one-hot", "-1 and 1")


def _metric(name: str, title: str, labels: tuple[Labels, ...], sentence: str) -> MetricKind:
    return MetricKind(name=name, title=title, labels=labels, sentence=sentence)


METRICS: Mapping[str, MetricKind] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            _metric("accuracy", "Accuracy", _CLASSES, "Part of the examples that are right."),
            _metric(
                "sparse_categorical_accuracy",
                "Accuracy of class numbers",
                ("class numbers",),
                "Part of the examples that are right.",
            ),
            _metric(
                "categorical_accuracy",
                "Accuracy of one-hot labels",
                ("one-hot",),
                "Part of the examples that are right.",
            ),
            _metric(
                "sparse_top_k_categorical_accuracy",
                "Among the first five, class numbers",
                ("class numbers",),
                "Part of the examples whose class is among the five most likely.",
            ),
            _metric(
                "top_k_categorical_accuracy",
                "Among the first five, one-hot labels",
                ("one-hot",),
                "Part of the examples whose class is among the five most likely.",
            ),
            _metric(
                "binary_accuracy",
                "Accuracy of yes or no",
                ("zeros and ones",),
                "Part of the answers that are right.",
            ),
            _metric(
                "auc",
                "Area under the ROC curve",
                ("zeros and ones", "one-hot"),
                "1 is perfect, 0.5 is chance.",
            ),
            _metric(
                "precision",
                "Precision",
                ("zeros and ones", "one-hot"),
                "Of those called yes, the part that is.",
            ),
            _metric(
                "recall",
                "Recall",
                ("zeros and ones", "one-hot"),
                "Of those that are yes, the part found.",
            ),
            _metric("mean_absolute_error", "Mean absolute error", _NUMBERS, "In the labels' unit."),
            _metric("mean_squared_error", "Mean squared error", _NUMBERS, "In its square."),
            _metric(
                "root_mean_squared_error",
                "Root of the mean squared error",
                _NUMBERS,
                "In the labels' unit; large errors count most.",
            ),
            _metric(
                "mean_absolute_percentage_error",
                "Mean absolute error in per cent",
                ("numbers",),
                "Of the label.",
            ),
            _metric(
                "r2_score",
                "R squared",
                ("numbers",),
                "1 is perfect, 0 is as good as the mean.",
            ),
            _metric(
                "cosine_similarity", "Cosine similarity", ("numbers",), "1: the same direction."
            ),
        )
    }
)
