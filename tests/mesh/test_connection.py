import contextlib
import errno
import os
import queue
import socket
import struct
import threading
import time

import numpy as np
import pytest
from tests.ports import held_port
from tests.support.mesh import socket_pair
from tests.waiting import join_threads, names_of_threads

from sparkwright.errors import NetworkError
from sparkwright.mesh import handshake as _handshake
from sparkwright.mesh.auth import DRIVER, HELLO, Handshake
from sparkwright.mesh.connection import Listener, connect

SECRET = bytes(range(32))
ANSWER_BYTES = 65
HOST = "127.0.0.1"


@pytest.fixture
def listening():
    """Opens listeners whose connections land in a queue; everything is closed at the end."""
    with contextlib.ExitStack() as stack:

        def listen(**options):
            arrived = queue.SimpleQueue()

            def take(connection):
                stack.callback(connection.close)
                connection.socket.settimeout(10)
                arrived.put(connection)

            settings = {"host": HOST, "ports": range(1), "name": "test-port", **options}
            listener = Listener(secret=SECRET, on_connection=take, **settings)
            stack.callback(listener.close)
            return listener, arrived

        yield listen


@pytest.fixture
def dialed(listening):
    """A client, the server's end of its connection, and the listener."""
    listener, arrived = listening(name="dialed-port")
    with contextlib.closing(connect(listener.address, secret=SECRET, timeout_s=5)) as client:
        client.socket.settimeout(10)
        yield client, arrived.get(timeout=5), listener


@pytest.fixture
def pair():
    left, right = socket_pair()
    for end in (left, right):
        end.socket.settimeout(10)
    yield left, right
    left.close()
    right.close()


def raw_client(listener):
    return socket.create_connection(listener.address, timeout=5.0)


def test_peers_with_the_same_secret_exchange_messages(dialed):
    client, server, _ = dialed
    client.send("hello", {"worker": 3}, (b"abc", np.arange(2, dtype=np.float32)))
    message = server.receive()
    assert (message.kind, message.fields) == ("hello", {"worker": 3})
    assert bytes(message.payload) == b"abc" + struct.pack("<2f", 0, 1)
    assert server.peer_host == HOST


def test_a_client_with_another_secret_rejects_the_server_at_once(listening):
    listener, arrived = listening()
    port = listener.address[1]
    text = f"^the listener at {HOST}:{port} did not prove this run's secret as its driver: the"
    with pytest.raises(NetworkError, match=text):
        connect(listener.address, secret=b"x" * 32, timeout_s=5)
    assert arrived.empty()


@pytest.mark.parametrize("proof", ["none", "replayed", "the server's"])
def test_client_without_a_fresh_proof_is_rejected(listening, proof):
    listener, arrived = listening()
    nonce, sent = b"n" * 32, b"p" * 32
    if proof == "replayed":
        with raw_client(listener) as first:
            first.sendall(HELLO + nonce)
            server_nonce = first.recv(ANSWER_BYTES, socket.MSG_WAITALL)[:32]
            sent = Handshake(SECRET, DRIVER, nonce, server_nonce).proof("client")
            first.sendall(sent)
            arrived.get(timeout=5)
    with raw_client(listener) as second:
        second.sendall(HELLO + nonce)
        answer = second.recv(ANSWER_BYTES, socket.MSG_WAITALL)
        assert len(answer) == ANSWER_BYTES
        second.sendall(answer[33:] if proof == "the server's" else sent)
        assert second.recv(1) == b""
    assert arrived.empty()


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\nHost: spark\r\n\r\n" * 3, b"\0" * 100, os.urandom(1000)],
    ids=["http", "zeros", "random"],
)
def test_a_stranger_that_speaks_something_else_is_rejected(listening, garbage):
    listener, arrived = listening()
    with raw_client(listener) as sock:
        sock.sendall(garbage)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""
    assert arrived.empty()


