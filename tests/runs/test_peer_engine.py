import threading
from types import SimpleNamespace

import numpy as np
from tests.cases import cases

from sparkwright.errors import DataError, NonFiniteLossError, WorkerError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.mesh.framing import Message
from sparkwright.runs._decisions import EndRun
from sparkwright.runs.callbacks import DriverCallbacks
from sparkwright.runs.outcome import held, told
from sparkwright.runs.peer_engine import PeerEngine
from sparkwright.runs.record import RunRecord
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Failure, Progress


def engine_with(resume=None, **of_launcher):
    """One of a single worker, whose launcher does what is given."""
    host = "127.0.0.1"
    common = {
        "workers": 1,
        "required": 1,
        "slots": 1,
        "claim": None,
        "facts": {},
        "stream": None,
        "consume": True,
        "max_failures": 3,
        "replacement_timeout_s": 60.0,
        "clean_up": lambda: None,
        "finish": lambda timeout_s: True,
    }
    hosts = {"bind_host": host, "advertised_host": host, "worker_host": host}
    launcher = SimpleNamespace(**{**common, **hosts, **of_launcher})
    start = SimpleNamespace(
        thresholds=(), iterations=0, counter_bytes=8, vector=lambda: np.zeros(1), extras=lambda: []
    )
    beginning = SimpleNamespace(
        id="run-1",
        master=ParameterAveragingTrainingMaster(seed=1),
        definition=SimpleNamespace(architecture=""),
        start=start,
        epochs=1,
        initial_epoch=0,
        resume=resume,
        callbacks=DriverCallbacks([], None, start, epochs=1),
        histograms=None,
    )
    return PeerEngine(beginning, launcher)


def ended(resume=None, **of_launcher):
    """The error and the phases on the driver of a run that such a launcher ends."""
    record = RunRecord(workers=1, epochs=1, name="test")
    outcome = engine_with(resume, **{"prepare": lambda enter: None} | of_launcher).run(record)
    assert outcome.error is not None
    phases = record.times.timeline(hosts=[], name="").to_dataframe().phase.tolist()
    return outcome.error, phases


def test_phases_before_a_failure_of_preparing_are_in_the_timeline():
    def fail(enter):
        enter(PhaseCode.COUNT)
        raise DataError("there are no examples")

    error, phases = ended(prepare=fail)
    assert isinstance(error, DataError)
    assert phases == ["count", "finish"]


def test_gathering_begins_before_the_first_worker_can_register():
    def launch(worker, template, ended, *, replaces):
        ended(Failure(worker=worker, kind="data", reason="no such column"))

    error, phases = ended(launch=launch)
    assert isinstance(error, DataError)
    assert "unchanged" in str(error)
    assert phases == ["submit", "gather", "finish"]


@cases("error", RuntimeError("no Spark"), SystemExit(1))
@cases("action", "clean_up", "finish", "cancel")
def test_clean_up_that_raises_does_not_replace_the_outcome(action, error):
    def launch(worker, template, ended, *, replaces):
        ended(Failure(worker=worker, kind="data", reason="no such column"))

    def fail(*_):
        raise error

    actions = {"finish": lambda timeout_s: False, "cancel": lambda: None}
    found, _ = ended(launch=launch, **{**actions, action: fail})
    assert isinstance(found, DataError)
    assert "no such column" in str(found)


def test_the_model_of_a_resumed_run_that_fails_at_once_holds_the_checkpoint():
    def fail(enter):
        raise DataError("there are no examples")

    progress = Progress(steps=(5,), opened=2, epoch=1, averagings=3)
    resume = SimpleNamespace(vector=np.ones(1), extras=(bytes(8),), progress=progress, earlier=None)
    outcome = told(engine_with(resume, prepare=fail).run(RunRecord(workers=1, epochs=3, name="a")))
    assert outcome.vector is resume.vector
    (note,) = outcome.error.__notes__
    assert note == "The model holds the average after averaging 3, in epoch 2."


@cases(
    "progress, words",
    (None, "is unchanged: no averaging was completed."),
    (Progress.first(workers=2), "is unchanged: no averaging was completed."),
    (Progress(steps=(3, 4), opened=1), "holds the state after 7 minibatches, in epoch 1."),
    (
        Progress(steps=(5, 5), opened=2, epoch=1, averagings=2),
        "holds the average after averaging 2, in epoch 2.",
    ),
)
def test_error_names_the_state_of_the_model(progress, words):
    assert held(progress) == f"The model {words}"


def fails_later(worker, template, ended, *, replaces):
    failure = Failure(worker=worker, host="a", reason="the trainer process ended")
    threading.Thread(target=ended, args=(failure,)).start()


def fails_at_once(worker, template, ended, *, replaces):
    raise RuntimeError("the Spark session has been stopped")


@cases(
    "launch, reason",
    (fails_later, "the trainer process ended (3 attempts failed)"),
    (fails_at_once, "the Spark session has been stopped (3 attempts failed)"),
)
def test_a_worker_is_launched_until_its_attempts_are_exhausted(launch, reason):
    error, _ = ended(launch=launch)
    assert isinstance(error, WorkerError)
    assert reason in str(error)


def state(values, *, averagings):
    """A delivered state, followed by one counter of 8 bytes and one of another worker."""
    vector = np.array(values, np.float32)
    progress = Progress(averagings=averagings, opened=1, steps=(5 * averagings,), examples=(9,))
    fields = {"dtype": "<f4", "size": vector.size, "progress": progress.to_dict(), "write": False}
    return Message(kind="checkpoint", fields=fields, payload=vector.tobytes() + bytes(range(16)))


def ended_with(*, copy, result, end, rejected=False):
    """What a run comes to after these messages."""
    one = engine_with()
    one._record = RunRecord(workers=1, epochs=1, name="test")
    one._service = SimpleNamespace(
        server=SimpleNamespace(result=result, rejected=rejected), end=end
    )
    progress = Progress.from_dict(copy.fields["progress"])
    one._checkpoints.keep(one._record, copy, progress, write=False)
    return one._outcome(Progress())


def test_a_run_that_lost_all_workers_ends_with_the_copy_on_the_driver():
    end = EndRun(timed_out="all workers were lost before one delivered the result.")
    outcome = ended_with(copy=state([1.0, 2.0], averagings=7), result=None, end=end)
    assert outcome.vector.tolist() == [1.0, 2.0]
    assert outcome.counters == bytes(range(8))
    assert outcome.progress.averagings == 7
    assert "the average after averaging 7, in epoch 1" in str(outcome.error)


def test_a_rejected_result_is_an_error_that_names_the_copy():
    outcome = ended_with(copy=state([1.0], averagings=7), result=None, end=EndRun(), rejected=True)
    assert isinstance(outcome.error, NonFiniteLossError)
    assert "after averaging 7" in str(outcome.error)


@cases("delivered, expected", (9, [3.0]), (6, [1.0]))
def test_the_later_of_result_and_copy_counts(delivered, expected):
    outcome = ended_with(
        copy=state([1.0], averagings=7), result=state([3.0], averagings=delivered), end=EndRun()
    )
    assert outcome.vector.tolist() == expected
    assert outcome.error is None
