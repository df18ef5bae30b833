"""Common losses and metrics, their uses, and the defaults of each task. Imports no Keras."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Task = Literal["classification", "binary", "regression", "other"]
Labels = Literal["class numbers", "one-hot", "zeros and ones", "numbers", "-1 and 1"]

PROBABILITIES = ("softmax", "sigmoid", "hard_sigmoid")


@dataclass(frozen=True, kw_only=True, slots=True)
class LossKind:
    """A loss and its requirements.

    Attributes:
        name: Keras' name.
        tasks: tasks that it suits, the most common first.
        labels: required format of the labels.
        sentence: when to choose it.
        activations: valid activations of the output layer; empty: any.
        least_outputs: minimum length of the output's last axis.
    """

    name: str
    tasks: tuple[Task, ...]
    labels: Labels
    sentence: str
    activations: tuple[str, ...] = ()
    least_outputs: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricKind:
    """A metric and the labels that it accepts.

    Attributes:
        name: Keras' name.
        labels: accepted formats of the labels.
        sentence: what it measures.
    """

    name: str
    labels: tuple[Labels, ...]
    sentence: str


def _losses(
    tasks: Sequence[Task],
    labels: Labels,
    activations: tuple[str, ...] = (),
    least_outputs: int = 1,
    **sentences: str,
) -> dict[str, LossKind]:
    return {
        name: LossKind(
            name=name,
            tasks=(*tasks, "other"),
            labels=labels,
            sentence=sentence,
            activations=activations,
            least_outputs=least_outputs,
        )
        for name, sentence in sentences.items()
    }


def _metrics(*labels: Labels, **sentences: str) -> dict[str, MetricKind]:
    return {
        name: MetricKind(name=name, labels=labels, sentence=sentence)
        for name, sentence in sentences.items()
    }


# Common losses; forms list the remaining ones of Keras after them.
LOSSES: Mapping[str, LossKind] = MappingProxyType(
    _losses(
        ["classification"],
        "class numbers",
        PROBABILITIES,
        2,
        sparse_categorical_crossentropy="Multi-class; labels are class numbers 0, 1, 2, ...",
    )
    | _losses(
        ["classification"],
        "one-hot",
        PROBABILITIES,
        2,
        categorical_crossentropy="Multi-class; labels are one-hot.",
        categorical_focal_crossentropy="Multi-class with rare classes; labels are one-hot.",
        kl_divergence="Labels are probability distributions.",
    )
    | _losses(
        ["binary", "classification"],
        "zeros and ones",
        PROBABILITIES,
        binary_crossentropy="Binary or multi-label.",
        binary_focal_crossentropy="Binary or multi-label with a rare class.",
    )
    | _losses(
        ["binary"],
        "-1 and 1",
        ("linear", "tanh", "softsign"),
        hinge="Binary, as in support vector machines.",
    )
    | _losses(
        ["regression"],
        "numbers",
        mean_squared_error="Penalizes large errors most.",
        mean_absolute_error="Robust to outliers.",
        huber="Quadratic for small errors, linear for outliers.",
        log_cosh="Like huber, but smooth everywhere.",
        mean_absolute_percentage_error="Relative errors; labels must not be near 0.",
        mean_squared_logarithmic_error="Positive labels of very different magnitudes.",
    )
    | _losses(
        ["regression"],
        "numbers",
        ("exponential", "softplus", "relu", "sigmoid", "softmax"),
        poisson="Event counts.",
    )
    | _losses(
        ["regression"],
        "numbers",
        least_outputs=2,
        cosine_similarity="Vectors whose direction matters, but not their length.",
    )
)

_ACCURACY = "Fraction of examples classified correctly."
_TOP_FIVE = "Fraction of examples whose class is among the five most probable."
METRICS: Mapping[str, MetricKind] = MappingProxyType(
    _metrics("class numbers", "one-hot", "zeros and ones", accuracy=_ACCURACY)
    | _metrics(
        "class numbers",
        sparse_categorical_accuracy=_ACCURACY,
        sparse_top_k_categorical_accuracy=_TOP_FIVE,
    )
    | _metrics("one-hot", categorical_accuracy=_ACCURACY, top_k_categorical_accuracy=_TOP_FIVE)
    | _metrics("zeros and ones", binary_accuracy=_ACCURACY)
    | _metrics(
        "zeros and ones",
        "one-hot",
        auc="Area under the ROC curve: 1 is perfect, 0.5 is chance.",
        precision="Fraction of predicted positives that are positive.",
        recall="Fraction of positives that are predicted as positive.",
    )
    | _metrics(
        "class numbers",
        "one-hot",
        macro_auc="Mean one-vs-rest area under the ROC curve over the classes.",
        macro_precision="Mean precision over the classes.",
        macro_recall="Mean recall over the classes.",
    )
    | _metrics(
        "class numbers",
        "one-hot",
        "zeros and ones",
        f1="Harmonic mean of precision and recall; for several classes, the mean over them.",
    )
    | _metrics(
        "numbers",
        "zeros and ones",
        "one-hot",
        "-1 and 1",
        mean_absolute_error="In the unit of the labels.",
        mean_squared_error="In the squared unit of the labels.",
        root_mean_squared_error="In the unit of the labels; penalizes large errors most.",
    )
    | _metrics(
        "numbers",
        mean_absolute_percentage_error="Relative to the label.",
        r2_score="Coefficient of determination: 1 is perfect, 0 equals predicting the mean.",
        cosine_similarity="1 means the same direction.",
    )
)

# Metrics that Keras lacks: name -> class in `sparkwright.networks.metrics`.
OWN_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "macro_auc": "MacroAUC",
        "macro_precision": "MacroPrecision",
        "macro_recall": "MacroRecall",
        "f1": "F1",
    }
)

# Keras' aliases -> names.
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
    """The loss with this name or alias, ignoring case; None if it is not listed in LOSSES."""
    return LOSSES.get(plain_name(name))


def metric_kind(name: str) -> MetricKind | None:
    """The metric with this name or alias, ignoring case; None if it is not listed in METRICS."""
    return METRICS.get(plain_name(name))


def plain_name(name: str) -> str:
    """Normalize the name of a loss or metric: resolve aliases, lower case."""
    lowered = name.lower()
    if lowered in ALIASES:
        return ALIASES[lowered]
    if lowered in LOSSES or lowered in METRICS:
        return lowered
    squeezed = {known.replace("_", ""): known for known in (*LOSSES, *METRICS)}
    return squeezed.get(lowered, lowered)


class TrainingDefaults(NamedTuple):
    """Default loss, metrics and activation of an output.

    Attributes:
        loss: Keras' name.
        metrics: Keras' names.
        activation: activation of the output layer.
    """

    loss: str
    metrics: tuple[str, ...]
    activation: str


_NUMBERS = TrainingDefaults("mean_squared_error", ("mean_absolute_error",), "linear")
_DEFAULTS: Mapping[Task, TrainingDefaults] = {
    "classification": TrainingDefaults("sparse_categorical_crossentropy", ("accuracy",), "softmax"),
    "binary": TrainingDefaults("binary_crossentropy", ("accuracy", "auc"), "sigmoid"),
    "regression": _NUMBERS,
    "other": _NUMBERS,
}


def defaults_for(task: Task, output_shape: Sequence[int | None] | None = None) -> TrainingDefaults:
    """Return the default loss, metrics and last activation for a task.

    Args:
        task: meaning of the output.
        output_shape: shape of one example, if known; classification with one output is binary.

    Example:
        >>> defaults_for("classification", (10,)).loss
        'sparse_categorical_crossentropy'
        >>> defaults_for("classification", (1,)).loss
        'binary_crossentropy'
    """
    single = output_shape is not None and tuple(output_shape[-1:]) == (1,)
    return _DEFAULTS["binary" if task == "classification" and single else task]


_SLOTS: Mapping[str, int] = MappingProxyType(
    {"SGD": 0, "RMSprop": 1, "Adagrad": 1, "Lion": 1, "Muon": 2, "Adafactor": 1}
)


def optimizer_slots(kind: str, options: Mapping[str, Any]) -> int:
    """State values of an optimizer per trainable parameter; an unknown one counts as Adam."""
    name = next((known for known in _SLOTS if known.lower() == kind.lower()), kind)
    slots = _SLOTS.get(name, 2) + bool(options.get("use_ema"))
    slots += bool(options.get("gradient_accumulation_steps"))
    if name in ("SGD", "RMSprop"):
        slots += bool(options.get("momentum"))
    return slots + bool(options.get("amsgrad")) + bool(options.get("centered"))
