"""A network as a plain value: which layers, how they are connected, how it is trained."""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from sparkwright._yaml import write_yaml
from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

from ._calls import build
from ._code import network_code
from .analysis import NetworkAnalysis, analyze
from .schedules import SCHEDULES, AbstractSchedule
from .training import Task

_INTEGERS_BELOW = 2**63


@configuration
class LayerSpec(Configuration):
    """One layer. The analysis of the network checks the values of `options`.

    Raises:
        ConfigurationError: if a field is not of its kind.
    """

    kind: str = option(help='The class in Keras, such as "Conv2D", or "Input".')
    name: str = option(help="Unique in the network.")
    options: Mapping[str, Any] = option(
        default_factory=dict[str, Any],
        form=False,
        help="Arguments of the layer that differ from its defaults, as JSON values; shapes and "
        "sizes are lists or integers. `kernel_l1`, `kernel_l2` and `kernel_max_norm` stand for "
        "Keras' regularizers and constraints.",
    )
    inputs: tuple[str, ...] = option(
        default=(),
        form=False,
        help="Names of the layers whose outputs it takes; empty: the layer before it that is not "
        "switched off. An Input has none.",
    )
    enabled: bool = option(
        default=True,
        help="False: the layer is left out; layers that take it get its first input instead.",
    )

    def _check(self) -> None:
        where = f" of the layer {self.name!r}"
        object.__setattr__(self, "options", _options(self.options, f"`options`{where}"))
        object.__setattr__(self, "inputs", _tuple(self.inputs, f"`inputs`{where}", str))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields without those that have their default."""
        optional = {"options": dict(self.options), "inputs": list(self.inputs)}
        return {
            "kind": self.kind,
            "name": self.name,
            **{name: value for name, value in optional.items() if value},
            **({} if self.enabled else {"enabled": False}),
        }


@configuration
class OutputSpec(Configuration):
    """What one output is trained for.

    Raises:
        ConfigurationError: if a field is not of its kind.
    """

    layer: str = option(help="The layer whose result is compared with the labels.")
    loss: str = option(help="What training makes smaller, by Keras' name.")
    metrics: tuple[str, ...] = option(default=(), form=False, help="Keras' names of metrics.")
    weight: float = option(
        default=1.0,
        minimum=0,
        label="Weight of its loss",
        help="Against the losses of the other outputs; 1 is usual.",
    )

    def _check(self) -> None:
        where = f"`metrics` of the output {self.layer!r}"
        object.__setattr__(self, "metrics", _tuple(self.metrics, where, str))
        object.__setattr__(self, "weight", _plain(self.weight, "`weight`"))


@configuration
class OptimizerSpec(Configuration):
    """An optimizer."""

    kind: str = option(default="Adam", help="The class in Keras.")
    options: Mapping[str, Any] = option(
        default_factory=dict[str, Any],
        form=False,
        help="Settings that differ from the defaults of the class.",
    )
    schedule: AbstractSchedule | None = option(
        default=None,
        kinds=SCHEDULES,
        none_text="constant",
        label="Learning rate schedule",
        help="How the learning rate changes as training goes on: the one above is the highest.",
    )

    def _check(self) -> None:
        object.__setattr__(self, "options", _options(self.options, "`options` of the optimizer"))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able settings; without a schedule if there is none."""
        found = Configuration.to_dict(self)
        return {n: value for n, value in found.items() if n != "schedule" or value is not None}


