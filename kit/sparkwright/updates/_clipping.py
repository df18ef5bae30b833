"""Bounds on the residual, against a growing backlog of what was never sent; pure."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

from ._format import check_threshold
from ._vectors import BLOCK, Vector, block_bounds, difference, paired, single


@configuration
class ResidualClipping(Configuration):
    """Now and then, cut every element of the residual to at most a multiple of the threshold."""

    multiple: float = option(
        default=5.0,
        minimum=1,
        unit="thresholds",
        label="At most",
        help="The residual is cut to so many thresholds, so that no change is sent long after it "
        "was of use.",
    )
    every: int = option(
        default=5, minimum=1, unit="minibatches", help="How often; 5 costs next to nothing."
    )

    def due(self, step: int) -> bool:
        """Whether to clip in minibatch `step` (from 0), after its message was encoded.

        Example:
            >>> [step for step in range(12) if ResidualClipping(every=5).due(step)]
            [5, 10]
        """
        return step > 0 and step % self.every == 0

    def excess(
        self, shared: Vector, local: Sequence[Vector], threshold: float | Sequence[float]
    ) -> tuple[NDArray[np.int64], Vector]:
        """By how much `shared - local` exceeds the bound, and where.

        Args:
            shared: (N,) float32 or float64.
            local: 1-D arrays of N elements in all.
            threshold: t for all of the vector, or one for each array of `local`.

        Returns:
            (K,) ascending indices into the vector and (K,) signed values, of the dtype of
            `shared`. Adding the values to `local` there brings the residual to the bound.

        Example:
            >>> clipping = ResidualClipping(multiple=2)
            >>> clipping.excess(np.zeros(3), [np.array([-5.0, 1.0, 2.5])], 1.0)
            (array([0, 2]), array([ 3. , -0.5]))
        """
        pieces = paired(single("shared", shared, writable=False), local)
        if isinstance(threshold, Sequence):
            bounds, thresholds = pieces.starts, threshold
        else:
            bounds, thresholds = [0, shared.size], [threshold]
        if len(thresholds) != len(bounds) - 1:
            raise ConfigurationError(
                "There must be one threshold for each variable. "
                f"Received: {len(thresholds)} thresholds, {len(bounds) - 1} variables."
            )
        scratch = np.empty(BLOCK, shared.dtype)
        indices, values = [np.empty(0, np.int64)], [np.empty(0, shared.dtype)]
        for (start, stop), one in zip(pairwise(bounds), thresholds, strict=True):
            bound = shared.dtype.type(self.multiple * check_threshold(one))
            for block in block_bounds(start, stop):
                residual = difference(shared, pieces, block, scratch)
                there = np.flatnonzero(np.abs(residual) > bound)
                over = residual[there]
                indices.append(there + block[0])
                values.append(over - np.copysign(bound, over))
        return np.concatenate(indices), np.concatenate(values)
