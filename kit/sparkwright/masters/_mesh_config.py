"""How driver and workers reach one another, and how long they wait."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from sparkwright.errors import ConfigurationError

from ._options import (
    MAX_BYTES,
    check_choice,
    check_count,
    check_flag,
    check_seconds,
    check_text,
)
from ._port_span import port_span, ports_in_variable
from ._serialisation import checked_dict, options_of, refuse_unknown

MeshMode = Literal["plain", "mesh"]

# Workers send a sign of life every second.
_SHORTEST_PEER_TIMEOUT_S = 2.0
_MOST_DOWNSTREAMS = 64
_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class MeshConfig:
    """Addresses, ports and time-outs of a run, and the shape of its mesh.

    Attributes:
        network_mask: such as "10.0.0.0/16": driver and workers listen on their address inside
            it. Default None: loopback when all of Spark runs on this machine, else the address
            that leads to the other side.
        controller_address: the driver's address as the workers see it; default None: found.
        ports: the ports that may be listened on, "50000-50100" or one number; default None: any
            free port. Driver and workers each take the first free one. "env:NAME" reads the same
            from the environment variable NAME, on each machine its own.
        rendezvous_timeout_s: how long to wait for all workers once the first has come (default
            120: TensorFlow alone takes about ten seconds to start).
        queue_timeout_s: how long to wait for the first worker while other jobs hold the slots
            (default 600).
        connect_timeout_s: how long a worker tries to reach the driver or a peer (default 30).
        peer_timeout_s: a worker silent for so long is given up (default 15, at least 2); workers
            send a sign of life every second, also while they compute.
        replacement_grace_s: how long the others wait for a lost worker's replacement before they
            go on without it (default 2; Spark starts a killed task again in about 0.3 s).
        replacement_timeout_s: how long to wait for a lost worker's replacement. Default None: a
            minute longer than Spark takes to notice a vanished host (`spark.network.timeout`), 180
            with Spark's own default.
        stall_timeout_s: a worker that computes, but trains no minibatch for so long, is shown as
            stalled, with a warning (default 60).
        replace_stalled: end a stalled worker and start a new one in its place (default False: it
            is only shown).
        mode: how updates travel when gradients are shared. "plain" (default): through the first
            worker, who passes them on to all others; for up to about 32 workers. "mesh": along a
            tree in which each passes them on to a few, for more.
        max_downstreams: workers that one passes updates on to in mode "mesh" (default 8, at most
            64).
        chunk_bytes: size of the pieces in which larger messages are sent (default 1 MiB, at least
            1 KiB). It bounds how long a sign of life waits behind a large message.
        max_pending_bytes: bytes that may wait to be sent to one neighbour (default 64 MiB, at
            least `chunk_bytes`); when there are more, their producer waits. As many may
            have arrived and wait for a busy worker; then it reads no more, and its neighbors wait.
        authenticate: whether vectors that workers average in a ring are authenticated, so that
            nobody can change them on the way. Default None: unless the workers share a machine and
            listen on loopback. All other messages are authenticated in any case.
        encrypt: whether what driver and workers send one another is encrypted, and so cannot be
            read on the way; all of it is authenticated then (default False).

    Example:
        >>> MeshConfig(ports="50000-50100").port_numbers
        range(50000, 50101)
        >>> MeshConfig(ports="env:TRAINING_PORT").ports_from({"TRAINING_PORT": "50000"})
        range(50000, 50001)
    """

    network_mask: str | None = None
    controller_address: str | None = None
    ports: str | int | None = None
    rendezvous_timeout_s: float = 120.0
    queue_timeout_s: float = 600.0
    connect_timeout_s: float = 30.0
    peer_timeout_s: float = 15.0
    replacement_grace_s: float = 2.0
    replacement_timeout_s: float | None = None
    stall_timeout_s: float = 60.0
    replace_stalled: bool = False
    mode: MeshMode = "plain"
    max_downstreams: int = 8
    chunk_bytes: int = 1 << 20
    max_pending_bytes: int = 64 << 20
    authenticate: bool | None = None
    encrypt: bool = False

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
        if self._ports_variable is None:
            _ = self.port_numbers
        for name in (
            "rendezvous_timeout_s",
            "queue_timeout_s",
            "connect_timeout_s",
            "peer_timeout_s",
            "replacement_grace_s",
            "stall_timeout_s",
        ):
            check_seconds(name, getattr(self, name))
        if self.replacement_timeout_s is not None:
            check_seconds("replacement_timeout_s", self.replacement_timeout_s)
        check_flag("replace_stalled", self.replace_stalled)
        if self.peer_timeout_s < _SHORTEST_PEER_TIMEOUT_S:
            raise ConfigurationError(
                f"`peer_timeout_s` must be at least {_SHORTEST_PEER_TIMEOUT_S:g}, because workers "
                f"send a sign of life every second. Received: peer_timeout_s={self.peer_timeout_s}."
            )
        check_choice("mode", self.mode, ("plain", "mesh"))
        check_count("max_downstreams", self.max_downstreams)
        if self.max_downstreams > _MOST_DOWNSTREAMS:
            raise ConfigurationError(
                f"`max_downstreams` must be at most {_MOST_DOWNSTREAMS}, because every update is "
                f"sent so many times. Received: max_downstreams={self.max_downstreams}."
            )
        if self.authenticate is not None:
            check_flag("authenticate", self.authenticate)
        check_flag("encrypt", self.encrypt)
        check_count("chunk_bytes", self.chunk_bytes, minimum=1024)
        check_count("max_pending_bytes", self.max_pending_bytes, maximum=MAX_BYTES)
        if self.max_pending_bytes < self.chunk_bytes:
            raise ConfigurationError(
                "`max_pending_bytes` must be at least `chunk_bytes`, or nothing could be sent. "
                f"Received: max_pending_bytes={self.max_pending_bytes}, "
                f"chunk_bytes={self.chunk_bytes}."
            )

    @property
    def port_numbers(self) -> range:
        """The ports to try, in order; `range(0, 1)`, that is any free port, by default.

        Raises:
            ConfigurationError: if an environment variable decides; ask `ports_from` then.
        """
        if self.ports is None:
            return range(1)
        variable = self._ports_variable
        if variable is not None:
            raise ConfigurationError(
                f"the environment of each machine decides. Received: ports={self.ports!r}. "
                "Ask `ports_from(os.environ)` on the machine that listens."
            )
        found = port_span(str(self.ports))
        if found is None:
            raise ConfigurationError(
                '`ports` must be a number from 1 to 65535, a span such as "50000-50100" or '
                f'"env:" and the name of an environment variable. Received: ports={self.ports!r}.'
            )
        return found

    def ports_from(self, environ: Mapping[str, str]) -> range:
        """The ports to try on a machine with the environment `environ`, in order.

        Raises:
            ConfigurationError: if `ports` names a variable that is missing there, or holds no
                ports.
        """
        variable = self._ports_variable
        return self.port_numbers if variable is None else ports_in_variable(variable, environ)

    @property
    def _ports_variable(self) -> str | None:
        match = _VARIABLE.fullmatch(self.ports) if isinstance(self.ports, str) else None
        return None if match is None else match[1]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return options_of(self)

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; fields left out take their defaults.

        Raises:
            ConfigurationError: if a field is unknown or has a value that it cannot have.
        """
        given = checked_dict(settings)
        refuse_unknown(cls, given)
        return cls(**given)
