"""Histograms of arrays, and messages of histograms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.masters.histograms import Histograms
from sparkwright.mesh.framing import Message

from ._flat import Vector, sample_of
from ._wire import pack, unpack

# Larger arrays are sampled in evenly spaced blocks, so that one histogram takes milliseconds.
MOST_VALUES = 1 << 18


@dataclass(frozen=True, kw_only=True, slots=True)
class Histogram:
    """Distribution of the values of an array.

    Attributes:
        low: minimum of the finite values.
        high: maximum of the finite values.
        mean: mean of the finite values.
        std: standard deviation of the finite values.
        not_finite: number of NaN or infinite values.
        counts: (bins,) uint32 counts in bins of equal width from `low` to `high`. Large arrays are
            sampled.
    """

    low: float
    high: float
    mean: float
    std: float
    not_finite: int
    counts: NDArray[np.uint32] = field(repr=False)

    @property
    def edges(self) -> NDArray[np.float64]:
        """(bins + 1,) edges of the bins."""
        return np.linspace(self.low, self.high, len(self.counts) + 1)

    @classmethod
    def of(cls, values: NDArray[Any], bins: int) -> Self:
        """Count the values of an array of any shape.

        Example:
            >>> found = Histogram.of(np.array([0.0, 1.0, 4.0, np.nan]), 4)
            >>> found.counts.tolist(), found.low, found.high, found.not_finite
            ([1, 1, 0, 1], 0.0, 4.0, 1)
        """
        given = sample_of([values.reshape(-1)], most=MOST_VALUES).astype(np.float64)
        finite = given[np.isfinite(given)]
        missing = len(given) - len(finite)
        if not len(finite):
            empty = np.zeros(bins, np.uint32)
            return cls(low=0.0, high=0.0, mean=0.0, std=0.0, not_finite=missing, counts=empty)
        low, high = float(finite.min()), float(finite.max())
        # Use a single bin if all values are equal or bins are below floating-point resolution.
        scale = bins / (high - low) if high - low > abs(low) * 1e-15 else 0.0
        places = np.minimum((finite - low) * scale, bins - 1).astype(np.int64)
        return cls(
            low=low,
            high=high,
            mean=float(finite.mean()),
            std=float(finite.std()),
            not_finite=missing,
            counts=np.bincount(places, minlength=bins).astype(np.uint32),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class HistogramsTaken:
    """The histograms of a worker at one step."""

    step: int  # minibatches trained by the worker
    epoch: int  # from 1
    minibatches: int  # whose updates are summed
    seconds: float  # to compute the histograms
    found: Mapping[tuple[str, str], Histogram] = field(repr=False)  # (what, name) -> histogram
    notes: tuple[str, ...] = ()  # reasons for missing histograms

    @property
    def message(self) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """(fields, payload) for `Connection.send`."""
        fields, payload = pack(self, own_code=False)
        return fields, tuple(payload)

    @classmethod
    def received(cls, message: Message) -> Self:
        """Decode a message."""
        found = unpack(message, own_code=False)
        if not isinstance(found, cls):
            raise NetworkError(f"expected histograms. Received: a {type(found).__name__}.")
        return found


class ChosenVariables:
    """The trainable variables of a model selected for histograms."""

    def __init__(self, model: Any, options: Histograms) -> None:
        """Select the variables and compute their positions in the flat vector."""
        self._options, names = options, variable_names(model)
        sizes = [int(np.prod(tuple(v.shape))) for v in model.trainable_variables]
        self._edges = np.cumsum(sizes).tolist()
        self._places = [n for n, name in enumerate(names) if options.selects(name)]
        self.names = [names[n] for n in self._places]

    def sample(self, views: Sequence[Vector]) -> list[Vector]:
        """Sample the selected variables; `views` holds all trainable variables."""
        return [sample_of([views[n]], most=MOST_VALUES) for n in self._places]

    def cut(self, vector: Vector) -> list[Vector]:
        """Sample from a flat vector that begins with the trainable variables."""
        return self.sample(np.split(vector, self._edges))

    def histograms(
        self, after: Sequence[Vector], before: Sequence[Vector]
    ) -> dict[tuple[str, str], Histogram]:
        """Compute histograms of the samples `after` and of their difference to `before`."""
        found: dict[tuple[str, str], Histogram] = {}
        of, bins = self._options.of, self._options.bins
        for name, now, then in zip(self.names, after, before, strict=True):
            if "weights" in of:
                found["weights", name] = Histogram.of(now, bins)
            if "updates" in of:
                with np.errstate(all="ignore"):
                    found["updates", name] = Histogram.of(now - then, bins)
        return found


def variable_names(model: Any) -> list[str]:
    """Return the names of the trainable variables, as "layer/variable", in order."""
    prefix = f"{model.name}/"
    return [variable.path.removeprefix(prefix) for variable in model.trainable_variables]
