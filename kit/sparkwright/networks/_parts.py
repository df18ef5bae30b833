"""Layers, outputs, optimizer and other fields of a network specification. Imports no Keras."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

from ._rows import NetworkAnalysis
from .schedules import SCHEDULES, AbstractSchedule
from .training import Task

_INTEGERS_BELOW = 2**63


@configuration
class LayerSpec(Configuration):
    """One layer. `NetworkSpec.analysis` validates the values of `options`.

    Raises:
        ConfigurationError: if a field has the wrong type.
    """

    kind: str = option(help='Keras class, such as "Conv2D", or "Input".')
    name: str = option(help="Unique in the network.")
    options: Mapping[str, Any] = option(
        default_factory=dict[str, Any],
        form=False,
        help="Arguments that differ from the layer's defaults, as JSON values; shapes and "
        "sizes are lists or integers, objects are mappings as Keras saves them. `kernel_l1`, "
        "`kernel_l2` and `kernel_max_norm` stand for Keras' regularizers and constraints.",
    )
    inputs: tuple[str, ...] = option(
        default=(),
        form=False,
        help="Names of the input layers; empty: the previous enabled layer. An Input has none.",
    )
    enabled: bool = option(
        default=True,
        help="False: the layer is skipped; its consumers receive its first input instead.",
    )

    def _check(self) -> None:
        where = f" of the layer {self.name!r}"
        object.__setattr__(self, "options", _options(self.options, f"`options`{where}"))
        object.__setattr__(self, "inputs", _tuple(self.inputs, f"`inputs`{where}", str))

    def to_dict(self) -> dict[str, Any]:
        """Fields that differ from their defaults, JSON-serializable."""
        optional = {"options": dict(self.options), "inputs": list(self.inputs)}
        return {
            "kind": self.kind,
            "name": self.name,
            **{name: value for name, value in optional.items() if value},
            **({} if self.enabled else {"enabled": False}),
        }


@configuration
class OutputSpec(Configuration):
    """Loss and metrics of one output.

    Raises:
        ConfigurationError: if a field has the wrong type.
    """

    layer: str = option(help="Output layer, whose values are compared with the labels.")
    loss: str = option(help="Keras' name of the loss to minimize.")
    metrics: tuple[str, ...] = option(default=(), form=False, help="Keras' names of metrics.")
    weight: float = option(
        default=1.0,
        minimum=0,
        label="Loss weight",
        help="Weight of this loss in the total loss.",
    )

    def _check(self) -> None:
        where = f"`metrics` of the output {self.layer!r}"
        object.__setattr__(self, "metrics", _tuple(self.metrics, where, str))
        object.__setattr__(self, "weight", float(self.weight))


@configuration
class OptimizerSpec(Configuration):
    """Class, arguments and learning rate schedule of an optimizer."""

    kind: str = option(default="Adam", help="Keras class.")
    options: Mapping[str, Any] = option(
        default_factory=dict[str, Any],
        form=False,
        help="Arguments that differ from the defaults of the class.",
    )
    schedule: AbstractSchedule | None = option(
        default=None,
        kinds=SCHEDULES,
        none_text="constant",
        label="Learning rate schedule",
        help="Changes the learning rate during training; the learning rate above is its maximum.",
    )

    def _check(self) -> None:
        object.__setattr__(self, "options", _options(self.options, "`options` of the optimizer"))

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable settings; `schedule` is left out if it is None."""
        found = Configuration.to_dict(self)
        return {n: value for n, value in found.items() if n != "schedule" or value is not None}


@configuration
class AbstractNetworkSpec(Configuration):
    """The fields of a `NetworkSpec`."""

    task: Task = option(
        default="classification",
        help="Meaning of the outputs; determines the evaluations that apply. In a form, changing "
        "the task sets its default loss and metrics.",
    )
    name: str = option(default="network", label="Name of the network", help="The model's name.")
    seed: int | None = option(
        default=42,
        minimum=0,
        maximum=_INTEGERS_BELOW - 1,
        none_text="random",
        help="Seed of the initial weights and of training.",
    )
    layers: tuple[LayerSpec, ...] = option(
        default=(), form=False, help="In order; a layer comes after its inputs."
    )
    outputs: tuple[OutputSpec, ...] = option(
        default=(), form=False, help="Loss and metrics of each output of the network."
    )
    optimizer: OptimizerSpec = option(default_factory=OptimizerSpec, help="The optimizer.")
    _analysis: NetworkAnalysis | None = field(
        default=None,
        init=False,
        repr=False,
        compare=False,
        metadata={"form": False, "saved": False},
    )

    def _check(self) -> None:
        object.__setattr__(self, "layers", _tuple(self.layers, "`layers`", LayerSpec))
        object.__setattr__(self, "outputs", _tuple(self.outputs, "`outputs`", OutputSpec))

    def layer(self, name: str) -> LayerSpec | None:
        """Return the first layer with this name, or None."""
        return next((layer for layer in self.layers if layer.name == name), None)

    @property
    def analysis(self) -> NetworkAnalysis:
        """See `NetworkSpec.analysis`."""
        raise NotImplementedError

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name, kind in (("layers", LayerSpec), ("outputs", OutputSpec)):
            if name in settings:
                given = enumerate(_tuple(settings[name], f"`{name}`"))
                settings[name] = tuple(_read(kind, each, f"{name}[{n}]") for n, each in given)
        return settings


def _read(kind: type[LayerSpec | OutputSpec], settings: Any, where: str) -> Any:
    """Read settings; an error is prefixed with `where`."""
    try:
        return kind.from_dict(settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"`{where}`: {error}") from error


def _tuple(value: Any, where: str, kind: type[Any] = object) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{where} must be a list. Received: {value!r:.200}.")
    for inner in value:
        if not isinstance(inner, kind):
            raise ConfigurationError(
                f"each of {where} must be of the type {kind.__name__}. Received: {inner!r:.200}."
            )
    return tuple(value)


def _options(value: Any, where: str) -> dict[str, Any]:
    """Convert a mapping to JSON types: tuples become lists, NumPy floats become Python floats."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} must be a mapping of names. Received: {value!r:.200}.")
    try:
        return json.loads(json.dumps(dict(value), allow_nan=False), parse_int=_integer)
    except (TypeError, ValueError, RecursionError) as error:
        names = ", ".join(map(str, value))
        raise ConfigurationError(
            f"{where} ({names}) must have JSON values, with integers less than 2**63. "
            f"Received: {error}."
        ) from error


def _integer(text: str) -> int:
    if abs(int(text)) >= _INTEGERS_BELOW:
        raise ValueError("an integer of more than 64 bits")
    return int(text)
