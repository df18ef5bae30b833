import contextlib
import threading
import time
from itertools import chain

import pytest
from tests.cases import cases
from tests.support.mesh import neighbors, pending_bytes, versions
from tests.waiting import wait_until

from sparkwright.errors import ConfigurationError, NetworkError
from sparkwright.mesh.connection import connect
from sparkwright.mesh.framing import encode_head
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.topology import Seat
from sparkwright.mesh.update_mesh import UpdateMesh

SECRET = bytes(range(32))
HOST = "127.0.0.1"
WAIT_S = 20.0


class Workers:
    """Meshes of this process, by worker, and where each listens."""

    def __init__(self, stack):
        self._stack = stack
        self.meshes = {}
        self.ports = {}
        self.attempts = {}

    def start(self, worker, attempt=0, **options):
        port = PeerPort(
            secret=SECRET, worker=worker, host=HOST, ports=range(1), name=f"port-{worker}"
        )
        self._stack.callback(port.close)
        settings = {"heartbeat_s": 0.05, "peer_timeout_s": 5.0, **options}
        mesh = UpdateMesh(port, me=(worker, attempt), name=f"test-{worker}", **settings)
        self._stack.callback(mesh.close)
        self.meshes[worker], self.ports[worker] = mesh, port
        self.attempts[worker] = attempt
        return mesh

    def stop(self, worker):
        self.meshes.pop(worker).close()
        self.ports[worker].close()

    def seats(self, order):
        return [
            Seat(worker=w, attempt=self.attempts[w], host=HOST, port=self.ports[w].address[1])
            for w in order
        ]

    def reshape(self, order=(), *, mode="mesh"):
        seats = self.seats(order or sorted(self.meshes))
        for mesh in self.meshes.values():
            mesh.reshape(seats, mode=mode)

    def all_have(self, versions):
        return all(mesh.wait_for(versions, timeout_s=WAIT_S) for mesh in self.meshes.values())


@pytest.fixture
def workers():
    before = set(threading.enumerate())
    with contextlib.ExitStack() as stack:
        yield Workers(stack)
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
        assert not thread.is_alive(), thread.name


def of(workers, count, *, mode="mesh", **options):
    """`count` connected workers."""
    meshes = [workers.start(worker, **options) for worker in range(count)]
    workers.reshape(mode=mode)
    for mesh in meshes:
        wait_until(lambda mesh=mesh: bool(neighbors(mesh)))
    return meshes


def numbers(mesh):
    """Sequence numbers that could be taken, by origin, in order."""
    found = {}
    for update in mesh.take():
        found.setdefault(update.origin, []).append(update.sequence)
    return found