@configuration
class NetworkSpec(Configuration):
    """A network, complete enough to build and compile it: `spec.build()`.

    It may be invalid while it is edited: `spec.analysis` lists its problems.

    Raises:
        ConfigurationError: if a field is not of its kind.

    Example:
        >>> spec = NetworkSpec(
        ...     layers=(
        ...         LayerSpec(kind="Input", name="features", options={"shape": [4]}),
        ...         LayerSpec(kind="Dense", name="out", options={"units": 3}),
        ...     ),
        ...     outputs=(OutputSpec(layer="out", loss="mse"),),
        ...     task="regression",
        ... )
        >>> NetworkSpec.from_dict(spec.to_dict()) == spec
        True
        >>> spec.analysis.ok, spec.analysis.parameters
        (True, 15)
    """

    task: Task = option(
        default="classification",
        help="What the outputs mean; decides which evaluations fit. In a form, a change of the "
        "task takes its usual loss and metrics.",
    )
    name: str = option(default="network", label="Name of the network", help="The model's name.")
    seed: int | None = option(
        default=42,
        minimum=0,
        maximum=_INTEGERS_BELOW - 1,
        none_text="drawn anew each time",
        help="With a seed, the initial weights are the same each time, but those of attentions; it "
        "also seeds training.",
    )
    layers: tuple[LayerSpec, ...] = option(
        default=(), form=False, help="In order; a layer comes after those that it takes."
    )
    outputs: tuple[OutputSpec, ...] = option(
        default=(), form=False, help="What is trained; one for each output of the network."
    )
    optimizer: OptimizerSpec = option(default_factory=OptimizerSpec, help="How it is trained.")
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

    @property
    def analysis(self) -> NetworkAnalysis:
        """Shapes, parameter counts and problems; computed once, by Keras, which is loaded."""
        if self._analysis is None:
            object.__setattr__(self, "_analysis", analyze(self))
        assert self._analysis is not None
        return self._analysis

    def build(self) -> Any:
        """A compiled `keras.Model`: Sequential for a chain, functional otherwise.

        Raises:
            ConfigurationError: if the network has a problem, or Keras refuses it.
        """
        return build(self)

    def layer(self, name: str) -> LayerSpec | None:
        """The first layer of that name; None: there is none."""
        return next((layer for layer in self.layers if layer.name == name), None)

    @classmethod
    def _updated(cls, settings: dict[str, Any]) -> dict[str, Any]:
        for name, kind in (("layers", LayerSpec), ("outputs", OutputSpec)):
            if name in settings:
                given = enumerate(_tuple(settings[name], f"`{name}`"))
                settings[name] = tuple(_read(kind, each, f"{name}[{n}]") for n, each in given)
        return settings

    def to_json(self, *, indent: int | None = 2) -> str:
        """The network as JSON; `from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_yaml(self) -> str:
        """The network as YAML, which `from_yaml` reads back; flat lists stand in one line."""
        return write_yaml(self.to_dict(), short=True)

    def to_code(
        self, variable: str = "model", *, reserved: Collection[str] = (), seed: str | None = None
    ) -> str:
        """Python code that makes the compiled model, with Keras and metrics that it lacks.

        Args:
            variable: the name that the code gives to the model; default "model".
            reserved: names that the code around it uses; no layer's variable takes one of these.
            seed: the name that holds the seed in the code before; default None: the network's own
                seed is written.

        Raises:
            ConfigurationError: if the network has a problem, or `variable` is no name.
        """
        return network_code(self, variable, reserved=reserved, seed=seed)


def _read(kind: type[LayerSpec | OutputSpec], settings: Any, where: str) -> Any:
    """One of a list of settings; an error says which."""
    try:
        return kind.from_dict(settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"`{where}`: {error}") from error


def _plain(value: Any, where: str) -> Any:
    """`value` as JSON would give it back: tuples become lists, NumPy's floats Python's."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    is_large = isinstance(value, int) and abs(value) >= _INTEGERS_BELOW
    if isinstance(value, int) and not is_large:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(inner, where) for inner in value]
    received = "an integer of more than 64 bits" if is_large else f"{value!r:.200}"
    raise ConfigurationError(
        f"{where} must be a number (integers less than 2**63), text, true, false, null or a list "
        f"of these. Received: {received}."
    )


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
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{where} must be a mapping of names. Received: {value!r:.200}.")
    _tuple([*value], f"the names in {where}", str)
    return {name: _plain(inner, f"{where}[{name!r}]") for name, inner in value.items()}
