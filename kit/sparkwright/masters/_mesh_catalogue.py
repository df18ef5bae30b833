"""What a person should know about addresses, ports and time-outs of a run."""

from typing import Any

from sparkwright._option import Option

from ._options import MAX_BYTES


def _seconds(name: str, default: float, label: str, advice: str, least: float = 0) -> Option:
    bound: dict[str, Any] = {"minimum": least} if least else {"above": 0}
    return Option(
        name=name, kind="float", default=default, unit="s", label=label, advice=advice, **bound
    )


MESH_OPTIONS = (
    Option(
        name="network_mask",
        kind="text",
        optional=True,
        none_text="found by itself",
        advice="Such as 10.0.0.0/16. Needed where machines have several networks: driver and "
        "workers listen on their address inside it.",
    ),
    Option(
        name="controller_address",
        kind="text",
        optional=True,
        none_text="found by itself",
        label="Driver's address",
        advice="As the workers see it. Needed if the driver is behind address translation, as in "
        "a container.",
    ),
    Option(
        name="ports",
        kind="text",
        optional=True,
        none_text="any free port",
        advice='Such as 50000-50100, or "env:NAME" for an environment variable of each machine. '
        "Needed where a firewall lets only some through.",
    ),
    Option(
        name="mode",
        kind="choice",
        default="plain",
        choices=("plain", "mesh"),
        label="Shape of the mesh",
        advice='Of gradient sharing. "plain" passes all updates through one worker and suits up to '
        'about 32; take "mesh", a tree, for more.',
    ),
    Option(
        name="max_downstreams",
        kind="int",
        default=8,
        minimum=1,
        maximum=64,
        unit="workers",
        label="Branches of the tree",
        advice='Only with "mesh": how many others one worker passes updates on to.',
    ),
    _seconds(
        "peer_timeout_s",
        15.0,
        "Silent worker is given up after",
        "Workers send a sign of life every second. Raise it if machines are overloaded.",
        least=2,
    ),
    _seconds(
        "replacement_grace_s",
        2.0,
        "Wait for a replacement",
        "How long the others wait for a lost worker's replacement before they go on without it.",
    ),
    Option(
        name="replacement_timeout_s",
        kind="float",
        optional=True,
        none_text="as Spark's own time-out requires",
        unit="s",
        above=0,
        label="Replacement must register within",
        advice="How long a lost worker's replacement may take. Spark notices a vanished host only "
        "after `spark.network.timeout`; by default this is a minute longer.",
    ),
    _seconds(
        "stall_timeout_s",
        60.0,
        "Stalled without progress for",
        "A worker that computes, but trains no minibatch for so long, is shown as stalled.",
    ),
    Option(
        name="replace_stalled",
        kind="flag",
        default=False,
        label="Replace stalled workers",
        advice="Ends a stalled worker and starts a new one. Only where no step takes that long.",
    ),
    _seconds(
        "rendezvous_timeout_s",
        120.0,
        "All workers must come within",
        "Counted from the first one. TensorFlow alone takes about ten seconds to start.",
    ),
    _seconds(
        "queue_timeout_s",
        600.0,
        "First worker must come within",
        "How long to wait while other jobs hold the task slots.",
    ),
    _seconds(
        "connect_timeout_s",
        30.0,
        "Connection must stand within",
        "How long a worker tries to reach the driver or another worker.",
    ),
    Option(
        name="chunk_bytes",
        kind="int",
        default=1 << 20,
        minimum=1024,
        unit="bytes",
        label="Size of pieces sent",
        advice="It bounds how long a sign of life waits behind a large message. Leave it.",
    ),
    Option(
        name="max_pending_bytes",
        kind="int",
        maximum=MAX_BYTES,
        default=64 << 20,
        minimum=1024,
        unit="bytes",
        label="May wait to be sent",
        advice="For each neighbour; at least the size of one piece. More memory rides out a slow "
        "network for longer.",
    ),
    Option(
        name="authenticate",
        kind="flag",
        optional=True,
        none_text="except on loopback",
        label="Authenticate averaged vectors",
        advice="So that nobody can change them on the way. It makes a ring on one machine up to a "
        "quarter slower. All other messages are authenticated in any case.",
    ),
    Option(
        name="encrypt",
        kind="flag",
        default=False,
        label="Encrypt what is sent",
        advice="Take it where others could read the network.",
    ),
)
