"""Every example is trained exactly once an epoch, and every minibatch counts exactly once."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.spark.helpers import (
    KillOnce,
    RecordingHook,
    dense,
    partitioned,
    seen,
)

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
