"""What an output is trained with, unless somebody chooses otherwise."""

from collections.abc import Sequence
from dataclasses import dataclass

from ._network_spec import Task


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
