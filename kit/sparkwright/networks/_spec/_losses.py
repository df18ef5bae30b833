"""Losses: what they ask of outputs and labels, and which task they are for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ._network_spec import Task

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
