"""Averaging at reduced precision: workers send changes since the last average."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.mesh.ring import Ring
from sparkwright.mesh.rounded_sum import ROUNDINGS, Precision, all_reduce_rounded

Vector = NDArray[np.floating[Any]]
_PIECE = 65_536  # numbers that fit into a CPU cache


class RoundedAverage:
    """A worker's state for averaging with `exchange_precision`."""

    # Changes are smaller than parameters, so their rounding errors are smaller. These are added to
    # this worker's part of the next average.

    def __init__(self, precision: Precision, size: int, dtype: np.dtype[Any]) -> None:
        self._rounding = ROUNDINGS[precision]()
        self.lost = np.zeros(size, dtype)  # rounding errors that are not sent yet

    def begin(self, lost: bytes = b"") -> None:
        """Reset when a group forms, because an aborted round leaves `lost` undefined."""
        self.lost[:] = np.frombuffer(lost, self.lost.dtype) if lost else 0

    def reduce(self, ring: Ring, average: Vector, work: Vector, *, share: float) -> None:
        """Replace this worker's part of the mean, in `work`, by the mean."""
        size = self.lost.size
        for start in range(0, size, _PIECE):
            piece = slice(start, min(start + _PIECE, size))
            self.lost[piece] += work[piece] - work.dtype.type(share) * average[piece]
        work[:size] = average[:size]
        all_reduce_rounded(ring, self.lost, work[:size], self._rounding)
        # The rest is averaged at full precision.
        if work.size > size:
            ring.all_reduce(work[size:])
