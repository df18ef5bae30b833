"""How driver and workers reach one another, and how long they wait."""

import ipaddress
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError

from ._options import check_seconds, check_text

# Workers send a sign of life every second.
_SHORTEST_PEER_TIMEOUT_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshConfig:
    """Addresses, ports and time-outs of a run.

    Attributes:
        network_mask: such as "10.0.0.0/16": driver and workers listen on their address inside
            it. Default None: loopback when all of Spark runs on this machine, else the address
            that leads to the other side.
        controller_address: the driver's address as the workers see it; default None: found.
        ports: the ports that may be listened on, "50000-50100" or one number; default None: any
            free port. Driver and workers each take the first free one.
        rendezvous_timeout_s: how long to wait for all workers once the first has come (default
            120: TensorFlow alone takes about ten seconds to start).
        queue_timeout_s: how long to wait for the first worker while other jobs hold the slots
            (default 600).
        connect_timeout_s: how long a worker tries to reach the driver or a peer (default 30).
        peer_timeout_s: a worker silent for so long is given up (default 15, at least 2); workers
            send a sign of life every second, also while they compute.
        replacement_timeout_s: how long to wait for Spark to start a lost worker again (default
            120).
    """

    network_mask: str | None = None
    controller_address: str | None = None
    ports: str | int | None = None
    rendezvous_timeout_s: float = 120.0
    queue_timeout_s: float = 600.0
    connect_timeout_s: float = 30.0
    peer_timeout_s: float = 15.0
    replacement_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        """Refuse masks, ports and times that cannot be meant."""
        check_text("network_mask", self.network_mask)
        check_text("controller_address", self.controller_address)
        if self.network_mask is not None:
            try:
                ipaddress.IPv4Network(self.network_mask, strict=False)
            except ValueError as error:
                raise ConfigurationError(
                    "`network_mask` must be an IPv4 network such as 10.0.0.0/16. "
                    f"Received: network_mask={self.network_mask!r} ({error})."
                ) from None
        _ = self.port_numbers
        for name in (
            "rendezvous_timeout_s",
            "queue_timeout_s",
            "connect_timeout_s",
            "peer_timeout_s",
            "replacement_timeout_s",
        ):
            check_seconds(name, getattr(self, name))
        if self.peer_timeout_s < _SHORTEST_PEER_TIMEOUT_S:
            raise ConfigurationError(
                f"`peer_timeout_s` must be at least {_SHORTEST_PEER_TIMEOUT_S:g}, because workers "
                f"send a sign of life every second. Received: peer_timeout_s={self.peer_timeout_s}."
            )

    @property
    def port_numbers(self) -> range:
        """The ports to try, in order; `range(0, 1)`, that is any free port, by default."""
        if self.ports is None:
            return range(1)
        first, _, last = str(self.ports).partition("-")
        try:
            span = range(int(first), int(last or first) + 1)
        except ValueError:
            span = range(0)
        if not span or span[0] < 1 or span[-1] > 65535:
            raise ConfigurationError(
                '`ports` must be a number from 1 to 65535 or a span such as "50000-50100". '
                f"Received: ports={self.ports!r}."
            )
        return span

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
