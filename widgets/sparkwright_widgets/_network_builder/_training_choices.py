"""Losses, metrics and optimizers that a form offers, the usual ones of a task first. Pure."""

from collections.abc import Sequence

from sparkwright._option import Option
from sparkwright.networks import (
    LOSSES,
    METRICS,
    OutputSpec,
    Task,
    defaults_for,
    optimizer_kind,
)
from sparkwright.networks.keras_catalog import names_of


def losses_of(task: Task) -> tuple[str, ...]:
    """Names of all losses, those for `task` first.

    Example:
        >>> losses_of("regression")[:2]
        ('mean_squared_error', 'mean_absolute_error')
    """
    fitting = [name for name, loss in LOSSES.items() if loss.tasks and loss.tasks[0] == task]
    also = [name for name, loss in LOSSES.items() if task in loss.tasks]
    return tuple(dict.fromkeys([*fitting, *also, *LOSSES, *names_of("losses")]))


def metrics_of(loss: str) -> tuple[str, ...]:
    """Names of the metrics that take the labels of a loss; Keras' others follow.

    Example:
        >>> metrics_of("sparse_categorical_crossentropy")[0]
        'accuracy'
    """
    kind = LOSSES.get(loss)
    common = [
        name for name, metric in METRICS.items() if kind is None or kind.labels in metric.labels
    ]
    return (*common, *(name for name in names_of("metrics") if name not in METRICS))


def loss_sentence(loss: str) -> str:
    """When to choose a loss; empty if it is not known."""
    kind = LOSSES.get(loss)
    return "" if kind is None else kind.sentence


def usual_output(task: Task, layer: str, shape: Sequence[int | None] | None) -> OutputSpec:
    """An output with the loss and the metrics that fit the task and the layer's shape."""
    usual = defaults_for(task, shape)
    return OutputSpec(layer=layer, loss=usual.loss, metrics=usual.metrics)


def optimizer_options(kind: str) -> tuple[tuple[Option, ...], str]:
    """The settings of an optimizer, and when to choose it; nothing of one that is not known."""
    known = optimizer_kind(kind)
    return ((), "") if known is None else (known.options, known.sentence)
