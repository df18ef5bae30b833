"""How much quick workers of gradient sharing do at a time, as they and forecasts reckon; pure."""

# A piece of work takes about so long if its size is not given: asking for the next one takes a
# millisecond.
PIECE_S = 0.1
# Minibatches that are quick share a message, unless an option says how many: what a message costs
# does not depend on them, and nobody is out of date after so short a time.
_MESSAGE_S, MOST_GATHERED = 0.04, 5


def gathered(step_s: float, max_staleness: int | None) -> int:
    """Minibatches that share a message.

    Args:
        step_s: seconds of one minibatch.
        max_staleness: minibatches that a worker may be ahead of the slowest; None: any number.

    Example:
        >>> [gathered(step_s, None) for step_s in (0.001, 0.01, 0.1)], gathered(0.001, 2)
        ([5, 4, 1], 2)
    """
    most = MOST_GATHERED if max_staleness is None else min(MOST_GATHERED, max_staleness)
    return max(1, min(most, int(_MESSAGE_S / step_s)))


def gathering_step_s(minibatches: int) -> float:
    """Seconds of a minibatch of which so many share a message."""
    return _MESSAGE_S / minibatches
