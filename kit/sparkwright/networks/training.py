"""Common losses and metrics, what they are for, and the defaults of a task. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

Task = Literal["classification", "binary", "regression", "other"]
Labels = Literal["class numbers", "one-hot", "zeros and ones", "numbers", "-1 and 1"]

PROBABILITIES = ("softmax", "sigmoid", "hard_sigmoid")


@dataclass(frozen=True, kw_only=True, slots=True)
class LossKind:
    """One loss.

    Attributes:
        name: Keras' name.
        tasks: that it is for, the most usual first.
        labels: what the labels must be.
        sentence: when to choose it.
        activations: of the layer whose output it takes; empty: any.
        least_outputs: how long the output's last axis must be.
    """

    name: str
    tasks: tuple[Task, ...]
    labels: Labels
    sentence: str
    activations: tuple[str, ...] = ()
    least_outputs: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricKind:
    """One metric.

    Attributes:
        name: Keras' name.
        labels: that it takes.
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


# Common ones; the forms offer every other one of Keras after them.
LOSSES: Mapping[str, LossKind] = MappingProxyType(
    _losses(
        ["classification"],
        "class numbers",
        PROBABILITIES,
        2,
        sparse_categorical_crossentropy="One of several classes; labels are 0, 1, 2, ...",
    )
    | _losses(
        ["classification"],
        "one-hot",
        PROBABILITIES,
        2,
        categorical_crossentropy="One of several classes; labels have a 1 for the class.",
        categorical_focal_crossentropy="One of several classes, some rare; one-hot labels.",
        kl_divergence="Labels are probabilities themselves.",
    )
    | _losses(
        ["binary", "classification"],
        "zeros and ones",
        PROBABILITIES,
        binary_crossentropy="Yes or no, once or for each output.",
        binary_focal_crossentropy="Yes or no, where one of them is rare.",
    )
    | _losses(
        ["binary"],
        "-1 and 1",
        ("linear", "tanh", "softsign"),
        hinge="Yes or no as in support vector machines.",
    )
    | _losses(
        ["regression"],
        "numbers",
        mean_squared_error="Numbers; large errors count most.",
        mean_absolute_error="Numbers; outliers count no more than others.",
        huber="Numbers with some outliers.",
        log_cosh="Numbers with some outliers; smooth everywhere.",
        mean_absolute_percentage_error="Numbers far from 0, where relative errors count.",
        mean_squared_logarithmic_error="Positive numbers of very different sizes.",
    )
    | _losses(
        ["regression"],
        "numbers",
        ("exponential", "softplus", "relu", "sigmoid", "softmax"),
        poisson="Counts of events.",
    )
    | _losses(
        ["regression"],
        "numbers",
        least_outputs=2,
        cosine_similarity="Vectors of which only the direction counts.",
    )
)

_RIGHT = "Fraction of the examples that are right."
_FIRST_FIVE = "Fraction of the examples whose class is among the five most likely."
METRICS: Mapping[str, MetricKind] = MappingProxyType(
    _metrics("class numbers", "one-hot", "zeros and ones", accuracy=_RIGHT)
    | _metrics(
        "class numbers",
        sparse_categorical_accuracy=_RIGHT,
        sparse_top_k_categorical_accuracy=_FIRST_FIVE,
    )
    | _metrics("one-hot", categorical_accuracy=_RIGHT, top_k_categorical_accuracy=_FIRST_FIVE)
    | _metrics("zeros and ones", binary_accuracy=_RIGHT)
    | _metrics(
        "zeros and ones",
        "one-hot",
        auc="Area under the ROC curve: 1 is perfect, 0.5 is chance.",
        precision="Fraction of the predicted positives that are positive.",
        recall="Fraction of the positives that are predicted.",
    )
    | _metrics(
        "class numbers",
        "one-hot",
        macro_auc="Area under the ROC curve of each class against the rest; the mean of them.",
        macro_precision="Fraction of the predictions of a class that are right; the mean of all.",
        macro_recall="Fraction of the examples of a class that are found; the mean of all.",
    )
    | _metrics(
        "class numbers",
        "one-hot",
        "zeros and ones",
        f1="Precision and recall in one; with several classes the mean of all.",
    )
    | _metrics(
        "numbers",
        "zeros and ones",
        "one-hot",
        "-1 and 1",
        mean_absolute_error="In the labels' unit.",
        mean_squared_error="In the square of the labels' unit.",
        root_mean_squared_error="In the labels' unit; large errors count most.",
    )
    | _metrics(
        "numbers",
        mean_absolute_percentage_error="Relative to the label.",
        r2_score="1 is perfect, 0 is as good as the mean.",
        cosine_similarity="1: the same direction.",
    )
)

# Those that Keras lacks: name -> class in `sparkwright.networks.metrics`.
OWN_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "macro_auc": "MacroAUC",
        "macro_precision": "MacroPrecision",
        "macro_recall": "MacroRecall",
        "f1": "F1",
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
    """The loss of that name or alias, in any case; None: it is not known here."""
    return LOSSES.get(plain_name(name))


def metric_kind(name: str) -> MetricKind | None:
    """The metric of that name or alias, in any case; None: it is not known here."""
    return METRICS.get(plain_name(name))


def plain_name(name: str) -> str:
    """The name without aliases and capitals."""
    lowered = name.lower()
    if lowered in ALIASES:
        return ALIASES[lowered]
    if lowered in LOSSES or lowered in METRICS:
        return lowered
    squeezed = {known.replace("_", ""): known for known in (*LOSSES, *METRICS)}
    return squeezed.get(lowered, lowered)


class TrainingDefaults(NamedTuple):
    """What fits an output.

    Attributes:
        loss: Keras' name.
        metrics: Keras' names.
        activation: of the layer whose output it is.
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
    return _DEFAULTS["binary" if task == "classification" and single else task]


_SLOTS: Mapping[str, int] = MappingProxyType(
    {"SGD": 0, "RMSprop": 1, "Adagrad": 1, "Lion": 1, "Muon": 2, "Adafactor": 1}
)


def optimizer_slots(kind: str, options: Mapping[str, Any]) -> int:
    """Numbers that an optimizer keeps for each trainable one, without asking Keras.

    Args:
        kind: its class; one that is not known counts as Adam.
        options: its settings that differ from the defaults.
    """
    name = next((known for known in _SLOTS if known.lower() == kind.lower()), kind)
    slots = _SLOTS.get(name, 2) + bool(options.get("use_ema"))
    slots += bool(options.get("gradient_accumulation_steps"))
    if name in ("SGD", "RMSprop"):
        slots += bool(options.get("momentum"))
    return slots + bool(options.get("amsgrad")) + bool(options.get("centered"))
