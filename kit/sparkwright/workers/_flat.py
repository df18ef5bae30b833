"""Operations on the flat vector of a network's variables: subtract at places, sample it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.networks.backend import variables

MEASURE_EVERY_S = 1.0
_MOST = 1 << 19  # elements of a sample, two of which fit into a processor's cache
_BLOCK = 4096
Vector = NDArray[np.floating[Any]]


class SparseSubtraction:
    """Subtracts values at places of the flat vector of some variables.

    Each variable is changed by one bare operation: calling a compiled function takes longer than
    all of them together.
    """

    def __init__(self, of: Sequence[Any]) -> None:
        """Work out where each of the variables `of` lies in their flat vector."""
        self._variables = of
        sizes = [int(np.prod(tuple(variable.shape))) for variable in of]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __call__(
        self,
        indices: NDArray[np.int64],
        values: NDArray[Any],
        windows: Sequence[Vector] | None = None,
    ) -> None:
        """Subtract `values` at `indices` of the vector; repeated places add up.

        Into `windows` on the variables' memory, if there are such.
        """
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
                access.subtract_at(access.held(variable), offsets, values[start:stop])


def sample_of(pieces: Sequence[Vector], *, most: int = _MOST) -> Vector:
    """A copy of the parameters, or of evenly spread blocks of them if there are more than `most`.

    Arrays of the same lengths give the same places, so two samples can be compared.

    Args:
        pieces: 1-D arrays, together all parameters.
        most: about how many elements the copy may have; default 524,288.

    Returns:
        1-D, of the pieces' type.

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
    """RMS of the net change over RMS of the parameters before it, divided by the minibatches.

    That is how far one minibatch moves the parameters if all steps point the same way. Where n
    steps point in unrelated directions it is lower by the square root of n; where they undo one
    another, lower still.

    Args:
        before: (n,) parameters, as `sample_of` gives them.
        after: (n,) the same ones after the minibatches.
        minibatches: how many there were, at least 1; so updates of several compare with updates of
            one, as long as they point the same way.

    Returns:
        The ratio; NaN if there are no parameters, all were zero, or one is not finite.

    Example:
        >>> round(update_ratio(np.array([3.0, 4.0]), np.array([3.0, 4.01]), minibatches=2), 9)
        0.001
    """
    with np.errstate(all="ignore"):
        size = _squares(before)
        ratio = math.sqrt(_squares(after - before) / size) / minibatches if size > 0 else math.nan
    return ratio if math.isfinite(ratio) else math.nan


def _blocks(piece: Vector, stride: int) -> Vector:
    """Every `stride`-th block of `piece`; what fills no block counts only where there is none."""
    whole = piece.size // _BLOCK
    if not whole:
        return piece
    return piece[: whole * _BLOCK].reshape(whole, _BLOCK)[::stride].reshape(-1)


def _squares(values: Vector) -> float:
    """The sum of the squares; NaN instead of an error if one is not finite."""
    found = float(np.dot(values, values))
    return found if math.isfinite(found) else math.nan
