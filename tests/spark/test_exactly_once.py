"""Every example is trained exactly once an epoch, and every minibatch counts exactly once."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.helpers import (
    KillOnce,
    RecordingHook,
    Slow,
    dense,
    partitioned,
    seen,
)
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.data import DataSet

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([97], {"workers": 3, "batch_size_per_worker": 7}),  # primes
        ([2], {"workers": 4}),  # fewer examples than workers
        ([0, 31, 0, 2], {"workers": 4, "repartition": "never", "batch_size_per_worker": 4}),
        ([50, 1, 1], {"workers": 3, "repartition": "never", "batch_size_per_worker": 64}),
        ([13, 5, 9, 1, 40], {"workers": 2, "repartition": "never", "batch_size_per_worker": 5}),
        ([40, 3], {"workers": 2, "repartition": "num_partitions_workers_differs"}),
        ([40, 3, 8], {"workers": 2, "repartition_strategy": "approximate_balanced"}),
        ([40, 3, 8], {"workers": 2, "repartition_strategy": "spark_default"}),
        ([23], {"workers": 2, "averaging_frequency": 1, "prefetch_batches": 0}),
        ([23, 8], {"workers": 2, "training_approach": "export", "batch_size_per_worker": 4}),
    ],
    ids=str,
)
def test_every_example_is_trained_once_an_epoch(
    spark: Any, tmp_path: Path, leaves_nothing: None, sizes: list[int], options: dict[str, Any]
) -> None:
    hook = RecordingHook(str(tmp_path))
    master = sw.ParameterAveragingTrainingMaster(**options).with_hooks(hook)
    network = sw.SparkNetwork(spark, dense(), master)
    run = network.start(partitioned(spark, sizes), epochs=2)
    run.wait(120)
    assert seen(tmp_path) == Counter(dict.fromkeys(range(sum(sizes)), 2))
    assert run.history["examples"].sum() == 2 * sum(sizes)
    assert network.delete_temp_files()


@pytest.mark.parametrize("frequency", [1, 5, 10])
def test_iteration_epoch_and_averaging_counts_are_exact(
    spark: Any, blobs: DataSet, frequency: int
) -> None:
    """120 examples, 2 workers, batch 5: 12 minibatches each; after 2 epochs 24 iterations."""
    model = dense()
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, averaging_frequency=frequency
    )
    run = sw.SparkNetwork(spark, model, master).start(blobs, epochs=2)
    run.wait(60)
    assert int(model.optimizer.iterations) == 24
    assert run.status.averagings == 2 * -(-12 // frequency)
    assert (run.status.epoch, run.status.round) == (2, -(-12 // frequency))
    history = run.history
    assert history.groupby("worker")["step"].max().tolist() == [24, 24]
    assert history["epoch"].max() == 2
    rounds = history[history["worker"] == 0].groupby("epoch")["round"].nunique()
    assert rounds.tolist() == [-(-12 // frequency)] * 2


@pytest.mark.parametrize("grace_s", [60.0, 0.01])
def test_a_killed_worker_is_replaced_and_nothing_counts_twice(
    spark: Any, blobs: DataSet, tmp_path: Path, leaves_nothing: None, grace_s: float
) -> None:
    killer = KillOnce(str(tmp_path / "killed"), at=7)
    model = dense()
    master = sw.ParameterAveragingTrainingMaster(
        workers=2,
        batch_size_per_worker=5,
        averaging_frequency=2,
        mesh=sw.MeshConfig(replacement_grace_s=grace_s),
    ).with_hooks(killer)
    run = sw.SparkNetwork(spark, model, master).start(blobs, epochs=2)
    run.wait(120)
    assert (tmp_path / "killed").exists()
    assert sum(worker.restarts for worker in run.status.workers) == 1
    assert run.history["examples"].sum() == 240
    steps = [rows["step"].tolist() for _, rows in run.history.groupby("worker")]
    if grace_s > 1:  # the others wait for the replacement
        assert int(model.optimizer.iterations) == 24
        assert steps == [list(range(1, 25))] * 2
    else:  # they go on alone; what was lost is trained by both when its data is back
        assert int(model.optimizer.iterations) >= 24
        assert sum(map(len, steps)) == 48
        assert all(len(set(each)) == len(each) for each in steps)


def test_a_killed_python_worker_is_replaced_and_nothing_counts_twice(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    """The Spark side of a worker dies: Spark runs its task again, the run's counts stay exact."""
    import psutil

    model = dense()
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, averaging_frequency=2
    ).with_hooks(Slow())
    run = sw.SparkNetwork(spark, model, master).start(blobs, epochs=2)
    wait_until(lambda: run.status.averagings >= 3, 60)
    victims = [
        process
        for process in psutil.Process().children(recursive=True)
        if _is_busy_python_worker(process)
    ]
    assert victims
    victims[0].kill()
    run.wait(120)
    assert sum(worker.restarts for worker in run.status.workers) >= 1
    assert int(model.optimizer.iterations) >= 24
    assert run.history["examples"].sum() == 240


def test_an_undisturbed_run_and_a_killed_one_end_with_the_same_bits(
    spark: Any, blobs: DataSet, tmp_path: Path
) -> None:
    """What is lost with a worker is trained again from the same average, in the same order."""
    found = []
    for marker in ("never", "once"):
        path = tmp_path / marker
        if marker == "never":
            path.write_text("no kill in this run")
        model = dense("adam")
        master = sw.ParameterAveragingTrainingMaster(
            workers=2,
            batch_size_per_worker=5,
            averaging_frequency=2,
            seed=1,
            # Who goes on without the lost worker takes another way.
            mesh=sw.MeshConfig(replacement_grace_s=60),
        ).with_hooks(KillOnce(str(path), at=5))
        sw.SparkNetwork(spark, model, master).fit(blobs)
        found.append(np.concatenate([w.ravel() for w in model.get_weights()]))
    np.testing.assert_array_equal(found[0], found[1])


def _is_busy_python_worker(process: Any) -> bool:
    """A forked PySpark worker that holds a connection to a trainer's Unix socket."""
    import psutil

    try:
        if "pyspark.daemon" not in " ".join(process.cmdline()):
            return False
        is_fork = "pyspark.daemon" in " ".join(process.parent().cmdline())
        return is_fork and any(
            file.path.endswith(".lock") and "sparkwright" in file.path
            for file in process.open_files()
        )
    except psutil.Error:
        return False


def test_when_all_workers_are_killed_training_begins_anew(
    spark: Any, blobs: DataSet, tmp_path: Path, leaves_nothing: None
) -> None:
    markers = [str(tmp_path / name) for name in ("one", "two")]
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, averaging_frequency=2
    ).with_hooks(*(KillOnce(marker, at=6) for marker in markers))
    model = dense()
    run = sw.SparkNetwork(spark, model, master).start(blobs)
    run.wait(120)
    assert int(model.optimizer.iterations) >= 12
    assert run.history["examples"].sum() == 120
