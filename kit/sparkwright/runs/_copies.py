"""How often the driver receives a copy of the workers' state; pure."""

# Seconds of training for each second that a copy takes: so copies cost less than 1 %.
_FACTOR = 150.0
_SHORTEST_S = 10.0


class CopySchedule:
    """Due at first, then at intervals of at least ten seconds and 150 times what a copy takes.

    The copy is what a run ends with, or continues from, if it loses all workers at once.
    """

    def __init__(self, *, first_s: float) -> None:
        """The first copy is due at `first_s`."""
        self._due_s = first_s

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for a copy."""
        return now_s >= self._due_s

    def took(self, seconds: float, *, now_s: float) -> None:
        """A copy has been made, which stopped training for `seconds`."""
        self._due_s = now_s + max(_SHORTEST_S, _FACTOR * seconds)
