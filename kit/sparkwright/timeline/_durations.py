"""How long the spans of a phase were, counted in bins that grow with the duration.

Sixteen bins to each doubling: a median read from them is within 2.2 % of the true one, however many
spans there were, and takes the same room.
"""

import numpy as np
from numpy.typing import NDArray

_BINS_PER_DOUBLING = 16
_LEAST_EXPONENT, _LARGEST_EXPONENT = -20, 22  # a microsecond; seven weeks
DURATION_BINS = 1 + _BINS_PER_DOUBLING * (_LARGEST_EXPONENT - _LEAST_EXPONENT)


def duration_bins(seconds: NDArray[np.floating]) -> NDArray[np.int64]:
    """The bin of each duration; bin 0 holds what took less than a microsecond.

    Args:
        seconds: (n,) float, none below 0.

    Returns:
        (n,) int64 from 0 to `DURATION_BINS` - 1; the last one holds all longer ones, too.
    """
    least = 2.0**_LEAST_EXPONENT
    exponents = np.log2(np.maximum(np.asarray(seconds, np.float64), least)) - _LEAST_EXPONENT
    bins = 1 + (exponents * _BINS_PER_DOUBLING).astype(np.int64)
    return np.where(seconds < least, 0, np.minimum(bins, DURATION_BINS - 1))


def bin_edges_s() -> NDArray[np.float64]:
    """(DURATION_BINS + 1,) float64: where each bin begins and ends, in seconds."""
    steps = np.arange(DURATION_BINS, dtype=np.float64)
    return np.concatenate([[0.0], 2.0 ** (_LEAST_EXPONENT + steps / _BINS_PER_DOUBLING)])


def duration_quantile_s(counts: NDArray[np.int64], share: float) -> float:
    """The duration that `share` of the spans did not exceed; 0.0 if there are none.

    Args:
        counts: (DURATION_BINS,) int64.
        share: from 0 to 1; 0.5 is the median.

    Example:
        >>> counts = np.bincount(duration_bins(np.array([0.1, 0.2, 9.0])), minlength=DURATION_BINS)
        >>> round(duration_quantile_s(counts, 0.5), 1)
        0.2
    """
    total = int(counts.sum())
    if not total:
        return 0.0
    wanted = max(1, int(np.ceil(share * total)))
    place = int(np.searchsorted(np.cumsum(counts), wanted))
    if place == 0:
        return 0.0
    edges = bin_edges_s()
    return float(np.sqrt(edges[place] * edges[place + 1]))


def coarse_histogram(
    counts: NDArray[np.int64], *, bins: int = 20
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The same in few bins, from the shortest duration to the longest.

    Args:
        counts: (DURATION_BINS,) int64.
        bins: how many, at most; fewer if all durations are alike.

    Returns:
        (n + 1,) float64 edges in seconds and (n,) int64 counts, which add up to all of them; no
        edges and no counts if there are no spans.
    """
    used = np.flatnonzero(counts)
    if not len(used):
        return np.empty(0), np.empty(0, np.int64)
    first, stop = int(used[0]), int(used[-1]) + 1
    cuts = np.unique(np.linspace(first, stop, min(bins, stop - first) + 1).round().astype(np.int64))
    return bin_edges_s()[cuts], np.add.reduceat(counts[:stop], cuts[:-1])
