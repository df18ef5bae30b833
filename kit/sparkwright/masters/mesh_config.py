"""Options of the network between driver and workers: addresses, ports and time-outs."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Literal

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.options import MAX_BYTES

MeshMode = Literal["plain", "mesh"]

_SPAN = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")
_VARIABLE = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")


@configuration
class MeshConfig(Configuration):
    """Addresses, ports and time-outs of a run, and the shape of its mesh.

    Example:
        >>> MeshConfig(ports="50000-50100").ports_from({})
        range(50000, 50101)
        >>> MeshConfig(ports="env:TRAINING_PORT").ports_from({"TRAINING_PORT": "50000"})
        range(50000, 50001)
    """

    network_mask: str | None = option(
        default=None,
        none_text="detected",
        help="Network of the addresses to listen on, such as 10.0.0.0/16. Needed on machines "
        "with several networks. By default loopback if all of Spark runs on this machine, "
        "else the address with a route to the peer.",
    )
    controller_address: str | None = option(
        default=None,
        none_text="detected",
        label="Driver's address",
        help="Address under which workers reach the driver. Needed if the driver is behind "
        "address translation, as in a container.",
    )
    ports: str | int | None = option(
        default=None,
        none_text="any free port",
        help="Ports to listen on, such as 50000-50100; each process uses the first free one. "
        '"env:NAME" reads them from the environment variable NAME of each machine. Needed '
        "behind firewalls.",
    )
    rendezvous_timeout_s: float = option(
        default=120.0,
        above=0,
        unit="s",
        label="Time-out of all workers",
        help="Maximum wait for all workers after the first one has registered. TensorFlow takes "
        "about ten seconds to start.",
    )
    queue_timeout_s: float = option(
        default=600.0,
        above=0,
        unit="s",
        label="Time-out of the first worker",
        help="Maximum wait for the first worker while other jobs occupy the task slots.",
    )
    connect_timeout_s: float = option(
        default=30.0,
        above=0,
        unit="s",
        label="Connection time-out",
        help="Maximum time for a worker to connect to the driver or a peer.",
    )
    peer_timeout_s: float = option(
        default=15.0,
        minimum=2,
        unit="s",
        label="Heartbeat time-out",
        help="Time without a message after which a worker counts as lost. Workers send a "
        "heartbeat every second, even while they compute. Raise it on overloaded machines.",
    )
    replacement_grace_s: float = option(
        default=2.0,
        above=0,
        unit="s",
        label="Wait for a replacement",
        help="Maximum wait of the other workers for a replacement before they continue without "
        "it. Spark restarts a killed task in about 0.3 s.",
    )
    replacement_timeout_s: float | None = option(
        default=None,
        above=0,
        unit="s",
        none_text="a minute longer than `spark.network.timeout`",
        label="Time-out of a replacement",
        help="Maximum time until a lost worker's replacement registers. Spark detects a lost "
        "host only after `spark.network.timeout`.",
    )
    stall_timeout_s: float = option(
        default=60.0,
        above=0,
        unit="s",
        label="Stall time-out",
        help="A worker that computes without completing a minibatch for this long is shown as "
        "stalled, with a warning.",
    )
    replace_stalled: bool = option(
        default=False,
        label="Replace stalled workers",
        help="Stop a stalled worker and start a new one. Use it only if no step takes that long.",
    )
    mode: MeshMode = option(
        default="plain",
        label="Shape of the mesh",
        help='How updates travel in gradient sharing. "plain": through the first worker, which '
        'forwards them to all others; for up to about 32 workers. "mesh": along a tree in '
        "which each worker forwards them to a few; for more workers.",
    )
    max_downstreams: int = option(
        default=8,
        minimum=1,
        maximum=64,
        unit="workers",
        label="Branches of the tree",
        help='Workers to which one worker forwards updates; only with "mesh". It sends every '
        "update this many times.",
    )
    chunk_bytes: int = option(
        default=1 << 20,
        minimum=1024,
        unit="bytes",
        label="Size of chunks sent",
        help="Larger messages are sent in chunks of this size, which bounds the delay of "
        "heartbeats.",
    )
    max_pending_bytes: int = option(
        default=64 << 20,
        minimum=1024,
        maximum=MAX_BYTES,
        unit="bytes",
        label="Send buffer",
        help="Bytes per peer, at least `chunk_bytes`; when the buffer is full, the producer "
        "waits. A busy worker buffers as many received bytes, then reads no more. More "
        "memory bridges a slow network for longer.",
    )
    authenticate: bool | None = option(
        default=None,
        none_text="except on loopback",
        label="Authenticate averaged vectors",
        help="Protects averages in a ring against changes in transit. It slows a ring on one "
        "machine by up to a quarter. All other messages are always authenticated.",
    )
    encrypt: bool = option(
        default=False,
        label="Encrypt messages",
        help="Encrypt and authenticate all messages between driver and workers. Use it on "
        "networks that others can read.",
    )

    def __post_init__(self) -> None:
        """Validate each option; a port may be a number."""
        if isinstance(self.ports, int) and not isinstance(self.ports, bool):
            object.__setattr__(self, "ports", f"{self.ports:d}")
        elif not (self.ports is None or isinstance(self.ports, str)):
            raise ConfigurationError(
                "`ports` must be a port, a range such as 50000-50100, or None (any free port). "
                f"Received: ports={self.ports!r}."
            )
        Configuration.__post_init__(self)

    def _check(self) -> None:
        if self.network_mask is not None:
            try:
                ipaddress.IPv4Network(self.network_mask, strict=False)
            except ValueError as error:
                raise ConfigurationError(
                    "`network_mask` must be an IPv4 network such as 10.0.0.0/16. "
                    f"Received: network_mask={self.network_mask!r} ({error})."
                ) from None
        if not _VARIABLE.fullmatch(str(self.ports)):
            self.ports_from({})
        if self.max_pending_bytes < self.chunk_bytes:
            raise ConfigurationError(
                "`max_pending_bytes` must be at least `chunk_bytes`, or nothing could be sent. "
                f"Received: max_pending_bytes={self.max_pending_bytes}, "
                f"chunk_bytes={self.chunk_bytes}."
            )

    def ports_from(self, environ: Mapping[str, str]) -> range:
        """Return the ports to try on a machine with the environment `environ`, in order.

        Default: `range(1)`, that is any free port.

        Raises:
            ConfigurationError: if the variable in `ports` is missing or has no valid ports.
        """
        if self.ports is None:
            return range(1)
        variable = _VARIABLE.fullmatch(str(self.ports))
        if variable is not None:
            return ports_in_variable(variable[1], environ)
        found = port_span(str(self.ports))
        if found is None:
            raise ConfigurationError(
                '`ports` must be a port from 1 to 65535, a range such as "50000-50100" or "env:" '
                f"and the name of an environment variable. Received: ports={self.ports!r}."
            )
        return found


def port_span(text: str) -> range | None:
    """Parse ports; None if `text` has none.

    Example:
        >>> port_span("50000-50100"), port_span("7077"), port_span("70000")
        (range(50000, 50101), range(7077, 7078), None)
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    span = range(int(match[1]), int(match[2] or match[1]) + 1)
    return span if span and span[0] >= 1 and span[-1] <= 65535 else None


def ports_in_variable(variable: str, environ: Mapping[str, str]) -> range:
    """Return the ports in an environment variable of this machine."""
    text = environ.get(variable)
    if text is None:
        raise ConfigurationError(
            f"`ports` names an environment variable that is not set on this machine. "
            f"Received: ports='env:{variable}'. Set {variable} where driver and workers start, "
            f"on Spark also with `spark.executorEnv.{variable}`."
        )
    found = port_span(text)
    if found is None:
        raise ConfigurationError(
            f"the environment variable {variable} must hold a port from 1 to 65535 or a range "
            f'such as "50000-50100". Received: {variable}={text!r}, from '
            f"ports='env:{variable}'."
        )
    return found
