import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest
from tests.cluster.helpers import needs_hosts
from tests.support.hosts import Hosts
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, needs_hosts]


@pytest.fixture
def hosts():
    with Hosts(["one", "two"]) as running:
        yield running


def echoed(hosts, content):
    """Send content from "two" to "one" and back; how many seconds that took."""
    server = hosts.call("one", lambda: socket.create_server((hosts.address("one"), 0)))

    def give_back():
        client, _ = server.accept()
        with client:
            while piece := client.recv(1 << 16):
                client.sendall(piece)

    threading.Thread(target=give_back, daemon=True).start()
    client = hosts.call("two", lambda: socket.create_connection(server.getsockname(), timeout=10))
    with server, client:
        began_s = time.monotonic()
        sender = threading.Thread(target=client.sendall, args=(content,), daemon=True)
        sender.start()
        got = bytearray()
        while len(got) < len(content):
            piece = client.recv(1 << 16)
            assert piece, "the connection ended early"
            got += piece
        sender.join()
        assert got == content
        return time.monotonic() - began_s


def datagrams(hosts, sender, receiver, count, *, wait_s=5.0):
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


def _datagram_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def test_a_stream_arrives_whole_and_late_over_a_slow_link_that_loses_frames(hosts):
    hosts.link("one", "two", delay_s=0.02, loss=0.02)
    assert echoed(hosts, os.urandom(1 << 20)) >= 0.04
    traffic = hosts.traffic("one", "two")
    assert traffic.lost_frames > 0
    assert traffic.carried_bytes > 1 << 20


def test_one_direction_can_be_cut(hosts):
    assert datagrams(hosts, "one", "two", 5) == 5
    hosts.link("one", "two", both_ways=False, cut=True)
    assert datagrams(hosts, "one", "two", 5, wait_s=0.5) == 0
    assert datagrams(hosts, "two", "one", 5) == 5
    assert datagrams(hosts, "one", "outside", 5) == 5


def own_addresses():
    return {one.address for of_one in psutil.net_if_addrs().values() for one in of_one}


def test_hosts_end_with_their_owner_however_it_ends():
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
    address, folder, *pids = owner.stdout.readline().split()
    assert address in own_addresses()
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: not os.path.exists(folder))
    wait_until(lambda: not any(psutil.pid_exists(int(pid)) for pid in pids))
    assert address not in own_addresses()
