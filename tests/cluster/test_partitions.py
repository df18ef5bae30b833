import contextlib
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.cluster.helpers import needs_hosts
from tests.support.hosts import Hosts
from tests.support.mesh import neighbors
from tests.waiting import wait_until

from sparkwright.errors import NetworkError
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring_port import RingPort
from sparkwright.mesh.topology import Seat
from sparkwright.mesh.update_mesh import UpdateMesh

pytestmark = [pytest.mark.cluster, needs_hosts]

SECRET = bytes(range(32))
NAMES = ("zero", "one", "two")
TIMEOUT_S = 2.0


@pytest.fixture(scope="module")
def running():
    with Hosts(NAMES) as hosts:
        yield hosts


@pytest.fixture
def hosts(running):
    running.links()
    return running


@pytest.fixture
def ports(hosts):
    """One on each host."""
    with contextlib.ExitStack() as stack:
        found = []
        for name in NAMES:
            host, worker = hosts.address(name), len(found)
            port = hosts.call(
                name,
                lambda host=host, worker=worker: PeerPort(
                    secret=SECRET, worker=worker, host=host, ports=range(1), name=f"port-{host}"
                ),
            )
            stack.callback(port.close)
            found.append(port)
        yield found


@pytest.fixture
def meshes(hosts, ports):
    """One on each host, all behind the first."""
    seats = [
        Seat(worker=n, attempt=0, host=port.address[0], port=port.address[1])
        for n, port in enumerate(ports)
    ]
    with contextlib.ExitStack() as stack:
        found = []
        for number, (name, port) in enumerate(zip(NAMES, ports, strict=True)):

            def start(number=number, port=port):
                mesh = UpdateMesh(
                    port,
                    me=(number, 0),
                    name=f"mesh-{number}",
                    heartbeat_s=0.1,
                    peer_timeout_s=TIMEOUT_S,
                )
                # Its threads are the host's, as those are that it starts later.
                mesh.reshape(seats, mode="plain")
                return mesh

            found.append(hosts.call(name, start))
            stack.callback(found[-1].close)
        wait_until(lambda: neighbors(found[0]) == {(1, 0), (2, 0)})
        yield found


def everybody_has(meshes, versions):
    return all(mesh.wait_for(versions, timeout_s=30) for mesh in meshes)


@pytest.mark.parametrize("rule", [{"delay_s": 0.02}, {"loss": 0.02}], ids=["latency", "loss"])
def test_every_update_arrives_once_whatever_the_network_does(hosts, meshes, rule):
    hosts.links(**rule)
    count = 50
    contents = {mesh.me: [os.urandom(20_000) for _ in range(count)] for mesh in meshes}
    for mesh in meshes:
        for content in contents[mesh.me]:
            mesh.publish(content)
    assert everybody_has(meshes, dict.fromkeys(contents, count))
    for mesh in meshes:
        taken = mesh.take()
        for origin in set(contents) - {mesh.me}:
            assert [bytes(u.payload) for u in taken if u.origin == origin] == contents[origin]


@pytest.mark.parametrize("deaf", ["zero", "one"])
def test_unreachable_peer_is_dropped_by_both_sides_and_catches_up(hosts, meshes, deaf):
    sender = "one" if deaf == "zero" else "zero"
    hosts.link(sender, deaf, both_ways=False, cut=True)
    for mesh in meshes:
        mesh.publish(b"meanwhile")
    wait_until(lambda: neighbors(meshes[0]) == {(2, 0)})
    wait_until(lambda: not neighbors(meshes[1]))
    # The others go on.
    meshes[2].publish(b"more")
    assert meshes[0].wait_for({(2, 0): 2}, timeout_s=10)
    hosts.links()
    assert everybody_has(meshes, {(0, 0): 1, (1, 0): 1, (2, 0): 2})
    assert neighbors(meshes[0]) == {(1, 0), (2, 0)}


def joined(hosts, ports):
    """Each host's ring."""

    def join(rank):
        return hosts.call(
            NAMES[rank],
            lambda: ports[rank].join(
                generation=1,
                rank=rank,
                workers=range(len(ports)),
                addresses=[port._port.address for port in ports],
                connect_timeout_s=TIMEOUT_S,
                peer_timeout_s=TIMEOUT_S,
            ),
        )

    with ThreadPoolExecutor(len(ports)) as threads:
        return list(threads.map(join, range(len(ports))))


@pytest.fixture
def ring_ports(ports):
    found = [RingPort(port) for port in ports]
    yield found
    for port in found:
        port.close()


def test_a_ring_on_a_bad_network_adds_to_the_same_bits(hosts, ring_ports):
    vectors = np.random.default_rng(0).normal(size=(3, 100_003)).astype(np.float32)

    def summed(rings):
        own = vectors.copy()
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(lambda ring, vector: ring.all_reduce(vector), rings, own))
        return [vector.tobytes() for vector in own]

    rings = joined(hosts, ring_ports)
    calm = summed(rings)
    hosts.links(delay_s=0.005, loss=0.01)
    assert summed(rings) == calm == [calm[0]] * 3
    for ring in rings:
        ring.abort()


def end_of_sums(ring):
    """Add, again and again, until the ring ends; with which words."""
    with ring:
        while True:
            try:
                ring.all_reduce(np.ones(100_000, np.float32))
            except NetworkError as error:
                return str(error)


def test_cut_during_a_sum_ends_the_ring_and_names_the_silent_worker(hosts, ring_ports):
    rings = joined(hosts, ring_ports)
    hosts.link("one", "two", both_ways=False, cut=True)

    with ThreadPoolExecutor(3) as threads:
        words = list(threads.map(end_of_sums, rings))
    assert any("waited 2 s for worker" in each for each in words), words
