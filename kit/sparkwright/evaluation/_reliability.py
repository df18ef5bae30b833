"""A reliability diagram: predicted probabilities against what then was."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._exact_sums import as_fraction
from ._histogram import bin_edges


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ReliabilityDiagram:
    """One point for each bin of the predicted probability, from low to high.

    Attributes:
        mean_predicted: (k,) float64, mean probability of the bin's rows; of an empty bin its
            middle.
        fraction_positive: (k,) float64, share of the rows for which the answer was yes; of an
            empty bin 0.
        counts: (k,) int64, rows.
        bins: (k,) int64, the bins' numbers.
    """

    mean_predicted: NDArray[np.float64]
    fraction_positive: NDArray[np.float64]
    counts: NDArray[np.int64]
    bins: NDArray[np.int64]

    @classmethod
    def of(
        cls, counts: NDArray[np.int64], positive: NDArray[np.int64], sums: Sequence[int]
    ) -> "ReliabilityDiagram":
        """The diagram of all bins.

        Args:
            counts: (bins,) rows.
            positive: (bins,) rows for which the answer was yes.
            sums: exact sums of the probability, one for each bin.
        """
        edges = bin_edges(len(counts))
        middles = ((edges[1:] + edges[:-1]) / 2).tolist()
        means = [
            float(as_fraction(total) / count) if count else middle
            for total, count, middle in zip(sums, counts.tolist(), middles, strict=True)
        ]
        return cls(
            mean_predicted=np.array(means, np.float64),
            fraction_positive=positive / np.maximum(counts, 1),
            counts=counts.copy(),
            bins=np.arange(len(counts)),
        )

    def without_empty_bins(self) -> "ReliabilityDiagram":
        """The same without bins that hold no rows."""
        some = self.counts > 0
        return ReliabilityDiagram(
            mean_predicted=self.mean_predicted[some],
            fraction_positive=self.fraction_positive[some],
            counts=self.counts[some],
            bins=self.bins[some],
        )
