"""A network as a plain value: which layers, how they are connected, how it is trained."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Task = Literal["classification", "binary", "regression", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerSpec:
    """One layer.

    Attributes:
        kind: its class in Keras, such as "Conv2D", or "Input".
        name: unique in the network.
        options: arguments of the layer that differ from its defaults, as JSON values; shapes and
            sizes are lists or integers.
        inputs: names of the layers whose outputs it takes; empty: the layer before it that is not
            switched off. An Input has none.
        enabled: False: the layer is left out, and what it takes is passed on.
    """

    kind: str
    name: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: tuple[str, ...] = ()
    enabled: bool = True

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields; what is as usual is left out."""
        return {
            "kind": self.kind,
            "name": self.name,
            **({"options": dict(self.options)} if self.options else {}),
            **({"inputs": list(self.inputs)} if self.inputs else {}),
            **({} if self.enabled else {"enabled": False}),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSpec:
    """What one output is trained for.

    Attributes:
        layer: the name of the layer whose output it is.
        loss: Keras' name of the loss.
        metrics: Keras' names of metrics.
        weight: of the loss among those of several outputs; default 1.
    """

    layer: str
    loss: str
    metrics: tuple[str, ...] = ()
    weight: float = 1.0

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {
            "layer": self.layer,
            "loss": self.loss,
            "metrics": list(self.metrics),
            "weight": self.weight,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerSpec:
    """An optimizer: its class in Keras, and the settings that differ from its defaults."""

    kind: str = "Adam"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {"kind": self.kind, "options": dict(self.options)}


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
        seed: seeds the initial weights; None: drawn anew each time.

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
    """

    layers: tuple[LayerSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    optimizer: OptimizerSpec = field(default_factory=OptimizerSpec)
    name: str = "network"
    task: Task = "classification"
    seed: int | None = 42

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
        raise NotImplementedError
