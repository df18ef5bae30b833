"""What a worker did when: spans of its loop on their way to the driver."""

import contextlib
import struct
import threading
import time
from collections.abc import Generator

import numpy as np

from sparkwright.timeline import PhaseCode
from sparkwright.timeline.spans import SpanBlock

# A worker that is quick does some thousand spans a second, and they are taken away every second.
_MOST = 1 << 16
_SPAN = struct.Struct("<Bdf")
_FIELDS = np.dtype([("codes", "u1"), ("starts_s", "<f8"), ("seconds", "<f4")])
# A wait that goes on after so short a gap is the same wait.
_GAP_S = 1e-3


class PhaseRecorder:
    """Keeps spans, by the monotonic clock, in a room that was made beforehand.

    One that is off, `NO_PHASES`, does nothing. Times are what `time.monotonic` gives.
    """

    def __init__(self, *, on: bool = True) -> None:
        """Start empty."""
        self.on = on
        self._room = bytearray(_SPAN.size * _MOST if on else 0)
        self._count = self._missed = 0
        self._last: tuple[int, float, float] = (-1, 0.0, 0.0)
        self._lock = threading.Lock()

    def add(self, code: int, start_s: float, end_s: float, *, joins: bool = False) -> None:
        """Keep one span; if nobody takes spans away and there is no room, it is only counted.

        Args:
            code: of the phase.
            start_s: when it began.
            end_s: when it ended.
            joins: whether it is no span of its own if one of the same phase has just ended.
        """
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
        """Keep a span that ends now; returns now, for the next one to begin with."""
        now_s = time.monotonic()
        self.add(code, start_s, now_s, joins=joins)
        return now_s

    @contextlib.contextmanager
    def phase(self, code: PhaseCode) -> Generator[None]:
        """A span for what is done inside, also if it fails."""
        start_s = time.monotonic()
        try:
            yield
        finally:
            self.add(code, start_s, time.monotonic())

    def take(self) -> tuple[SpanBlock, int]:
        """The spans kept so far, which are then forgotten, and how many there was no room for."""
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
        """How much of the room is taken, from 0 to 1."""
        return self._count / _MOST


NO_PHASES = PhaseRecorder(on=False)
