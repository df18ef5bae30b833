"""Averages in fewer bits: the workers send how far parameters moved since the last one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.mesh.ring import Ring
from sparkwright.mesh.rounded_sum import ROUNDINGS, Precision, all_reduce_rounded

Vector = NDArray[np.floating[Any]]
_PIECE = 65_536  # numbers that fit into a processor's cache


class RoundedAverage:
    """A worker's part in averagings with `exchange_precision`.

    Changes are smaller than parameters, so rounding them loses less. What it loses is added to this
    worker's part of the next average.

    Attributes:
        lost: (trainable parameters,), what rounding has lost and no message has made good yet.
    """

    def __init__(self, precision: Precision, size: int, dtype: np.dtype[Any]) -> None:
        """Begin with nothing lost.

        Args:
            precision: of the numbers that are sent.
            size: of the trainable parameters.
            dtype: of the vectors.
        """
        self._rounding = ROUNDINGS[precision]()
        self.lost = np.zeros(size, dtype)

    def begin(self, lost: bytes = b"") -> None:
        """Begin anew when workers meet, because a round that broke off leaves anything here.

        Args:
            lost: the bytes of `lost` in a checkpoint; default: nothing is lost yet.
        """
        self.lost[:] = np.frombuffer(lost, self.lost.dtype) if lost else 0

    def reduce(self, ring: Ring, average: Vector, work: Vector, *, share: float) -> None:
        """Turn this worker's part of the mean, in `work`, into the mean.

        Args:
            ring: of all workers, with a connection from each to each other one.
            average: the last average, the same at each worker.
            work: `share` times this worker's state, of which the trainable parameters come first;
                the rest is averaged as it is.
            share: this worker's weight in the mean; those of all add up to 1.

        Raises:
            NetworkError: if the ring breaks.
        """
        size = self.lost.size
        for start in range(0, size, _PIECE):
            piece = slice(start, min(start + _PIECE, size))
            self.lost[piece] += work[piece] - work.dtype.type(share) * average[piece]
        work[:size] = average[:size]
        all_reduce_rounded(ring, self.lost, work[:size], self._rounding)
        if work.size > size:
            ring.all_reduce(work[size:])
