import os
import re
import signal

import pytest
from tests.spark.helpers import Hook, dense, numbered, weights

import sparkwright as sw

POISON = 37


class Dies(Hook):
    """As a native library does that cannot take a row."""

    def pre_update(self, minibatch, model):
        if POISON in minibatch.features["features"][:, 0]:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.thorough
def test_the_error_of_spark_jobs_names_partition_and_rows(spark, leaves_nothing):
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, shuffle=False, seed=1, communication="spark"
    ).with_hooks(Dies())
    with pytest.raises(sw.errors.WorkerError) as caught:
        sw.SparkNetwork(spark, dense("sgd"), master).fit(numbered(200), display=False)
    told = caught.value.reason
    first, last = map(int, told.partition("(rows ")[2].partition(")")[0].split(" to "))
    assert first <= POISON <= last < first + 25
    assert "of partition 0 in epoch 1 (rows" in told
    assert "SIGKILL" in told
    assert "Look for a row there" in told


@pytest.mark.thorough
@pytest.mark.parametrize(
    "kind", [sw.ParameterAveragingTrainingMaster, sw.SharedTrainingMaster], ids=["average", "share"]
)
def test_the_error_names_partition_and_rows_and_the_model_keeps_what_was_learned(kind):
    model = dense("sgd")
    before = weights(model)
    master = kind(batch_size_per_worker=5, shuffle=False, seed=1).with_hooks(Dies())
    with (
        sw.ParallelWrapper(model, master, workers=2, cores_per_worker=1) as wrapper,
        pytest.raises(sw.errors.WorkerError) as caught,
    ):
        wrapper.fit(numbered(200), epochs=2, display=False)
    told = caught.value.reason
    first, last = map(int, told.partition("(rows ")[2].partition(")")[0].split(" to "))
    assert first <= POISON <= last < first + 25
    # The other worker may end the epoch before the replacement is there; the rows wait.
    assert re.search(r"of partition 0 in epoch [12] \(rows", told)
    # Four of one minibatch, or more of a row where chance might explain four in two epochs.
    assert 4 <= int(re.search(r"ended the process that trained its rows (\d+) times", told)[1]) <= 6
    assert "SIGKILL" in told
    if kind is sw.SharedTrainingMaster:
        assert (weights(model) != before).any()
