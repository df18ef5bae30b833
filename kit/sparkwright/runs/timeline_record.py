"""What the driver keeps of a run's timeline: its own phases, the workers' spans, their clocks."""

import logging
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sparkwright.masters import NtpClock, TimeSource
from sparkwright.mesh.framing import Message
from sparkwright.mesh.machine_clock import MachineClock
from sparkwright.timeline import ClockReading, PhaseCode, SpanStore, Timeline
from sparkwright.timeline.clocks import (
    ClockComparison,
    ClockState,
    Offset,
    OffsetEstimator,
    compare_clocks,
)
from sparkwright.timeline.spans import SpanBlock

# Host and process id: another process may be on another machine, with another clock.
Process = tuple[str, int]

_DRIVER = -1
_log = logging.getLogger(__name__)


class TimelineRecord:
    """Collects spans and puts them into the driver's time, from the run's beginning on.

    The driver's own phases are always kept, there are few of them; the workers' if they are
    collected. Every method may be called from any thread.

    Attributes:
        collects: whether workers are to tell of their phases.
    """

    def __init__(self, *, workers: int, name: str) -> None:
        """Begin now, without collecting; names of threads begin with `name`."""
        self.collects = False
        self._name, self._began_s = name, time.monotonic()
        self._ended_s: float | None = None
        self._store = SpanStore(workers=workers)
        self._clock = MachineClock()
        self._ntp: NtpClock | None = None
        self._has_warned = False
        self._missed = 0
        self._readings: dict[int, ClockReading] = {}
        # Of workers without a connection; a later round of one may run in another process.
        self._estimators: dict[tuple[int, Process], OffsetEstimator] = {}
        self._expected_s: dict[int, float] = {}  # since when a worker has been waited for
        self._open: tuple[PhaseCode, float] | None = None
        self._lock = threading.RLock()

    def collect(self, time_source: TimeSource | None) -> None:
        """From now on, collect; clocks are compared by `time_source`, None: by measuring."""
        self.collects = True
        if isinstance(time_source, NtpClock):
            self._ntp = time_source
            self._clock = MachineClock(time_source, name=self._name)

    # -- the driver's phases ----------------------------------------------------------------

    def enter(self, code: PhaseCode) -> None:
        """The driver's phase is `code` from now on; another one before ends."""
        with self._lock:
            if self._open is not None and self._open[0] == code:
                return
            now_s = self._end_phase()
            self._open = (code, now_s)

    def leave(self) -> None:
        """The driver's phase ends."""
        with self._lock:
            self._end_phase()

    def ran(self, code: PhaseCode, start_s: float, end_s: float) -> None:
        """A phase of the driver that is over, by its monotonic clock."""
        with self._lock:
            self._store.append(_DRIVER, *self._span(code, start_s, end_s))

    def _end_phase(self) -> float:
        now_s = time.monotonic()
        if self._open is not None:
            self.ran(*self._open, now_s)
            self._open = None
        return now_s

    # -- the workers' -----------------------------------------------------------------------

    def expected(self, worker: int) -> None:
        """From now on a task for `worker` is waited for."""
        with self._lock:
            if self.collects:
                self._expected_s[worker] = time.monotonic()

    def heard(self, worker: int, message: Message) -> None:
        """Spans from a worker's connection.

        Raises:
            NetworkError, DataError, KeyError, TypeError, ValueError: if these are no spans.
        """
        fields: dict[str, Any] = message.fields
        block = SpanBlock.from_payload(message.payload, int(fields["count"]))
        state = ClockState.from_dict(fields["clock"])
        with self._lock:
            comparison = compare_clocks(state, self._clock.state())
            self._missed += int(fields["missed"])
            self._warn(state)
            self._take(worker, block, comparison)

    def returned(
        self,
        worker: int,
        process: Process,
        block: SpanBlock,
        state: ClockState,
        *,
        asked_s: float,
        heard_s: float,
    ) -> float:
        """Spans that came with the answer of a Spark task, which was asked for in between.

        Args:
            worker: whose.
            process: where it ran.
            block: its spans.
            state: its clocks.
            asked_s: the driver's monotonic clock when the job began.
            heard_s: likewise, when it had ended.

        Returns:
            When the last span ended, by the driver's monotonic clock.
        """
        with self._lock:
            self._warn(state)
            if state.source == "driver" and len(block.codes):
                # The job was the question and the answer; by the worker's clock it was this long.
                came_s = float(block.starts_s.min())
                answered_s = float((block.starts_s + block.seconds).max())
                times_s = asked_s, came_s, answered_s, heard_s
                offset = self._offset_of((worker, process), times_s)
                if offset is None:
                    return heard_s
                # It was the driver that asked, so the offset is the other way round.
                state = replace(
                    state, offset_s=-offset.offset_s, uncertainty_s=offset.uncertainty_s
                )
            comparison = compare_clocks(state, self._clock.state())
            self._take(worker, block, comparison)
            ends_s = block.starts_s + block.seconds + comparison.to_driver_s
            return float(ends_s.max(initial=0.0))

    def _offset_of(
        self, whose: tuple[int, Process], times_s: tuple[float, float, float, float]
    ) -> Offset | None:
        """How far a process' clock is from the driver's, after one more exchange."""
        known = self._estimators.get(whose, OffsetEstimator()).with_exchange(*times_s)
        self._estimators[whose] = known
        return known.estimate(times_s[-1])

    def _take(self, worker: int, block: SpanBlock, clocks: ClockComparison) -> None:
        if not len(block.codes):
            return
        starts_s = block.starts_s + (clocks.to_driver_s - self._began_s)
        self._store.append(worker, block.codes, starts_s, block.seconds)
        uncertainty_s = math.nan if clocks.uncertainty_s is None else clocks.uncertainty_s
        source = self._ntp.server if clocks.source == "ntp" and self._ntp else clocks.source
        self._readings[worker] = ClockReading(
            worker=worker, offset_s=clocks.ahead_s, uncertainty_s=uncertainty_s, source=source
        )
        expected_s = self._expected_s.pop(worker, None)
        if expected_s is None:
            return
        came_s = float(starts_s.min()) + self._began_s
        if came_s > expected_s:  # a process of this machine may have begun before it was expected
            self._store.append(worker, *self._span(PhaseCode.QUEUED, expected_s, came_s))

    def _warn(self, state: ClockState) -> None:
        """Warn once if the NTP server did not answer the driver or a worker."""
        if self._ntp is None or self._has_warned:
            return
        if state.source == "system" or self._clock.problem:
            self._has_warned = True
            _log.warning(
                "the NTP server %s did not always answer, so the timeline uses the machines' "
                "own clocks. %s. Choose another `NtpClock(server=…)`, or leave `time_source` out.",
                self._ntp.server,
                self._clock.problem or "It answered the driver, but not a worker",
            )

    # -- read -------------------------------------------------------------------------------

    def timeline(self, *, hosts: Sequence[str], name: str) -> Timeline:
        """What is known so far; the driver's phase that goes on, until now."""
        with self._lock:
            now_s = self._ended_s or time.monotonic()
            return self._store.timeline(
                elapsed_s=now_s - self._began_s,
                hosts=hosts,
                clocks=[self._readings[worker] for worker in sorted(self._readings)],
                name=name,
                ongoing=None if self._open is None else self._span(*self._open, now_s),
            )

    def _span(self, code: PhaseCode, start_s: float, end_s: float) -> SpanBlock:
        """By the driver's monotonic clock, as a span by the time since the run began."""
        return SpanBlock.of_one(code, start_s - self._began_s, end_s - start_s)

    def close(self) -> None:
        """The run is over."""
        with self._lock:
            self._ended_s = self._end_phase()
            missed = self._missed
        self._clock.close()
        if missed:
            _log.warning("%d spans of the timeline found no room on their workers", missed)
