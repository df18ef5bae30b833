"""By which clock the workers' phases are put beside one another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from ._options import check_count, check_seconds
from ._serialisation import options_of, refuse_unknown

# A public server is asked to be left alone for longer than this.
_MOST_OFTEN_S = 30.0


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clocks of the machines as they are, believed to agree.

    Right where something else, such as chrony, keeps all machines' clocks together to within less
    than what you want to see. How well they agree is not measured.

    Example:
        >>> SystemClock().to_dict()
        {'name': 'system', 'configuration': {}}
    """

    def to_dict(self) -> dict[str, Any]:
        """JSON-able name and configuration, for `time_source_from_dict`."""
        return {"name": "system", "configuration": {}}


@dataclass(frozen=True, kw_only=True, slots=True)
class NtpClock:
    """The clocks of the machines, each corrected by what an NTP server says.

    Driver and workers ask the server themselves. Who gets no answer goes on with its own clock, and
    the run warns of it once.

    Attributes:
        server: name or address, with ":port" if it is not 123 (default "pool.ntp.org").
        every_s: seconds from one measurement to the next (default 1800, at least 30).
        retries: how often the server is asked before it is given up (default 10).
        timeout_s: how long to wait for each answer (default 10).

    Example:
        >>> NtpClock(server="time.example", every_s=600)
        NtpClock(server='time.example', every_s=600, retries=10, timeout_s=10.0)

    References:
        D. Mills, "Simple Network Time Protocol (SNTP) Version 4", RFC 4330.
    """

    server: str = "pool.ntp.org"
    every_s: float = 1800.0
    retries: int = 10
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not isinstance(self.server, str) or not self.server.strip():
            raise ConfigurationError(
                f"`server` must be the name or address of a host. Received: server={self.server!r}."
            )
        _ = self.address
        check_seconds("every_s", self.every_s)
        if self.every_s < _MOST_OFTEN_S:
            raise ConfigurationError(
                f"`every_s` must be at least {_MOST_OFTEN_S:g}, or servers refuse to answer. "
                f"Received: every_s={self.every_s!r}."
            )
        check_count("retries", self.retries)
        check_seconds("timeout_s", self.timeout_s)

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

    def to_dict(self) -> dict[str, Any]:
        """JSON-able name and configuration, for `time_source_from_dict`."""
        return {"name": "ntp", "configuration": options_of(self)}


TimeSource = SystemClock | NtpClock
_CLASSES: dict[str, type[TimeSource]] = {"system": SystemClock, "ntp": NtpClock}


def time_source_from_dict(saved: Mapping[str, Any]) -> TimeSource:
    """The time source that `to_dict` describes.

    Raises:
        ConfigurationError: if the name or an option is unknown, or a value cannot be meant.

    Example:
        >>> time_source_from_dict(NtpClock(server="time.example").to_dict()).server
        'time.example'
    """
    name, configuration = saved.get("name"), saved.get("configuration", {})
    found = _CLASSES.get(name) if isinstance(name, str) else None
    if found is None or not isinstance(configuration, Mapping):
        raise ConfigurationError(
            f"`time_source` must be named one of {', '.join(map(repr, _CLASSES))}, with its "
            f"configuration. Received: {dict(saved)!r}."
        )
    refuse_unknown(found, configuration)
    return found(**configuration)
