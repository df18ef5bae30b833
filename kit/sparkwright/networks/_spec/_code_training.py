"""What `model.compile` in code says: losses, metrics, weights, the optimizer."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError

from ._call_reading import plain_value
from ._calls import Call
from ._code_values import CodeValues
from ._network_spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec, Task
from ._optimizers import OPTIMIZERS
from ._shapes import Misfit
from ._training_checks import last_activation
from ._training_defaults import defaults_for
from ._training_names import loss_kind, plain_name
from ._wiring import wire

_POSITIONS = ("optimizer", "loss", "loss_weights", "metrics")
_TASKS: dict[str, Task] = {"softmax": "classification", "sigmoid": "binary"}


class CompiledCode:
    """What has been read of a call of `compile`."""

    def __init__(self) -> None:
        self.optimizer: OptimizerSpec | None = None
        self.loss: Any = None
        self.metrics: Any = None
        self.weights: Any = None

    def take(self, values: CodeValues, node: ast.Call) -> None:
        """Read the call.

        Raises:
            Misfit: if something in it cannot be held by a network's values.
        """
        given = {
            name: values.value(inner) for name, inner in zip(_POSITIONS, node.args, strict=False)
        }
        for keyword in node.keywords:
            if keyword.arg not in _POSITIONS:
                raise Misfit(f"`compile` can be read here only with {', '.join(_POSITIONS)}.")
            given[keyword.arg] = values.value(keyword.value)
        if "optimizer" in given:
            self.optimizer = _optimizer(given["optimizer"])
        self.loss = _names(given.get("loss"))
        self.metrics = _names(given.get("metrics"))
        weights = given.get("loss_weights")
        self.weights = weights if isinstance(weights, dict) else plain_value(weights)


def _optimizer(value: Any) -> OptimizerSpec:
    call = Call(f"optimizers.{value}") if isinstance(value, str) else value
    if not isinstance(call, Call):
        raise Misfit(f"the optimizer {value!r} cannot be read here.")
    wanted = call.function.rpartition(".")[2]
    kind = next((k for k in OPTIMIZERS.values() if k.name.lower() == wanted.lower()), None)
    if kind is None:
        raise Misfit(f"the optimizer `{wanted}` is not known here.")
    options: dict[str, Any] = {}
    for place, (name, inner) in enumerate(call.arguments):
        key = name or ("learning_rate" if place == 0 else "")
        if key == "name":
            continue
        if kind.option(key) is None:
            raise Misfit(f"`{kind.name}` has no option `{key or inner}` here.")
        options[key] = plain_value(inner)
    return OptimizerSpec(kind=kind.name, options=options)


def _names(value: Any) -> Any:
    """Text for losses and metrics, within the lists and dicts that they come in."""
    match value:
        case None | str():
            return value
        case list() | tuple():
            return [_names(inner) for inner in value]
        case dict():
            return {name: _names(inner) for name, inner in value.items()}
        case Call() if not [name for name, _ in value.arguments if name != "name"]:
            return plain_name(value.function.rpartition(".")[2])
        case _:
            raise Misfit("losses and metrics can be read here only without arguments.")


def read_training(
    compiled: CompiledCode,
    layers: tuple[LayerSpec, ...],
    names: Sequence[str],
    task: Task | None,
) -> tuple[Task, tuple[OutputSpec, ...], OptimizerSpec]:
    """Task, outputs and optimizer; what the code does not say takes what fits.

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
        fitting = defaults_for(task or guessed[-1])
        given = [metric] if isinstance(metric, str) else metric
        outputs.append(
            OutputSpec(
                layer=name,
                loss=fitting.loss if loss is None else loss,
                metrics=tuple(given or (fitting.metrics if loss is None else ())),
                weight=1.0 if weight is None else weight,
            )
        )
    found = task or (guessed[0] if len(set(guessed)) == 1 else "other")
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