@cases("mode", "plain", "mesh")
@cases("count", 2, 3, 5, 11)
def test_each_worker_gets_every_update_of_others_once_in_order(workers, mode, count):
    meshes = of(workers, count, mode=mode)

    def publish(mesh):
        for number in range(1, 31):
            assert mesh.publish(f"{mesh.me[0]}:{number}".encode()) == number

    threads = [threading.Thread(target=publish, args=(mesh,)) for mesh in meshes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert workers.all_have({(w, 0): 30 for w in range(count)})
    for mesh in meshes:
        assert versions(mesh) == {(w, 0): 30 for w in range(count)}
        assert mesh.taken_versions == {mesh.me: 30}
        taken = mesh.take()
        assert all(u.payload == f"{u.origin[0]}:{u.sequence}".encode() for u in taken)
        by_origin = {w: [u.sequence for u in taken if u.origin[0] == w] for w in range(count)}
        own = {mesh.me[0]: []}
        assert by_origin == {w: list(range(1, 31)) for w in range(count)} | own
        assert mesh.taken_versions == versions(mesh)
        assert not mesh.wait(0.0)


def test_workers_may_receive_the_tree_in_any_order(workers):
    meshes = [workers.start(worker) for worker in range(4)]
    seats = workers.seats([2, 0, 3, 1])
    for worker in (1, 0, 3):
        meshes[worker].reshape(seats, mode="plain")
    wait_until(lambda: len(meshes[2]._early) == 3)
    meshes[2].reshape(seats, mode="plain")
    meshes[0].publish(b"x")
    assert workers.all_have({(0, 0): 1})


def test_an_update_may_be_empty(workers):
    first, second = of(workers, 2)
    for payload in (b"abc", b""):
        first.publish(payload)
    assert second.wait_for({(0, 0): 2}, timeout_s=WAIT_S)
    assert second.wait(0.0)
    assert [update.payload for update in second.take()] == [b"abc", b""]


def test_a_cut_connection_heals_without_loss_or_repeats(workers):
    meshes = of(workers, 3)
    for number in range(1, 101):
        for mesh in meshes:
            mesh.publish(bytes(1000))
        if number % 20 == 0:
            for link in list(meshes[number // 20 % 3]._links.values()):
                link.connection.close()
    assert workers.all_have({(w, 0): 100 for w in range(3)})
    for mesh in meshes:
        assert numbers(mesh) == {(w, 0): list(range(1, 101)) for w in range(3) if w != mesh.me[0]}


def test_two_workers_with_much_to_send_when_they_connect_do_not_block(workers):
    options = {"max_pending_bytes": 100_000, "peer_timeout_s": 60.0}
    meshes = [workers.start(worker, **options) for worker in (0, 1)]
    for mesh in meshes:
        for _ in range(40):
            mesh.publish(bytes(1_000_000))
    workers.reshape()
    assert workers.all_have({(0, 0): 40, (1, 0): 40})


def publishing(mesh, count):
    """Set when `mesh` has published so many updates of a megabyte; then it waits for others."""
    done = threading.Event()

    def publish():
        for _ in range(count):
            mesh.publish(bytes(1_000_000))
        done.set()
        with mesh.reading_all():
            mesh._closed.wait()

    threading.Thread(target=publish, daemon=True).start()
    return done


def waits(mesh):
    """Whether `mesh` sends nothing for a while, though much is to be sent."""
    before = pending_bytes(mesh)
    for _ in range(20):
        time.sleep(0.01)
        if pending_bytes(mesh) < before:
            return False
    return before > mesh._max_pending_bytes


@pytest.mark.thorough
def test_a_busy_worker_reads_no_more_than_its_limit(workers):
    busy, other = of(workers, 2, max_pending_bytes=4_000_000, peer_timeout_s=60.0)
    done = publishing(other, 100)
    found = []
    while len(found) < 100:
        wait_until(lambda: done.is_set() or waits(other))
        taken = busy.take()
        assert len(taken) <= 5
        found += [update.sequence for update in taken]
        if done.is_set() and len(found) < 100:
            assert busy.wait(WAIT_S)
    assert found == list(range(1, 101))
    assert neighbors(busy) == {(1, 0)}


@cases("how", "wait_for", "reading_all")
def test_a_worker_that_waits_reads_all_that_comes(workers, how):
    first, second = of(workers, 2, max_pending_bytes=100_000, peer_timeout_s=60.0)
    done = publishing(second, 40)
    wait_until(lambda: waits(second))
    if how == "wait_for":
        assert first.wait_for({(1, 0): 40}, timeout_s=WAIT_S)
        assert numbers(first) == {(1, 0): list(range(1, 41))}
    else:
        with first.reading_all():
            assert done.wait(WAIT_S)


@pytest.mark.thorough
def test_neighbor_with_unread_data_is_not_silent(workers):
    meshes, impostor = with_an_impostor(workers, max_pending_bytes=100_000, peer_timeout_s=0.5)
    for sequence in range(1, 5):
        update = {"origin": (2, 0), "sequence": sequence}
        impostor.send("update", update, (bytes(60_000),))
    wait_until(lambda: versions(meshes[0]) == {(2, 0): 2})
    full_s = time.monotonic()
    wait_until(lambda: time.monotonic() > full_s + 1.5)
    assert (2, 0) in neighbors(meshes[0])
    assert len(meshes[0].take()) == 2
    wait_until(lambda: versions(meshes[0]) == {(2, 0): 4})
    assert len(meshes[0].take()) == 2
    wait_until(lambda: (2, 0) not in neighbors(meshes[0]))  # now its silence is heard


def test_the_death_of_a_relay_heals_after_a_reshape(workers):
    meshes = of(workers, 5, mode="plain")
    for mesh in meshes:
        mesh.publish(b"before")
    assert workers.all_have({(w, 0): 1 for w in range(5)})
    workers.stop(0)
    for worker in range(1, 5):
        meshes[worker].publish(b"while alone")
    workers.reshape([3, 1, 2, 4], mode="plain")
    assert workers.all_have({(0, 0): 1, **{(w, 0): 2 for w in range(1, 5)}})
    for mesh in workers.meshes.values():
        assert all(found == sorted(set(found)) for found in numbers(mesh).values())


def test_a_worker_that_starts_again_gets_everything_and_counts_from_one(workers):
    meshes = of(workers, 3)
    for mesh in meshes:
        mesh.publish(b"first life")
    assert workers.all_have({(w, 0): 1 for w in range(3)})
    workers.stop(1)
    workers.start(1, attempt=1)
    workers.reshape()
    assert workers.meshes[1].publish(b"second life") == 1
    everything = {(0, 0): 1, (1, 0): 1, (2, 0): 1, (1, 1): 1}
    assert workers.all_have(everything)
    assert versions(workers.meshes[1]) == everything
    assert set(numbers(workers.meshes[1])) == {(0, 0), (1, 0), (2, 0)}


def test_peer_that_missed_discarded_updates_must_catch_up(workers):
    told = threading.Event()
    first = workers.start(0, max_log_messages=4)
    for _ in range(10):
        first.publish(b"x")
    second = workers.start(1)

    def catch_up(neighbor):
        assert neighbor == (0, 0)
        second.restored(first.taken_versions)
        told.set()

    second.on_catch_up = catch_up
    workers.reshape()
    assert told.wait(WAIT_S)
    first.publish(b"later")
    assert second.wait_for({(0, 0): 11}, timeout_s=WAIT_S)
    assert numbers(second) == {(0, 0): [11]}


def introduced(workers, fields):
    """A connection to worker 0 that begins with these fields."""
    connection = connect(workers.ports[0].address, secret=SECRET, to="worker 0", timeout_s=5)
    connection.socket.settimeout(WAIT_S)
    connection.send("mesh", fields)
    return connection


def with_an_impostor(workers, **options):
    """Workers 0 and 1, connected, and the raw connection of a worker 2 below worker 0."""
    meshes = [workers.start(worker, **options) for worker in range(2)]
    quiet = PeerPort(secret=SECRET, worker=2, host=HOST, ports=range(1), name="port-2")
    workers._stack.callback(quiet.close)
    workers.ports[2], workers.attempts[2] = quiet, 0
    workers.reshape([0, 1, 2])
    # Before the impostor comes, whose time runs from then on.
    wait_until(lambda: neighbors(meshes[0]) == {(1, 0)})
    wait_until(lambda: neighbors(meshes[1]) == {(0, 0)})
    impostor = introduced(workers, {"worker": 2, "attempt": 0, "to": (0, 0)})
    workers._stack.callback(impostor.close)
    welcome = impostor.receive()
    assert welcome.kind == "welcome"
    return meshes, impostor


@pytest.mark.thorough
def test_a_neighbor_that_takes_nothing_holds_up_for_a_while_and_is_dropped(workers):
    meshes, impostor = with_an_impostor(workers, max_pending_bytes=100_000, peer_timeout_s=1.0)
    stopped = threading.Event()

    def stay_alive():
        with contextlib.suppress(NetworkError):
            while not stopped.wait(0.1):
                impostor.send("versions", {"tick": 1, "echo": 0, "vector": []})

    thread = threading.Thread(target=stay_alive)
    thread.start()
    most_bytes = 0
    for _ in range(100):
        meshes[0].publish(bytes(200_000))
        most_bytes = max(most_bytes, pending_bytes(meshes[0]))
    assert most_bytes < 1_000_000
    wait_until(lambda: neighbors(meshes[0]) == {(1, 0)})
    stopped.set()
    thread.join(WAIT_S)
    assert meshes[1].wait_for({(0, 0): 100}, timeout_s=WAIT_S)
    assert numbers(meshes[1]) == {(0, 0): list(range(1, 101))}


def test_sender_faster_than_its_relay_waits(workers):
    meshes, impostor = with_an_impostor(workers, max_pending_bytes=100_000, peer_timeout_s=60.0)
    done = threading.Event()

    def publish():
        for _ in range(200):
            meshes[1].publish(bytes(200_000))
        done.set()

    thread = threading.Thread(target=publish)
    with meshes[0].reading_all():  # what the relay itself does not take is not the point here
        thread.start()
        wait_until(lambda: pending_bytes(meshes[0]) > 100_000)
        assert not done.wait(0.3)
        assert pending_bytes(meshes[1]) + pending_bytes(meshes[0]) < 2_000_000
        while not done.is_set():  # the impostor begins to read
            assert impostor.receive() is not None
    thread.join()


@pytest.mark.thorough
def test_a_silent_neighbor_is_dropped(workers):
    meshes, _ = with_an_impostor(workers, peer_timeout_s=1.5)
    wait_until(lambda: neighbors(meshes[0]) == {(1, 0)})


@pytest.mark.thorough
def test_a_neighbor_in_the_middle_of_a_long_message_is_not_silent(workers):
    meshes, impostor = with_an_impostor(workers, peer_timeout_s=1.5)
    payload = bytes(60)
    head = encode_head("update", {"origin": (2, 0), "sequence": 1}, len(payload))
    content = b"".join(chain.from_iterable(impostor.sealed(head, [payload])))
    impostor.socket.sendall(content[:-60])
    for number in range(60):
        impostor.socket.sendall(content[len(content) - 60 + number :][:1])
        time.sleep(0.05)
    assert meshes[1].wait_for({(2, 0): 1}, timeout_s=WAIT_S)


@cases(
    "head",
    None,
    encode_head("dance", {}, 0),
    encode_head("update", {"origin": [1, True], "sequence": 1}, 0),
)
def test_garbage_drops_that_connection_only(workers, head):
    # Mere silence would be borne for longer than this test waits.
    meshes, impostor = with_an_impostor(workers, peer_timeout_s=60.0)
    sealed = b"\0" * 100 if head is None else b"".join(chain(*impostor.sealed(head)))
    impostor.socket.sendall(sealed)
    wait_until(lambda: neighbors(meshes[0]) == {(1, 0)})
    meshes[0].publish(b"x")
    assert meshes[1].wait_for({(0, 0): 1}, timeout_s=WAIT_S)


@cases(
    "fields", {"attempt": 0}, {"to": (0, 1)}, {"to": 7}, {"worker": "x"}, {"attempt": None}, ids=str
)
def test_a_stale_or_mistaken_worker_is_rejected(workers, fields):
    workers.start(0)
    workers.start(1, attempt=2)
    workers.reshape()
    wait_until(lambda: neighbors(workers.meshes[0]) == {(1, 2)})
    wrong = introduced(workers, {"worker": 1, "attempt": 2, "to": (0, 0), **fields})
    assert wrong.receive() is None
    wrong.close()
    assert neighbors(workers.meshes[0]) == {(1, 2)}


def test_a_worker_must_be_part_of_its_tree(workers):
    mesh = workers.start(0)
    with pytest.raises(ConfigurationError, match=r"`seats` must contain this worker, \(0, 0\)"):
        mesh.reshape([Seat(worker=0, attempt=1, host=HOST, port=1)], mode="mesh")


def test_close_ends_a_publisher_and_waiting_threads(workers):
    meshes, _ = with_an_impostor(workers, max_pending_bytes=1000, peer_timeout_s=60.0)

    def publish():
        while not meshes[0]._closed.is_set():
            meshes[0].publish(bytes(1_000_000))

    found = []
    threads = [
        threading.Thread(target=work, daemon=True)
        for work in (
            publish,
            lambda: found.append(meshes[0].wait_for({(9, 0): 1}, timeout_s=60)),
            lambda: found.append(meshes[0].wait(60)),
        )
    ]
    for thread in threads:
        thread.start()
    wait_until(lambda: pending_bytes(meshes[0]) > 1000)
    time.sleep(0.1)  # all three wait by now
    meshes[0].close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert found == [False, False]
