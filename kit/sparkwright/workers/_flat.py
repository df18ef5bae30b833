"""Sparse subtraction and sampling of the flat vector of a network's variables."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.networks.backend import variables

MEASURE_EVERY_S = 1.0
_MOST = 1 << 19  # elements of a sample; two samples fit into a CPU cache
_BLOCK = 4096
Vector = NDArray[np.floating[Any]]


class SparseSubtraction:
    """Subtracts values at indices of the flat vector of some variables."""

    def __init__(self, of: Sequence[Any]) -> None:
        self._variables = of
        sizes = [int(np.prod(tuple(variable.shape))) for variable in of]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __call__(
        self,
        indices: NDArray[np.int64],
        values: NDArray[Any],
        windows: Sequence[Vector] | None = None,  # views of the variables' memory
    ) -> None:
        """Subtract `values` at `indices` of the vector; repeated indices accumulate."""
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], values[order]
        bounds = np.searchsorted(indices, self._starts)
        access = variables()
        for number, variable in enumerate(self._variables):
            start, stop = bounds[number : number + 2]
            if start < stop:
                offsets = indices[start:stop] - self._starts[number]
                if windows is not None:
                    np.subtract.at(windows[number], offsets, values[start:stop])
                    continue
                # Eager: a call of a compiled function takes longer than all these operations.
                access.subtract_at(access.held(variable), offsets, values[start:stop])


def sample_of(pieces: Sequence[Vector], *, most: int = _MOST) -> Vector:
    """Copy the parameters, or evenly spaced blocks of them if there are more than `most`.

    Arrays of equal lengths give the same positions, so two samples can be compared.

    Example:
        >>> sample_of([np.arange(3.0), np.arange(2.0)])
        array([0., 1., 2., 0., 1.])
    """
    size = sum(piece.size for piece in pieces)
    stride = -(-size // most)
    if stride > 1:
        pieces = [_blocks(piece, stride) for piece in pieces]
    return np.concatenate([np.empty(0, np.float32), *pieces])


def update_ratio(before: Vector, after: Vector, *, minibatches: int) -> float:
    """Return RMS of the net change / RMS of the parameters before it / minibatches.

    This is the relative change by one minibatch if all steps have the same direction. For n steps
    of independent directions it is lower by the square root of n; for opposite directions, lower
    still.

    Example:
        >>> round(update_ratio(np.array([3.0, 4.0]), np.array([3.0, 4.01]), minibatches=2), 9)
        0.001
    """
    with np.errstate(all="ignore"):
        size = _squares(before)
        ratio = math.sqrt(_squares(after - before) / size) / minibatches if size > 0 else math.nan
    return ratio if math.isfinite(ratio) else math.nan


def _blocks(piece: Vector, stride: int) -> Vector:
    """Return every `stride`-th whole block of `piece`; all of it if it is shorter than a block."""
    whole = piece.size // _BLOCK
    if not whole:
        return piece
    return piece[: whole * _BLOCK].reshape(whole, _BLOCK)[::stride].reshape(-1)


def _squares(values: Vector) -> float:
    """Return the sum of squares; NaN if it is not finite."""
    found = float(np.dot(values, values))
    return found if math.isfinite(found) else math.nan
