"""How the threshold follows what the last message was like; pure, the state is explicit.

    state = algorithm.init()
    encoded = encode_difference(shared, local, state.threshold)
    state = algorithm.update(state, sparsity=encoded.sparsity)

A ratio of message words to elements (sparsity) below the wanted one lowers the threshold, one
above raises it, by a constant factor. A bitmap's ratio is more than 1/16, whatever it carries.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, runtime_checkable

from sparkwright.errors import ConfigurationError

# A threshold that keeps falling (or rising) stays a normal number of float32.
_LOWEST, _HIGHEST = 2.0**-126, 2.0**126
_DECAY = 0.5 ** (1 / 20)
_DENSE = 1 / 16


class ThresholdState(NamedTuple):
    """What a threshold algorithm carries from one message to the next.

    Attributes:
        threshold: the threshold of the next message.
        sparsity: words of the last message / elements; None before the first one.
    """

    threshold: float
    sparsity: float | None = None


@runtime_checkable
class ThresholdAlgorithm(Protocol):
    """Chooses the threshold of each message; holds configuration only."""

    def init(self) -> ThresholdState:
        """The state before the first message."""
        ...

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """JSON-able name and configuration, for `threshold_from_dict`."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class FixedThreshold:
    """The same threshold always.

    Attributes:
        threshold: t, above 0 (default 1e-3).
    """

    threshold: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check_above("threshold", self.threshold)

    def init(self) -> ThresholdState:
        """The state before the first message."""
        return ThresholdState(self.threshold)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        return ThresholdState(self.threshold, _checked_sparsity(sparsity))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able name and configuration, for `threshold_from_dict`."""
        return _to_dict("fixed", self)


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptiveThreshold:
    """Keeps the sparsity between two bounds: t * decay below them, t / decay above them.

    Attributes:
        initial: the first threshold, above 0 (default 1e-4).
        min_sparsity: lower bound, above 0 (default 1e-4).
        max_sparsity: upper bound, at least `min_sparsity` (default 1e-2).
        decay: factor of one step, at least 0.5 and below 1 (default 0.5 ** (1 / 20): twenty steps
            halve the threshold).

    Example:
        >>> algorithm = AdaptiveThreshold(initial=0.1, decay=0.5)
        >>> algorithm.update(algorithm.init(), sparsity=1 / 16)
        ThresholdState(threshold=0.2, sparsity=0.0625)
    """

    initial: float = 1e-4
    min_sparsity: float = 1e-4
    max_sparsity: float = 1e-2
    decay: float = _DECAY

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("initial", "min_sparsity", "max_sparsity"):
            _check_above(name, getattr(self, name))
        if self.min_sparsity > self.max_sparsity:
            raise ConfigurationError(
                "`min_sparsity` must not be above `max_sparsity`. Received: "
                f"min_sparsity={self.min_sparsity}, max_sparsity={self.max_sparsity}."
            )
        _check_decay(self.decay)

    def init(self) -> ThresholdState:
        """The state before the first message."""
        return ThresholdState(self.initial)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        return _moved(state, sparsity, self.min_sparsity, self.max_sparsity, self.decay)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able name and configuration, for `threshold_from_dict`."""
        return _to_dict("adaptive", self)


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetSparsity:
    """Aims at one sparsity: t * decay below it, t / decay above it.

    Attributes:
        initial: the first threshold, above 0 (default 1e-4).
        target: the wanted sparsity, above 0 and below 1/16, a bitmap's (default 1e-3).
        decay: factor of one step, at least 0.5 and below 1 (default 0.5 ** (1 / 20)).
    """

    initial: float = 1e-4
    target: float = 1e-3
    decay: float = _DECAY

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check_above("initial", self.initial)
        _check_above("target", self.target)
        if self.target >= _DENSE:
            raise ConfigurationError(
                "`target` must be below 1/16, the sparsity of a bitmap. "
                f"Received: target={self.target}."
            )
        _check_decay(self.decay)

    def init(self) -> ThresholdState:
        """The state before the first message."""
        return ThresholdState(self.initial)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        return _moved(state, sparsity, self.target, self.target, self.decay)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able name and configuration, for `threshold_from_dict`."""
        return _to_dict("target", self)


def threshold_from_dict(saved: Mapping[str, Any]) -> ThresholdAlgorithm:
    """The algorithm that `to_dict` describes.

    Raises:
        ConfigurationError: if the name or an option is unknown, or a value cannot be meant.

    Example:
        >>> threshold_from_dict({"name": "fixed", "configuration": {"threshold": 0.5}})
        FixedThreshold(threshold=0.5)
    """
    classes: dict[Any, Any] = {
        "fixed": FixedThreshold,
        "adaptive": AdaptiveThreshold,
        "target": TargetSparsity,
    }
    name, configuration = saved.get("name"), saved.get("configuration", {})
    found = classes.get(name) if isinstance(name, str) else None
    if found is None or not isinstance(configuration, Mapping):
        raise ConfigurationError(
            f"A threshold algorithm must be one of {', '.join(map(repr, classes))}, with its "
            f"configuration. Received: {dict(saved)!r}."
        )
    unknown = configuration.keys() - {field.name for field in fields(found)}
    if unknown:
        raise ConfigurationError(
            f"The threshold algorithm {name!r} has no option {sorted(map(str, unknown))[0]!r}. "
            f"Received: configuration={dict(configuration)!r}."
        )
    return found(**configuration)


def merge(states: Sequence[ThresholdState]) -> ThresholdState:
    """One state for all workers: mean threshold, mean sparsity of those that have one.

    Raises:
        ConfigurationError: if there is no state.

    Example:
        >>> merge([ThresholdState(1.0), ThresholdState(3.0, 0.25)])
        ThresholdState(threshold=2.0, sparsity=0.25)
    """
    if not states:
        raise ConfigurationError("Merging needs at least one state. Received: states=[].")
    known = [state.sparsity for state in states if state.sparsity is not None]
    return ThresholdState(
        math.fsum(state.threshold for state in states) / len(states),
        math.fsum(known) / len(known) if known else None,
    )


def _moved(
    state: ThresholdState, sparsity: float, low: float, high: float, decay: float
) -> ThresholdState:
    sparsity = _checked_sparsity(sparsity)
    threshold = state.threshold
    if sparsity < low:
        threshold = max(threshold * decay, _LOWEST)
    elif sparsity > high:
        threshold = min(threshold / decay, _HIGHEST)
    return ThresholdState(threshold, sparsity)


def _checked_sparsity(sparsity: float) -> float:
    if not (math.isfinite(sparsity) and sparsity >= 0):
        raise ConfigurationError(
            f"`sparsity` must be a finite number of at least 0. Received: sparsity={sparsity}."
        )
    return float(sparsity)


def _check_above(name: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and _LOWEST <= value <= _HIGHEST):
        raise ConfigurationError(
            f"`{name}` must be a finite number greater than 0. Received: {name}={value!r}."
        )


def _check_decay(value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0.5 <= value < 1):
        raise ConfigurationError(
            f"`decay` must be a number of at least 0.5 and below 1. Received: decay={value!r}."
        )


def _to_dict(name: str, algorithm: Any) -> dict[str, Any]:
    values = {field.name: getattr(algorithm, field.name) for field in fields(algorithm)}
    return {"name": name, "configuration": values}
