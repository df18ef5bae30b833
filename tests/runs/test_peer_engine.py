"""How a run ends: the tasks on one side, the coordinator on the other."""

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkwright.errors import DataError, WorkerError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.runs import _peer_engine
from sparkwright.runs._decisions import EndRun
from sparkwright.runs._peer_engine import PeerEngine
from sparkwright.runs._record import RunRecord
from sparkwright.timeline import PhaseCode


def engine(run: Any) -> Any:
    """One whose tasks do as `run` does, and nothing else."""
    found: Any = object.__new__(PeerEngine)
    found._launcher = SimpleNamespace(run=run)
    found._ended, found._end, found._job_error = threading.Event(), None, None
    return found


def test_an_end_that_is_told_just_after_the_tasks_are_over_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Workers are let go before the coordinator's thread has said why."""
    monkeypatch.setattr(_peer_engine, "_LAST_WORDS_S", 30.0)
    one = engine(lambda template: None)
    job = threading.Thread(target=one._work, args=(None,))
    job.start()
    assert not one._ended.wait(0.2)
    one._run_ended(EndRun())
    job.join(5.0)
    assert not job.is_alive()
    assert one._ended.is_set()
    assert one._end == EndRun()


def test_tasks_that_end_without_a_word_do_not_keep_the_run_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_peer_engine, "_LAST_WORDS_S", 0.05)
    one = engine(lambda template: None)
    one._work(None)
    assert one._ended.is_set()
    assert one._end is None


def test_a_task_that_failed_ends_the_run_at_once() -> None:
    error = WorkerError(worker=0, host="", reason="no memory")

    def fail(template: Any) -> None:
        raise error

    one = engine(fail)
    one._work(None)
    assert one._ended.is_set()
    assert one._job_error is error


class AtOnce:
    """A thread that has done all it does when it has been started."""

    def __init__(self, target: Any, args: Any = (), **_: Any) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)

    def join(self, _seconds: float) -> None:
        pass

    def is_alive(self) -> bool:
        return False


def engine_with(**of_launcher: Any) -> PeerEngine:
    """One of a single worker, whose launcher does what is given."""
    host = "127.0.0.1"
    common = {"workers": 1, "slots": 1, "facts": {}, "consume": True, "clean_up": lambda: None}
    hosts = {"bind_host": host, "advertised_host": host, "worker_host": host}
    launcher: Any = SimpleNamespace(**common, **hosts, **of_launcher)
    start: Any = SimpleNamespace(
        iterations=0, vector=lambda *, updater: np.zeros(1), extras=lambda: []
    )
    return PeerEngine(
        run="run-1",
        launcher=launcher,
        master=ParameterAveragingTrainingMaster(seed=1),
        definition=SimpleNamespace(),  # pyright: ignore[reportArgumentType]
        start=start,
        epochs=1,
    )


def phases_of(record: RunRecord) -> list[str]:
    return record.times.timeline(hosts=[], name="").to_dataframe().phase.tolist()


def test_what_went_before_a_failure_of_preparing_is_in_the_timeline() -> None:
    def fail(enter: Any) -> Any:
        enter(PhaseCode.COUNT)
        raise DataError("there are no examples")

    record = RunRecord(workers=1, epochs=1, name="test")
    with pytest.raises(DataError):
        engine_with(prepare=fail).run(record)
    assert phases_of(record) == ["count", "finish"]


def test_workers_are_waited_for_before_the_first_can_come(monkeypatch: Any) -> None:
    threads = SimpleNamespace(Thread=AtOnce, Event=threading.Event)
    monkeypatch.setattr("sparkwright.runs._peer_engine.threading", threads)
    record = RunRecord(workers=1, epochs=1, name="test")

    def come(_template: Any) -> None:
        record.times.enter(PhaseCode.TRAIN)
        raise WorkerError(worker=0, host="", reason="no memory")

    outcome = engine_with(prepare=lambda enter: None, run=come).run(record)
    assert isinstance(outcome.error, WorkerError)
    assert phases_of(record) == ["submit", "gather", "train", "finish"]
