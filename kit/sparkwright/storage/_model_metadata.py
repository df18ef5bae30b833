"""What a user says of a model when saving it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from sparkwright.errors import ConfigurationError

AUTOMATIC = "auto"


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelMetadata:
    """What is kept with a model beside what can be read off it.

    Attributes:
        title: a few words; default None.
        comment: more of them; default None.
        metrics: JSON-able results by name, such as those of an evaluation; default none. Objects
            with `to_dict` and NumPy's numbers count; NaN and infinities, which JSON lacks, become
            None.
        saved_by: who; default "auto": user and machine. None: not kept.
        training: JSON-able: how the model was trained; default None.

    Example:
        >>> ModelMetadata(title="first try", metrics={"accuracy": np.float32(0.5)}).metrics
        {'accuracy': 0.5}
    """

    title: str | None = None
    comment: str | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    saved_by: str | None = AUTOMATIC
    training: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Check every field, and make plain what JSON does not take."""
        for name in ("title", "comment", "saved_by"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, str)):
                raise ConfigurationError(f"`{name}` must be text or None. Received: {value!r}.")
        object.__setattr__(self, "metrics", _plain_dict("metrics", self.metrics))
        if self.training is not None:
            object.__setattr__(self, "training", _plain_dict("training", self.training))

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """Metadata from its fields by name; those left out take their defaults.

        Raises:
            ConfigurationError: if a field is unknown or has a value that it cannot have.
        """
        if not isinstance(settings, Mapping):
            raise ConfigurationError(
                f"`metadata` must be a dict. Received: a {type(settings).__name__}."
            )
        known = [each.name for each in fields(cls)]
        unknown = sorted(str(name) for name in settings if name not in known)
        if unknown:
            raise ConfigurationError(f"unknown metadata {unknown}. Known are {sorted(known)}.")
        return cls(**settings)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, JSON-able."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _plain_dict(name: str, value: Any) -> dict[str, Any]:
    value = value.to_dict() if hasattr(value, "to_dict") else value
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"`{name}` must be a dict of results by name. Received: a {type(value).__name__}."
        )
    return plain(value, name)


def plain(value: Any, name: str) -> Any:
    """`value` of what JSON knows: dicts by text, lists, text, finite numbers, truth values, None.

    Args:
        value: these, NumPy's arrays and numbers, and objects with `to_dict`.
        name: of the value, for errors.

    Raises:
        ConfigurationError: for anything else, naming where it is.

    Example:
        >>> plain({"a": [np.int64(1), float("nan")]}, "metrics")
        {'a': [1, None]}
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key, name): plain(inner, f"{name}[{key!r}]") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, f"{name}[{number}]") for number, inner in enumerate(value)]
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), name)
    raise ConfigurationError(
        f"`{name}` must be JSON-able. Received: a {type(value).__name__}. Give numbers, text, "
        "lists or dicts."
    )


def _key(key: Any, name: str) -> str:
    if isinstance(key, str | int):
        return str(key)
    raise ConfigurationError(f"`{name}` must have text as keys. Received: {key!r}.")
