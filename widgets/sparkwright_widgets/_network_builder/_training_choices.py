"""Losses, metrics and optimizers that a form offers, the usual ones of a task first. Pure."""

from collections.abc import Mapping, Sequence

from sparkwright._option import Option
from sparkwright.networks import OutputSpec
from sparkwright.networks._spec._network_spec import Task

_LOSSES: Mapping[str, tuple[str, ...]] = {
    "classification": ("sparse_categorical_crossentropy", "categorical_crossentropy"),
    "binary": ("binary_crossentropy", "binary_focal_crossentropy", "hinge"),
    "regression": ("mean_squared_error", "mean_absolute_error", "huber", "log_cosh"),
}
_METRICS: Mapping[str, tuple[str, ...]] = {
    "classification": ("accuracy",),
    "binary": ("accuracy",),
    "regression": ("mean_absolute_error",),
}


def losses_of(task: Task) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys([*_LOSSES.get(task, ()), *(n for names in _LOSSES.values() for n in names)])
    )


def metrics_of(task: Task) -> tuple[str, ...]:
    return _METRICS.get(task, tuple(n for names in _METRICS.values() for n in names))


def usual_output(task: Task, layer: str, shape: tuple[int | None, ...] | None) -> OutputSpec:
    return OutputSpec(layer=layer, loss=losses_of(task)[0], metrics=metrics_of(task)[:1])


def optimizers() -> Sequence[str]:
    return ("Adam", "SGD")


def optimizer_options(kind: str) -> tuple[tuple[Option, ...], str]:
    return (Option(name="learning_rate", kind="float", default=1e-3, above=0),), ""
