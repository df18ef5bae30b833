import os
import signal
from collections import Counter

import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import (
    KillOnce,
    Paced,
    RecordingHook,
    busy,
    dense,
    partitioned,
    seen,
    weights,
)
from tests.waiting import wait_until

import sparkwright as sw

AVERAGING, SHARING = sw.ParameterAveragingTrainingMaster, sw.SharedTrainingMaster
EMPTY = {"workers": 4, "repartition": "never", "batch_size_per_worker": 4}
SMALL = {"averaging_frequency": 1, "prefetch_batches": 0, "batch_size_per_worker": 64}
APPROXIMATE = {
    "repartition": "num_partitions_workers_differs",
    "repartition_strategy": "approximate_balanced",
}
EXPORT = {"training_approach": "export", "batch_size_per_worker": 4}


@pytest.mark.thorough(but=["primes", "shared primes", "empty partitions", "shared export"])
@cases(
    "kind, sizes, options",
    pytest.param(AVERAGING, [97], {"workers": 3, "batch_size_per_worker": 7}, id="primes"),
    pytest.param(AVERAGING, [2], {"workers": 4}, id="fewer examples than workers"),
    pytest.param(AVERAGING, [0, 31, 0, 2], EMPTY, id="empty partitions"),
    pytest.param(AVERAGING, [50, 1, 1], {**EMPTY, **SMALL, "workers": 3}, id="small partitions"),
    pytest.param(AVERAGING, [40, 3, 8], APPROXIMATE, id="approximate"),
    pytest.param(AVERAGING, [40, 3], {"repartition_strategy": "spark_default"}, id="shuffled"),
    pytest.param(SHARING, [97], {"workers": 3, "batch_size_per_worker": 7}, id="shared primes"),
    pytest.param(SHARING, [0, 31, 0, 2], EMPTY, id="shared empty partitions"),
    pytest.param(SHARING, [23, 8], {**EXPORT, "workers": 1}, id="shared export"),
)
def test_every_example_is_trained_once_per_epoch(
    spark, tmp_path, leaves_nothing, kind, sizes, options
):
    hook = RecordingHook(str(tmp_path))
    master = kind(**{"workers": 2, "seed": 1, **options}).with_hooks(hook)
    network = sw.SparkNetwork(spark, dense(), master)
    run = network.start(partitioned(spark, sizes), epochs=2)
    run.wait(120)
    assert seen(tmp_path) == Counter(dict.fromkeys(range(sum(sizes)), 2))
    assert run.history["examples"].sum() == 2 * sum(sizes)
    if kind is SHARING:
        assert run.status.averagings == 2  # the workers met after each epoch
    assert network.delete_temp_files()


@pytest.mark.versions
@cases(
    "options, tolerance",
    ({"outer_optimizer": sw.OuterOptimizer()}, 0.0),
    # Workers with moments of their own end near it: the replacement begins with its neighbor's.
    ({"updater": "local", "exchange_precision": "int8", "averaging_delay": 1}, 0.02),
    ids=["averaged", "own moments"],
)
@pytest.mark.thorough(but=["averaged"])
def test_undisturbed_run_and_killed_run_end_with_identical_bits(
    spark, blobs, tmp_path, options, tolerance
):
    """What is lost with a worker is trained again from the same average, in the same order."""
    # Who goes on without the lost worker takes another way.
    mesh = sw.MeshConfig(replacement_grace_s=60)
    options = {"batch_size_per_worker": 5, "averaging_frequency": 2, "seed": 1, **options}
    master = AVERAGING(workers=2, mesh=mesh, **options)
    killed = tmp_path / "killed"
    found = []
    for hooks in ([], [KillOnce(str(killed), at=5)]):
        model = dense("adam")
        run = sw.SparkNetwork(spark, model, master.with_hooks(*hooks)).start(blobs)
        run.wait(120)
        assert run.history["examples"].sum() == 120
        found.append(weights(model))
    assert killed.exists()
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=tolerance)


@pytest.mark.thorough
def test_workers_join_free_slots_and_continue_after_a_worker_is_killed(spark, tmp_path):
    """Another job holds two of the four slots at first."""
    examples = 203
    hooks = RecordingHook(str(tmp_path)), Paced(0.02)
    master = AVERAGING(
        workers=2, max_workers=4, batch_size_per_worker=5, seed=1, averaging_frequency=2
    )
    with busy(spark, 2):
        data = partitioned(spark, [examples])
        run = sw.SparkNetwork(spark, dense(), master.with_hooks(*hooks)).start(data, epochs=1000)
        wait_until(lambda: run.status.epoch >= 2, 60)
        assert set(run.history["worker"]) == {0, 1}
    wait_until_each_trains_an_epoch(run, workers=4)
    os.kill(run.status.workers[3].pid, signal.SIGKILL)
    wait_until_each_trains_an_epoch(run, workers=3)
    run.stop()
    run.wait(60)
    counted = run.history.groupby("epoch")["examples"].sum()
    complete, last = counted[:-1], counted.iloc[-1]
    assert (complete >= examples).all()
    assert last + (complete - examples).sum() <= examples
    trained = seen(tmp_path)
    assert min(trained[number] for number in range(examples)) >= len(complete)
    # What the kill ended: a round of four workers.
    assert trained.total() - counted.sum() <= 4 * 2 * 5


def wait_until_each_trains_an_epoch(run, *, workers):
    """Wait until each of these has trained its part of more than an epoch."""
    before = [worker.steps for worker in run.status.workers[:workers]]

    def trained():
        now = zip(run.status.workers, before, strict=False)
        return all(worker.steps >= steps + 20 for worker, steps in now)

    wait_until(trained, 60)
