import contextlib
import json
import logging
import struct
import threading
import time
from itertools import chain

import numpy as np
import psutil
import pytest
from tests.cases import cases
from tests.waiting import join_threads, names_of_threads, wait_until

from sparkwright.errors import DataError
from sparkwright.mesh.connection import connect
from sparkwright.runs._averaging_coordinator import Coordinator
from sparkwright.runs._decisions import (
    EndRun,
    MessageReceived,
    ProgressSettled,
    WorkerDisconnected,
)
from sparkwright.runs._observations import TaskEnded, TimerFired, WorkerFailed, WorkerRegistered
from sparkwright.runs._server import CoordinatorServer
from sparkwright.workers.protocol import Failure, Group, Progress

SECRET = bytes(range(32))
NAME = "sparkwright-test"
ALIVE = {"sent_s": 0.0, "steps": 0, "computing": False}


class Sink:
    """Writes down what it is told."""

    def __init__(self):
        self.told = []
        self.ended = threading.Event()
        self.rejects = ""  # messages of this kind

    def __call__(self, notification, message=None):
        match notification:
            case WorkerRegistered(worker=worker):
                self.told.append(("joined", worker))
            case WorkerDisconnected(worker=worker):
                self.told.append(("lost", worker))
            case MessageReceived(worker=worker):
                if message.kind == self.rejects:
                    raise DataError("its content is invalid")
                if message.kind != "alive":
                    self.told.append(("heard", (worker, message.kind)))
            case ProgressSettled(progress=progress, exact=exact):
                assert exact
                self.told.append(("settled", progress.averagings))
            case EndRun():
                self.told.append(("ended", notification))
                self.ended.set()
            case _:
                pass

    def end(self):
        assert self.ended.wait(5.0), "the run did not end"
        return self.told[-1][1]


def state_of(payload, averagings=4):
    """The fields of a message whose payload is a vector of bytes."""
    progress = Progress(averagings=averagings, steps=(0, 0), examples=(0, 0))
    return {"dtype": "|u1", "size": len(payload), "progress": progress.to_dict()}


class Worker:
    """A worker's end of the line."""

    def __init__(self, server, worker, *, attempt=0):
        self.worker, self.attempt = worker, attempt
        self.connection = connect(server.address, secret=SECRET, timeout_s=5)
        self.connection.socket.settimeout(5.0)
        self.generation = 0
        self._quiet = threading.Event()

    def register(self, **changes):
        fields = {
            "worker": self.worker,
            "attempt": self.attempt,
            "host": f"host-{self.worker}",
            "address": ["127.0.0.1", 7000 + self.worker],
            "rows": 100,
            "validation_rows": 0,
        }
        self.connection.send("register", {**fields, **changes})
        return self

    def take(self, kind):
        """The next message, which must be a `kind`."""
        message = self.connection.receive()
        assert message is not None, f"the driver hung up instead of sending {kind!r}"
        assert message.kind == kind
        if kind == "group":
            self.generation = int(message.fields["generation"])
        return message

    def report(self, ending, progress):
        fields = {
            "generation": self.generation,
            "ending": ending,
            "progress": progress.to_dict() if progress else None,
            "failure": None,
        }
        self.connection.send("report", fields)

    def deliver(self, payload=b"result"):
        self.take("deliver")
        self.connection.send("result", state_of(payload), (payload,))
        self.take("dismiss")

    def is_hung_up(self):
        with contextlib.suppress(TimeoutError):
            while self.connection.receive() is not None:
                pass
            return True
        return False

    def stay_alive(self):
        """Send signs of life until closed."""

        def beat():
            while not self._quiet.wait(0.05):
                with contextlib.suppress(Exception):
                    self.connection.send("alive", ALIVE)

        threading.Thread(target=beat, daemon=True).start()

    def close(self):
        self._quiet.set()
        self.connection.close()


