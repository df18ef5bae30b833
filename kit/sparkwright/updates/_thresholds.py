"""Algorithms that adapt the threshold to the last message; pure, with explicit state.

    state = algorithm.init()
    encoded = encode_difference(shared, local, state.threshold)
    state = algorithm.update(state, sparsity=encoded.segments[0].sparsity)

The sparsity is the ratio of message words to elements. A sparsity below the target lowers the
threshold by a constant factor; one above raises it. A bitmap always has a sparsity of 1/16.
"""

import math
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

# Bounds that keep the threshold a normal float32 number.
_LOWEST, _HIGHEST = 2.0**-126, 2.0**126
# A bitmap holds two bits for each float32.
BITMAP_SPARSITY = 1 / 16
# Number of first messages whose threshold is chosen from the residual. In Adam's first step, all
# parameters change by the same amount.
_CHOSEN = 4
# The threshold until there is a nonzero residual to choose it from.
_USUAL = 1e-4


class ThresholdState(NamedTuple):
    """State of a threshold algorithm between messages.

    Attributes:
        threshold: the threshold of the next message.
        sparsity: words of the last message / elements; None before the first message.
        to_choose: number of next messages whose threshold is chosen from the residual.
    """

    threshold: float
    sparsity: float | None = None
    to_choose: int = 0


@runtime_checkable
class ThresholdAlgorithm(Protocol):
    """Chooses the threshold of each message; holds configuration only."""

    def init(self) -> ThresholdState:
        """Return the state before the first message."""
        ...

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """Return the state after a message of `sparsity` words per element."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable name and configuration."""
        ...


def _threshold(default: float, label: str, help: str) -> Any:
    """Define an option that is a threshold or a sparsity."""
    return option(default=default, minimum=_LOWEST, maximum=_HIGHEST, label=label, help=help)


def _decay() -> Any:
    return option(
        default=0.965936,  # half in twenty steps
        minimum=0.5,
        below=1,
        label="Factor of one step",
        help="Twenty steps of the default halve the threshold. A smaller factor adapts faster, and "
        "overshoots.",
    )


def _initial() -> Any:
    return option(
        default=None,
        minimum=_LOWEST,
        maximum=_HIGHEST,
        none_text="chosen from the first updates",
        label="First threshold",
        help="Leave it to the first updates, or start near the size of a parameter's change in one "
        "step. It adapts, but slowly.",
    )


@configuration
class FixedThreshold(Configuration):
    """A constant threshold."""

    _kind: ClassVar[str] = "fixed"

    threshold: float = _threshold(
        1e-3,
        "Threshold",
        "Changes from this size on are sent. Too large sends too little, and training slows down; "
        "too small fills the network.",
    )

    def init(self) -> ThresholdState:
        """Return the state before the first message."""
        return ThresholdState(self.threshold)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """Return the state after a message of `sparsity` words per element."""
        return ThresholdState(self.threshold, _checked_sparsity(sparsity))


@configuration
class AdaptiveThreshold(Configuration):
    """Keep the sparsity between two bounds: t * decay below them, t / decay above them.

    Example:
        >>> algorithm = AdaptiveThreshold(initial=0.1, decay=0.5)
        >>> algorithm.update(algorithm.init(), sparsity=1 / 16)
        ThresholdState(threshold=0.2, sparsity=0.0625, to_choose=0)
    """

    _kind: ClassVar[str] = "adaptive"

    initial: float | None = _initial()
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
        """Return the state before the first message."""
        return _first(self.initial)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """Return the state after a message of `sparsity` words per element."""
        return _moved(state, sparsity, self.min_sparsity, self.max_sparsity, self.decay)


@configuration
class TargetSparsity(Configuration):
    """Aim at one sparsity: t * decay below it, t / decay above it."""

    _kind: ClassVar[str] = "target"

    initial: float | None = _initial()
    target: float = option(
        default=1e-3,
        minimum=_LOWEST,
        below=BITMAP_SPARSITY,
        label="Sent of all",
        help="The share of the parameters that a message should hold; 0.001 means a thousandth. A "
        "bitmap's is 1/16.",
    )
    decay: float = _decay()

    def init(self) -> ThresholdState:
        """Return the state before the first message."""
        return _first(self.initial)

    def update(self, state: ThresholdState, *, sparsity: float) -> ThresholdState:
        """Return the state after a message of `sparsity` words per element."""
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
    return ThresholdState(threshold, sparsity, max(0, state.to_choose - 1))


def _first(initial: float | None) -> ThresholdState:
    if initial is None:
        return ThresholdState(_USUAL, to_choose=_CHOSEN)
    return ThresholdState(initial)


def expected_sparsity(threshold: ThresholdAlgorithm) -> float:
    """Return the largest expected ratio of message size to vector size, once t has adapted.

    A message is at most as large as a bitmap, a sixteenth of the vector (plus a header).
    """
    if isinstance(threshold, AdaptiveThreshold):
        return min(BITMAP_SPARSITY, threshold.max_sparsity)
    if isinstance(threshold, TargetSparsity):
        return min(BITMAP_SPARSITY, threshold.target)
    return BITMAP_SPARSITY


def choose_threshold(magnitudes: NDArray[Any], *, share: float) -> float | None:
    """Return the threshold whose message leaves the smallest sum of squares in the residual.

    With the magnitudes a_1 >= a_2 >= …, sending the k largest as a_k reduces the sum of squares by

        2 a_k (a_1 + … + a_k) - k a_k ** 2

    and the k that maximizes this value is used.

    Args:
        magnitudes: (N,) |residual|, or a sample of it.
        share: the largest fraction of the elements that may be sent.

    Returns:
        One of the magnitudes; None if all are 0 or NaN.

    Example:
        >>> choose_threshold(np.array([0.1, 3.0, 0.2, 4.0]), share=1.0)
        3.0
    """
    found = magnitudes[np.isfinite(magnitudes)].astype(np.float64)
    largest = np.sort(found)[::-1][: max(1, math.ceil(min(share, 1.0) * found.size))]
    if not largest.size or largest[0] < _LOWEST:
        return None
    counts = np.arange(1, largest.size + 1)
    best = largest[np.argmax(2 * largest * np.cumsum(largest) - counts * largest**2)]
    return float(np.clip(best, _LOWEST, _HIGHEST))


def _checked_sparsity(sparsity: float) -> float:
    if not (math.isfinite(sparsity) and sparsity >= 0):
        raise ConfigurationError(
            f"`sparsity` must be a finite number of at least 0. Received: sparsity={sparsity}."
        )
    return float(sparsity)