def test_a_stranger_that_dribbles_is_dropped_when_the_handshake_should_be_over(
    listening, monkeypatch
):
    monkeypatch.setattr(_handshake, "HANDSHAKE_TIMEOUT_S", 0.4)
    listener, arrived = listening()
    with raw_client(listener) as sock, contextlib.suppress(ConnectionError):
        sock.settimeout(0.1)
        for byte in HELLO + b"n" * 32:
            with contextlib.suppress(TimeoutError):
                if sock.recv(1) == b"":
                    break
            sock.sendall(bytes([byte]))
        else:
            pytest.fail("the server read one byte at a time without end")
    assert arrived.empty()


def test_silent_server_times_out(monkeypatch):
    monkeypatch.setattr(_handshake, "HANDSHAKE_TIMEOUT_S", 0.3)
    with socket.create_server((HOST, 0)) as silent:
        address = silent.getsockname()
        with pytest.raises(
            NetworkError, match="did not prove this run's secret as its driver: the peer"
        ):
            connect(address, secret=SECRET, timeout_s=5)


def test_rejected_client_retries_until_its_timeout(listening):
    listener, arrived = listening(max_handshakes=1)
    text = f"{HOST}:{listener.address[1]} could not be reached within 0.3 s: it disconnected before"
    with raw_client(listener) as busy:
        time.sleep(0.1)
        with pytest.raises(NetworkError, match=text):
            connect(listener.address, secret=SECRET, timeout_s=0.3)
        assert arrived.empty()
        threading.Timer(0.4, busy.close).start()
        with contextlib.closing(connect(listener.address, secret=SECRET, timeout_s=10)):
            arrived.get(timeout=5)


def test_an_error_while_accepting_is_not_the_end(listening, monkeypatch):
    accept = socket.socket.accept
    problems = iter([OSError(errno.EMFILE, "Too many open files")])

    def failing(sock):
        for problem in problems:
            raise problem
        return accept(sock)

    monkeypatch.setattr(socket.socket, "accept", failing)
    listener, arrived = listening()
    with contextlib.closing(connect(listener.address, secret=SECRET, timeout_s=5)):
        arrived.get(timeout=5)
    assert next(problems, None) is None


def test_the_first_free_port_of_a_range_is_taken(listening):
    first, _ = listening()
    port = first.address[1]
    with held_port() as other:
        second, _ = listening(ports=[port, other])
        assert second.address[1] == other


@pytest.mark.parametrize("count", [0, 1, 2])
def test_occupied_ports_end_in_an_error_that_names_them(listening, count):
    ports = sorted(listening()[0].address[1] for _ in range(count))
    span = "-".join(map(str, ports)) or "none"
    text = f"no port could be opened on {HOST}.*ports={span}.*MeshConfig"
    with pytest.raises(NetworkError, match=text):
        listening(ports=ports)


def test_a_fixed_port_serves_the_next_run_at_once(listening):
    listener, arrived = listening()
    client = connect(listener.address, secret=SECRET, timeout_s=5)
    arrived.get(timeout=5).close()  # the side that closes first keeps the port in TIME_WAIT
    client.close()
    listener.close()
    again, _ = listening(ports=[listener.address[1]])
    assert again.address == listener.address


def test_unanswered_connection_raises_with_address_and_time():
    began_s = time.monotonic()
    with held_port() as port:
        text = rf"{HOST}:{port} could not be reached within 0\.3 s: .*`MeshConfig\(ports=…, network"
        with pytest.raises(NetworkError, match=text):
            connect((HOST, port), secret=SECRET, timeout_s=0.3)
    assert time.monotonic() - began_s >= 0.3


def test_a_server_that_comes_later_is_still_found(listening):
    late = []
    with held_port() as port:
        timer = threading.Timer(0.3, lambda: late.append(listening(ports=[port])))
        timer.start()
        with contextlib.closing(connect((HOST, port), secret=SECRET, timeout_s=5)):
            timer.join()
            late[0][1].get(timeout=5)


