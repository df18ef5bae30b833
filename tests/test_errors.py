import inspect
import pickle

from tests.cases import cases

from sparkwright import errors

CLASSES = [
    found
    for name, found in vars(errors).items()
    if inspect.isclass(found) and issubclass(found, BaseException)
]
TRACEBACK = """Traceback (most recent call last):
  File "/site-packages/sparkwright/workers/_averaging_worker.py", line 10, in run
    self._serve(group)
  File "/site-packages/keras/layer.py", line 20, in __call__
    return self.call(x)
  File "/home/me/layers.py", line 30, in call
    raise ValueError("no")
ValueError: no
"""


def made(cls):
    if issubclass(cls, errors.WorkerError):
        return cls(worker=3, host="node-7", reason="ValueError: no", worker_traceback=TRACEBACK)
    return cls("rule. Received: name=value. Remedy.")


def test_exception_hierarchy_matches_the_documentation():
    assert {cls.__name__: [base.__name__ for base in cls.__bases__] for cls in CLASSES} == {
        "SparkwrightError": ["Exception"],
        "ConfigurationError": ["SparkwrightError", "ValueError"],
        "DataError": ["SparkwrightError", "ValueError"],
        "SlotsError": ["SparkwrightError", "RuntimeError"],
        "SparkSessionError": ["SparkwrightError", "RuntimeError"],
        "NetworkError": ["SparkwrightError", "ConnectionError"],
        "RunTimeoutError": ["SparkwrightError", "TimeoutError"],
        "WorkerError": ["SparkwrightError", "RuntimeError"],
        "NonFiniteLossError": ["WorkerError", "ArithmeticError"],
        "RunInterrupted": ["KeyboardInterrupt"],
    }
    assert all(f"{cls.__name__} (" in str(errors.__doc__) for cls in CLASSES[1:])


@cases("protocol", *range(pickle.HIGHEST_PROTOCOL + 1))
@cases("cls", *CLASSES)
def test_every_error_survives_pickling_with_its_fields_and_notes(cls, protocol):
    error = made(cls)
    assert not hasattr(pickle.loads(pickle.dumps(error, protocol)), "__notes__")
    error.add_note("seen on executor 2")
    error.add_note("and on 3")
    copy = pickle.loads(pickle.dumps(error, protocol))
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert copy.args == error.args
    assert copy.__notes__ == ["seen on executor 2", "and on 3"]
    fields = ("worker", "host", "reason", "worker_traceback")
    if cls in (errors.WorkerError, errors.NonFiniteLossError):
        assert [getattr(copy, f) for f in fields] == [getattr(error, f) for f in fields]


def test_worker_failure_shows_the_last_frames_of_its_traceback():
    assert str(made(errors.WorkerError)) == (
        "worker 3 on node-7 failed: ValueError: no\n"
        "Last frames of the worker's traceback:\n"
        '  File "/site-packages/keras/layer.py", line 20, in __call__\n'
        "    return self.call(x)\n"
        '  File "/home/me/layers.py", line 30, in call\n'
        '    raise ValueError("no")\n'
        "ValueError: no"
    )


def test_worker_failure_without_a_traceback_is_one_line():
    error = errors.WorkerError(worker=0, host="a", reason="killed")
    assert str(error) == "worker 0 on a failed: killed"


@cases("text", "", "ValueError: no frames at all")
def test_text_without_frames_has_no_last_frames(text):
    assert errors.last_frames(text, frames=2) == ""


@cases("frames, line", (1, 30), (9, 10))
def test_last_frames_begin_at_the_expected_frame(frames, line):
    found = errors.last_frames(TRACEBACK, frames=frames)
    assert f"line {line}," in found.splitlines()[2]


def test_long_message_in_a_traceback_is_truncated():
    found = errors.last_frames(TRACEBACK + "\n".join(f"line {n}" for n in range(1000)))
    assert len(found.splitlines()) < 20
