"""The benchmark on real executors, with a small network and little time; advice that measures."""

import importlib
from typing import Any

import pytest
from tests.spark.helpers import dense

import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.errors import ConfigurationError

pytestmark = pytest.mark.spark

network_of = importlib.import_module("sparkwright.benchmark._network")


@pytest.mark.thorough
def test_everything_is_measured_and_the_model_is_unchanged(
    spark: Any, blobs: DataSet, leaves_nothing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One second of training for each number of workers is enough here.
    monkeypatch.setattr(importlib.import_module("sparkwright.benchmark._benchmark"), "_RUN_S", 1.0)
    model = dense("adam")
    before = [weight.copy() for weight in model.get_weights()]
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=8, seed=1)
    found = sw.benchmark(
        spark, model=model, data=blobs, master=master, workers=[1, 2], target=0.6, budget_s=240
    )
    assert found.notes == ()
    assert all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
    assert [run["workers"] for run in found.runs] == [1, 2]
    for run in found.runs:
        assert run["examples_per_s"] > 0
        assert run["round_s"] == pytest.approx(5 * run["minibatch_s"])
        assert 0 < run["predicted"] <= 1 + 1e-9
    assert found.runs[0]["efficiency"] == 1
    assert found.network["bandwidth_bytes_per_s"] > 1e6
    assert 0 < found.network["latency_s"] < 1
    assert found.fit["epochs"] >= 2
    assert (found.fit["cores"], found.fit["device"]) == (1, "cpu")
    assert min(found.goal["fit_s"], found.goal["workers_s"]) > 0
    assert found.advice.workers == 2
    assert found.cluster["machines"] == 1
    assert found.cluster["master"].startswith("local-cluster")
    assert "host" not in found.to_json()


def test_advice_measures_missing_values(spark: Any) -> None:
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=8)
    network = sw.SparkNetwork(spark, dense("adam"), master)
    found = sw.advise(network)
    assert found.workers == 2
    assert found.vector_bytes == 4 * (4 * 8 + 8 + 8 * 3 + 3)
    assert found.sources[0].startswith("Step time: measured on this machine")
    assert found.sources[1] == "Network: measured between 2 tasks."
    network.master = found.master


def test_one_worker_has_no_network_to_measure(spark: Any) -> None:
    with pytest.raises(ConfigurationError, match="workers"):
        network_of.measure_network(spark, workers=1, mesh=sw.MeshConfig())