class Site:
    """A server with its sink, and workers that are closed with it."""

    def __init__(self, *, workers, peer_timeout_s=30.0, rules=None, **options):
        self.sink = Sink()
        self.coordinator = Coordinator(workers=workers, now_s=time.monotonic(), **(rules or {}))
        settings = {"start": lambda: ({"size": 1}, (np.zeros(1),)), "name": NAME, **options}
        self.server = CoordinatorServer(
            self.coordinator,
            self.sink,
            secret=SECRET,
            host="127.0.0.1",
            ports=range(1),
            peer_timeout_s=peer_timeout_s,
            **settings,
        )
        self.workers = []

    def worker(self, worker, *, attempt=0):
        self.workers.append(Worker(self.server, worker, attempt=attempt))
        return self.workers[-1]

    def registered(self, worker, *, attempt=0, **changes):
        """A worker whose registration has arrived."""
        before = self.sink.told.count(("joined", worker))
        found = self.worker(worker, attempt=attempt).register(**changes)
        wait_until(lambda: self.sink.told.count(("joined", worker)) > before)
        return found

    def training(self):
        """All workers, in their first group."""
        found = [self.registered(w) for w in range(self.coordinator.workers)]
        for worker in found:
            worker.take("group")
        return found

    def close(self):
        for worker in self.workers:
            worker.close()
        self.server.close()


@pytest.fixture
def site():
    with contextlib.ExitStack() as stack:

        def build(workers=2, **options):
            found = Site(workers=workers, **options)
            stack.callback(found.close)
            return found

        yield build


def end_of(workers=2):
    return Progress(epoch=1, averagings=4, steps=(0,) * workers, examples=(0,) * workers)


def finish(site, workers):
    """Let `workers`, all in a group, end the run as they should."""
    for worker in workers:
        worker.report("finished", end_of(site.coordinator.workers))
    workers[0].deliver()
    assert site.sink.end() == EndRun()


def test_a_run_from_registration_to_result(site):
    start = np.arange(5, dtype=np.float32)
    here = site(2, start=lambda: ({"size": 5}, (start, b"extras")))
    one, other = here.registered(0, rows=7), here.registered(1, validation_rows=3)
    groups = [Group.from_dict(worker.take("group").fields) for worker in (one, other)]
    assert groups[0] == groups[1]
    assert groups[0].generation == 1
    assert (groups[0].rows, groups[0].validation_rows) == ((7, 100), (0, 3))
    seats = [(seat.worker, seat.host, seat.port) for seat in groups[0].seats]
    assert seats == [(0, "127.0.0.1", 7000), (1, "127.0.0.1", 7001)]
    one.connection.send("fetch_start")
    message = one.take("start")
    assert message.fields == {"size": 5}
    assert bytes(message.payload) == start.tobytes() + b"extras"
    other.connection.send("rows", {"blocks": []}, (b"",))
    finish(here, [one, other])
    other.take("dismiss")
    assert here.server.result.payload == b"result"
    assert here.sink.told == [
        ("joined", 0),
        ("joined", 1),
        ("heard", (1, "rows")),
        ("settled", 4),
        ("ended", EndRun()),
    ]


def test_worker_that_leaves_its_slot_to_another_is_reported_as_lost(site):
    here = site(2, rules={"required": 1, "replacement_timeout_s": 0.2})
    required, joined = here.registered(0), here.registered(1)
    required.close()
    wait_until(lambda: ("lost", 1) in here.sink.told)
    joined.close()
    assert here.sink.told.count(("lost", 1)) == here.sink.told.count(("lost", 0)) == 1


@cases("found_by", "driver", "task", "worker")
def test_a_failure_ends_the_run(site, found_by):
    here = site(1)
    (worker,) = here.training()
    failure = Failure(worker=0, host="b", kind="data", reason="no such column", traceback="…")
    if found_by == "driver":
        here.server.handle(WorkerFailed(failure=failure))
        worker.take("regroup")
        worker.report("broken", None)
    elif found_by == "task":
        here.server.handle(TaskEnded(worker=0, failure=failure))
        worker.take("regroup")
        worker.close()
    else:
        report = {"generation": 1, "ending": "failed", "progress": None}
        worker.connection.send("report", {**report, "failure": failure.to_dict()})
    assert here.sink.end() == EndRun(failure=failure)


