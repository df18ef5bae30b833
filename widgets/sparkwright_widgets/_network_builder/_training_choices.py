"""Losses, metrics and optimizers that a form offers, the usual ones of a task first. Pure."""

from collections.abc import Sequence

from sparkwright.networks import LOSSES, METRICS, OPTIMIZERS, OutputSpec, Task, defaults_for
from sparkwright.options import Option


def losses_of(task: Task) -> tuple[str, ...]:
    """Names of all losses, those for `task` first.

    Example:
        >>> losses_of("regression")[:2]
        ('mean_squared_error', 'mean_absolute_error')
    """
    fitting = [name for name, loss in LOSSES.items() if loss.tasks and loss.tasks[0] == task]
    also = [name for name, loss in LOSSES.items() if task in loss.tasks]
    return tuple(dict.fromkeys([*fitting, *also, *LOSSES]))


def metrics_of(loss: str) -> tuple[str, ...]:
    """Names of the metrics that understand the labels of a loss; all, if it is not known.

    Example:
        >>> metrics_of("sparse_categorical_crossentropy")[0]
        'accuracy'
    """
    kind = LOSSES.get(loss)
    return tuple(
        name for name, metric in METRICS.items() if kind is None or kind.labels in metric.labels
    )


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
    known = OPTIMIZERS.get(kind)
    return ((), "") if known is None else (known.options, known.sentence)
