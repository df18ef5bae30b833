"""How often the driver receives a copy of the workers' state; pure."""

import math

# Seconds of training for each second that a copy takes: so copies cost less than 1 %.
_FACTOR = 150.0
_SHORTEST_S = 10.0


class CopySchedule:
    """Due at intervals of at least ten seconds and 150 times what a copy takes.

    The copy is what a run ends with, or continues from, if it loses all workers at once.
    """

    def __init__(self) -> None:
        """No copy has been made."""
        self._made_s, self._pause_s = -math.inf, 0.0

    def begin(self, now_s: float) -> None:
        """Training begins: a copy is due in ten seconds, or with the next averaging."""
        self._made_s = now_s

    def is_due(self, now_s: float, *, averaged: bool = False) -> bool:
        """Whether it is time for a copy; with `averaged`, whether one is cheap enough now.

        Args:
            now_s: the clock's present reading.
            averaged: the workers have averaged anyway, so only sending the copy takes time.
        """
        pause_s = self._pause_s if averaged else max(_SHORTEST_S, self._pause_s)
        return now_s - self._made_s >= pause_s

    def took(self, seconds: float, *, now_s: float) -> None:
        """A copy has been made, which stopped training for `seconds`."""
        self._made_s, self._pause_s = now_s, _FACTOR * seconds
