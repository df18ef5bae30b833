import contextlib
import threading
import time

import numpy as np
import psutil
import pytest
from tests.cases import cases
from tests.support.mesh import SECRET, each, joined
from tests.waiting import names_of_threads, wait_until

from sparkwright.errors import NetworkError
from sparkwright.mesh._seal import Sealed
from sparkwright.mesh.connection import connect
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.relay import ACCEPT, CONNECT, RelayClient
from sparkwright.mesh.ring_port import RingPort
from sparkwright.runs._averaging_coordinator import Coordinator
from sparkwright.runs._server import CoordinatorServer
from sparkwright.workers._control import ControlLine

NAME = "sparkwright-relaying"


class Member:
    """A worker's control line, and its port without a listener."""

    def __init__(self, server, worker, attempt, *, encrypt=False, answers=True):
        self.control = ControlLine(server.address, secret=SECRET, timeout_s=5, name=NAME)
        relay = RelayClient(
            server.address, secret=SECRET, me=(worker, attempt), encrypt=encrypt, timeout_s=5
        )
        self.port = PeerPort(
            secret=SECRET, worker=worker, host="127.0.0.1", ports=(), name=NAME, encrypt=encrypt,
            relay=relay,
        )  # fmt: skip
        self._opened = []
        self.taken = []
        self.port.on("hello", lambda connection, message: self.taken.append((connection, message)))
        if answers:
            self.control.on_connect_back(self.port.connect_back)
        self.me = worker, attempt

    def register(self):
        worker, attempt = self.me
        fields = {"worker": worker, "attempt": attempt, "host": "here", "rows": 1}
        fields |= {"address": self.port.address, "validation_rows": 0}
        self.control.send("register", fields)

    def reach(self, other, *, timeout_s=5.0, **options):
        connection = self.port.connect(
            other.port.address, worker=other.me[0], timeout_s=timeout_s, **options
        )
        connection.socket.settimeout(10)
        self._opened.append(connection)
        return connection

    def close(self):
        for connection in (*self._opened, *(taken for taken, _ in self.taken)):
            connection.close()
        self.port.close()
        self.control.close()


class Site:
    """A driver that relays, and its workers."""

    def __init__(self, stack, *, relay_timeout_s=5.0):
        self._stack = stack
        self.rules = Coordinator(workers=3, now_s=time.monotonic())
        self.server = CoordinatorServer(
            self.rules,
            lambda news, message=None: None,
            secret=SECRET,
            host="127.0.0.1",
            ports=range(1),
            peer_timeout_s=30.0,
            start=lambda: ({"size": 1}, (np.zeros(1),)),
            name=NAME,
            relay_timeout_s=relay_timeout_s,
        )
        stack.callback(self.server.close)

    def member(self, worker, *, attempt=0, **options):
        found = Member(self.server, worker, attempt, **options)
        self._stack.callback(found.close)
        found.register()

        def is_present():
            event = self.rules.present.get(worker)
            return event is not None and event.attempt == attempt

        wait_until(is_present)
        return found

    def stranger(self):
        connection = connect(self.server.address, secret=SECRET, timeout_s=5)
        self._stack.callback(connection.close)
        connection.socket.settimeout(10)
        return connection


@pytest.fixture
def site():
    with contextlib.ExitStack() as stack:
        yield lambda **options: Site(stack, **options)
    wait_until(lambda: not names_of_threads(NAME))


def test_two_workers_talk_end_to_end_and_neither_listens(site):
    here = site()
    one, other = here.member(0), here.member(1)
    connection = one.reach(other)
    connection.send("hello", {"from": 0})
    wait_until(lambda: other.taken)
    answer, hello = other.taken[0]
    assert hello.fields == {"from": 0}
    answer.send("answer", {}, (b"x" * 5_000_000,))
    found = connection.receive()
    assert found.payload == b"x" * 5_000_000
    # Keys of a handshake of their own, of which the driver knows no nonce, and one end each.
    assert connection.keys.sending == answer.keys.receiving
    assert connection.keys.receiving == answer.keys.sending
    assert connection.relayed
    assert answer.relayed
    listening = [
        c.laddr.port
        for c in psutil.Process().net_connections("tcp")
        if c.status == psutil.CONN_LISTEN
    ]
    assert listening.count(here.server.address[1]) == 1
    assert not {one.port.address[1], other.port.address[1]} & set(listening)
    answer.close()
    assert connection.receive() is None


@cases("authenticate", None, False)
def test_a_ring_sums_and_authenticates_its_vectors_though_the_driver_is_near(site, authenticate):
    here = site()
    members = [here.member(worker) for worker in range(3)]
    ports = [RingPort(each.port, authenticate=authenticate) for each in members]
    rings = joined(ports, each_with_each=True)
    for ring in rings:
        assert [link.sealed for link in (*ring._onward, *ring._inward)] == [
            authenticate is None
        ] * 4
        assert all(isinstance(link.connection.sealer, Sealed) for link in ring._onward)
    vectors = np.arange(300_000, dtype=np.float32).reshape(3, -1)
    expected = vectors.sum(0)
    each(rings, lambda rank, ring: ring.all_reduce(vectors[rank]))
    for vector in vectors:
        np.testing.assert_array_equal(vector, expected)
    rings[0].abort()
    with pytest.raises(NetworkError):
        rings[1].all_gather(b"")
    for ring in rings:
        ring.abort()


