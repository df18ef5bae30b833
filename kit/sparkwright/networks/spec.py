"""A network as a plain value: which layers, how they are connected, how it is trained."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sparkwright._yaml import read_json, read_yaml, write_yaml
from sparkwright.errors import ConfigurationError

from . import _calls, _code
from ._plain_values import (
    LARGEST,
    given_fields,
    list_of,
    options_of,
    plain,
    shown,
    text_of,
    texts_of,
)
from .analysis import NetworkAnalysis, analyze
from .training import Task

TASKS: tuple[Task, ...] = ("classification", "binary", "regression", "other")


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSpec:
    """One layer.

    Attributes:
        kind: its class in Keras, such as "Conv2D", or "Input".
        name: unique in the network.
        options: arguments of the layer that differ from its defaults, as JSON values; shapes and
            sizes are lists or integers. `kernel_l1`, `kernel_l2` and `kernel_max_norm` stand for
            Keras' regularizers and constraints.
        inputs: names of the layers whose outputs it takes; empty: the layer before it that is not
            switched off. An Input has none.
        enabled: False: the layer is left out; those that take it get what it takes first.

    Raises:
        ConfigurationError: if a field is not of its kind. What an option may be is looked at by
            the analysis of the network.
    """

    kind: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        """Make options and inputs plain."""
        text_of(self.kind, "`kind` of a layer")
        text_of(self.name, "`name` of a layer")
        if not isinstance(self.enabled, bool):
            raise ConfigurationError(
                f"`enabled` must be true or false. Received: enabled={self.enabled!r:.200}."
            )
        options = options_of(self.options, f"`options` of the layer {self.name!r}")
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "inputs", texts_of(self.inputs, f"`inputs` of {self.name!r}"))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields; what is as usual is left out."""
        return {
            "kind": self.kind,
            "name": self.name,
            **({"options": dict(self.options)} if self.options else {}),
            **({"inputs": list(self.inputs)} if self.inputs else {}),
            **({} if self.enabled else {"enabled": False}),
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            ConfigurationError: if a field is missing, unknown or of the wrong kind.
        """
        known = ("kind", "name", "options", "inputs", "enabled")
        return cls(**given_fields(settings, known, ("kind", "name"), "a layer"))


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSpec:
    """What one output is trained for.

    Attributes:
        layer: the name of the layer whose output it is.
        loss: Keras' name of the loss.
        metrics: Keras' names of metrics.
        weight: of the loss among those of several outputs; default 1.

    Raises:
        ConfigurationError: if a field is not of its kind.
    """

    layer: str
    loss: str
    metrics: tuple[str, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the kinds of the fields."""
        text_of(self.layer, "`layer` of an output")
        text_of(self.loss, f"`loss` of the output {self.layer!r}")
        metrics = texts_of(self.metrics, f"`metrics` of the output {self.layer!r}")
        object.__setattr__(self, "metrics", metrics)
        weight = plain(self.weight, f"`weight` of the output {self.layer!r}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
            raise ConfigurationError(
                "`weight` of an output must be a number of at least 0. "
                f"Received: weight={self.weight!r:.200}."
            )
        object.__setattr__(self, "weight", weight)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {
            "layer": self.layer,
            "loss": self.loss,
            "metrics": list(self.metrics),
            "weight": self.weight,
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            ConfigurationError: if a field is missing, unknown or of the wrong kind.
        """
        known = ("layer", "loss", "metrics", "weight")
        return cls(**given_fields(settings, known, ("layer", "loss"), "an output"))


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerSpec:
    """An optimizer: its class in Keras, and the settings that differ from its defaults."""

    kind: str = "Adam"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        """Make the options plain."""
        text_of(self.kind, "`kind` of an optimizer")
        options = options_of(self.options, "`options` of the optimizer")
        object.__setattr__(self, "options", options)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {"kind": self.kind, "options": dict(self.options)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            ConfigurationError: if a field is unknown or of the wrong kind.
        """
        return cls(**given_fields(settings, ("kind", "options"), (), "an optimizer"))


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkSpec:
    """A network, complete enough to build and compile it: `spec.build()`.

    It may be wrong, while somebody works on it: `spec.analysis` says what is.

    Attributes:
        layers: in order; a layer comes after those that it takes.
        outputs: what is trained; one for each output of the network.
        optimizer: default Adam.
        name: the model's name.
        task: what the outputs mean; decides defaults and which evaluations fit.
        seed: seeds the initial weights and what is random in training; None: drawn anew each time.

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

    layers: tuple[LayerSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    name: str = "network"
    task: Task = "classification"
    seed: int | None = 42
    _analysis: NetworkAnalysis | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the kinds of the fields."""
        text_of(self.name, "`name` of a network")
        for name, kind in (("layers", LayerSpec), ("outputs", OutputSpec)):
            values = tuple(list_of(getattr(self, name), f"`{name}`"))
            for value in values:
                if not isinstance(value, kind):
                    raise ConfigurationError(
                        f"each of `{name}` must be of the kind {kind.__name__}. "
                        f"Received: {value!r:.200}."
                    )
            object.__setattr__(self, name, values)
        if not isinstance(self.optimizer, OptimizerSpec):
            raise ConfigurationError(
                "`optimizer` must be of the kind OptimizerSpec. "
                f"Received: optimizer={self.optimizer!r:.200}."
            )
        if self.task not in TASKS:
            raise ConfigurationError(
                f"`task` must be one of {', '.join(TASKS)}. Received: task={self.task!r:.200}."
            )
        seed = self.seed
        number = isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < LARGEST
        if not (seed is None or number):
            raise ConfigurationError(
                "`seed` must be an integer of at least 0 and less than 2**63, or None. "
                f"Received: {shown('seed', seed)}."
            )

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
        return _calls.build(self)

    def layer(self, name: str) -> LayerSpec | None:
        """The first layer of that name; None: there is none."""
        return next((layer for layer in self.layers if layer.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {
            "name": self.name,
            "task": self.task,
            "seed": self.seed,
            "layers": [layer.to_dict() for layer in self.layers],
            "outputs": [output.to_dict() for output in self.outputs],
            "optimizer": self.optimizer.to_dict(),
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what is left out takes its default.

        Raises:
            ConfigurationError: if a field is unknown or of the wrong kind.
        """
        known = ("name", "task", "seed", "layers", "outputs", "optimizer")
        given = given_fields(settings, known, (), "a network")
        for name, kind in (("layers", LayerSpec), ("outputs", OutputSpec)):
            if name in given:
                given[name] = tuple(kind.from_dict(each) for each in list_of(given[name], name))
        if "optimizer" in given:
            given["optimizer"] = OptimizerSpec.from_dict(given["optimizer"])
        return cls(**given)

    def to_json(self, *, indent: int | None = 2) -> str:
        """The network as JSON."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`.

        Raises:
            ConfigurationError: if the text is not JSON, or not of a network.
        """
        return cls.from_dict(read_json(text))

    def to_yaml(self) -> str:
        """The network as YAML; lists without others in them stand in one line."""
        return write_yaml(self.to_dict(), short=True)

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """The inverse of `to_yaml`; nothing in the text is executed.

        Raises:
            ConfigurationError: if the text is not YAML, or not of a network.
        """
        return cls.from_dict(read_yaml(text))

    def to_code(
        self, variable: str = "model", *, reserved: Collection[str] = (), seed: str | None = None
    ) -> str:
        """Python code with Keras alone that makes the compiled model.

        Args:
            variable: the name that the code gives to the model; default "model".
            reserved: names that the code around it uses; no layer's variable takes one of these.
            seed: the name that holds the seed in the code before; default None: the network's own
                seed is written.

        Raises:
            ConfigurationError: if the network has a problem, or `variable` is no name.
        """
        return _code.to_code(self, variable, reserved=reserved, seed=seed)
