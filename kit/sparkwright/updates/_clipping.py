"""Bounds on the residual, against a growing backlog of what was never sent; pure."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright._option import MAX_COUNT
from sparkwright.errors import ConfigurationError

from ._format import check_threshold
from ._vectors import BLOCK, Vector, block_bounds, difference, paired, single


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidualClipping:
    """Now and then, cut every element of the residual to at most a multiple of the threshold.

    Attributes:
        multiple: the bound, in thresholds, at least 1 (default 5).
        every: clip after every so many minibatches, at least 1 (default 5).
    """

    multiple: float = 5.0
    every: int = 5

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name, integer in (("multiple", False), ("every", True)):
            value = getattr(self, name)
            kind = int if integer else int | float
            number = isinstance(value, kind) and not isinstance(value, bool)
            if not (number and 1 <= value <= (MAX_COUNT if integer else sys.float_info.max)):
                raise ConfigurationError(
                    f"`{name}` must be {'an integer' if integer else 'a finite number'} of at "
                    f"least 1. Received: {name}={value!r}."
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

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {"multiple": self.multiple, "every": self.every}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "ResidualClipping":
        """What `to_dict` gave.

        Raises:
            ConfigurationError: if an option is unknown or cannot be meant.
        """
        unknown = saved.keys() - set(cls.__dataclass_fields__)
        if unknown:
            raise ConfigurationError(
                f"Residual clipping has no option {sorted(map(str, unknown))[0]!r}. "
                f"Received: {dict(saved)!r}."
            )
        return cls(**saved)
