"""Several hosts on this machine, and a switch between them that can fail."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.cluster.helpers import needs_hosts
from tests.support.hosts import Hosts
from tests.waiting import wait_until

from sparkwright.errors import ConfigurationError

pytestmark = [pytest.mark.cluster, needs_hosts]


@pytest.fixture(scope="module")
def running() -> Iterator[Hosts]:
    with Hosts(["one", "two"], networks={"one": [0, 1], "outside": [0, 1]}) as hosts:
        yield hosts


@pytest.fixture
def hosts(running: Hosts) -> Hosts:
    running.links()
    return running


def listener(hosts: Hosts, name: str, *, network: int = 0) -> socket.socket:
    """Takes TCP connections on a host, and gives back what comes in."""
    address = (hosts.address(name, network=network), 0)
    server = hosts.call(name, lambda: socket.create_server(address))

    def give_back() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=_echo, args=(client,), daemon=True).start()

    threading.Thread(target=give_back, daemon=True).start()
    return server


def _echo(client: socket.socket) -> None:
    with client, contextlib.suppress(OSError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while content := client.recv(1 << 16):
            client.sendall(content)


def connection(hosts: Hosts, name: str, server: socket.socket) -> socket.socket:
    found = hosts.call(name, lambda: socket.create_connection(server.getsockname(), timeout=10))
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def echoed(client: socket.socket, content: bytes) -> bytes:
    sender = threading.Thread(target=client.sendall, args=(content,), daemon=True)
    sender.start()
    got = bytearray()
    while len(got) < len(content):
        piece = client.recv(1 << 16)
        assert piece, "the connection ended early"
        got += piece
    sender.join()
    return bytes(got)


def datagrams(hosts: Hosts, sender: str, receiver: str, count: int, *, wait_s: float = 5.0) -> int:
    """How many of `count` datagrams arrive, each within `wait_s`."""
    bound = hosts.call(receiver, _datagram_socket)
    bound.bind((hosts.address(receiver), 0))
    with bound, hosts.call(sender, _datagram_socket) as source:
        for _ in range(count):
            source.sendto(b"x", bound.getsockname())
        bound.settimeout(wait_s)
        arrived = 0
        with contextlib.suppress(TimeoutError):
            while arrived < count:
                bound.recv(10)
                arrived += 1
    return arrived


def _datagram_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


@pytest.mark.parametrize("client", ["two", "outside"])
def test_hosts_connect_by_their_own_addresses(hosts: Hosts, client: str) -> None:
    content = os.urandom(1 << 20)
    with listener(hosts, "one") as server, connection(hosts, client, server) as found:
        assert echoed(found, content) == content
        assert found.getsockname()[0] == hosts.address(client)
        assert found.getpeername()[0] == hosts.address("one")
    assert hosts.traffic(client, "one").carried_bytes > len(content)


def test_each_host_has_a_name_and_a_loopback_interface(hosts: Hosts) -> None:
    assert hosts.call("one", socket.gethostname) == "one"
    server = hosts.call("one", lambda: socket.create_server(("127.0.0.1", 0)))
    with server, pytest.raises(ConnectionRefusedError):
        hosts.call("two", lambda: socket.create_connection(server.getsockname(), timeout=5))


def test_networks_are_separate(hosts: Hosts) -> None:
    assert hosts.address("one", network=1) != hosts.address("one")
    with listener(hosts, "one", network=1) as server:
        with connection(hosts, "outside", server) as found:
            assert found.getsockname()[0] == hosts.address("outside", network=1)
        with pytest.raises(OSError):
            connection(hosts, "two", server)


def test_a_delay_is_seen_in_both_directions(hosts: Hosts) -> None:
    with listener(hosts, "one") as server, connection(hosts, "two", server) as found:
        hosts.link("one", "two", delay_s=0.02)
        began_s = time.monotonic()
        echoed(found, b"x")
        assert time.monotonic() - began_s >= 0.04


def test_a_stream_arrives_whole_over_a_link_that_loses_frames(hosts: Hosts) -> None:
    content = os.urandom(4 << 20)
    before = hosts.traffic("one", "two").lost_frames
    with listener(hosts, "one") as server, connection(hosts, "two", server) as found:
        hosts.link("one", "two", loss=0.01)
        assert echoed(found, content) == content
    assert hosts.traffic("one", "two").lost_frames > before


def test_one_direction_can_be_cut(hosts: Hosts) -> None:
    assert datagrams(hosts, "one", "two", 5) == 5
    hosts.link("one", "two", both_ways=False, cut=True)
    assert datagrams(hosts, "one", "two", 5, wait_s=0.5) == 0
    assert datagrams(hosts, "two", "one", 5) == 5
    assert datagrams(hosts, "one", "outside", 5) == 5


def test_partitioned_host_reconnects(hosts: Hosts) -> None:
    with listener(hosts, "one") as server, connection(hosts, "two", server) as found:
        assert echoed(found, b"before") == b"before"
        hosts.cut_off("one")
        found.sendall(b"meanwhile")
        found.settimeout(0.5)
        with pytest.raises(TimeoutError):
            found.recv(100)
        hosts.reconnect("one")
        found.settimeout(10)
        assert found.recv(100) == b"meanwhile"


def own_addresses() -> set[str]:
    return {one.address for of_one in psutil.net_if_addrs().values() for one in of_one}


def test_hosts_end_with_their_owner_however_it_ends() -> None:
    code = """
        import sys, time
        from tests.support.hosts import Hosts
        hosts = Hosts(["one"]).start()
        server = hosts.server("sleeper")
        server.start(hosts.command("one", ["sleep", "600"]), {"PATH": "/usr/bin:/bin"})
        address = hosts.address("outside")
        print(address, hosts.folder, server._process.pid, hosts._switch.pid, flush=True)
        time.sleep(600)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert owner.stdout is not None
    address, folder, *pids = owner.stdout.readline().split()
    assert address in own_addresses()
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: not os.path.exists(folder))
    wait_until(lambda: not any(psutil.pid_exists(int(pid)) for pid in pids))
    assert address not in own_addresses()


def test_rule_for_an_unknown_host_raises(hosts: Hosts) -> None:
    with pytest.raises(ConfigurationError, match="Received: \\['three'\\]"):
        hosts.link("one", "three", cut=True)
