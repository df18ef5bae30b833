"""The clocks of one process, and what an NTP server says of them."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.timeline.clocks import ClockSource, ClockState, Offset

from .time_sources import NtpClock

# For tests: seconds by which a worker's clocks are ahead, or one number for each worker.
SHIFT_VARIABLE = "SPARKWRIGHT_CLOCK_SHIFT_S"
_PAUSE_S = 0.2
_VERSION, _SERVER, _NOT_SET = 4, 4, 3  # of NTP; modes and leap indicators of its answers


class MachineClock:
    """Reads this process' clocks; with NTP, a thread of its own asks the server now and then.

    Attributes:
        settled: set once it is known what NTP says, or that it says nothing; without NTP at once.
        problem: why the NTP server could not be used; empty otherwise.
    """

    def __init__(
        self, ntp: NtpClock | None = None, *, shift_s: float = 0.0, name: str = "sparkwright"
    ) -> None:
        """Start the thread if there is a server to be asked.

        Args:
            ntp: the server; default None: the clocks as they are.
            shift_s: for tests, seconds by which both clocks are to be ahead of what they are;
                default 0.
            name: the beginning of the thread's name.
        """
        self.shift_s, self._ntp = shift_s, ntp
        self.settled = threading.Event()
        self.problem = ""
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
        """The monotonic clock."""
        return time.monotonic() + self.shift_s

    def state(self, measured: Offset | None = None) -> ClockState:
        """What is known of the clocks now.

        Args:
            measured: what to add to the monotonic clock for the driver's; default None: not known.
        """
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
        """End the thread; it may wait for one more answer, which nobody hears."""
        self._closed.set()
        self.settled.set()

    def _keep_asking(self, ntp: NtpClock) -> None:
        while not self._closed.is_set():
            try:
                self._found = self._ask_often(ntp)
                self.problem = ""
            except (OSError, NetworkError) as error:
                # What an earlier answer said is better than nothing.
                if self._found is None:
                    self.problem = str(error)
            self.settled.set()
            self._closed.wait(ntp.every_s)

    def _ask_often(self, ntp: NtpClock) -> Offset:
        for attempt in range(1, ntp.retries + 1):
            try:
                return ask_ntp(ntp.address, timeout_s=ntp.timeout_s, shift_s=self.shift_s)
            except (OSError, NetworkError):
                if attempt == ntp.retries or self._closed.wait(_PAUSE_S * attempt):
                    raise
        raise AssertionError


def ask_ntp(address: tuple[str, int], *, timeout_s: float, shift_s: float = 0.0) -> Offset:
    """Ask the NTP server at `address` what to add to this machine's wall clock.

    Args:
        address: (host, port).
        timeout_s: how long to wait for the answer.
        shift_s: for tests, seconds by which the wall clock is to be ahead; default 0.

    Raises:
        OSError: if there is no such host, or it cannot be reached.
        NetworkError: if there is no answer in time, or none that can be used.
    """
    try:
        import ntplib
    except ImportError:
        raise NetworkError(
            "`NtpClock` needs the package ntplib on every machine. Received: none here. Install "
            "it: pip install ntplib."
        ) from None
    host, port = address
    asked_s = time.time()
    try:
        client: Any = ntplib.NTPClient()  # its types would be guessed from its defaults
        found = client.request(host, version=_VERSION, port=port, timeout=timeout_s)
    except ntplib.NTPException as error:
        raise NetworkError(
            f"the NTP server {host}:{port} must answer in {timeout_s:g} s. Received: {error}"
        ) from None
    if found.mode != _SERVER or abs(found.orig_time - asked_s) > timeout_s:
        raise NetworkError("an NTP answer must be a server's, to the question that was asked.")
    if not 0 < found.stratum < 16 or found.leap == _NOT_SET or not found.tx_timestamp:
        raise NetworkError(
            f"the NTP server has no time to give. Received: stratum={found.stratum}, "
            f"leap={found.leap}. With stratum 0 it was asked too often."
        )
    own_s = found.root_delay / 2 + found.root_dispersion
    return Offset(found.offset - shift_s, max(0.0, found.delay) / 2 + own_s)


def shift_from(environ: Mapping[str, str], worker: int) -> float:
    """By how much a test wants the clocks of `worker` to be ahead, in seconds; 0 outside of tests.

    Example:
        >>> shift_from({"SPARKWRIGHT_CLOCK_SHIFT_S": "0.5,-3"}, worker=1)
        -3.0
    """
    numbers = environ.get(SHIFT_VARIABLE, "0").split(",")
    return float(numbers[min(worker, len(numbers) - 1)])