def test_cancelled_connect_ends():
    given_up = iter([False, False, True])
    with held_port() as port, pytest.raises(NetworkError, match="could not be reached"):
        connect((HOST, port), secret=SECRET, timeout_s=600, give_up=lambda: next(given_up))


def test_a_handshake_that_ends_after_the_listener_was_closed_leads_nowhere(listening):
    listener, arrived = listening()
    nonce = b"n" * 32
    with raw_client(listener) as sock:
        sock.sendall(HELLO + nonce)
        server_nonce = sock.recv(ANSWER_BYTES, socket.MSG_WAITALL)[:32]
        listener.close()
        sock.sendall(Handshake(SECRET, DRIVER, nonce, server_nonce).proof("client"))
        assert sock.recv(1) == b""
    assert arrived.empty()


def test_a_closed_listener_leaves_neither_port_nor_thread(dialed):
    client, server, listener = dialed
    assert names_of_threads("dialed-port")
    listener.close()
    join_threads("dialed-port")
    with pytest.raises(NetworkError):
        connect(listener.address, secret=SECRET, timeout_s=0.1)
    server.send("still", {})  # connections already made stay open
    message = client.receive()
    assert message.kind == "still"


def test_messages_of_several_threads_do_not_mix(pair):
    left, right = pair
    payload = os.urandom(200_000)

    def send(number):
        for _ in range(20):
            left.send("row", {"from": number}, (payload[:100_000], payload[100_000:]))

    for number in range(4):
        threading.Thread(target=send, args=(number,), daemon=True).start()
    messages = [right.receive() for _ in range(80)]
    assert sorted(m.fields["from"] for m in messages if m) == sorted([0, 1, 2, 3] * 20)
    assert all(m is not None and m.payload == payload for m in messages)


@pytest.mark.parametrize("cut", [1, 15, 17, 30])
def test_the_end_or_silence_inside_a_message_is_an_error(pair, cut):
    left, right = pair
    right.socket.settimeout(0.1)
    with pytest.raises(TimeoutError):
        right.receive()  # between messages
    left.send("last")
    assert right.receive() is not None
    whole = struct.pack("<4sIQ", b"SWR1", 12, 10) + b'["stop", {}]' + b"p" * 10
    left.socket.sendall(whole[:cut])
    if cut == 1:
        with pytest.raises(NetworkError, match="timed out inside a message"):
            right.receive()
        return
    left.close()
    with pytest.raises(NetworkError, match="closed the connection inside a message"):
        right.receive()
    with pytest.raises(NetworkError, match="the peer disconnected while 'row' was sent"):
        right.send("row", {}, (b"x" * 100_000,) * 10)


def test_a_payload_beyond_the_receivers_limit_is_rejected(pair):
    left, right = pair
    left.send("join", {}, (b"x" * 11,))
    with pytest.raises(NetworkError, match="and 10 bytes of payload"):
        right.receive(max_payload_bytes=10)


def test_an_announced_payload_that_fits_no_memory_is_an_error(pair, monkeypatch):
    left, right = pair

    def no_memory(count):
        if count > 1 << 30:
            raise MemoryError
        return bytearray(count)

    monkeypatch.setattr(_handshake, "bytearray", no_memory, raising=False)
    left.socket.sendall(struct.pack("<4sIQ", b"SWR1", 12, 1 << 39) + b'["stop", {}]')
    with pytest.raises(NetworkError, match="announced 549755813888 bytes, more than fit in memory"):
        right.receive()


def test_close_wakes_a_reader(dialed):
    _, server, _ = dialed
    found = []
    reader = threading.Thread(target=lambda: found.append(server.receive()))
    reader.start()
    time.sleep(0.1)
    server.close()
    reader.join(timeout=2.0)
    assert found == [None]


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system has no such option")
def test_connections_enable_tcp_keepalive_within_30_seconds(dialed):
    for connection in dialed[:2]:
        options = connection.socket.getsockopt
        assert options(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle_s = options(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        between_s = options(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        assert idle_s + between_s * options(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) <= 30
