"""Common losses and metrics, what they are for, and the defaults of a task. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

Task = Literal["classification", "binary", "regression", "other"]
Labels = Literal["class numbers", "one-hot", "zeros and ones", "numbers", "-1 and 1"]

PROBABILITIES = ("softmax", "sigmoid", "hard_sigmoid")


@dataclass(frozen=True, kw_only=True, slots=True)
class LossKind:
    """One loss.

    Attributes:
        name: Keras' name.
        title: its name for people.
        tasks: that it is for, the most usual first.
        labels: what the labels must be.
        activations: of the layer whose output it takes; empty: any.
        least_outputs: how long the output's last axis must be.
        sentence: when to choose it.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    labels: Labels
    sentence: str
    activations: tuple[str, ...] = ()
    least_outputs: int = 1


def _loss(
    name: str,
    title: str,
    tasks: Sequence[Task],
    labels: Labels,
    sentence: str,
    activations: tuple[str, ...] = (),
    least_outputs: int = 1,
) -> LossKind:
    return LossKind(
        name=name,
        title=title,
        tasks=(*tasks, "other"),
        labels=labels,
        sentence=sentence,
        activations=activations,
        least_outputs=least_outputs,
    )


LOSSES: Mapping[str, LossKind] = MappingProxyType(
    {
        loss.name: loss
        for loss in (
            _loss(
                "sparse_categorical_crossentropy",
                "Cross-entropy of class numbers",
                ["classification"],
                "class numbers",
                "One of several classes; labels are 0, 1, 2, ...",
                PROBABILITIES,
                2,
            ),
            _loss(
                "categorical_crossentropy",
                "Cross-entropy of one-hot labels",
                ["classification"],
                "one-hot",
                "One of several classes; labels have a 1 in the place of the class.",
                PROBABILITIES,
                2,
            ),
            _loss(
                "categorical_focal_crossentropy",
                "Focal cross-entropy",
                ["classification"],
                "one-hot",
                "One of several classes of which some are rare; one-hot labels.",
                PROBABILITIES,
                2,
            ),
            _loss(
                "kl_divergence",
                "Kullback-Leibler divergence",
                ["classification"],
                "one-hot",
                "Labels are probabilities themselves.",
                PROBABILITIES,
                2,
            ),
            _loss(
                "binary_crossentropy",
                "Binary cross-entropy",
                ["binary", "classification"],
                "zeros and ones",
                "Yes or no, once or for each output.",
                PROBABILITIES,
            ),
            _loss(
                "binary_focal_crossentropy",
                "Binary focal cross-entropy",
                ["binary", "classification"],
                "zeros and ones",
                "Yes or no, where one of them is rare.",
                PROBABILITIES,
            ),
            _loss(
                "hinge",
                "Hinge",
                ["binary"],
                "-1 and 1",
                "Yes or no as support vector machines see it.",
                ("linear", "tanh", "softsign"),
            ),
            _loss(
                "mean_squared_error",
                "Mean squared error",
                ["regression"],
                "numbers",
                "Numbers; large errors count most.",
            ),
            _loss(
                "mean_absolute_error",
                "Mean absolute error",
                ["regression"],
                "numbers",
                "Numbers; outliers count no more than others.",
            ),
            _loss(
                "huber",
                "Huber",
                ["regression"],
                "numbers",
                "Numbers with some outliers.",
            ),
            _loss(
                "log_cosh",
                "Logarithm of the hyperbolic cosine",
                ["regression"],
                "numbers",
                "Numbers with some outliers; smooth everywhere.",
            ),
            _loss(
                "mean_absolute_percentage_error",
                "Mean absolute error in per cent",
                ["regression"],
                "numbers",
                "Numbers far from 0, where relative errors count.",
            ),
            _loss(
                "mean_squared_logarithmic_error",
                "Mean squared error of logarithms",
                ["regression"],
                "numbers",
                "Positive numbers of very different sizes.",
            ),
            _loss(
                "poisson",
                "Poisson",
                ["regression"],
                "numbers",
                "Counts of events.",
                ("exponential", "softplus", "relu", "sigmoid", "softmax"),
            ),
            _loss(
                "cosine_similarity",
                "Cosine similarity",
                ["regression"],
                "numbers",
                "Vectors of which only the direction counts.",
                least_outputs=2,
            ),
        )
    }
)


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

