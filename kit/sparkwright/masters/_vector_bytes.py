"""How large what workers average is, from counts alone; pure."""

from typing import Any

# Numbers that an optimizer of Keras keeps for each trainable parameter. SGD and RMSprop keep one
# more with momentum.
_SLOTS = {
    **{"sgd": 0, "rmsprop": 1, "adagrad": 1, "lion": 1, "adafactor": 1, "muon": 2},
    **{"adam": 2, "adamw": 2, "adamax": 2, "nadam": 2, "adadelta": 2, "ftrl": 2, "lamb": 2},
}
_BYTES = 4


def vector_bytes(parameters: int) -> int:
    """Bytes of a network's parameters as float32.

    Example:
        >>> vector_bytes(430_000)
        1720000
    """
    return _BYTES * parameters


def updater_bytes(trainable: int, optimizer: str, options: Any = None) -> int:
    """Bytes of an optimizer's state, as float32.

    Args:
        trainable: parameters that training changes.
        optimizer: the name of its class in Keras; one that is not known counts as Adam.
        options: its settings, where they matter: `momentum`, `amsgrad`, `centered`.

    Example:
        >>> updater_bytes(1000, "Adam"), updater_bytes(1000, "SGD", {"momentum": 0.9})
        (8000, 4000)
    """
    given: dict[str, Any] = dict(options or {})
    name = optimizer.lower()
    extra = sum(
        bool(given.get(option))
        for option, of in (
            ("momentum", ("sgd", "rmsprop")),
            ("amsgrad", ("adam", "adamw")),
            ("centered", ("rmsprop",)),
        )
        if name in of
    )
    return _BYTES * trainable * (_SLOTS.get(name, 2) + extra)
