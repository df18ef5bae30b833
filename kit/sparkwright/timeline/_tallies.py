"""What is known of every span, exactly, whether it is kept or not: counts, sums, durations."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._durations import DURATION_BINS, duration_bins

CODES = 64  # of phases, there is room for


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Tallies:
    """Sums over all spans of a run.

    The first row is the driver, row w + 1 is worker w; columns are codes of phases.

    Attributes:
        count: (lanes, CODES) int64, spans.
        seconds: (lanes, CODES) float64, their sum.
        longest_s: (lanes, CODES) float64.
        durations: (2, CODES, DURATION_BINS) int64, spans of each duration: the driver's, the
            workers'.
    """

    count: NDArray[np.int64]
    seconds: NDArray[np.float64]
    longest_s: NDArray[np.float64]
    durations: NDArray[np.int64]

    @classmethod
    def empty(cls, workers: int) -> "Tallies":
        """Of no spans."""
        shape = (workers + 1, CODES)
        return cls(
            count=np.zeros(shape, np.int64),
            seconds=np.zeros(shape),
            longest_s=np.zeros(shape),
            durations=np.zeros((2, CODES, DURATION_BINS), np.int64),
        )

    def add(self, lane: int, codes: NDArray[np.uint8], seconds: NDArray[np.float64]) -> None:
        """Count spans of one lane; changes the arrays.

        Args:
            lane: -1 for the driver, or the worker.
            codes: (n,) uint8 below CODES.
            seconds: (n,) float64.
        """
        row = lane + 1
        self.count[row] += np.bincount(codes, minlength=CODES)
        self.seconds[row] += np.bincount(codes, weights=seconds, minlength=CODES)
        np.maximum.at(self.longest_s[row], codes, seconds)
        flat = codes.astype(np.int64) * DURATION_BINS + duration_bins(seconds)
        np.add.at(self.durations[min(row, 1)].reshape(-1), flat, 1)

    def copy(self) -> "Tallies":
        """One that does not change with this one."""
        return Tallies(
            count=self.count.copy(),
            seconds=self.seconds.copy(),
            longest_s=self.longest_s.copy(),
            durations=self.durations.copy(),
        )
