import importlib

import pytest
from tests.spark.helpers import dense

import sparkwright as sw

network_of = importlib.import_module("sparkwright.advice._network_speed")


@pytest.mark.thorough
def test_training_is_measured_and_the_model_is_unchanged(spark, blobs, leaves_nothing, monkeypatch):
    # One second of training for each number of workers is enough here.
    monkeypatch.setattr(importlib.import_module("sparkwright.advice._advise"), "_RUN_S", 1.0)
    model = dense("adam")
    before = [weight.copy() for weight in model.get_weights()]
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=8, seed=1)
    found = sw.advise(model, blobs, spark=spark, master=master, measure=[1, 2])
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
    assert [run.workers for run in found.runs] == [1, 2]
    for run in found.runs:
        assert run.examples_per_s > 0
    assert found.workers == 2
    assert found.load.step_s == found.runs[0].minibatch_s
    assert found.load.costs.bandwidth_bytes_per_s > 1e6
    assert found.sources[1] == "Network: measured between 2 tasks on 1 machine."
    assert sum(found.plan.rows) == len(blobs)


def test_advice_measures_missing_values(spark):
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=8)
    network = sw.SparkNetwork(spark, dense("adam"), master)
    found = sw.advise(network)
    assert found.workers == 2
    assert found.load.vector_bytes == 4 * (4 * 8 + 8 + 8 * 3 + 3)
    assert found.sources[0].startswith("Step time: measured on this machine")
    assert found.memory is not None
    memory = found.memory  # of the session's executors
    assert (memory.executors, memory.trainers, memory.heap_mib) == (2, 1, 1024)
    network.master = found.master


def test_one_worker_has_no_network_to_measure(spark):
    with pytest.raises(sw.ConfigurationError, match="workers"):
        network_of.measure_network(spark, workers=1, mesh=sw.MeshConfig())
