"""Time by lane, phase and bucket of time, in a bounded room however long a run goes on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._tallies import CODES

_FIRST_WIDTH_S = 1.0
# Of float64: with a dozen phases a worker this is about 100 MB at most, up to 5,000 workers.
_MOST_CELLS = 8 << 20
_USUAL_PHASES = 8
_LEAST_BUCKETS, _MOST_BUCKETS = 128, 4096


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class BucketSums:
    """Seconds of each phase of each lane in buckets of equal width.

    Attributes:
        width_s: seconds from one bucket to the next; the first begins with the run.
        lanes: (rows,) int32, -1 for the driver, else the worker.
        codes: (rows,) uint8.
        seconds: (rows, buckets) float64.
    """

    width_s: float
    lanes: NDArray[np.int32]
    codes: NDArray[np.uint8]
    seconds: NDArray[np.float64]


class Buckets:
    """Adds spans up; the width of the buckets doubles as the run grows."""

    def __init__(self, *, workers: int) -> None:
        """Begin with buckets of a second.

        Args:
            workers: how many lanes there are beside the driver's; more lanes, fewer buckets.
        """
        room = max(1, _MOST_CELLS // (_USUAL_PHASES * (workers + 1)))
        count = 1 << (room.bit_length() - 1)
        self._count = min(max(count, _LEAST_BUCKETS), _MOST_BUCKETS)
        self._width_s = _FIRST_WIDTH_S
        self._end_s = 0.0
        self._lanes: dict[int, _Lane] = {}

    def add(
        self,
        lane: int,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        seconds: NDArray[np.float64],
    ) -> None:
        """Take spans of one lane in; what lies across buckets is divided among them.

        Args:
            lane: -1 or the worker.
            codes: (n,) uint8.
            starts_s: (n,) float64, none below 0.
            seconds: (n,) float64.
        """
        if not len(codes):
            return
        ends_s = starts_s + seconds
        self._end_s = max(self._end_s, float(ends_s.max()))
        while self._end_s > self._width_s * self._count:
            self._width_s *= 2
            for each in self._lanes.values():
                each.fold()
        if (found := self._lanes.get(lane)) is None:
            found = self._lanes[lane] = _Lane(self._count)
        found.add(codes, starts_s, ends_s, seconds, self._width_s)

    def sums(self) -> BucketSums | None:
        """What has been added so far, as a value of its own; None if nothing was."""
        if not self._lanes:
            return None
        used = min(self._count, max(1, int(np.ceil(self._end_s / self._width_s))))
        lanes = sorted(self._lanes)
        codes = [self._lanes[lane].codes for lane in lanes]
        return BucketSums(
            width_s=self._width_s,
            lanes=np.repeat(np.array(lanes, np.int32), [len(each) for each in codes]),
            codes=np.concatenate(codes),
            seconds=np.concatenate([self._lanes[lane].sums[:, :used] for lane in lanes]),
        )


class _Lane:
    """The buckets of one lane: a row for each phase that has been seen in it."""

    def __init__(self, buckets: int) -> None:
        self.codes = np.empty(0, np.uint8)
        self.sums = np.zeros((0, buckets))
        self._row_of = np.full(CODES, -1, np.int64)

    def add(
        self,
        codes: NDArray[np.uint8],
        starts_s: NDArray[np.float64],
        ends_s: NDArray[np.float64],
        seconds: NDArray[np.float64],
        width_s: float,
    ) -> None:
        rows = self._row_of[codes]
        if (rows < 0).any():
            self._make_room(np.unique(codes[rows < 0]))
            rows = self._row_of[codes]
        last_bucket = self.sums.shape[1] - 1
        first = np.minimum((starts_s / width_s).astype(np.int64), last_bucket)
        last = np.minimum((ends_s / width_s).astype(np.int64), last_bucket)
        within = first == last
        flat = rows[within] * self.sums.shape[1] + first[within]
        np.add.at(self.sums.reshape(-1), flat, seconds[within])
        for each in np.flatnonzero(~within).tolist():
            row, begin, end = self.sums[rows[each]], int(first[each]), int(last[each])
            head_s = min((begin + 1) * width_s - float(starts_s[each]), float(seconds[each]))
            between_s = (end - begin - 1) * width_s
            row[begin] += head_s
            row[begin + 1 : end] += width_s
            # The rest, so that nothing is lost by rounding.
            row[end] += float(seconds[each]) - head_s - between_s

    def fold(self) -> None:
        """Every two buckets become one."""
        half = self.sums.shape[1] // 2
        self.sums[:, :half] = self.sums[:, 0::2] + self.sums[:, 1::2]
        self.sums[:, half:] = 0.0

    def _make_room(self, codes: NDArray[np.uint8]) -> None:
        self._row_of[codes] = np.arange(len(self.codes), len(self.codes) + len(codes))
        self.codes = np.concatenate([self.codes, codes])
        more = np.zeros((len(codes), self.sums.shape[1]))
        self.sums = np.concatenate([self.sums, more])
