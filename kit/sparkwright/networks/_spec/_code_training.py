"""How a model is compiled: losses, metrics, weights, the optimizer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from ._network_spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec, Task
from ._training_checks import last_activation
from ._training_defaults import defaults_for
from ._training_names import loss_kind
from ._wiring import wire

_TASKS: dict[str, Task] = {"softmax": "classification", "sigmoid": "binary"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """How a model is compiled; losses, metrics and weights nested as Keras takes them."""

    optimizer: OptimizerSpec | None = None
    loss: Any = None
    metrics: Any = None
    weights: Any = None


def read_training(
    compiled: Compiled,
    layers: tuple[LayerSpec, ...],
    names: Sequence[str],
) -> tuple[Task, tuple[OutputSpec, ...], OptimizerSpec]:
    """Task, outputs and optimizer; what is not compiled takes what fits.

    Raises:
        ConfigurationError: if losses or metrics do not belong to the outputs.
    """
    losses = _of_outputs("loss", compiled.loss, names)
    metrics = _of_outputs("metrics", compiled.metrics, names)
    weights = _of_outputs("loss_weights", compiled.weights, names)
    guessed: list[Task] = []
    outputs: list[OutputSpec] = []
    for name, loss, metric, weight in zip(names, losses, metrics, weights, strict=True):
        guessed.append(_task_of(loss, name, layers))
        fitting = defaults_for(guessed[-1])
        given = [metric] if isinstance(metric, str) else metric
        outputs.append(
            OutputSpec(
                layer=name,
                loss=fitting.loss if loss is None else loss,
                metrics=tuple(given or (fitting.metrics if loss is None else ())),
                weight=1.0 if weight is None else weight,
            )
        )
    found = guessed[0] if len(set(guessed)) == 1 else "other"
    return found, tuple(outputs), compiled.optimizer or OptimizerSpec()


def _of_outputs(what: str, value: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ConfigurationError(
                f"`{what}` must name outputs of the model ({', '.join(names)}). "
                f"Received: {unknown[0]!r}."
            )
        return [value.get(name) for name in names]
    if len(names) == 1:
        single = isinstance(value, list) and len(value) == 1
        whole = what == "metrics" and not (single and isinstance(value[0], list))
        return [value if whole or not single else value[0]]
    if isinstance(value, list):
        if len(value) != len(names):
            raise ConfigurationError(
                f"`{what}` must have one entry for each of {len(names)} outputs. "
                f"Received: {len(value)}."
            )
        return value
    return [value] * len(names)


def _task_of(loss: str | None, name: str, layers: tuple[LayerSpec, ...]) -> Task:
    kind = loss_kind(loss) if loss else None
    if kind is not None:
        return kind.tasks[0]
    row = [layer.name for layer in layers].index(name)
    activation = last_activation(NetworkSpec(layers=layers), row, wire(layers))
    return _TASKS.get(activation or "", "regression")
