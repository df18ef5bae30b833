"""The clocks by which the phases of several machines are compared."""

from typing import ClassVar

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError


@configuration
class SystemClock(Configuration):
    """The clocks of the machines as they are, believed to agree.

    Right where something else, such as chrony, keeps all machines' clocks together to within less
    than what you want to see. How well they agree is not measured.

    Example:
        >>> SystemClock().to_dict()
        {'name': 'system', 'configuration': {}}
    """

    _kind: ClassVar[str] = "system"


@configuration
class NtpClock(Configuration):
    """The clocks of the machines, each corrected by what an NTP server says.

    Driver and workers ask the server themselves. Who gets no answer goes on with its own clock, and
    the run warns of it once.

    Example:
        >>> NtpClock(server="time.example", every_s=600)
        NtpClock(server='time.example', every_s=600, retries=10, timeout_s=10.0)

    References:
        D. Mills, "Simple Network Time Protocol (SNTP) Version 4", RFC 4330.
    """

    _kind: ClassVar[str] = "ntp"

    server: str = option(
        default="pool.ntp.org",
        help='Name or address, with ":port" if it is not 123. Your own network\'s server, if it '
        "has one, is nearer and so more exact.",
    )
    every_s: float = option(
        default=1800.0,
        minimum=30,
        unit="s",
        label="Asked every",
        help="Seconds from one measurement to the next. Clocks drift apart by some milliseconds in "
        "this time; public servers reject clients that ask often.",
    )
    retries: int = option(
        default=10,
        minimum=1,
        label="Attempts",
        help="How often the server is asked. Then the machine goes on with its own clock, and the "
        "run warns of it.",
    )
    timeout_s: float = option(
        default=10.0,
        above=0,
        unit="s",
        label="Answer must come within",
        help="How long to wait for each answer. Training does not wait for it.",
    )

    def _check(self) -> None:
        if not self.server.strip():
            raise ConfigurationError(
                f"`server` must be the name or address of a host. Received: server={self.server!r}."
            )
        _ = self.address

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) of the server."""
        host, colon, port = self.server.strip().partition(":")
        if colon and not (port.isdecimal() and port.isascii() and 0 < int(port) < 65536):
            raise ConfigurationError(
                "`server` must be a host, with a port from 1 to 65535 after a colon if there is "
                f"one. Received: server={self.server!r}."
            )
        return host, int(port) if colon else 123


TimeSource = SystemClock | NtpClock
