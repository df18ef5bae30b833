"""Clock sources used to compare phase times across machines."""

from typing import ClassVar

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError


@configuration
class SystemClock(Configuration):
    """Use the machines' system clocks without correction.

    Suitable if a service such as chrony synchronizes the clocks closely enough. Their error is not
    measured.

    Example:
        >>> SystemClock().to_dict()
        {'name': 'system', 'configuration': {}}
    """

    _kind: ClassVar[str] = "system"


@configuration
class NtpClock(Configuration):
    """Correct each machine's clock by its offset from an NTP server.

    The driver and each worker query the server. A process that gets no answer uses its own clock,
    and the run warns once.

    Example:
        >>> NtpClock(server="time.example", every_s=600)
        NtpClock(server='time.example', every_s=600, retries=10, timeout_s=10.0)

    References:
        D. Mills, "Simple Network Time Protocol (SNTP) Version 4", RFC 4330.
    """

    _kind: ClassVar[str] = "ntp"

    server: str = option(
        default="pool.ntp.org",
        help='Host name or address, with ":port" unless the port is 123. A server in your own '
        "network gives more accurate offsets.",
    )
    every_s: float = option(
        default=1800.0,
        minimum=30,
        unit="s",
        label="Polling interval",
        help="Seconds between measurements. Clocks drift by a few milliseconds in 30 minutes. "
        "Public servers reject clients that poll often.",
    )
    retries: int = option(
        default=10,
        minimum=1,
        label="Attempts",
        help="Maximum number of queries per measurement. If all fail, the machine uses its own "
        "clock and the run warns.",
    )
    timeout_s: float = option(
        default=10.0,
        above=0,
        unit="s",
        label="Timeout",
        help="Timeout of each query. Training does not wait for it.",
    )

    def _check(self) -> None:
        if not self.server.strip():
            raise ConfigurationError(
                f"`server` must be a host name or address. Received: server={self.server!r}."
            )
        _ = self.address

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) of the server."""
        host, colon, port = self.server.strip().partition(":")
        if colon and not (port.isdecimal() and port.isascii() and 0 < int(port) < 65536):
            raise ConfigurationError(
                "`server` must be a host, optionally followed by a colon and a port from 1 to "
                f"65535. Received: server={self.server!r}."
            )
        return host, int(port) if colon else 123


TimeSource = SystemClock | NtpClock
