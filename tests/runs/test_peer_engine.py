"""How a run ends, and with which state."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkwright.errors import DataError, NonFiniteLossError, WorkerError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.mesh.framing import Message
from sparkwright.runs._decisions import EndRun
from sparkwright.runs.callbacks import DriverCallbacks
from sparkwright.runs.engine import Outcome
from sparkwright.runs.peer_engine import PeerEngine
from sparkwright.runs.record import RunRecord
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Failure, Progress


def engine_with(**of_launcher: Any) -> PeerEngine:
    """One of a single worker, whose launcher does what is given."""
    host = "127.0.0.1"
    common = {
        "workers": 1,
        "required": 1,
        "slots": 1,
        "facts": {},
        "stream": None,
        "consume": True,
        "max_failures": 3,
        "replacement_timeout_s": 60.0,
        "clean_up": lambda: None,
        "finish": lambda timeout_s: True,
    }
    hosts = {"bind_host": host, "advertised_host": host, "worker_host": host}
    launcher: Any = SimpleNamespace(**common, **hosts, **of_launcher)
    start: Any = SimpleNamespace(
        thresholds=(), iterations=0, counter_bytes=8, vector=lambda: np.zeros(1), extras=lambda: []
    )
    beginning: Any = SimpleNamespace(
        id="run-1",
        master=ParameterAveragingTrainingMaster(seed=1),
        definition=SimpleNamespace(architecture=""),
        start=start,
        epochs=1,
        initial_epoch=0,
        resume=None,
        judged=None,
        callbacks=DriverCallbacks([], None, start, epochs=1),
        histograms=None,
    )
    return PeerEngine(beginning, launcher)


def phases_of(record: RunRecord) -> list[str]:
    return record.times.timeline(hosts=[], name="").to_dataframe().phase.tolist()


def test_phases_before_a_failure_of_preparing_are_in_the_timeline() -> None:
    def fail(enter: Any) -> Any:
        enter(PhaseCode.COUNT)
        raise DataError("there are no examples")

    record = RunRecord(workers=1, epochs=1, name="test")
    outcome = engine_with(prepare=fail).run(record)
    assert isinstance(outcome.error, DataError)
    assert phases_of(record) == ["count", "finish"]


def test_gathering_begins_before_the_first_worker_can_register() -> None:
    record = RunRecord(workers=1, epochs=1, name="test")

    def launch(worker: int, template: Any, ended: Any, *, replaces: bool) -> None:
        record.times.enter(PhaseCode.TRAIN)
        ended(Failure(worker=worker, kind="data", reason="no such column"))

    outcome = engine_with(prepare=lambda enter: None, launch=launch).run(record)
    assert isinstance(outcome.error, DataError)
    assert "unchanged" in str(outcome.error)
    assert phases_of(record) == ["submit", "gather", "train", "finish"]


def test_a_worker_is_launched_until_its_attempts_are_exhausted() -> None:
    attempts: list[bool] = []

    def launch(worker: int, template: Any, ended: Any, *, replaces: bool) -> None:
        attempts.append(replaces)
        failure = Failure(worker=worker, host="a", reason="the trainer process ended")
        threading.Thread(target=ended, args=(failure,)).start()

    record = RunRecord(workers=1, epochs=1, name="test")
    outcome = engine_with(prepare=lambda enter: None, launch=launch).run(record)
    assert isinstance(outcome.error, WorkerError)
    assert "the trainer process ended (3 attempts failed)" in str(outcome.error)
    assert attempts == [False] * 3


def test_a_task_that_cannot_be_started_ends_the_run() -> None:
    def launch(worker: int, template: Any, ended: Any, *, replaces: bool) -> None:
        raise RuntimeError("the Spark session has been stopped")

    record = RunRecord(workers=1, epochs=1, name="test")
    outcome = engine_with(prepare=lambda enter: None, launch=launch).run(record)
    assert isinstance(outcome.error, WorkerError)
    assert "the Spark session has been stopped (3 attempts failed)" in str(outcome.error)


def state(values: list[float], *, averagings: int) -> Message:
    """A delivered state, followed by one counter of 8 bytes and one of another worker."""
    vector = np.array(values, np.float32)
    progress = Progress(averagings=averagings, opened=1, steps=(5 * averagings,), examples=(9,))
    fields = {"dtype": "<f4", "size": vector.size, "progress": progress.to_dict(), "write": False}
    return Message(kind="checkpoint", fields=fields, payload=vector.tobytes() + bytes(range(16)))


def ended_with(
    *, copy: Message | None, result: Message | None, end: EndRun, rejected: bool = False
) -> tuple[Outcome, RunRecord]:
    """What a run comes to after these messages."""
    one: Any = engine_with()
    one._record = record = RunRecord(workers=1, epochs=1, name="test")
    one._server = SimpleNamespace(result=result, rejected=rejected)
    one._end = end
    if copy is not None:
        progress = Progress.from_dict(copy.fields["progress"])
        one._keep_state(copy, progress, write=False)
    return one._outcome(Progress()), record


def test_a_run_that_lost_all_workers_ends_with_the_copy_on_the_driver() -> None:
    end = EndRun(timed_out="all workers were lost before one delivered the result.")
    outcome, _ = ended_with(copy=state([1.0, 2.0], averagings=7), result=None, end=end)
    assert outcome.vector is not None
    assert outcome.vector.tolist() == [1.0, 2.0]
    assert outcome.counters == bytes(range(8))
    assert outcome.progress.averagings == 7
    assert "the average after averaging 7, in epoch 1" in str(outcome.error)


def test_a_rejected_result_is_an_error_that_names_the_copy() -> None:
    outcome, _ = ended_with(
        copy=state([1.0], averagings=7), result=None, end=EndRun(), rejected=True
    )
    assert isinstance(outcome.error, NonFiniteLossError)
    assert "after averaging 7" in str(outcome.error)


@pytest.mark.parametrize(("delivered", "expected"), [(9, [3.0]), (6, [1.0])])
def test_the_later_of_result_and_copy_counts(delivered: int, expected: list[float]) -> None:
    outcome, _ = ended_with(
        copy=state([1.0], averagings=7), result=state([3.0], averagings=delivered), end=EndRun()
    )
    assert outcome.vector is not None
    assert outcome.vector.tolist() == expected
    assert outcome.error is None
