"""Network configuration of driver and workers: addresses, ports, time-outs, mesh."""

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
        help="Such as 10.0.0.0/16: driver and workers listen on their address inside it. Needed "
        "where machines have several networks. By default loopback when all of Spark runs on this "
        "machine, else the address that leads to the other side.",
    )
    controller_address: str | None = option(
        default=None,
        none_text="detected",
        label="Driver's address",
        help="The driver's address as the workers see it. Needed if the driver is behind address "
        "translation, as in a container.",
    )
    ports: str | int | None = option(
        default=None,
        none_text="any free port",
        help="The ports that may be listened on, such as 50000-50100; each process takes the first "
        'free one. "env:NAME" reads the same from the environment variable NAME of each machine. '
        "Needed where a firewall lets only some through.",
    )
    rendezvous_timeout_s: float = option(
        default=120.0,
        above=0,
        unit="s",
        label="All workers must come within",
        help="How long to wait for all workers, from the first one on. TensorFlow alone takes "
        "about ten seconds to start.",
    )
    queue_timeout_s: float = option(
        default=600.0,
        above=0,
        unit="s",
        label="First worker must come within",
        help="How long to wait for the first worker while other jobs hold the task slots.",
    )
    connect_timeout_s: float = option(
        default=30.0,
        above=0,
        unit="s",
        label="Connection must stand within",
        help="How long a worker tries to reach the driver or a peer.",
    )
    peer_timeout_s: float = option(
        default=15.0,
        minimum=2,
        unit="s",
        label="Silent worker is replaced after",
        help="How long a worker may be silent before it counts as lost. Workers send a heartbeat "
        "every second, also while they compute. Raise it if machines are overloaded.",
    )
    replacement_grace_s: float = option(
        default=2.0,
        above=0,
        unit="s",
        label="Wait for a replacement",
        help="How long the others wait for a lost worker's replacement before they go on without "
        "it. Spark starts a killed task again in about 0.3 s.",
    )
    replacement_timeout_s: float | None = option(
        default=None,
        above=0,
        unit="s",
        none_text="a minute longer than `spark.network.timeout`",
        label="Replacement must register within",
        help="How long a lost worker's replacement may take. Spark notices a vanished host only "
        "after `spark.network.timeout`.",
    )
    stall_timeout_s: float = option(
        default=60.0,
        above=0,
        unit="s",
        label="Stalled without progress for",
        help="A worker that computes, but trains no minibatch for so long, is shown as stalled, "
        "with a warning.",
    )
    replace_stalled: bool = option(
        default=False,
        label="Replace stalled workers",
        help="Stop a stalled worker and start a new one. Only where no step takes that long.",
    )
    mode: MeshMode = option(
        default="plain",
        label="Shape of the mesh",
        help='How updates travel when gradients are shared. "plain": through the first worker, '
        'which passes them on to all others; for up to about 32 workers. "mesh": along a tree in '
        "which each passes them on to a few, for more.",
    )
    max_downstreams: int = option(
        default=8,
        minimum=1,
        maximum=64,
        unit="workers",
        label="Branches of the tree",
        help='Workers that one passes updates on to, only with "mesh". Every update is sent so '
        "many times.",
    )
    chunk_bytes: int = option(
        default=1 << 20,
        minimum=1024,
        unit="bytes",
        label="Size of chunks sent",
        help="Larger messages are sent in chunks of this size, which bounds how long a heartbeat "
        "waits behind one. Leave it.",
    )
    max_pending_bytes: int = option(
        default=64 << 20,
        minimum=1024,
        maximum=MAX_BYTES,
        unit="bytes",
        label="May wait to be sent",
        help="For each peer, at least `chunk_bytes`; with more, the producer waits. As many may "
        "have arrived and wait for a busy worker, which then reads no more. More memory rides out "
        "a slow network for longer.",
    )
    authenticate: bool | None = option(
        default=None,
        none_text="except on loopback",
        label="Authenticate averaged vectors",
        help="Protects the averages of a ring from changes in transit. It makes a ring on one "
        "machine up to a quarter slower. All other messages are authenticated in any case.",
    )
    encrypt: bool = option(
        default=False,
        label="Encrypt messages",
        help="Encrypt, and so authenticate, everything that driver and workers send one another. "
        "Take it where others could read the network.",
    )

    def __post_init__(self) -> None:
        """Check each option; convert a port number to text."""
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
        """Return the ports to try, in order, on a machine with the environment `environ`.

        The default is `range(1)`: any free port.

        Raises:
            ConfigurationError: if `ports` names a variable that is missing or contains no ports.
        """
        if self.ports is None:
            return range(1)
        variable = _VARIABLE.fullmatch(str(self.ports))
        if variable is not None:
            return ports_in_variable(variable[1], environ)
        found = port_span(str(self.ports))
        if found is None:
            raise ConfigurationError(
                '`ports` must be a number from 1 to 65535, a span such as "50000-50100" or '
                f'"env:" and the name of an environment variable. Received: ports={self.ports!r}.'
            )
        return found


def port_span(text: str) -> range | None:
    """Parse a port or a range of ports; None if `text` is invalid.

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
    """Return the ports that an environment variable contains.

    Raises:
        ConfigurationError: if it is missing or contains no ports.
    """
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
            f"the environment variable {variable} must hold a number from 1 to 65535 or a span "
            f"such as \"50000-50100\". Received: {variable}={text!r}, from ports='env:{variable}'."
        )
    return found
