import contextlib
import queue
import socket
import sys
import threading
from itertools import chain

import numpy as np
import pytest
from tests.support.mesh import each
from tests.waiting import wait_until

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Connection, Listener, connect
from sparkwright.mesh.framing import HEADER, Message, encode_head
from sparkwright.mesh.handshake import close_socket
from sparkwright.mesh.ring import Link, Ring

SECRET = bytes(range(32))
HOST = "127.0.0.1"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address on Linux")


class Relay:
    """Forwards the handshake between a client and a server, then holds both ends itself."""

    def __init__(self, server):
        self._server = server
        self._listening = socket.create_server((HOST, 0))
        self.address = self._listening.getsockname()
        self.to_client = None
        self.to_server = None
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._thread.start()

    def _forward(self):
        with contextlib.suppress(OSError):
            self.to_client, _ = self._listening.accept()
            self.to_server = socket.create_connection(self._server, timeout=5)
            for end in (self.to_client, self.to_server):
                end.settimeout(5)
            self.to_server.sendall(self.to_client.recv(46, socket.MSG_WAITALL))
            self.to_client.sendall(self.to_server.recv(65, socket.MSG_WAITALL))
            self.to_server.sendall(self.to_client.recv(32, socket.MSG_WAITALL))

    def wait(self):
        """(client's end, server's end) when the handshake has been forwarded."""
        self._thread.join(10)
        assert self.to_client is not None
        assert self.to_server is not None
        return self.to_client, self.to_server

    def close(self):
        for sock in (self._listening, self.to_client, self.to_server):
            if sock is not None:
                close_socket(sock)


class Scene:
    """A driver's listener, a worker's, and a relay in front of each."""

    def __init__(self, stack, *, encrypt):
        self.arrived = queue.SimpleQueue()
        self._stack, self._encrypt = stack, encrypt

    def listener(self, identity):
        def take(connection):
            connection.socket.settimeout(5)
            self._stack.callback(connection.close)
            self.arrived.put(connection)

        listener = Listener(
            secret=SECRET,
            host=HOST,
            ports=range(1),
            on_connection=take,
            name=f"test-{identity}",
            identity=identity,
            encrypt=self._encrypt,
        )
        self._stack.callback(listener.close)
        return listener

    def relay(self, server):
        relay = Relay(server)
        self._stack.callback(relay.close)
        return relay

    def client(self, address, *, to="driver"):
        connection = connect(address, secret=SECRET, timeout_s=5, to=to)
        connection.socket.settimeout(5)
        self._stack.callback(connection.close)
        return connection

    def relayed(self):
        """(client, the relay's socket to the server, the server's end) after the handshake."""
        relay = self.relay(self.listener("driver").address)
        client = self.client(relay.address)
        _, to_server = relay.wait()
        return client, to_server, self.arrived.get(timeout=5)


@pytest.fixture(params=[False, True], ids=["authenticated", "encrypted"])
def scene(request):
    with contextlib.ExitStack() as stack:
        yield Scene(stack, encrypt=request.param)


def wire_of(connection, number, payload=b""):
    """What `connection` sends as its message `number`."""
    head = encode_head("row", {"number": number}, len(payload))
    return b"".join(chain.from_iterable(connection.sealed(head, (payload,))))


def test_a_relay_cannot_put_words_into_the_line(scene):
    """A forged `failed` would end a run."""
    _, to_server, server = scene.relayed()
    failed = {"worker": 0, "host": "h", "reason": "forged", "kind": "error"}
    to_server.sendall(encode_head("failed", failed, 0) + bytes(16))
    with pytest.raises(NetworkError, match="each message must carry the peer's authentication"):
        server.receive()
    assert server.socket.fileno() == -1


# The tests of seals have all other changes.
TAMPERING = {
    "moved": lambda frames: frames[1] + frames[0],
    "another payload": lambda frames: frames[0][:-20] + b"\xff\xff\xff" + frames[0][-17:],
    "more payload": lambda frames: (
        HEADER.pack(*HEADER.unpack(frames[0][: HEADER.size])[:2], 1 << 20)
        + frames[0][HEADER.size :]
        + bytes(1 << 20)
    ),
    "another field": lambda frames: frames[0][: HEADER.size + 5] + b"\0" + frames[0][22:],
    "of another connection": lambda frames: frames[2],
}


@pytest.mark.parametrize("tamper", TAMPERING.values(), ids=TAMPERING.keys())
def test_tampering_with_frames_is_rejected(scene, tamper):
    client, to_server, server = scene.relayed()
    frames = [wire_of(client, number, b"payload" * 20) for number in range(2)]
    frames.append(wire_of(scene.relayed()[0], 0))
    to_server.sendall(tamper(frames))
    with pytest.raises(NetworkError, match="each message must carry the peer's authentication"):
        server.receive()
    assert server.socket.fileno() == -1


