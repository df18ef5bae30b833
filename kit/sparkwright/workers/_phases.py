"""Recording of a worker's phases as spans, and sending them to the driver with clock states."""

import contextlib
import os
import struct
import threading
import time
from collections.abc import Generator

import numpy as np

from sparkwright.masters import NtpClock, TimeSource
from sparkwright.mesh.framing import Message
from sparkwright.mesh.machine_clock import MachineClock, shift_from
from sparkwright.timeline import PhaseCode
from sparkwright.timeline.clocks import Offset, OffsetEstimator
from sparkwright.timeline.spans import SpanBlock

from ._control import ControlLine, Dismissed

# Fast workers record a few thousand spans per second, which are sent every second.
_MOST = 1 << 16
_SPAN = struct.Struct("<Bdf")
_FIELDS = np.dtype([("codes", "u1"), ("starts_s", "<f8"), ("seconds", "<f4")])
# Waits separated by a shorter gap are merged.
_GAP_S = 1e-3
_BURST = 8
_AGAIN_S = 10.0
# Fraction of the buffer at which spans are sent even before clocks have been compared.
_FULL = 0.5


class PhaseRecorder:
    """Record spans in a preallocated buffer; times are from `time.monotonic`."""

    def __init__(self, *, on: bool = True) -> None:
        self.on = on
        self._room = bytearray(_SPAN.size * _MOST if on else 0)
        self._count = self._missed = 0
        self._last: tuple[int, float, float] = (-1, 0.0, 0.0)
        self._lock = threading.Lock()

    def add(self, code: int, start_s: float, end_s: float, *, joins: bool = False) -> None:
        """Record a span; if the buffer is full, only count it."""
        if not self.on:
            return
        with self._lock:
            place = self._count
            if joins and place and self._last[0] == code and start_s - self._last[2] < _GAP_S:
                start_s, place = self._last[1], place - 1
            elif place == _MOST:
                self._missed += 1
                return
            _SPAN.pack_into(
                self._room, place * _SPAN.size, code, start_s, max(0.0, end_s - start_s)
            )
            self._count, self._last = place + 1, (code, start_s, end_s)

    def since(self, code: PhaseCode, start_s: float, *, joins: bool = False) -> float:
        """Record a span that ends now; return the current time."""
        now_s = time.monotonic()
        self.add(code, start_s, now_s, joins=joins)
        return now_s

    @contextlib.contextmanager
    def phase(self, code: PhaseCode) -> Generator[None]:
        """Record a span for the body of the context, also if it raises."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            self.add(code, start_s, time.monotonic())

    def take(self) -> tuple[SpanBlock, int]:
        """Remove and return the recorded spans, and the number of spans dropped."""
        with self._lock:
            content = bytes(self._room[: self._count * _SPAN.size])
            missed, self._missed, self._count = self._missed, 0, 0
        rows = np.frombuffer(content, _FIELDS)
        return SpanBlock(
            codes=rows["codes"].copy(),
            starts_s=rows["starts_s"].copy(),
            seconds=rows["seconds"].copy(),
        ), missed

    @property
    def fullness(self) -> float:
        """Fraction of the buffer in use, from 0 to 1."""
        return self._count / _MOST


NO_PHASES = PhaseRecorder(on=False)


class PhaseReporter:
    """Send a recorder's spans every second, with the clock state."""

    def __init__(
        self, control: ControlLine, recorder: PhaseRecorder, clock: MachineClock, *, measure: bool
    ) -> None:
        self._control, self._recorder, self._clock = control, recorder, clock
        self._measure = measure
        self._estimator = OffsetEstimator()
        self._left = 0  # remaining exchanges of this burst
        self._asked_s = -_AGAIN_S
        self._sending = threading.Lock()
        control.on_clock_answer(self._on_answer)
        control.on_heartbeat(self._beat)
        if measure:
            self._ask_some()

    def close(self) -> None:
        """Send the remaining spans."""
        self._control.on_heartbeat(None)
        with contextlib.suppress(Dismissed):
            self._send(last=True)

    def _beat(self) -> None:
        """Run once a second, on the heartbeat thread."""
        if self._measure and self._clock.now_s() - self._asked_s > _AGAIN_S:
            self._ask_some()
        self._send()

    def _send(self, *, last: bool = False) -> None:
        with self._sending:
            offset = self._offset()
            known = self._clock.settled.is_set() and (offset is not None or not self._measure)
            if not (known or last or self._recorder.fullness > _FULL):
                return
            block, missed = self._recorder.take()
            if not (len(block.codes) or missed):
                return
            starts_s = block.starts_s + self._clock.shift_s
            self._control.send(
                "phases",
                {
                    "count": len(block.codes),
                    "missed": missed,
                    "clock": self._clock.state(offset).to_dict(),
                },
                block._replace(starts_s=starts_s).to_payload(),
            )

    def _offset(self) -> Offset | None:
        return self._estimator.estimate(self._clock.now_s()) if self._measure else None

    # -- the driver's time --------------------------------------------------------------------

    def _ask_some(self) -> None:
        self._left, self._asked_s = _BURST, self._clock.now_s()
        self._ask()

    def _ask(self) -> None:
        with contextlib.suppress(Dismissed):
            self._left -= 1
            self._control.send("clock", {"asked_s": self._clock.now_s()})

    def _on_answer(self, message: Message, received_s: float) -> None:
        """Handle an answer that arrived at monotonic time `received_s`, on the reader thread."""
        fields = message.fields
        self._estimator = self._estimator.with_exchange(
            float(fields["asked_s"]),
            float(fields["came_s"]),
            float(fields["answered_s"]),
            received_s + self._clock.shift_s,
        )
        if self._left > 0:
            self._ask()


class WorkerClocks:
    """The clocks of a trainer process, cached across runs to limit NTP queries."""

    def __init__(self) -> None:
        self._clock: MachineClock | None = None
        self._key: tuple[NtpClock | None, float] | None = None

    def of(self, time_source: TimeSource | None, *, worker: int) -> MachineClock:
        ntp = time_source if isinstance(time_source, NtpClock) else None
        key = ntp, shift_from(os.environ, worker)
        if self._clock is None or key != self._key:
            if self._clock is not None:
                self._clock.close()
            self._key, self._clock = key, MachineClock(ntp, shift_s=key[1])
        return self._clock


def add_beginning(phases: PhaseRecorder, times: tuple[float, float], *, ready_s: float) -> None:
    """Record the phases of a task before its request to the trainer."""
    began_s, written_s = times  # see `TrainRequest.times`
    if written_s > began_s:
        phases.add(PhaseCode.SHARD, began_s, written_s)
    if ready_s > written_s:
        phases.add(PhaseCode.TENSORFLOW, written_s, ready_s)


def add_end(phases: PhaseRecorder, times: tuple[float, float]) -> None:
    """Record the whole task, which ends now."""
    phases.add(PhaseCode.WORK, times[0], time.monotonic())
