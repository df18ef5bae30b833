"""The throughput of a run and the time that it still needs; pure."""

from collections import deque

# The throughput is the mean over this window.
_WINDOW_S = 3.0


class Throughput:
    """Examples per second of all workers; times are those of one clock.

    Attributes:
        trained: number of examples that count.
    """

    def __init__(self) -> None:
        self.trained = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._first: tuple[float, int] | None = None  # end of the first round, and its examples

    def add(self, examples: int, *, ended_s: float) -> None:
        """Add a round that ended at `ended_s`."""
        self._recent.append((ended_s, examples))
        self.trained += examples

    def begin(self, now_s: float) -> None:
        """Measure from now on, after the first round, which includes compilation."""
        self._first = now_s, self.trained

    def clear(self) -> None:
        """Forget what was trained, because training restarts."""
        self.trained = 0
        self._recent.clear()

    def recent(self, now_s: float) -> float:
        """Examples per second over the last seconds; 0: none was trained."""
        while self._recent and self._recent[0][0] < now_s - _WINDOW_S:
            self._recent.popleft()
        if not self._recent:
            return 0.0
        span_s = min(_WINDOW_S, max(now_s - self._recent[0][0], 0.05))
        return sum(count for _, count in self._recent) / span_s

    def overall(self, last_s: float | None) -> float:
        """Examples per second until `last_s`, the end of the last minibatch; 0: unknown."""
        if self._first is None or last_s is None:
            return 0.0
        span_s = last_s - self._first[0]
        return (self.trained - self._first[1]) / span_s if span_s > 0.05 else 0.0
