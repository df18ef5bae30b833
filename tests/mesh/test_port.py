import queue
from contextlib import ExitStack, suppress

import pytest
from tests.cases import cases
from tests.waiting import join_threads

from sparkwright.errors import NetworkError
from sparkwright.mesh import port as _port
from sparkwright.mesh.connection import connect
from sparkwright.mesh.port import PeerPort

SECRET = bytes(range(32))


@pytest.fixture
def port():
    found = PeerPort(secret=SECRET, worker=0, host="127.0.0.1", ports=range(1), name="test-port")
    yield found
    found.close()


@pytest.fixture
def dial(port):
    with ExitStack() as stack:

        def connected():
            connection = connect(port.address, secret=SECRET, to="worker 0", timeout_s=5)
            stack.callback(connection.close)
            connection.socket.settimeout(10)
            return connection

        yield connected


def test_each_connection_goes_to_the_handler_of_its_kind(port, dial):
    taken = queue.SimpleQueue()
    for kind in ("join", "mesh"):

        def take(connection, message, kind=kind):
            taken.put((kind, message.fields))
            connection.send("welcome", {"to": kind})
            connection.close()

        port.on(kind, take)
    for kind, number in (("mesh", 1), ("join", 2), ("mesh", 3)):
        client = dial()
        client.send(kind, {"number": number})
        answer = client.receive()
        assert answer.fields == {"to": kind}
        assert taken.get(timeout=5) == (kind, {"number": number})


def test_silent_peer_is_dropped(port, dial, monkeypatch):
    monkeypatch.setattr(_port, "HANDSHAKE_TIMEOUT_S", 0.1)
    assert dial().receive() is None
    taken = queue.SimpleQueue()
    port.on("mesh", lambda connection, _: taken.put(connection))
    dial().send("mesh")
    server = taken.get(timeout=5)  # its handler may wait for the next message as long as it takes
    assert server.socket.gettimeout() is None
    server.close()


@cases(
    "send",
    lambda client: client.send("dance"),
    lambda client: client.send("off"),
    lambda client: client.send("mesh", {}, (b"x",)),
    lambda client: client.socket.sendall(b"\0" * 100),
    lambda client: client.socket.sendall(b"SWR1" + b"\xff" * 30),
    ids=["unknown kind", "taken no more", "a payload", "zeros", "huge"],
)
def test_invalid_introductions_are_rejected(port, dial, send):
    for kind in ("mesh", "off"):
        port.on(kind, lambda connection, _: connection.send("welcome"))
    port.off("off")
    client = dial()
    with suppress(NetworkError):  # a reset, because some of it was never read
        send(client)
        assert client.receive() is None


def test_close_drops_unidentified_peers_and_leaves_no_thread(dial, port):
    client = dial()
    port.close()
    assert client.receive() is None
    join_threads("test-port")