def test_worker_that_registers_after_the_end_is_released(site):
    here = site(2)
    here.server.stop()
    assert here.sink.end() == EndRun(stopped=True)
    late = here.worker(0).register()
    assert late.take("dismiss").fields == {"reason": "the run has ended"}
    late.close()
    here.server.drain(5.0)
    assert here.sink.told == [("ended", EndRun(stopped=True))]


def test_newer_attempt_takes_over_and_the_older_is_released(site):
    here = site(2)
    one, other = here.training()
    newer = here.registered(1, attempt=1)
    assert other.take("dismiss").fields["reason"].startswith("attempt 1 of worker 1 has taken")
    other.close()
    one.take("regroup")
    one.report("broken", Progress(averagings=1, steps=(5, 5), examples=(50, 50)))
    one.take("group")
    newer.take("group")
    finish(here, [one, newer])
    assert ("lost", 1) not in here.sink.told
    assert ("settled", 1) in here.sink.told


def test_a_fault_of_the_coordinator_at_a_timer_ends_the_run(site, caplog):
    """Else no wait of the run would end."""
    here = site(2)
    here.training()

    def handle(event, *, now_s):
        if isinstance(event, TimerFired):
            raise KeyError("of the coordinator")
        return []

    here.coordinator.handle = handle
    assert "of the coordinator" in here.sink.end().failure.reason
    assert "the coordinator failed; the run ends" in caplog.text


def test_durations_are_accepted_after_the_last_report_and_rows_are_not(site):
    here = site(2)
    one, other = here.training()
    for worker in (one, other):
        worker.report("finished", end_of())
    one.take("deliver")
    for kind in ("rows", "validated", "phases"):
        other.connection.send(kind, {})
    one.connection.send("result", state_of(b"late"), (b"late",))
    here.sink.end()
    one.connection.send("phases", {})
    for worker in (one, other):
        worker.close()
    here.server.drain(5.0)
    heard = sorted(what for kind, what in here.sink.told if kind == "heard")
    assert heard == [(0, "phases"), (1, "phases")]


@cases(
    "content",
    *(b"\0" * 100, b"GET / HTTP/1.1\r\n\r\n", struct.pack("<4sIQ", b"SWR1", 2**31, 0)),
    *(("rows", {"blocks": []}), ("report", {}), ("result", {}), ("fetch_start", {})),
    *(("register", {"worker": worker}) for worker in (None, "x", -1, 2, 10**9)),
    None,
    ids=str,
)
def test_invalid_data_of_a_stranger_ends_only_its_connection(site, caplog, content):
    here = site(2)
    workers = here.training()
    stranger = here.worker(0)
    if content is None:  # no JSON
        stranger.connection.send_encoded("[1,2", struct.pack("<4sIQ", b"SWR1", 4, 0) + b"[1,2")
    elif isinstance(content, bytes):
        stranger.connection.socket.sendall(content)
    elif content[0] == "register":
        stranger.register(**content[1])
    else:
        stranger.connection.send(*content)
    assert stranger.connection.receive() is None
    finish(here, workers)
    assert here.server.result.payload == b"result"
    assert [what for kind, what in here.sink.told if kind in ("joined", "lost")] == [0, 1]
    assert all(record.levelno <= logging.WARNING for record in caplog.records)


@cases("how", "nonsense", "rejected", "close")
def test_a_worker_that_closes_or_sends_nonsense_is_lost_and_the_others_regroup(site, caplog, how):
    here = site(2)
    one, other = here.training()
    here.sink.rejects = "phases"
    sent = {"nonsense": ("report", {"generation": "first"}), "rejected": ("phases", {})}
    if how in sent:
        other.connection.send(*sent[how])
        assert other.is_hung_up()
        assert "closed a connection after an invalid message" in caplog.text
    else:
        other.close()
    assert one.take("regroup").fields == {"generation": 1}
    assert here.sink.told[-1] == ("lost", 1)


def test_strangers_get_the_time(site):
    stranger = site(1).worker(0).connection
    stranger.send("clock", {"asked_s": 1.25})
    answer = stranger.receive()
    assert (answer.kind, answer.fields["asked_s"]) == ("clock", 1.25)
    assert answer.fields["came_s"] <= answer.fields["answered_s"] <= time.monotonic()
    stranger.send("phases", {})
    assert stranger.receive() is None


