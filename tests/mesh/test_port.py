import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from tests.waiting import join_threads

from sparkwright.errors import NetworkError
from sparkwright.mesh import _port
from sparkwright.mesh._connection import Connection, connect
from sparkwright.mesh._framing import Message
from sparkwright.mesh._port import PeerPort

SECRET = bytes(range(32))


@pytest.fixture
def port() -> Iterator[PeerPort]:
    found = PeerPort(secret=SECRET, worker=0, host="127.0.0.1", ports=range(1), name="test-port")
    yield found
    found.close()


@pytest.fixture
def dial(port: PeerPort) -> Iterator[Callable[[], Connection]]:
    with ExitStack() as stack:

        def connected() -> Connection:
            connection = connect(port.address, secret=SECRET, to="worker 0", timeout_s=5)
            stack.callback(connection.close)
            connection.socket.settimeout(10)
            return connection

        yield connected


def test_each_connection_goes_to_who_takes_its_kind(
    port: PeerPort, dial: Callable[[], Connection]
) -> None:
    taken: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for kind in ("join", "mesh"):

        def take(connection: Connection, message: Message, kind: str = kind) -> None:
            taken.put((kind, message.fields))
            connection.send("welcome", {"to": kind})
            connection.close()

        port.on(kind, take)
    for kind, number in (("mesh", 1), ("join", 2), ("mesh", 3)):
        client = dial()
        client.send(kind, {"number": number})
        answer = client.receive()
        assert answer is not None
        assert answer.fields == {"to": kind}
        assert taken.get(timeout=5) == (kind, {"number": number})


def test_a_handler_may_wait_for_the_next_message_as_long_as_it_takes(
    port: PeerPort, dial: Callable[[], Connection]
) -> None:
    taken: queue.SimpleQueue[Connection] = queue.SimpleQueue()
    port.on("mesh", lambda connection, _: taken.put(connection))
    dial().send("mesh")
    server = taken.get(timeout=5)
    assert server.socket.gettimeout() is None
    server.close()


def test_an_unknown_kind_is_turned_away(port: PeerPort, dial: Callable[[], Connection]) -> None:
    port.on("join", lambda connection, _: connection.close())
    client = dial()
    client.send("dance")
    assert client.receive() is None


def test_a_kind_that_is_taken_no_more_is_turned_away(
    port: PeerPort, dial: Callable[[], Connection]
) -> None:
    port.on("mesh", lambda connection, _: connection.send("welcome"))
    port.off("mesh")
    client = dial()
    client.send("mesh")
    assert client.receive() is None


def test_a_peer_that_says_nothing_is_dropped(
    port: PeerPort, dial: Callable[[], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_port, "HANDSHAKE_TIMEOUT_S", 0.1)
    assert dial().receive() is None


@pytest.mark.parametrize("content", [b"\0" * 100, b"SWR1" + b"\xff" * 30])
def test_garbage_is_dropped(port: PeerPort, dial: Callable[[], Connection], content: bytes) -> None:
    client = dial()
    client.socket.sendall(content)
    with suppress(NetworkError):  # a reset, because some of it was never read
        assert client.receive() is None


def test_a_first_message_with_a_payload_is_refused(
    port: PeerPort, dial: Callable[[], Connection]
) -> None:
    port.on("mesh", lambda connection, _: connection.send("welcome"))
    client = dial()
    with suppress(NetworkError):  # it is turned away at the head, before the payload has gone out
        client.send("mesh", {}, (b"x",))
        assert client.receive() is None


def test_closing_drops_who_has_not_introduced_himself_and_leaves_no_thread(
    dial: Callable[[], Connection], port: PeerPort
) -> None:
    client = dial()
    port.close()
    assert client.receive() is None
    join_threads("test-port")