@pytest.mark.parametrize(("meant", "found"), [("worker 1", "driver"), ("driver", "worker 1")])
def test_handshake_relayed_to_another_server_is_rejected(scene, meant, found):
    relay = scene.relay(scene.listener(found).address)
    with pytest.raises(
        NetworkError, match=f"this run's secret as its {meant}: the server's proof is"
    ):
        scene.client(relay.address, to=meant)
    assert scene.arrived.empty()


def test_relay_cannot_finish_a_handshake_for_the_client(scene):
    """The server's proof sent on to it as the client's, or with another wish to encrypt."""
    listener = scene.listener("driver")
    with contextlib.closing(socket.create_server((HOST, 0))) as listening:
        refused = []

        def dial():
            try:
                scene.client(listening.getsockname())
            except NetworkError as error:
                refused.append(error)

        thread = threading.Thread(target=dial)
        thread.start()
        to_client, _ = listening.accept()
        with to_client, socket.create_connection(listener.address, timeout=5) as to_server:
            to_server.sendall(to_client.recv(46, socket.MSG_WAITALL))
            answer = bytearray(to_server.recv(65, socket.MSG_WAITALL))
            to_server.sendall(answer[33:])
            assert to_server.recv(1) == b""
            answer[32] ^= 1
            to_client.sendall(answer)
            thread.join(10)
    assert "the server's proof is wrong" in str(refused[0])
    assert scene.arrived.empty()


def test_a_changed_vector_breaks_the_ring(monkeypatch):
    """Of two workers, what the second sends has another code on its way."""
    with contextlib.ExitStack() as stack:
        scene = Scene(stack, encrypt=False)
        ends = []
        for worker in range(2):
            client = scene.client(scene.listener(f"worker {worker}").address, to=f"worker {worker}")
            ends.append((client, scene.arrived.get(timeout=5)))
        sealer = ends[0][0].sealer
        seal = sealer.seal

        def changed(content, clear=b""):
            piece, tag = seal(content, clear)
            return piece, bytes([tag[0] ^ 1, *tag[1:]])

        monkeypatch.setattr(sealer, "seal", changed)

        def add(rank, links):
            with Ring(rank=rank, size=2, **links, timeout_s=5) as ring:
                try:
                    ring.all_reduce(np.ones(1_000_000, np.float32))
                except NetworkError as error:
                    return str(error)
            return ""

        links = [
            {"onward": [Link(ends[1 - rank][0])], "inward": [Link(ends[rank][1])]}
            for rank in range(2)
        ]
        found = each(links, add)
    assert "each message must carry the peer's authentication code" in found[0]
    assert found[1]


@pytest.mark.thorough(but=["authenticated-127.0.0.2", "encrypted-127.0.0.2"])
@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("127.0.0.2", marks=on_linux)])
def test_silent_connections_do_not_keep_a_peer_out(scene, host):
    listener = scene.listener("driver")
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(
                socket.create_connection(listener.address, source_address=(host, 0))
            )
            for _ in range(80)
        ]
        wait_until(lambda: len(listener._handshakes) == 64)
        # Of another address at the first attempt: nothing else is waited for.
        timeout_s = 0 if host != HOST else 4
        connection = connect(listener.address, secret=SECRET, timeout_s=timeout_s)
        stack.callback(connection.close)
        connection.send("hello")
        assert isinstance(scene.arrived.get(timeout=5).receive(), Message)
        # The oldest had to go, and its handshake was not over.
        silent[0].settimeout(5)
        assert silent[0].recv(1) == b""


@on_linux
def test_the_oldest_handshake_of_the_busiest_address_makes_room():
    with contextlib.ExitStack() as stack:
        listener = Listener(
            secret=SECRET,
            host=HOST,
            ports=range(1),
            on_connection=Connection.close,
            name="test-crowd",
            max_handshakes=4,
        )
        stack.callback(listener.close)

        def stranger(host, number=1):
            sock = socket.create_connection(listener.address, source_address=(host, 0), timeout=5)
            stack.enter_context(sock)
            wait_until(lambda: [h for h, _ in listener._handshakes.values()].count(host) == number)
            return sock

        first = stranger("127.0.0.2")
        busy = [stranger("127.0.0.3", number) for number in (1, 2, 3)]
        stranger("127.0.0.4")
        assert busy[0].recv(1) == b""
        for sock in (first, *busy[1:]):
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                sock.recv(1)