def test_the_driver_passes_on_no_plain_text_of_encrypted_messages(site, monkeypatch):
    from sparkwright.mesh import _splicer

    seen = bytearray()
    send = _splicer._send
    monkeypatch.setattr(
        _splicer, "_send", lambda sock, content: (seen.extend(content), send(sock, content))[1]
    )
    here = site()
    one, other = here.member(0, encrypt=True), here.member(1, encrypt=True)
    connection = one.reach(other)
    connection.send("hello", {"word": "unmistakable"})
    wait_until(lambda: other.taken)
    assert other.taken[0][1].fields == {"word": "unmistakable"}
    assert len(seen) > 100
    assert b"unmistakable" not in seen


def test_calling_worker_rejects_an_answer_without_the_secret_of_the_run(site):
    """The driver's word that this is worker 1 is not enough."""
    here = site()
    one, other = here.member(0), here.member(1, answers=False)

    def answer(ticket):
        connection = here.stranger()
        connection.send(ACCEPT, {"ticket": ticket})
        connection.socket.sendall(bytes(65))

    other.control.on_connect_back(answer)
    with pytest.raises(NetworkError, match=r"worker 1 \(attempt 0\).* did not prove this run's"):
        one.reach(other)


@pytest.mark.thorough
def test_unanswered_call_raises_and_names_both_sides(site):
    here = site()
    one, silent = here.member(0), here.member(1, answers=False)
    with pytest.raises(
        NetworkError,
        match=r"^worker 1 \(attempt 0\), by way of the driver, could not be reached within 0\.4 s: "
        r"worker 0 waited 0\.4 s for worker 1 to connect back to the driver\. .*"
        r"`MeshConfig\(connect_timeout_s=…\)`",
    ):
        one.reach(silent, timeout_s=0.4)
    given_up = threading.Event()
    threading.Timer(0.2, given_up.set).start()
    with pytest.raises(NetworkError, match="worker 0 waited"):
        one.reach(silent, timeout_s=60, give_up=given_up.is_set)


@cases(
    "relay_timeout_s, happens",
    (0.3, lambda partner: None),
    (60.0, lambda partner: partner.control.hang_up()),
    ids=["it waits for too long", "its partner is lost"],
)
def test_the_driver_drops_a_caller(site, relay_timeout_s, happens):
    here = site(relay_timeout_s=relay_timeout_s)
    here.member(0)
    partner = here.member(1, answers=False)
    caller = here.stranger()
    caller.send(CONNECT, {"from": [0, 0], "to": [1, 0]})
    wait_until(lambda: here.server._relay._waiting)
    happens(partner)
    assert caller.receive() is None
    assert not here.server._relay._waiting


def test_only_the_newest_attempt_of_a_registered_worker_is_called(site):
    here = site()
    one, old = here.member(0), here.member(1)
    address = old.port.address
    here.member(1, attempt=1)
    for worker, attempt in ((1, address[1]), (2, 0)):
        with pytest.raises(
            NetworkError, match=f"attempt {attempt} of worker {worker} is not in the run"
        ):
            one.port.connect(("127.0.0.1", attempt), worker=worker, timeout_s=0.2)


@cases(
    "kind, fields",
    (CONNECT, {"from": [2, 0], "to": [1, 0]}),  # is not registered
    (CONNECT, {"from": [0, 7], "to": [1, 0]}),  # another attempt is
    (CONNECT, {"from": [0, 0], "to": 1}),
    (CONNECT, {}),
    (ACCEPT, {"ticket": 99}),
    (ACCEPT, {}),
)
def test_unexpected_requests_get_no_answer(site, kind, fields):
    here = site()
    one, other = here.member(0), here.member(1)
    stranger = here.stranger()
    stranger.send(kind, fields)
    assert stranger.receive() is None
    one.reach(other).close()  # the relay goes on
    one.control.send(kind, fields)  # on a worker's own line it is no better
    assert one.control.gone.wait(10)
    wait_until(lambda: 0 not in here.rules.present)


def test_without_the_option_nothing_is_relayed(site):
    here = site(relay_timeout_s=None)
    here.member(0)
    here.member(1)
    stranger = here.stranger()
    stranger.send(CONNECT, {"from": [0, 0], "to": [1, 0]})
    assert stranger.receive() is None


def test_the_relay_ends_with_the_run(site):
    here = site()
    one, other, silent = here.member(0), here.member(1), here.member(2, answers=False)
    connection = one.reach(other)
    waiting = here.stranger()
    waiting.send(CONNECT, {"from": [0, 0], "to": [2, 0]})
    wait_until(lambda: here.server._relay._waiting)
    here.server.close()
    assert connection.receive() is None
    assert waiting.receive() is None
    assert silent.control.gone.wait(10)
    with pytest.raises(NetworkError):
        one.reach(other, timeout_s=0.2)
