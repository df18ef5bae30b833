"""How the threshold follows what the last message was like; pure, the state is explicit.

    state = algorithm.init()
    encoded = encode_difference(shared, local, state.threshold)
    state = algorithm.update(state, sparsity=encoded.segments[0].sparsity)

A ratio of message words to elements (sparsity) below the wanted one lowers the threshold, one
above raises it, by a constant factor. A bitmap's ratio is 1/16, whatever it carries.
"""

import math
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

# A threshold that keeps falling (or rising) stays a normal number of float32.
_LOWEST, _HIGHEST = 2.0**-126, 2.0**126
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
        """JSON-able name and configuration."""
        ...


def _threshold(default: float, label: str, help: str) -> Any:
    """An option that is a threshold or a sparsity."""
    return option(default=default, minimum=_LOWEST, maximum=_HIGHEST, label=label, help=help)


def _decay() -> Any:
    return option(
        default=0.5 ** (1 / 20),
        minimum=0.5,
        below=1,
        label="Factor of one step",
        help="Twenty steps of the default halve the threshold. A smaller factor adapts faster, and "
        "overshoots.",
    )


def _initial() -> Any:
    return _threshold(
        1e-4,
        "First threshold",
        "It adapts soon. Start near the size of a parameter's change in one step, so that the "
        "first messages are small.",
    )


@configuration
class FixedThreshold(Configuration):
    """The same threshold always."""

    _kind: ClassVar[str] = "fixed"

    threshold: float = _threshold(
        1e-3,
        "Threshold",
        "Changes from this size on are sent. Too large sends too little, and training slows down; "
        "too small fills the network.",
    )

    def init(self) -> ThresholdState:
        """The state before the first message."""
        return ThresholdState(self.threshold)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        return ThresholdState(self.threshold, _checked_sparsity(sparsity))


@configuration
class AdaptiveThreshold(Configuration):
    """Keeps the sparsity between two bounds: t * decay below them, t / decay above them.

    Example:
        >>> algorithm = AdaptiveThreshold(initial=0.1, decay=0.5)
        >>> algorithm.update(algorithm.init(), sparsity=1 / 16)
        ThresholdState(threshold=0.2, sparsity=0.0625)
    """

    _kind: ClassVar[str] = "adaptive"

    initial: float = _initial()
    min_sparsity: float = _threshold(
        1e-4,
        "Sent of all, at least",
        "Below this share of the parameters in a message, the threshold falls.",
    )
    max_sparsity: float = _threshold(
        1e-2,
        "Sent of all, at most",
        "Above this share, the threshold rises. 0.01 means a hundredth of the parameters.",
    )
    decay: float = _decay()

    def _check(self) -> None:
        if self.min_sparsity > self.max_sparsity:
            raise ConfigurationError(
                "`min_sparsity` must not be above `max_sparsity`. Received: "
                f"min_sparsity={self.min_sparsity}, max_sparsity={self.max_sparsity}."
            )

    def init(self) -> ThresholdState:
        """The state before the first message."""
        return ThresholdState(self.initial)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        return _moved(state, sparsity, self.min_sparsity, self.max_sparsity, self.decay)


@configuration
class TargetSparsity(Configuration):
    """Aims at one sparsity: t * decay below it, t / decay above it."""

    _kind: ClassVar[str] = "target"

    initial: float = _initial()
    target: float = option(
        default=1e-3,
        minimum=_LOWEST,
        below=_DENSE,
        label="Sent of all",
        help="The share of the parameters that a message should hold; 0.001 means a thousandth. A "
        "bitmap's is 1/16.",
    )
    decay: float = _decay()

    def init(self) -> ThresholdState:
        """The state before the first message."""
        return ThresholdState(self.initial)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """The state after a message of so many words per element."""
        return _moved(state, sparsity, self.target, self.target, self.decay)


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
