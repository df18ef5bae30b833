"""Runs whose training is scripted and whose recording is real, here and in other processes."""

import contextlib
import sys
import threading

import numpy as np

import sparkwright as sw
from sparkwright.masters import TrainingPlan
from sparkwright.runs._recorder import RunRecorder
from sparkwright.runs.outcome import Outcome
from sparkwright.runs.record import RunRecord
from sparkwright.workers.protocol import Progress

WORKERS, MINIBATCHES = 2, 10


class ScriptedEngine:
    """Reports `epochs` epochs; the last one ends when `may_end` is set."""

    def __init__(self, epochs, error=None):
        self._epochs, self._error = epochs, error
        self.may_train, self.may_end = threading.Event(), threading.Event()
        self.trained = threading.Event()

    def run(self, record):
        self.may_train.wait(60)
        rows = (10 * MINIBATCHES,) * WORKERS
        plan = TrainingPlan(rows=rows, batch_size=10, averaging_frequency=5, epochs=self._epochs)
        record.set_plan(plan)
        for epoch in range(1, self._epochs + 1):
            for round in (1, 2):
                for worker in range(WORKERS):
                    report(record, worker, epoch, round)
            loss = 1.0 / epoch + 0.5
            record.validated(epoch=epoch, loss=loss, metrics={"accuracy": 1 - loss / 2})
        self.trained.set()
        self.may_end.wait(60)
        progress = Progress(
            epoch=self._epochs, opened=self._epochs, steps=(MINIBATCHES * self._epochs,) * WORKERS
        )
        return Outcome(vector=None, counters=None, progress=progress, error=self._error)

    def stop(self):
        self.may_end.set()

    cancel = stop


def run_of(engine, record, **more):
    """A run without a model, which `engine` trains."""
    fields = {"id": "run-1", "title": "dense on 2 workers", "configuration": {}}
    fields |= {"model": None, "take_result": lambda outcome: outcome}
    return sw.TrainingRun(engine=engine, record=record, **(fields | more))


def report(record, worker, epoch, round, more=0.0):
    """Half an epoch of minibatches of one worker."""
    count = MINIBATCHES // 2
    block = {
        **{"epoch": epoch, "round": round, "count": count, "age_s": 0.0, "seconds": 0.5},
        "metrics": {"accuracy": 1 - 1 / (1 + epoch)},
        "readings": {"learning_rate": 0.001},
    }
    losses = np.full(count, 2.0 / epoch + worker / 10, np.float32) + np.float32(more)
    record.rows_trained(worker, [block], losses, np.full(count, 10, np.int32))


def begin(store, *, epochs=3, error=None, trains=True, **more):
    """A run that has trained all but its end, or waits for its workers, and what records it."""
    engine = ScriptedEngine(epochs, error)
    record = RunRecord(workers=WORKERS, epochs=epochs, name="sparkwright-run-1")
    name = more.pop("name", None)
    configuration = {"epochs": epochs, "master": {"batch_size_per_worker": 10}, **more}
    run = run_of(engine, record, configuration=configuration)
    run.name = name or run.name  # also one that another test has used
    recorder = RunRecorder(store, run, record)
    if trains:
        engine.may_train.set()
        engine.trained.wait(10)
    return run, engine, recorder


def train(store, **more):
    """A run that has ended and is stored."""
    run, engine, recorder = begin(store, **more)
    engine.may_end.set()
    with contextlib.suppress(Exception):  # of a run that fails
        run.wait(10)
    assert recorder.wait(30)
    return run


if __name__ == "__main__":
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for _ in range(count):
        train(sw.RunStore(path), name=name)
    print("begins", flush=True)
    run, engine, _ = begin(sw.RunStore(path), name=f"{name}-open")
    if sys.stdin.readline():
        engine.may_end.set()
        run.wait()
