import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.spark.helpers import Paced, dense, numbered, weights
from tests.support.in_process import fit
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright._local_launcher import LocalLauncher
from sparkwright.data import TfData


@dataclass
class Gate:
    """Holds back the workers without data, as Spark's queue does, until it is opened."""

    opened: threading.Event = field(default_factory=threading.Event)
    passed: int = 0


@pytest.fixture
def gate(monkeypatch, in_process):
    found, work = Gate(), LocalLauncher._work

    def gated(self, template, worker, attempt):
        while worker >= self.required and not found.opened.wait(0.01):
            if attempt in self._given_up:
                return None
        found.passed += worker >= self.required
        return work(self, template, worker, attempt)

    monkeypatch.setattr(LocalLauncher, "_work", gated)
    return found


RANGE = {"workers": 2, "max_workers": 4, "batch_size_per_worker": 5, "seed": 1}


def averaging(**options):
    return sw.ParameterAveragingTrainingMaster(**{**RANGE, "averaging_frequency": 2, **options})


def sharing(**options):
    return sw.SharedTrainingMaster(**{**RANGE, "threshold": THRESHOLD, **options})


THRESHOLD = sw.AdaptiveThreshold(initial=1e-3)


def test_maximum_below_the_workers_or_without_a_ring_raises():
    with pytest.raises(sw.ConfigurationError, match=r"Received: workers=4, max_workers=2\."):
        sw.ParameterAveragingTrainingMaster(workers=4, max_workers=2)
    with pytest.raises(sw.ConfigurationError, match=r'needs `communication="ring"`'):
        averaging(communication="spark")


def test_run_on_a_stream_cannot_be_joined(gate):
    def make(worker, workers):
        raise AssertionError("nothing is drawn")

    with (
        sw.ParallelWrapper(dense(), averaging()) as wrapper,
        pytest.raises(sw.ConfigurationError, match=r"none can join. Received: max_workers=4"),
    ):
        wrapper.start(TfData(make, examples=10))


@pytest.mark.thorough
def test_result_without_a_join_equals_that_of_the_initial_workers(gate):
    model, alone = dense(), dense()
    for each, most in ((model, 4), (alone, None)):
        fit(each, averaging(max_workers=most), numbered(61), epochs=2)
    assert not gate.passed
    np.testing.assert_array_equal(weights(model), weights(alone))


DELAYED = {"updater": "local", "averaging_frequency": 3, "averaging_delay": 2}
SLOWED = Paced(0.01)  # so that there is time to join


@pytest.mark.thorough
@pytest.mark.parametrize(
    "master",
    [sharing(hooks=(SLOWED,)), averaging(hooks=(SLOWED,), **DELAYED)],
    ids=["shared", "delayed"],
)
def test_every_example_counts_once_per_epoch_while_workers_join(gate, master):
    with sw.ParallelWrapper(dense(), master, cores_per_worker=1) as wrapper:
        run = wrapper.start(numbered(403), epochs=4, display=False)
        wait_until(lambda: run.status.epoch, 60)
        gate.opened.set()
        run.wait(180)  # each of four workers traces three sizes of minibatches
    history = run.history
    assert history.groupby("epoch")["examples"].sum().tolist() == [403] * 4
    assert set(history["worker"]) == {0, 1, 2, 3}
    joined = history[history["worker"] >= 2]
    assert joined["epoch"].max() == 4
    assert [worker.rows for worker in run.status.workers] == [202, 201, 0, 0]


@pytest.mark.thorough
def test_run_of_two_workers_is_resumed_with_joining_workers(gate, tmp_path):
    options = {"updater": "local", "exchange_precision": "int8"}
    checkpoint = sw.Checkpointing(str(tmp_path), every_rounds=1)
    fit(dense("adam"), averaging(max_workers=None, checkpoint=checkpoint, **options), numbered(103))
    gate.opened.set()
    master = averaging(hooks=(SLOWED,), **options)
    run = fit(dense("adam"), master, numbered(103), epochs=4, resume=str(tmp_path))
    assert run.history.groupby("epoch")["examples"].sum().tolist() == [103] * 4
    assert set(run.history["worker"]) == {0, 1, 2, 3}
