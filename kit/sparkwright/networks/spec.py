"""Immutable specification of a network: layers, connections, outputs and optimizer."""

import json
from collections.abc import Collection
from typing import Any

from sparkwright._yaml import write_yaml
from sparkwright.configuration import configuration

from ._code import network_code
from ._model import build
from ._parts import (
    AbstractNetworkSpec,
    LayerSpec as LayerSpec,
    OptimizerSpec as OptimizerSpec,
    OutputSpec as OutputSpec,
)
from ._rows import NetworkAnalysis
from .analysis import analyze


@configuration
class NetworkSpec(AbstractNetworkSpec):
    """Complete specification of a network; `build()` returns the compiled model.

    A spec may be invalid while it is edited: `spec.analysis` lists its problems.

    Raises:
        ConfigurationError: if a field has the wrong type.

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

    @property
    def analysis(self) -> NetworkAnalysis:
        """Shapes, parameter counts and problems; computed once. Imports Keras."""
        if self._analysis is None:
            object.__setattr__(self, "_analysis", analyze(self))
        assert self._analysis is not None
        return self._analysis

    def build(self) -> Any:
        """Return a compiled `keras.Model`: Sequential for a chain, functional otherwise.

        Raises:
            ConfigurationError: if the network has a problem, or Keras raises an error.
        """
        return build(self)

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the network as JSON; `from_json` is the inverse."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_yaml(self) -> str:
        """Return the network as YAML, flat lists on one line; `from_yaml` is the inverse."""
        return write_yaml(self.to_dict(), short=True)

    def to_code(
        self, variable: str = "model", *, reserved: Collection[str] = (), seed: str | None = None
    ) -> str:
        """Return Keras code that builds the compiled model.

        Args:
            variable: name of the model's variable; default "model".
            reserved: names used by the surrounding code, which layer variables must not have.
            seed: variable of the surrounding code that holds the seed; default None: write the
                network's own seed.

        Raises:
            ConfigurationError: if the network has a problem, or `variable` is not a valid name.
        """
        return network_code(self, variable, reserved=reserved, seed=seed)