@pytest.mark.thorough
def test_silent_worker_is_lost_after_the_time_out(site):
    here = site(2, peer_timeout_s=1.0)
    stranger = here.worker(0)  # never registers
    builder = here.worker(1, attempt=1)  # builds its network for long
    one = here.registered(0)
    for worker in (one, builder):
        worker.stay_alive()
    began_s = time.monotonic()
    silent = here.registered(1)
    one.take("group")
    one.take("regroup")
    assert time.monotonic() - began_s >= 1.0
    assert silent.is_hung_up()
    assert stranger.is_hung_up()
    assert here.sink.told[-1] == ("lost", 1)
    one.report("broken", None)
    builder.register().take("group")


@pytest.mark.thorough
def test_a_large_result_on_its_way_is_no_silence(site):
    here = site(1, peer_timeout_s=1.0)
    (worker,) = here.training()
    worker.report("finished", end_of(1))
    worker.take("deliver")
    body = json.dumps(["result", state_of(bytes(13))]).encode()
    head = struct.pack("<4sIQ", b"SWR1", len(body), 13) + body
    content = b"".join(chain(*worker.connection.sealed(head, [b"r" * 13])))
    worker.connection.socket.sendall(content[:-13])
    for byte in content[-13:]:
        time.sleep(0.11)
        worker.connection.socket.sendall(bytes([byte]))
    assert here.sink.end() == EndRun()
    assert here.server.result.payload == b"r" * 13


@pytest.mark.thorough
def test_heartbeats_are_received_while_the_start_is_sent(site):
    ready = threading.Event()

    def start():
        ready.wait(30.0)
        return {"size": 1}, (np.zeros(1),)

    here = site(1, peer_timeout_s=1.0, start=start)
    (worker,) = here.training()
    worker.stay_alive()
    worker.connection.send("fetch_start")
    time.sleep(1.4)
    ready.set()
    worker.take("start")


def test_large_transfer_delays_no_other_worker(site):
    """A worker that does not read its 64 MB holds up neither `stop` nor the other worker."""
    state = np.zeros(16 << 20, np.float32)
    here = site(2, start=lambda: ({"size": state.size}, (state,)))
    slow, other = here.training()
    slow.connection.send("fetch_start")
    slow.connection.send("rows", {"blocks": []}, (b"",))
    wait_until(lambda: ("heard", (0, "rows")) in here.sink.told, 5.0)  # so the transfer has begun
    stopping = threading.Thread(target=here.server.stop, daemon=True)
    stopping.start()
    other.take("stop")
    stopping.join(5.0)
    assert not stopping.is_alive()
    assert slow.take("start").fields == {"size": state.size}
    slow.take("stop")


def test_time_of_the_last_message_of_each_worker_is_recorded(site):
    here = site(2)
    workers = here.training()
    time.sleep(0.3)
    workers[0].connection.send("alive", ALIVE)

    def one_is_later():
        ago = here.server.silence_s()
        return ago[1] >= 0.3 and ago[1] - ago[0] >= 0.29

    assert set(here.server.silence_s()) == {0, 1}
    wait_until(one_is_later, 5.0)


def test_histograms_are_requested_from_every_worker(site):
    here = site(2)
    assert not here.server.request_histograms()
    workers = here.training()
    assert here.server.request_histograms()
    for worker in workers:
        worker.take("histograms")


def sockets():
    return {c.laddr for c in psutil.Process().net_connections("tcp") if c.status != "TIME_WAIT"}


def test_a_closed_server_leaves_no_thread_and_no_socket():
    before = sockets()
    here = Site(workers=2, name="closing")
    workers = here.training()
    here.worker(0)
    here.registered(1, attempt=1)
    workers[0].take("regroup")
    assert names_of_threads("closing")
    here.server.close()
    join_threads("closing")
    assert all(worker.is_hung_up() for worker in here.workers)
    here.close()
    wait_until(lambda: sockets() <= before, 5.0)
