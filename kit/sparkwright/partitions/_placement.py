"""What every repartition strategy can answer: where each example goes, without moving any.

A strategy is a frozen value over the counts of the source partitions. It answers for any range of
a partition's examples, so the driver can plan a billion examples and an executor can place one
chunk at a time, each without an array of all of them.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
Destinations = NDArray[np.int32]


class Tally(NamedTuple):
    """What a placement amounts to."""

    target_counts: Counts  # (targets,) examples that each target partition receives
    rows_moved: int  # examples whose partition index changes


class AbstractPlacement(Protocol):
    """Where the examples of each source partition go."""

    def tally(self) -> Tally:
        """Count what `destinations` gives over all examples of all source partitions."""
        ...

    def destinations(self, source: int, start: int, stop: int) -> Destinations:
        """(stop - start,) int32 target partition of examples `start` to `stop` of `source`."""
        ...

    def destinations_of(self, source: int, numbers: Counts) -> Destinations:
        """As `destinations`, of any examples: `numbers` (k,) int64 are their places in `source`."""
        ...
