import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from tests.runs.recorded import MINIBATCHES, WORKERS, ScriptedEngine, run_of
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.runs._tracking import RunTracking
from sparkwright.runs.fit_options import checked_options
from sparkwright.runs.record import RunRecord
from sparkwright.trackers import Module, Tracker
from sparkwright.workers.histograms import Histogram, HistogramsTaken


class Seen(Tracker):
    every_s = 0.01

    def __init__(self):
        self.calls = []

    def begin(self, run, parameters):
        self.calls.append(("begin", run.name, dict(parameters)))
        return "id-7"

    def step(self, step, values, workers):
        self.calls.append(("step", step, values, workers))

    def epoch(self, epoch, values):
        self.calls.append(("epoch", epoch, dict(values)))

    def histograms(self, step, found):
        self.calls.append(("histograms", step, list(found)))

    def end(self, state):
        self.calls.append(("end", state))

    def of(self, kind):
        return [call for call in self.calls if call[0] == kind]


def tracked(*trackers, error=None):
    """A run of two epochs that has ended."""
    engine, record = ScriptedEngine(2, error), RunRecord(workers=WORKERS, epochs=2, name="test")
    found = {("weights", "dense/kernel"): Histogram.of(np.arange(4.0), 4)}
    record.histograms.add(HistogramsTaken(step=3, epoch=1, minibatches=1, seconds=0.0, found=found))
    engine.may_train.set()
    engine.may_end.set()
    trackings = [RunTracking(each, record, {"epochs": 2}, validates=True) for each in trackers]
    run = run_of(engine, record, trackings=trackings)
    wait_until(lambda: run.finished)
    return run


@pytest.mark.parametrize(("error", "state"), [(None, "done"), (OSError("no"), "failed")])
def test_a_tracker_gets_the_run_in_order(error, state):
    seen = Seen()
    run = tracked(seen, error=error)
    assert seen.calls[0] == ("begin", run.name, {"epochs": 2})
    assert seen.calls[-1] == ("end", state)
    assert run.status.tracked == {"Seen": "id-7"}
    assert seen.of("histograms") == [("histograms", 3, ["weights/dense/kernel"])]
    steps = seen.of("step")
    assert [step for _, step, *_ in steps] == sorted({step for _, step, *_ in steps})
    _, step, values, workers = steps[-1]
    assert step == 2 * MINIBATCHES
    assert values["loss"] == pytest.approx((workers[0]["loss"] + workers[1]["loss"]) / 2)
    assert workers[0]["learning_rate"] == pytest.approx(0.001)  # NaN in most rows
    assert values["examples_per_s"] == run.status.examples_per_s
    epochs = seen.of("epoch")
    assert [number for _, number, _ in epochs] == [1, 2]
    assert epochs[0][2] == pytest.approx(
        {"loss": 2.05, "accuracy": 0.5, "val_loss": 1.5, "val_accuracy": 0.25}
    )


@pytest.mark.parametrize("method", ["begin", "step", "epoch", "histograms", "end"])
def test_a_failing_tracker_is_one_warning_and_harms_nothing(method, monkeypatch):
    class Failing(Seen):
        pass

    def fail(*_):
        raise OSError("the server is gone")

    monkeypatch.setattr(Failing, method, fail)
    failing, other = Failing(), Seen()
    run = tracked(failing, other)
    assert run.status.state == "done"
    (warning,) = run.warnings
    assert "by Failing; training continues: OSError: the server is gone" in warning
    assert failing.of("end") == ([] if method in ("begin", "end") else [("end", "done")])
    assert len(other.of("epoch")) == 2


@pytest.mark.parametrize("method", ["begin", "step", "end"])
def test_the_run_waits_for_a_hanging_tracker_no_longer_than_wait_s(method, monkeypatch):
    class Hanging(Seen):
        wait_s = 0.2

    may_go_on = threading.Event()
    monkeypatch.setattr(Hanging, method, lambda *_: may_go_on.wait(60))
    run = tracked(Hanging())
    may_go_on.set()
    assert run.status.state == "done"
    (warning,) = run.warnings
    assert "it was still busy 0.2 s (`wait_s`) after the end" in warning


def test_training_that_restarts_is_tracked_once():
    """Its rows are dropped, and trained again."""
    seen, record = Seen(), RunRecord(workers=WORKERS, epochs=1, name="test")
    tracking = RunTracking(seen, record, {}, validates=False)
    engine = ScriptedEngine(1)
    engine.may_train.set()
    engine.may_end.set()
    run = tracking._run = SimpleNamespace(log=record.log, histograms=record.histograms)
    for over in (False, True):
        run.result, run.status = engine.run(record), record.status()
        tracking._send_new(over)
        record.history_forgotten()
        tracking._send_new(False)
    assert [call[:2] for call in seen.calls] == [("step", 10), ("epoch", 1), ("step", 10)]
    record.close()


class FakeModule:
    """As `wandb`."""

    def __init__(self):
        self.calls = []

    def init(self, **given):
        self.calls.append(given)
        return SimpleNamespace(log=self.log, finish=lambda: self.calls.append("end"), id="fake-1")

    def log(self, values, *, step):
        self.calls.append((step, values))


def test_modules_and_objects_with_log_are_logged_to():
    module, only_log = FakeModule(), []
    own = SimpleNamespace(log=lambda values, step: only_log.append(step))
    run = tracked(Module(module, project="digits"), Module(own))
    begun, *logged, last = module.calls
    assert begun == {"project": "digits", "name": run.name, "config": {"epochs": 2}}
    assert last == "end"
    assert run.status.tracked == {"FakeModule": "fake-1"}
    assert {"batch_loss", "batch_examples_per_s"} <= logged[0][1].keys()
    assert [values["epoch"] for _, values in logged if "epoch" in values] == [1, 2]
    steps = [step for step, _ in logged]
    assert steps == sorted(set(steps))
    assert max(only_log) >= 2 * MINIBATCHES


def test_options_hold_checked_copies_of_trackers(monkeypatch):
    seen = Seen()
    copied, module = checked_options({"log_to": [seen, FakeModule()]})["log_to"]
    assert copied is not seen
    assert isinstance(module, Module)
    assert checked_options({})["log_to"] == ()
    for given in ("mlflow", [3], Seen, [time]):
        with pytest.raises(sw.ConfigurationError, match="must be a tracker, or a module"):
            checked_options({"log_to": given})
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(sw.ConfigurationError, match=r'Install it: `pip install "sparkwright\[ml'):
        checked_options({"log_to": sw.trackers.MLflow()})


@pytest.mark.parametrize("given", [3, {1: 2}, {"rate": object()}])
def test_hyperparameters_are_json_by_name(given):
    with pytest.raises(sw.ConfigurationError, match="`hyperparameters` must map names to values"):
        checked_options({"hyperparameters": given})
    assert checked_options({"hyperparameters": {"rate": 0.1}})["hyperparameters"] == {"rate": 0.1}
