"""The clocks of one process and their offset from an NTP server."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.timeline.clocks import ClockSource, ClockState, Offset

from .time_sources import NtpClock

# For tests: seconds to add to the clocks, one number for all workers or one for each.
SHIFT_VARIABLE = "SPARKWRIGHT_CLOCK_SHIFT_S"
_PAUSE_S = 0.2
_VERSION, _SERVER, _NOT_SET = 4, 4, 3  # NTP version, server mode, "unsynchronized" leap indicator


class MachineClock:
    """Read this process's clocks; with NTP, a thread polls the server."""

    def __init__(
        self, ntp: NtpClock | None = None, *, shift_s: float = 0.0, name: str = "sparkwright"
    ) -> None:
        """Start the polling thread if `ntp` is given; tests shift both clocks by `shift_s`."""
        self.shift_s, self._ntp = shift_s, ntp
        # After the first measurement succeeds or fails; without NTP, always.
        self.settled = threading.Event()
        self.problem = ""  # why the NTP server could not be used; empty if it could
        self._found: Offset | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if ntp is None:
            self.settled.set()
            return
        self._thread = threading.Thread(
            target=self._keep_asking, args=(ntp,), name=f"{name}-clock", daemon=True
        )
        self._thread.start()

    def now_s(self) -> float:
        """Return the monotonic clock, in seconds."""
        return time.monotonic() + self.shift_s

    def state(self, measured: Offset | None = None) -> ClockState:
        """Return the clock state; `measured` is the offset of the driver's monotonic clock."""
        wall_s = time.time() - time.monotonic()  # both are shifted, or neither
        source: ClockSource = "system"
        offset: Offset | None = None
        if measured is not None:
            source, offset = "driver", measured
        elif self._found is not None:
            source, offset = "ntp", self._found
        if offset is None:
            return ClockState(wall_s=wall_s, source=source)
        return ClockState(
            wall_s=wall_s,
            source=source,
            offset_s=offset.offset_s,
            uncertainty_s=offset.uncertainty_s,
        )

    def close(self) -> None:
        """Stop the thread; it may still wait for a pending answer, which it discards."""
        self._closed.set()
        self.settled.set()

    def _keep_asking(self, ntp: NtpClock) -> None:
        while not self._closed.is_set():
            try:
                self._found = self._query_repeatedly(ntp)
                self.problem = ""
            except (OSError, NetworkError) as error:
                # An earlier measurement stays in use.
                if self._found is None:
                    self.problem = str(error)
            self.settled.set()
            self._closed.wait(ntp.every_s)

    def _query_repeatedly(self, ntp: NtpClock) -> Offset:
        for attempt in range(1, ntp.retries + 1):
            try:
                return query_ntp(ntp.address, timeout_s=ntp.timeout_s, shift_s=self.shift_s)
            except (OSError, NetworkError):
                if attempt == ntp.retries or self._closed.wait(_PAUSE_S * attempt):
                    raise
        raise AssertionError


def query_ntp(address: tuple[str, int], *, timeout_s: float, shift_s: float = 0.0) -> Offset:
    """Query an NTP server for the offset of this machine's wall clock."""
    try:
        import ntplib
    except ImportError:
        raise NetworkError(
            "`NtpClock` needs the package ntplib on every machine. Received: not installed. "
            "Install it: pip install ntplib."
        ) from None
    host, port = address
    asked_s = time.time()
    try:
        client: Any = ntplib.NTPClient()  # untyped
        found = client.request(host, version=_VERSION, port=port, timeout=timeout_s)
    except ntplib.NTPException as error:
        raise NetworkError(
            f"the NTP server {host}:{port} must answer in {timeout_s:g} s. Received: {error}"
        ) from None
    if found.mode != _SERVER or abs(found.orig_time - asked_s) > timeout_s:
        raise NetworkError("the NTP answer must be from a server and match the query.")
    if not 0 < found.stratum < 16 or found.leap == _NOT_SET or not found.tx_timestamp:
        raise NetworkError(
            f"the NTP server must be synchronized. Received: stratum={found.stratum}, "
            f"leap={found.leap}. With stratum 0, poll less often."
        )
    own_s = found.root_delay / 2 + found.root_dispersion
    return Offset(found.offset - shift_s, max(0.0, found.delay) / 2 + own_s)


def shift_from(environ: Mapping[str, str], worker: int) -> float:
    """Return the seconds that a test adds to the clocks of `worker`; 0 outside tests.

    Example:
        >>> shift_from({"SPARKWRIGHT_CLOCK_SHIFT_S": "0.5,-3"}, worker=1)
        -3.0
    """
    numbers = environ.get(SHIFT_VARIABLE, "0").split(",")
    return float(numbers[min(worker, len(numbers) - 1)])
