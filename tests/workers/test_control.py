import contextlib
import queue
import threading

import pytest
from tests.support.mesh import socket_pair
from tests.waiting import join_threads

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Listener
from sparkwright.mesh.machine_clock import MachineClock
from sparkwright.mesh.ring import Link, Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers._control import ControlLine, Dismissed
from sparkwright.workers._phases import PhaseRecorder, PhaseReporter

SECRET = bytes(range(32))


@pytest.fixture
def line():
    """A worker's line and the coordinator's end of it."""
    arrived = queue.SimpleQueue()
    listener = Listener(
        secret=SECRET, host="127.0.0.1", ports=range(1), on_connection=arrived.put, name="test"
    )
    control = ControlLine(listener.address, secret=SECRET, timeout_s=5, name="test-worker")
    driver = arrived.get(timeout=5)
    driver.socket.settimeout(5)
    yield control, driver
    control.close()
    driver.close()
    listener.close()


@pytest.fixture
def ring():
    """Worker 0's place in a ring of two; the other one never says anything."""
    onward, its_inward = socket_pair()
    inward, its_onward = socket_pair()
    with Ring(rank=0, size=2, onward=[Link(onward)], inward=[Link(inward)], timeout_s=60) as found:
        yield found
    its_inward.close()
    its_onward.close()


def is_broken(ring, *, wait_s=10.0):
    """Whether the ring breaks within this time."""
    broken = threading.Event()

    def wait():
        with contextlib.suppress(NetworkError):
            ring.all_gather(b"")
        broken.set()

    threading.Thread(target=wait, daemon=True).start()
    return broken.wait(wait_s)


def given_up(control, generation):
    """Set as soon as `generation` is not to be waited for any longer."""
    found = threading.Event()

    def abandon(last):
        if generation <= last:
            found.set()

    control.ring.on_canceled(abandon)
    return found


def next_of(driver, kind):
    """The next message of this kind; heartbeats are passed over."""
    while (message := driver.receive()) is not None and message.kind == "alive":
        pass
    assert message.kind == kind
    return message


def test_orders_arrive_in_order_and_stop_is_visible_immediately(line):
    control, driver = line
    for kind in ("group", "stop", "deliver"):
        driver.send(kind, {"generation": 1})
    assert [control.next_order().kind for _ in range(2)] == ["group", "deliver"]
    assert control.stopping.wait(10)


@pytest.mark.parametrize(
    ("generation", "used", "breaks"),
    [(3, "before", True), (3, "after", True), (4, "after", False)],
    ids=["in use", "ready only after its regroup", "the next generation's"],
)
def test_regroup_breaks_the_ring_of_its_generation(line, ring, generation, used, breaks):
    control, driver = line
    known = given_up(control, 3)
    if used == "before":
        control.ring.use(ring, generation=generation)
    driver.send("regroup", {"generation": 3})
    assert known.wait(10)
    assert given_up(control, 3).is_set()  # also when it is asked for later
    assert not given_up(control, 4).is_set()
    if used == "after":
        control.ring.use(ring, generation=generation)
    assert is_broken(ring, wait_s=10.0 if breaks else 0.5) == breaks


def test_epoch_answer_is_not_an_order_and_late_answers_are_dropped(line):
    control, driver = line
    driver.send("answered", {"epoch": 1, "round": 0})
    driver.send("answered", {"epoch": 2, "round": 3})
    driver.send("group", {"generation": 1})
    driver.send("answered", {"epoch": 2, "round": 0, "ends": True})
    found = control.answer(epoch=2, round=0, timeout_s=5.0)
    assert found.fields["ends"] is True
    assert control.next_order().kind == "group"
    assert control.answer(epoch=2, round=3, timeout_s=0.0) is None


def test_worker_waiting_for_an_answer_is_dismissed(line):
    control, driver = line
    driver.send("dismiss", {"reason": "the run has ended"})
    with pytest.raises(Dismissed, match="the run has ended"):
        control.answer(epoch=1, round=0, timeout_s=30.0)
    with pytest.raises(Dismissed, match="the run has ended"):
        control.next_order()
    driver.close()
    with pytest.raises(Dismissed):
        control.answer(epoch=1, round=0, timeout_s=30.0)


@pytest.mark.parametrize("how", ["dismiss", "close"])
def test_dismissal_breaks_every_ring_and_every_wait(line, ring, how):
    control, driver = line
    meeting = given_up(control, 10**6)
    control.ring.use(ring, generation=1)
    assert not control.lost
    if how == "dismiss":
        driver.send("dismiss", {"reason": "done"})
    driver.close()
    with pytest.raises(Dismissed, match="done" if how == "dismiss" else "."):
        control.next_order()
    assert meeting.wait(10)
    assert is_broken(ring)
    assert control.gone.wait(10)
    assert control.lost == (how == "close")  # who was dismissed has lost nothing
    with pytest.raises(Dismissed):
        control.send("rows", {}, (b"x" * 1_000_000,))
    control.close()
    join_threads("test-worker")


def test_stacks_are_sent_while_the_training_thread_is_stuck(line):
    _, driver = line
    stuck = threading.Event()
    thread = threading.Thread(target=stuck.wait, name="stuck in a hook", daemon=True)
    thread.start()
    driver.send("stacks")
    message = next_of(driver, "stacks")
    stuck.set()
    assert "thread stuck in a hook:\n" in message.fields["text"]
    assert "in wait" in message.fields["text"]


@pytest.mark.thorough
def test_spans_are_sent_every_second_and_the_rest_at_the_end(line):
    control, driver = line
    recorder = PhaseRecorder()
    reporter = PhaseReporter(control, recorder, MachineClock(), measure=False)
    recorder.add(PhaseCode.COMPUTE, 1.0, 2.0)
    assert next_of(driver, "phases").fields["count"] == 1
    for start_s in (2.0, 3.0):
        recorder.add(PhaseCode.COMPUTE, start_s, start_s + 1.0)
    reporter.close()
    assert next_of(driver, "phases").fields["count"] == 2
    reporter.close()  # nothing is left to send
    control.send("end")
    next_of(driver, "end")
