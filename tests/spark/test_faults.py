"""Workers, executors and the driver killed in the middle of a run, with real processes.

make faults          20 killed runs of each master, which takes a quarter of an hour
make faults RUNS=4   four of each
"""

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.spark.helpers import Paced
from tests.waiting import wait_until

import sparkwright as sw

pytestmark = [pytest.mark.spark, pytest.mark.faults]

RUNS = int(os.environ.get("SPARKWRIGHT_FAULT_RUNS", "4"))
EPOCHS = 16
WORKERS = 3

MASTERS: dict[str, Callable[[], Any]] = {
    "averaging": lambda: sw.ParameterAveragingTrainingMaster(
        workers=WORKERS, batch_size_per_worker=32, averaging_frequency=5, seed=1
    ),
    "sharing": lambda: sw.SharedTrainingMaster(
        workers=WORKERS,
        batch_size_per_worker=32,
        threshold=sw.AdaptiveThreshold(initial=1e-3),
        seed=1,
    ),
}


@pytest.fixture(scope="module")
def digits(spark: Any) -> Any:
    """(training data on Spark, test images, test labels)."""
    train, test = sw.data.digits(spark).random_split([0.8, 0.2], seed=7)
    held_back = test.collect()
    return train, held_back.features["features"], held_back.labels["labels"]


def network(spark: Any, master: Any, pace_s: float = 0.02) -> Any:
    import keras

    keras.utils.set_random_seed(3)
    return sw.SparkNetwork(spark, sw.networks.lenet(), master.with_hooks(Paced(pace_s)))


def accuracy(model: Any, digits: Any) -> float:
    _, images, labels = digits
    return float((model.predict(images, verbose=0).argmax(-1) == labels).mean())


@pytest.fixture(scope="module")
def undisturbed(spark: Any, digits: Any) -> dict[str, float]:
    """Accuracy of each master without any fault."""
    found = {}
    for name, master in MASTERS.items():
        found[name] = accuracy(network(spark, master(), 0.0).fit(digits[0], epochs=EPOCHS), digits)
    return found


def processes(*words: str) -> list[Any]:
    """Processes of this user whose command line contains all of `words`."""
    import psutil

    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if all(word in line for word in words):
            found.append(process)
    return found


def trainers_at_work() -> list[Any]:
    """Trainer processes that talk to a run's driver; idle ones have no connection."""
    import psutil

    busy = []
    for process in processes("sparkwright.workers._trainer"):
        try:
            connected = [c for c in process.net_connections("tcp") if c.status == "ESTABLISHED"]
        except psutil.Error:
            continue
        if connected:
            busy.append(process)
    assert len(busy) >= WORKERS
    return busy


def victims(kind: str) -> list[Any]:
    if kind == "executor":
        # One that has a trainer at work, whose grandparent it is.
        return [
            parent
            for trainer in trainers_at_work()
            for parent in trainer.parents()
            if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline())
        ]
    return trainers_at_work()


@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("name", MASTERS)
def test_a_run_survives_the_loss_of_a_worker(
    spark: Any, digits: Any, undisturbed: dict[str, float], name: str, number: int
) -> None:
    chance = random.Random(number)
    kind = ("trainer", "trainer", "trainer", "executor")[number % 4]
    run = network(spark, MASTERS[name]()).start(digits[0], epochs=EPOCHS)
    steps = chance.randint(5, 100)
    wait_until(lambda: sum(w.steps for w in run.status.workers) >= 3 * steps, 60)
    victim = chance.choice(victims(kind))
    killed_s = run.seconds
    victim.kill()
    model = run.wait(120)
    history, status = run.history, run.status
    assert sum(worker.restarts for worker in status.workers) >= 1, "nobody was lost"
    # Every example of every partition, the lost one's too.
    total = digits[0].count() * EPOCHS
    assert history["examples"].sum() >= total
    if name == "averaging":
        assert history["examples"].sum() == total
    assert accuracy(model, digits) >= undisturbed[name] - 0.015
    lost = {worker.worker for worker in status.workers if worker.restarts}
    for worker in set(range(WORKERS)) - lost:
        assert idle_s(history, worker, killed_s) < 5.0


def idle_s(history: Any, worker: int, since_s: float) -> float:
    """The longest pause of a survivor until its last minibatch."""
    times = np.sort(history[history["worker"] == worker]["time_s"].to_numpy())
    times = times[times >= since_s - 1]
    return float(np.diff(times).max()) if len(times) > 1 else 0.0


@pytest.mark.parametrize("name", MASTERS)
def test_a_stalled_worker_is_dropped_and_the_others_go_on(
    spark: Any, digits: Any, name: str
) -> None:
    """It is stopped, not killed: its connections stay open, it only says nothing any more."""
    import signal
    from dataclasses import replace

    master = replace(MASTERS[name](), mesh=sw.MeshConfig(peer_timeout_s=3))
    run = network(spark, master).start(digits[0], epochs=EPOCHS)
    wait_until(lambda: sum(w.steps for w in run.status.workers) >= 60, 60)
    victim = trainers_at_work()[0]
    victim.send_signal(signal.SIGSTOP)
    try:
        wait_until(lambda: any(w.state == "lost" for w in run.status.workers), 15)
        steps = sum(w.steps for w in run.status.workers)
        wait_until(lambda: sum(w.steps for w in run.status.workers) >= steps + 20, 15)
    finally:
        victim.kill()  # as an executor's own supervision would, in the end
    run.wait(120)
    assert run.history["examples"].sum() >= digits[0].count() * EPOCHS
