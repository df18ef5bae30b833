"""A Keras model as the builder shows it: rows to look at, and a network to edit if there is one."""

from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.networks import NetworkAnalysis, NetworkSpec


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelView:
    """A model that is shown and not edited.

    Attributes:
        model: the Keras model.
        analysis: its layers, looked at.
        spec: the same network as a value; None: it cannot be one.
        reason: why there is no `spec`; empty: there is one.
    """

    model: Any
    analysis: NetworkAnalysis
    spec: NetworkSpec | None
    reason: str = ""

    @property
    def name(self) -> str:
        """The model's name."""
        return str(getattr(self.model, "name", "model"))

    @property
    def problem(self) -> str | None:
        """Why it cannot be trained; None: it can."""
        if getattr(self.model, "optimizer", None) is None:
            return "The model is not compiled. Call its `compile`, then show it again."
        return None


def is_model(value: Any) -> bool:
    """Whether `value` looks like a Keras model; Keras itself is not imported for that."""
    return all(hasattr(value, name) for name in ("layers", "count_params", "get_weights"))


def view_of(model: Any) -> ModelView:
    """Look at a model; never raises for what is in it."""
    from sparkwright.networks import describe_model, view_model

    analysis = view_model(model)
    try:
        return ModelView(model=model, analysis=analysis, spec=describe_model(model))
    except ConfigurationError as error:
        return ModelView(model=model, analysis=analysis, spec=None, reason=str(error))
