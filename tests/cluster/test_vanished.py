import contextlib
import queue
import threading

import pytest
from tests.cluster.helpers import needs_hosts
from tests.support.hosts import Hosts

from sparkwright.errors import NetworkError
from sparkwright.mesh import handshake as _handshake
from sparkwright.mesh.connection import Listener, connect

pytestmark = [pytest.mark.cluster, needs_hosts]

SECRET = bytes(range(32))


@pytest.fixture
def ends(monkeypatch):
    """Hosts "one" and "two", and both ends of a connection that notices after 2 s, not 30."""
    monkeypatch.setitem(_handshake._KEEPALIVE, "TCP_USER_TIMEOUT", 2_000)
    monkeypatch.setitem(_handshake._KEEPALIVE, "TCP_KEEPIDLE", 1)
    monkeypatch.setitem(_handshake._KEEPALIVE, "TCP_KEEPINTVL", 1)
    arrived = queue.SimpleQueue()

    def listen():
        return Listener(
            secret=SECRET,
            host=hosts.address("two"),
            ports=range(1),
            on_connection=arrived.put,
            name="vanished",
        )

    with Hosts(["one", "two"]) as hosts:
        listener = hosts.call("two", listen)
        one = hosts.call("one", lambda: connect(listener.address, secret=SECRET, timeout_s=5))
        two = arrived.get(timeout=5)
        yield hosts, one, two
        for closable in (one, two, listener):
            closable.close()


def ends_soon(connection):
    """Whether a wait for the next message ends, with an error or as at the peer's own end."""
    ended = threading.Event()

    def wait():
        with contextlib.suppress(OSError, NetworkError):
            assert connection.receive() is None
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended.wait(20)


@pytest.mark.parametrize("sending", [False, True], ids=["idle", "sending"])
def test_a_wait_for_a_machine_that_vanished_ends(ends, sending):
    hosts, one, two = ends
    hosts.cut_off("two")
    over = threading.Event()

    def show_life():
        with contextlib.suppress(NetworkError):
            while not over.wait(0.2):
                one.send("alive", {})

    if sending:
        threading.Thread(target=show_life, daemon=True).start()
    assert ends_soon(one)
    assert ends_soon(two)
    over.set()
