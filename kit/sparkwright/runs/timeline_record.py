"""The timeline of a run on the driver: its own phases, the workers' spans, and their clocks."""

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
    OffsetEstimator,
    compare_clocks,
)
from sparkwright.timeline.spans import SpanBlock

# Host and process id. Other processes may run on machines with other clocks.
Process = tuple[str, int]

_DRIVER = -1
_log = logging.getLogger(__name__)


class TimelineRecord:
    """Collects spans and converts their times to the driver's, from the start of the run.

    The few phases of the driver are always kept, those of the workers only if `collects` is set.
    Every method may be called from any thread.
    """

    def __init__(self, *, workers: int, name: str) -> None:
        """Start now, without collecting; names of threads begin with `name`."""
        self.collects = False
        self._name, self._began_s = name, time.monotonic()
        self._ended_s: float | None = None
        self._store = SpanStore(workers=workers)
        self._clock = MachineClock()
        self._ntp: NtpClock | None = None
        self._has_warned = False
        self._missed = 0
        self._readings: dict[int, ClockReading] = {}
        # For workers without a connection, whose rounds may run in different processes.
        self._estimators: dict[tuple[int, Process], OffsetEstimator] = {}
        self._expected_s: dict[int, float] = {}  # worker -> when its task was requested
        self._open: tuple[PhaseCode, float] | None = None
        self._lock = threading.RLock()

    def collect(self, time_source: TimeSource | None) -> None:
        """Start to collect; `time_source` compares the clocks, None: measure their offsets."""
        self.collects = True
        if isinstance(time_source, NtpClock):
            self._ntp = time_source
            self._clock = MachineClock(time_source, name=self._name)

    # -- the driver's phases ----------------------------------------------------------------

    def enter(self, code: PhaseCode) -> None:
        """Enter a phase of the driver; this ends the previous one."""
        with self._lock:
            if self._open is not None and self._open[0] == code:
                return
            now_s = self._end_phase()
            self._open = (code, now_s)

    def leave(self) -> None:
        """End the driver's phase."""
        with self._lock:
            self._end_phase()

    def ran(self, code: PhaseCode, start_s: float, end_s: float) -> None:
        """Add a completed phase of the driver; times are those of its monotonic clock."""
        with self._lock:
            self._store.append(_DRIVER, *self._span(code, start_s, end_s))

    def _end_phase(self) -> float:
        now_s = time.monotonic()
        if self._open is not None:
            self.ran(*self._open, now_s)
            self._open = None
        return now_s

    # -- the workers' phases ----------------------------------------------------------------

    def expected(self, worker: int) -> None:
        """Record that a task for `worker` has been requested."""
        with self._lock:
            if self.collects:
                self._expected_s[worker] = time.monotonic()

    def add_message(self, worker: int, message: Message) -> None:
        """Add the spans in a worker's message."""
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
        received_s: float,
    ) -> float:
        """Add the spans that a Spark task returned; return their end by the driver's clock."""
        with self._lock:
            self._warn(state)
            if state.source == "driver" and len(block.codes):
                # Treat the job as an exchange of a request and a reply for the clock comparison.
                came_s = float(block.starts_s.min())
                answered_s = float((block.starts_s + block.seconds).max())
                known = self._estimators.get((worker, process), OffsetEstimator())
                known = known.with_exchange(asked_s, came_s, answered_s, received_s)
                self._estimators[worker, process] = known
                if (offset := known.estimate(received_s)) is None:
                    return received_s
                # The driver sent the request, so the sign of the offset is reversed.
                state = replace(
                    state, offset_s=-offset.offset_s, uncertainty_s=offset.uncertainty_s
                )
            comparison = compare_clocks(state, self._clock.state())
            self._take(worker, block, comparison)
            ends_s = block.starts_s + block.seconds + comparison.to_driver_s
            return float(ends_s.max(initial=0.0))

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
        if came_s > expected_s:  # a local process may start before its task is requested
            self._store.append(worker, *self._span(PhaseCode.QUEUED, expected_s, came_s))

    def _warn(self, state: ClockState) -> None:
        """Warn once if the NTP server did not answer the driver or a worker."""
        if self._ntp is None or self._has_warned:
            return
        if state.source == "system" or self._clock.problem:
            self._has_warned = True
            has_answered = self._clock.state().source == "ntp"
            others = "It responded to the driver" if has_answered else "The driver still waits"
            _log.warning(
                "the timeline uses the machines' own clocks, because the NTP server %s did not "
                "always respond. %s. Set another `NtpClock(server=…)`, or omit `time_source`.",
                self._ntp.server,
                self._clock.problem or f"A worker got no response. {others}",
            )

    # -- read -------------------------------------------------------------------------------

    def timeline(self, *, hosts: Sequence[str], name: str) -> Timeline:
        """Return the timeline so far; the driver's current phase ends now."""
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
        """Convert times of the driver's monotonic clock to a span since the start of the run."""
        return SpanBlock.of_one(code, start_s - self._began_s, end_s - start_s)

    def close(self) -> None:
        """End the timeline."""
        with self._lock:
            self._ended_s = self._end_phase()
            missed = self._missed
        self._clock.close()
        if missed:
            _log.warning(
                "workers dropped %d spans of the timeline: their buffers were full", missed
            )
