"""How large what workers average is, from counts alone; pure."""

from collections.abc import Mapping
from typing import Any

from sparkwright.networks._spec._optimizers import OPTIMIZERS

_BYTES = 4
_KINDS = {name.lower(): kind for name, kind in OPTIMIZERS.items()}


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
    kind = _KINDS.get(optimizer.lower(), OPTIMIZERS["Adam"])
    return _BYTES * trainable * kind.slots_of(options or {})
