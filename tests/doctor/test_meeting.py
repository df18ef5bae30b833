import itertools
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.cases import cases
from tests.waiting import wait_until

from sparkwright.doctor import _gathering, _meeting, _probe
from sparkwright.doctor._meeting import Meeting
from sparkwright.doctor._probe import Orders
from sparkwright.mesh.connection import connect

SECRET = b"s" * 32


@pytest.fixture
def meeting():
    opened = Meeting(
        secret=SECRET, host="127.0.0.1", ports=(0,), tasks=3, quiet_s=5.0, timeout_s=20.0
    )
    yield opened
    opened.close()


def orders(driver, **given):
    found = {
        "secret": SECRET,
        "ports": (0,),
        "network_mask": None,
        "connect_s": 2.0,
        "wait_s": 20.0,
    }
    return Orders(driver=driver, **{**found, **given})


@pytest.fixture
def _each_an_executor(monkeypatch):
    numbers = itertools.count()
    java = lambda: {"pid": (n := next(numbers)), "executor": str(n), "version": "17.0.1"}  # noqa: E731
    monkeypatch.setattr(_probe, "java_above", java)


def all_look(given, tasks):
    with ThreadPoolExecutor(tasks) as pool:
        return list(pool.map(lambda task: _probe.look(given, task), range(tasks)))


@pytest.mark.usefixtures("_each_an_executor")
def test_every_executor_reaches_all_others_and_its_clock_is_compared(meeting):
    answers = all_look(orders(meeting.address, clock=lambda: time.time() + 5.0), 3)
    assert meeting.came == {0, 1, 2}
    labels = {answer["label"] for answer in answers}
    assert len(labels) == 3
    for answer in answers:
        assert answer["place"]["driver_problem"] == ""
        assert answer["place"]["peers"] == dict.fromkeys(labels - {answer["label"]}, "")
        clock = _gathering.clock_of(answer["samples"])
        assert abs(clock.offset_s - 5.0) <= clock.uncertainty_s + 1e-3
    assert {e: a["place"]["peers"] for e, a in meeting.answers.items()} == {
        a["executor"]: a["place"]["peers"] for a in answers
    }


def test_one_task_per_executor_checks_all_executors(meeting):
    answers = all_look(orders(meeting.address), 3)
    assert sorted("place" in answer for answer in answers) == [False, False, True]
    assert len({answer["executor"] for answer in answers}) == 1


@pytest.mark.usefixtures("_each_an_executor")
def test_executor_without_a_free_port_reports_it(meeting):
    taken = meeting.address[1]
    answers = all_look(orders(meeting.address, ports=(taken,)), 3)
    assert all(f"{taken}" in answer["place"]["port_problem"] for answer in answers)
    assert all(answer["place"]["peers"] == {} for answer in answers)


@pytest.mark.usefixtures("_each_an_executor")
def test_each_machine_can_use_its_own_ports(meeting, monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("OWN_PORTS", f" {port} - {min(65535, port + 20)} ")
    answers = all_look(orders(meeting.address, ports="OWN_PORTS"), 3)
    assert {answer["place"]["port_problem"] for answer in answers} == {""}
    assert all(set(answer["place"]["peers"].values()) == {""} for answer in answers)


@pytest.mark.usefixtures("_each_an_executor")
def test_unreachable_driver_is_reported():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        (answer,) = all_look(orders(closed.getsockname(), connect_s=0.3), 1)
    assert "could not be reached within 0.3 s" in answer["place"]["driver_problem"]
    assert answer["place"]["versions"]["Python"]


@pytest.mark.usefixtures("_each_an_executor")
def test_started_tasks_are_awaited_and_missing_ones_are_not():
    meeting = Meeting(
        secret=SECRET, host="127.0.0.1", ports=(0,), tasks=3, quiet_s=0.05, timeout_s=20.0
    )
    meeting.running = lambda: 2  # the third has no slot
    look = partial(_probe.look, orders(meeting.address))
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(look, 0)
            wait_until(lambda: meeting.came == {0}, 15)
            time.sleep(0.3)  # however long Python takes to start
            second = pool.submit(look, 1)
            answers = [first.result(15), second.result(15)]
        late = look(2)
    finally:
        meeting.close()
    assert all(list(answer["place"]["peers"].values()) == [""] for answer in answers)
    assert late["place"]["driver_problem"] == ""
    assert (meeting.came, len(meeting.answers)) == ({0, 1}, 3)


def test_closing_releases_all_executors(meeting):
    line = connect(meeting.address, secret=SECRET, timeout_s=5.0)
    line.send("doctor", {"executor": "a", "label": "executor a", "task": 0})
    line.receive()
    threading.Timer(0.1, meeting.close).start()
    assert line.receive() is None
    line.close()


@cases("executors", 1, 2, 17, 40, 1000)
def test_each_executor_probes_a_few_others_and_each_is_probed(executors):
    names = [f"{number:04}" for number in range(executors)]
    tried = {name: _meeting.partners(name, names) for name in names}
    assert all(name not in others for name, others in tried.items())
    assert all(len(set(others)) == min(16, executors - 1) for others in tried.values())
    assert {other for others in tried.values() for other in others} == (
        set(names) if executors > 1 else set()
    )


@cases(
    "page, told",
    (
        ": org.apache.spark.SparkException: Job aborted: Lost task 1.3 (127.0.0.1 executor 0): "
        'java.io.IOException: Cannot run program "/no/python": error=2, No such file\n'
        "\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n",
        'Cannot run program "/no/python": error=2, No such file',
    ),
    (
        "Traceback (most recent call last):\n  File x\npyspark.errors.PySparkRuntimeError: "
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
        "driver: 3.11.\n\tat org.apache.spark",
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
        "driver: 3.11.",
    ),
    ("something\n\nelse", "something else"),
    ("", "RuntimeError"),
)
def test_java_stack_trace_is_reduced_to_the_relevant_line(page, told):
    assert _gathering.in_short(RuntimeError(page)) == told


@pytest.mark.thorough
@pytest.mark.usefixtures("_each_an_executor")
def test_port_behind_a_firewall_is_reported_by_connecting_executors(meeting, monkeypatch):
    """Executor 1 says a port at which nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        arrive = meeting._arrive

        def misled(executor, label, message):
            if label.startswith("executor 1 "):
                message = {**message, "address": list(closed.getsockname())}
            arrive(executor, label, message)

        monkeypatch.setattr(meeting, "_arrive", misled)
        answers = all_look(orders(meeting.address, connect_s=1.0), 3)
    for answer in answers:
        lost = {label[:10] for label, problem in answer["place"]["peers"].items() if problem}
        assert lost == (set() if answer["label"].startswith("executor 1 ") else {"executor 1"})
