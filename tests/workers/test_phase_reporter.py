"""Workers with clocks of their own tell a real coordinator's server what they did, and when."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sparkwright.mesh.connection import connect
from sparkwright.mesh.framing import Message
from sparkwright.mesh.machine_clock import MachineClock
from sparkwright.runs._coordinator import Coordinator
from sparkwright.runs._decisions import MessageReceived, Notification, WorkerDisconnected
from sparkwright.runs._server import CoordinatorServer
from sparkwright.runs.timeline_record import TimelineRecord
from sparkwright.timeline import PhaseCode
from sparkwright.workers._control import ControlLine
from sparkwright.workers._phases import PhaseRecorder, PhaseReporter, WorkerClocks

SECRET = bytes(range(32))
WORKERS = 3
REGISTRATION = {
    **{"worker": 0, "attempt": 0, "host": "host", "address": ["127.0.0.1", 1]},
    **{"rows": 1, "validation_rows": 0},
}


class Driver:
    """A coordinator's server of which only the timeline is kept."""

    def __init__(self) -> None:
        self.times = TimelineRecord(workers=WORKERS, name="test")
        self.times.collect(None)
        self.lost = self.messages = 0
        self.received = threading.Semaphore(0)
        self.server = CoordinatorServer(
            Coordinator(workers=WORKERS, now_s=time.monotonic()),
            self.tell,
            secret=SECRET,
            host="127.0.0.1",
            ports=range(1),
            peer_timeout_s=30.0,
            start=lambda: ({}, ()),
            name="test",
        )

    def tell(self, notification: Notification, message: Message | None = None) -> None:
        match notification:
            case MessageReceived(worker=worker) if message is not None and message.kind == "phases":
                self.times.add_message(worker, message)
                self.messages += 1
                self.received.release()
            case WorkerDisconnected():
                self.lost += 1
                self.received.release()
            case _:
                pass

    def close(self) -> None:
        self.server.close()
        self.times.close()


class Worker:
    """A worker's line, its recorder and its clocks, which are `shift_s` ahead of the driver's."""

    def __init__(self, driver: Driver, worker: int, *, shift_s: float = 0.0) -> None:
        self.recorder = PhaseRecorder()
        self.control = ControlLine(
            driver.server.address, secret=SECRET, timeout_s=5.0, name=f"test-{worker}"
        )
        self.reporter = PhaseReporter(
            self.control, self.recorder, MachineClock(shift_s=shift_s), measure=True
        )
        self.control.send(
            "register",
            {**REGISTRATION, "worker": worker},
        )

    def close(self) -> None:
        self.reporter.close()
        self.control.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    found = Driver()
    yield found
    found.close()


@pytest.fixture
def hired(driver: Driver) -> Iterator[Callable[..., Worker]]:
    with contextlib.ExitStack() as stack:

        def hire(worker: int, **options: Any) -> Worker:
            found = Worker(driver, worker, **options)
            stack.callback(found.close)
            return found

        yield hire


def work(worker: Worker) -> None:
    """Something to tell of, now; the clock's shift is added when it is told."""
    now_s = time.monotonic()
    worker.recorder.add(PhaseCode.COMPUTE, now_s, now_s + 0.5)


@pytest.mark.thorough
def test_clock_offsets_up_to_5_seconds_are_within_the_uncertainty(
    driver: Driver, hired: Callable[..., Worker]
) -> None:
    shifts_s = [5.0, -5.0, 0.0]
    began_s = time.monotonic()
    for number, shift_s in enumerate(shifts_s):
        work(hired(number, shift_s=shift_s))
    took_s = time.monotonic() - began_s
    for _ in shifts_s:
        assert driver.received.acquire(timeout=10.0)
    timeline = driver.times.timeline(hosts=["a"] * WORKERS, name="test")
    assert [clock.worker for clock in timeline.clocks] == [0, 1, 2]
    for clock, shift_s in zip(timeline.clocks, shifts_s, strict=True):
        assert abs(clock.offset_s - shift_s) <= clock.uncertainty_s + 1e-4
        assert clock.uncertainty_s < 1.0
        assert clock.source == "driver"
    # All three began while they were hired, whatever their clocks said.
    frame = timeline.to_dataframe()
    slack_s = 2e-3 + sum(clock.uncertainty_s for clock in timeline.clocks)
    assert frame.start_s.max() - frame.start_s.min() <= took_s + slack_s
    assert frame.start_s.max() <= time.monotonic() - began_s + 1.0


@pytest.mark.thorough
def test_spans_arrive_every_second_and_the_rest_at_the_end(
    driver: Driver, hired: Callable[..., Worker]
) -> None:
    worker = hired(0)
    work(worker)
    assert driver.received.acquire(timeout=10.0)
    work(worker)
    work(worker)
    worker.close()
    driver.server.drain(5.0)
    timeline = driver.times.timeline(hosts=[], name="test")
    assert [total.count for total in timeline.totals()] == [3]
    np.testing.assert_allclose(timeline.spans.seconds, 0.5)


def test_idle_worker_sends_nothing(driver: Driver, hired: Callable[..., Worker]) -> None:
    hired(0).close()
    assert driver.received.acquire(timeout=10.0)  # that it is gone
    driver.server.drain(5.0)
    assert (driver.lost, driver.messages) == (1, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"count": 2},
        {"count": "many"},
        {"missed": None},
        {"clock": {"source": "gps"}},
        {"clock": None},
    ],
)
def test_malformed_data_ends_the_connection_but_not_the_run(
    driver: Driver, changes: dict[str, Any]
) -> None:
    with contextlib.closing(connect(driver.server.address, secret=SECRET, timeout_s=5.0)) as line:
        line.socket.settimeout(5.0)
        line.send("register", REGISTRATION)
        good = {
            "count": 1,
            "missed": 0,
            "clock": {"source": "system", "wall_s": 0.0, "offset_s": 0.0, "uncertainty_s": None},
        }
        payload = b"\xff" if not changes else b"\0"  # an unknown phase
        line.send("phases", {**good, **changes}, (bytes(12) + payload,))
        assert line.receive() is None  # hung up
    assert driver.received.acquire(timeout=5.0)
    assert driver.lost == 1
    assert len(driver.times.timeline(hosts=[], name="")) == 0


def test_peers_without_a_number_get_the_time_but_cannot_report(driver: Driver) -> None:
    with contextlib.closing(connect(driver.server.address, secret=SECRET, timeout_s=5.0)) as line:
        line.socket.settimeout(5.0)
        line.send("clock", {"asked_s": 1.25})
        answer = line.receive()
        assert answer is not None
        assert answer.kind == "clock"
        assert answer.fields["asked_s"] == 1.25
        assert answer.fields["came_s"] <= answer.fields["answered_s"] <= time.monotonic()
        line.send("phases", {})
        assert line.receive() is None


def test_process_keeps_its_clock_between_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = WorkerClocks()
    first = clocks.of(None, worker=0)
    assert clocks.of(None, worker=3) is first
    monkeypatch.setitem(os.environ, "SPARKWRIGHT_CLOCK_SHIFT_S", "0,5")
    assert clocks.of(None, worker=0) is first
    assert clocks.of(None, worker=1).shift_s == 5.0