# Other names that Keras accepts for the same.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "acc": "accuracy",
        "mse": "mean_squared_error",
        "mae": "mean_absolute_error",
        "mape": "mean_absolute_percentage_error",  # codespell:ignore mape
        "msle": "mean_squared_logarithmic_error",
        "bce": "binary_crossentropy",
        "kld": "kl_divergence",
        "logcosh": "log_cosh",
        "huber_loss": "huber",
    }
)


def loss_kind(name: str) -> LossKind | None:
    """The loss of that name or alias, in any case; None: it is not known here.

    Example:
        >>> loss_kind("mse").name
        'mean_squared_error'
    """
    return LOSSES.get(plain_name(name))


def metric_kind(name: str) -> MetricKind | None:
    """The metric of that name or alias, in any case; None: it is not known here."""
    return METRICS.get(plain_name(name))


def plain_name(name: str) -> str:
    """The name without aliases and capitals.

    Example:
        >>> plain_name("MAE"), plain_name("AUC"), plain_name("MeanSquaredError")
        ('mean_absolute_error', 'auc', 'mean_squared_error')
    """
    lowered = name.lower()
    if lowered in ALIASES:
        return ALIASES[lowered]
    if lowered in LOSSES or lowered in METRICS:
        return lowered
    squeezed = {known.replace("_", ""): known for known in (*LOSSES, *METRICS)}
    return squeezed.get(lowered, lowered)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingDefaults:
    """What fits an output.

    Attributes:
        loss: Keras' name.
        metrics: Keras' names.
        activation: of the layer whose output it is.
    """

    loss: str
    metrics: tuple[str, ...]
    activation: str


def defaults_for(task: Task, output_shape: Sequence[int | None] | None = None) -> TrainingDefaults:
    """Loss, metrics and last activation that fit a task.

    Args:
        task: what the output means.
        output_shape: of one example, if known; classes with a single output are yes or no.

    Example:
        >>> defaults_for("classification", (10,)).loss
        'sparse_categorical_crossentropy'
        >>> defaults_for("classification", (1,)).loss
        'binary_crossentropy'
    """
    single = output_shape is not None and tuple(output_shape[-1:]) == (1,)
    if task == "binary" or (task == "classification" and single):
        return TrainingDefaults(
            loss="binary_crossentropy", metrics=("accuracy", "auc"), activation="sigmoid"
        )
    if task == "classification":
        return TrainingDefaults(
            loss="sparse_categorical_crossentropy", metrics=("accuracy",), activation="softmax"
        )
    return TrainingDefaults(
        loss="mean_squared_error", metrics=("mean_absolute_error",), activation="linear"
    )


_SLOTS: Mapping[str, int] = MappingProxyType(
    {"SGD": 0, "RMSprop": 1, "Adagrad": 1, "Lion": 1, "Muon": 2, "Adafactor": 1}
)


def optimizer_slots(kind: str, options: Mapping[str, Any]) -> int:
    """Numbers that an optimizer keeps for each trainable one, without asking Keras.

    Args:
        kind: its class; one that is not known counts as Adam.
        options: its settings that differ from the defaults.

    Example:
        >>> optimizer_slots("Adam", {}), optimizer_slots("SGD", {"momentum": 0.9})
        (2, 1)
    """
    name = next((known for known in _SLOTS if known.lower() == kind.lower()), kind)
    slots = _SLOTS.get(name, 2) + bool(options.get("use_ema"))
    if name in ("SGD", "RMSprop"):
        slots += bool(options.get("momentum"))
    return slots + bool(options.get("amsgrad")) + bool(options.get("centered"))
