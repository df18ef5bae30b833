import contextlib
import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.support.mesh import SECRET, each, joined, places, socket_pair
from tests.waiting import wait_until

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Connection, connect
from sparkwright.mesh.ring import Link, Ring
from sparkwright.mesh.ring_port import RingPort

LENGTHS = [0, 1, 2, 7, 100_003]
SIZES = [1, 2, 3, 5]
LONGER_THAN_A_TEST_S = 600.0  # a wait of this length fails the test by its own time-out


@pytest.fixture
def dial():
    with contextlib.ExitStack() as stack:

        def connected(port):
            to = f"worker {port._port.worker}"
            connection = connect(port._port.address, secret=SECRET, to=to, timeout_s=5)
            stack.callback(connection.close)
            connection.socket.settimeout(10)
            return connection

        yield connected


def seals(ring):
    """Whether vectors are authenticated on the way onward and inward."""
    return ring._onward[0].sealed, ring._inward[0].sealed


def outcomes(rings, work):
    """Return result or exception by rank; each leaves its ring as workers do."""

    def guarded(rank, ring):
        with ring:
            try:
                return work(rank, ring)
            except Exception as error:
                return error

    return each(rings, guarded)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_reduce_gives_all_workers_the_same_sum(ring_of, size, length, dtype):
    vectors = np.random.default_rng(0).normal(size=(size, length)).astype(dtype)
    expected = vectors.sum(axis=0, dtype=np.float64)
    each(ring_of(size), lambda rank, ring: ring.all_reduce(vectors[rank]))
    for vector in vectors:
        assert vector.tobytes() == vectors[0].tobytes()
    # The order of the additions differs from NumPy's.
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(vectors[0], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("size", SIZES)
def test_contents_are_gathered_by_rank_and_vectors_broadcast(ring_of, size):
    rings = ring_of(size)
    contents = [bytes([rank]) * (1000 * rank) for rank in range(size)]  # the first is empty
    assert each(rings, lambda rank, ring: ring.all_gather(contents[rank])) == [contents] * size
    equal = [bytes([rank]) * 9 for rank in range(size)]
    found = each(rings, lambda rank, ring: ring.all_gather(equal[rank], same_size=True))
    assert found == [equal] * size
    for source, length in itertools.product(range(size), LENGTHS):
        vectors = np.random.default_rng(source).normal(size=(size, length))
        expected = vectors[source].copy()
        each(rings, lambda rank, ring, s=source, v=vectors: ring.broadcast(v[rank], source=s))
        np.testing.assert_array_equal(vectors, np.tile(expected, (size, 1)))


def test_numbers_that_arrive_in_pieces_are_added_whole():
    onward, its_inward = socket_pair()
    inward, its_onward = socket_pair()
    for end in (its_inward, its_onward):
        end.socket.settimeout(10)
    arriving = its_inward.socket.makefile("rb")
    mine, its = np.random.default_rng(3).normal(size=(2, 100_001))
    half = 50_001  # the first segment is the longer one

    def play_worker_1():
        arriving.read(8 * half)
        content = its[half:].tobytes()
        for start in range(0, len(content), 99_997):
            its_onward.socket.sendall(content[start : start + 99_997])
            time.sleep(0.01)
        found = arriving.read(8 * (mine.size - half))
        its_onward.socket.sendall(its[:half].tobytes())
        return found

    expected = np.concatenate([its[:half], mine[half:] + its[half:]])
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(play_worker_1)
        lines = {"onward": [Link(onward)], "inward": [Link(inward)]}
        with Ring(rank=0, size=2, **lines, timeout_s=5) as ring:
            ring.all_reduce(mine)
        np.testing.assert_array_equal(mine, expected)
        assert other.result() == expected[half:].tobytes()
    arriving.close()
    its_inward.close()
    its_onward.close()


def reduce(_, ring):
    ring.all_reduce(np.zeros(2_000_000))


def gather(_, ring):
    ring.all_gather(b"meta")


def broadcast(_, ring):
    ring.broadcast(np.zeros(2_000_000), source=0)
    ring.all_gather(b"")  # the source itself may be done before it can know


@pytest.mark.parametrize("work", [reduce, gather, broadcast])
@pytest.mark.parametrize("gone", range(4))
def test_lost_neighbor_raises_immediately_on_all_workers(ring_of, work, gone):
    def member(rank, ring):
        if rank == gone:
            time.sleep(0.1)
            ring.abort()
        else:
            work(rank, ring)

    found = outcomes(ring_of(4, peer_timeout_s=LONGER_THAN_A_TEST_S), member)
    for rank, result in enumerate(found):
        assert rank == gone or isinstance(result, NetworkError)


@pytest.mark.parametrize("work", [reduce, gather, broadcast])
def test_abort_from_another_thread_ends_a_wait_at_once(ring_of, work):
    ring = ring_of(2, peer_timeout_s=LONGER_THAN_A_TEST_S)[0]
    timer = threading.Timer(0.1, ring.abort)
    timer.start()
    with pytest.raises(NetworkError):
        work(0, ring)
    timer.join()


@pytest.mark.parametrize("size", [1, 2])
def test_a_ring_that_was_aborted_before_is_an_error_too(ring_of, size):
    """Also of one worker: else a lone survivor would train on, and let no replacement join."""
    ring = ring_of(size)[0]
    ring.abort()
    ring.abort()
    with pytest.raises(NetworkError, match="the ring broke at worker 0"):
        gather(0, ring)


@pytest.mark.parametrize(("rank", "previous"), [(0, 2), (1, 0), (2, 1)])
def test_time_out_names_both_workers_and_the_duration(ring_of, rank, previous):
    ring = ring_of(3, peer_timeout_s=0.3)[rank]
    began_s = time.monotonic()
    text = rf"worker {rank} of the ring waited 0\.3 s for worker {previous}\..*peer_timeout_s"
    with pytest.raises(NetworkError, match=text):
        ring.all_reduce(np.zeros(10))
    assert time.monotonic() - began_s >= 0.3


@pytest.mark.thorough
def test_a_source_whose_next_worker_takes_nothing_waits_for_that_one(ring_of):
    ring = ring_of(3, peer_timeout_s=0.3)[0]
    with pytest.raises(NetworkError, match=r"worker 0 of the ring waited 0\.3 s for worker 1\."):
        ring.broadcast(np.zeros(5_000_000), source=0)


@pytest.mark.thorough
def test_the_meeting_before_an_averaging_waits_for_slow_workers(ring_of):
    def member(rank, ring):
        time.sleep(1.0 if rank == 1 else 0)
        return ring.all_gather(bytes([rank]))

    found = each(ring_of(3, peer_timeout_s=0.2), member)
    assert found == [[b"\0", b"\1", b"\2"]] * 3


def test_metadata_of_absurd_size_is_rejected(ring_of):
    found = outcomes(ring_of(2), lambda rank, ring: ring.all_gather(b"x" * (rank * 300_000)))
    assert "at most 262144 bytes a worker. Received: 300000." in str(found[0])


@pytest.mark.parametrize("met", ["before the ring has met", "after it"])
def test_late_peer_of_an_older_generation_is_rejected(ports, meet, dial, met):
    both = ports(2)
    latecomer = dial(both[0])
    rings = meet(both, generation=2) if met == "after it" else []
    latecomer.send("join", {"generation": 1, "rank": 1})
    if not rings:
        wait_until(lambda: both[0]._arrivals)
        rings = meet(both, generation=2)
    assert latecomer.receive() is None
    assert each(rings, lambda rank, ring: ring.all_gather(bytes([rank]))) == [[b"\0", b"\1"]] * 2


def test_a_worker_that_comes_before_its_ring_is_kept_for_it(ports, meet, dial):
    both = ports(2)
    early = dial(both[0])
    early.send("join", {"generation": 9, "rank": 1})
    wait_until(lambda: both[0]._arrivals)
    meet(both, generation=2)
    assert list(both[0]._arrivals) == [(9, 1)]
    both[0].abandon(9)
    assert early.receive() is None


@pytest.mark.parametrize(
    "fields",
    [{}, {"generation": 2, "rank": 0}, {"generation": "2", "rank": 1}, {"rank": [1]}],
    ids=str,
)
def test_peer_with_an_invalid_introduction_is_dropped(ports, meet, dial, fields):
    both = ports(2)
    wrong = dial(both[0])
    wrong.send("join", fields)
    meet(both, generation=2)
    with contextlib.suppress(NetworkError):
        assert wrong.receive() is None


def test_a_neighbor_that_does_not_come_is_named(ports):
    three = ports(3)
    timeouts = {"connect_timeout_s": 1, "peer_timeout_s": 60}
    text = r"worker 0 of the ring waited 1 s for worker 2 to join it\..*connect_timeout_s"
    with pytest.raises(NetworkError, match=text):
        three[0].join(generation=1, rank=0, **places(three), **timeouts)


@pytest.mark.parametrize(
    ("there", "reason"),
    [(True, "ring 4 was abandoned before all workers joined it"), (False, "could not be reached")],
)
def test_cancelled_rendezvous_ends_immediately(ports, there, reason):
    both = ports(2)
    if not there:
        both[1]._port.close()
    timer = threading.Timer(0.2, lambda: both[0].abandon(4))
    timer.start()
    timeouts = dict.fromkeys(("connect_timeout_s", "peer_timeout_s"), LONGER_THAN_A_TEST_S)
    with pytest.raises(NetworkError, match=reason):
        both[0].join(generation=4, rank=0, **places(both), **timeouts)
    timer.join()


def test_giving_up_one_generation_does_not_spoil_the_next(ports, meet):
    both = ports(2)
    for port in both:
        port.abandon(1)
    with pytest.raises(NetworkError, match="ring 1 was abandoned before all workers joined it"):
        joined(both, generation=1)
    meet(both, generation=2)


def test_ports_serve_a_smaller_ring_after_a_larger_one(ports):
    three = ports(3)
    for generation, members in ((1, three), (2, three[:2]), (3, three[2:]), (4, three)):
        rings = joined(members, generation=generation)
        found = each(rings, lambda rank, ring: ring.all_gather(bytes([rank])))
        assert found == [[bytes([r]) for r in range(len(members))]] * len(members)
        for ring in rings:
            ring.abort()


@pytest.mark.parametrize(
    ("authenticate", "host", "sealed"),
    [
        (None, "127.0.0.1", False),
        (None, "10.0.0.7", True),
        (True, "127.0.0.1", True),
        (False, "10.0.0.7", False),
    ],
)
def test_vectors_are_authenticated_outside_one_machine_or_by_choice(
    ports, meet, monkeypatch, authenticate, host, sealed
):
    both = [RingPort(port._port, authenticate=authenticate) for port in ports(2)]
    monkeypatch.setattr(Connection, "peer_host", host)
    assert [seals(ring) for ring in meet(both)] == [(sealed, sealed)] * 2


def test_next_worker_learns_whether_vectors_are_authenticated(ports, meet):
    """Addresses may look different at the two ends, as behind a proxy."""
    both = [
        RingPort(port._port, authenticate=authenticate)
        for port, authenticate in zip(ports(2), (True, False), strict=True)
    ]
    rings = meet(both)
    assert [seals(ring) for ring in rings] == [(True, False), (False, True)]
    vectors = np.ones((2, 100_003))
    each(rings, lambda rank, ring: ring.all_reduce(vectors[rank]))
    np.testing.assert_array_equal(vectors, 2.0)


def test_an_encrypted_ring_gives_the_same_bits(ports, meet):
    vectors = np.random.default_rng(4).normal(size=(2, 1_000_003)).astype(np.float32)
    found = []
    for encrypt in (False, True):
        opened = ports(2)
        for port in opened:
            port._port._listener._encrypt = encrypt
        rings, own = meet(opened), vectors.copy()
        assert [seals(ring) for ring in rings] == [(encrypt, encrypt)] * 2
        each(rings, lambda rank, ring, own=own: ring.all_reduce(own[rank]))
        found += [vector.tobytes() for vector in own]
    assert len(set(found)) == 1


def test_closed_ring_port_drops_waiting_and_later_joiners(ports, dial):
    (port,) = ports(1)
    joiners = [dial(port) for _ in range(2)]
    joiners[0].send("join", {"generation": 1, "rank": 0})
    wait_until(lambda: port._arrivals)
    port.close()
    joiners[1].send("join", {"generation": 1, "rank": 0})
    for joiner in joiners:
        assert joiner.receive() is None
