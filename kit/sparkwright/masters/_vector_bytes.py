"""How large what workers average is, from counts alone; pure."""

from collections.abc import Mapping
from typing import Any

from sparkwright.networks.training import optimizer_slots

_BYTES = 4


def vector_bytes(parameters: int) -> int:
    """Bytes of a network's parameters as float32.

    Example:
        >>> vector_bytes(430_000)
        1720000
    """
    return _BYTES * parameters


def updater_bytes(trainable: int, optimizer: str, options: Mapping[str, Any] | None = None) -> int:
    """Bytes of an optimizer's state, as float32.

    Args:
        trainable: parameters that training changes.
        optimizer: the name of its class in Keras; one that is not known counts as Adam.
        options: its settings; those that matter are `momentum`, `amsgrad`, `centered`, `use_ema`.

    Example:
        >>> updater_bytes(1000, "Adam"), updater_bytes(1000, "SGD", {"momentum": 0.9})
        (8000, 4000)
    """
    return _BYTES * trainable * optimizer_slots(optimizer, options or {})
