"""The learning rate that callbacks read and set."""

from typing import Any

from .state import optimizers


def learning_rate_of(model: Any) -> float | None:
    """The optimizer's learning rate; None where it cannot be set: a schedule, or no optimizer."""
    *_, optimizer = [None, *optimizers(getattr(model, "optimizer", None))]
    rate: Any = getattr(optimizer, "_learning_rate", None)
    return float(rate) if hasattr(rate, "assign") else None
