"""Sweeps on Spark: trials side by side, pruned, failing, stopped and repeated."""

import signal
import threading
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import optuna
import pytest
from tests.spark.helpers import Paced, dense
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.errors import ConfigurationError, SlotsError

pytestmark = pytest.mark.spark
MASTER = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10, seed=3)
UNPRUNED = optuna.pruners.NopPruner()
QUIET: dict[str, Any] = {"master": MASTER, "pruner": UNPRUNED, "seed": 1, "display": False}


def build(rate: float) -> Any:
    return dense(keras.optimizers.SGD(rate))


def halves(data: DataSet) -> dict[str, Any]:
    return {"data": data.take(slice(0, 90)), "validation": data.take(slice(90, None))}


@pytest.mark.thorough
@pytest.mark.connect
def test_trials_train_in_parallel_and_the_best_network_is_kept(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    space = {"rate": (1e-4, 1.0, "log"), "batch_size_per_worker": [5, 10], "epochs": [2, 3]}
    sweep = sw.sweep(
        spark, build, **halves(blobs), trials=4, space=space, parallel=2, wait=False, **QUIET
    )
    runs = dict[int, Any]()
    while not sweep.finished:
        runs |= sweep.runs
        time.sleep(0.02)
    assert sweep.wait() is sweep
    going = [
        sum(r.started_at <= run.started_at < r.ended_at for r in runs.values())
        for run in runs.values()
    ]
    assert (sweep.state, len(runs), max(going)) == ("done", 4, 2)
    assert not any((run.events.get("state") == "queued").any() for run in runs.values())
    assert set(sweep.trials["state"]) == {"COMPLETE"}
    best = sweep.best
    assert best is not None
    assert (
        best.value == sweep.trials["value"].min() == best.intermediate_values[best.params["epochs"]]
    )
    network, run = sweep.best_network, runs[best.number]
    assert network.model is run.model
    assert run.configuration["hyperparameters"] == best.params
    assert (
        run.configuration["master"]["batch_size_per_worker"]
        == (best.params["batch_size_per_worker"])
    )
    held = halves(blobs)["validation"]
    assert network.score(held) == pytest.approx(best.value, rel=1e-5)
    network.fit(held, epochs=1, display=False)
    assert network.history.params["steps"] == -(-30 // best.params["batch_size_per_worker"])


def test_data_is_read_once_for_all_trials(spark: Any, blobs: DataSet, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def read(chunk: DataSet) -> DataSet:
        import uuid

        (Path(folder) / uuid.uuid4().hex).touch()
        return chunk

    data = sw.data.from_arrays(spark, blobs, partitions=2).map_chunks(read, step="counted")
    options = {**QUIET, "validation": blobs.take(slice(90, None))}
    sw.sweep(spark, build, data, trials=3, space={"rate": (0.01, 0.1)}, **options)
    assert len(list(tmp_path.iterdir())) == 2, "each partition once"


class _PruneOdd(optuna.pruners.BasePruner):
    def prune(self, study: Any, trial: Any) -> bool:
        return trial.number % 2 == 1


@pytest.mark.thorough
def test_pruned_trial_stops_after_the_epoch_and_others_continue(spark: Any, blobs: DataSet) -> None:
    master = MASTER.with_hooks(Paced(0.02))
    options = {**QUIET, "master": master, "pruner": _PruneOdd(), "monitor": "accuracy"}
    sweep = sw.sweep(spark, dense_of, **halves(blobs), trials=2, epochs=30, **options)
    full, pruned = sweep.study.trials
    assert (full.state.name, pruned.state.name) == ("COMPLETE", "PRUNED")
    assert len(full.intermediate_values) == 30
    assert 1 <= len(pruned.intermediate_values) < 30
    assert full.value == full.intermediate_values[30]
    assert sweep.study.direction == optuna.study.StudyDirection.MAXIMIZE


def dense_of(trial: Any) -> Any:
    return dense(keras.optimizers.SGD(trial.suggest_float("rate", 0.01, 0.1)))


def failing(trial: Any) -> Any:
    if trial.number != 1:
        raise ValueError(f"no network of trial {trial.number}")
    return dense(), {"batch_size_per_worker": 30}


def test_failed_trial_is_recorded_and_the_sweep_continues(
    spark: Any, blobs: DataSet, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = sw.sweep(spark, failing, **halves(blobs), trials=2, **{**QUIET, "display": None})
    assert list(sweep.trials["state"]) == ["FAIL", "COMPLETE"]
    assert sweep.trials["user_attrs_error"][0] == "ValueError: no network of trial 0"
    assert "Trial 0 failed: no network of trial 0" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no network of trial 0") as raised:
        sw.sweep(spark, failing, **halves(blobs), trials=1, **QUIET)
    assert raised.value.__notes__ == ["This was trial 0 of sweep sweep: {}"]
    with pytest.raises(ConfigurationError, match=r"`monitor` must be one of accuracy, loss"):
        sw.sweep(spark, dense_of, **halves(blobs), trials=1, monitor="auc", **QUIET)


@pytest.mark.thorough
def test_stopped_sweep_has_its_best_trial_and_can_be_resumed(
    spark: Any, blobs: DataSet, tmp_path: Path, leaves_nothing: None
) -> None:
    options = {**QUIET, "storage": tmp_path / "trials.sqlite", "trials": 3, "parallel": 1}

    def slow(trial: Any) -> Any:
        return dense_of(trial), {"epochs": 1 if trial.number == 0 else 500}

    slow_master = {**options, "master": MASTER.with_hooks(Paced(0.02))}
    sweep = sw.sweep(spark, slow, **halves(blobs), wait=False, **slow_master)
    wait_until(lambda: 1 in sweep.runs and sweep.runs[1].status.state == "training", 60)
    sweep.stop()
    sweep.wait(60)
    assert (sweep.state, [t.state.name for t in sweep.study.trials]) == (
        "stopped",
        ["COMPLETE", "FAIL"],
    )
    assert sweep.best is not None
    assert sweep.best.number == 0
    assert sweep.best_network.history.epoch == [0]
    again = sw.sweep(spark, dense_of, **halves(blobs), **options)
    assert [t.state.name for t in again.study.trials] == ["COMPLETE", "FAIL", *["COMPLETE"] * 2]
    assert again.study.trials[2].params == again.study.trials[1].params
    other: Any = {**options, "trials": 4, "space": {"rate": ["a", "b"]}}
    with pytest.raises(ValueError, match="different distribution kind"):
        sw.sweep(spark, build, **halves(blobs), **other)


def test_ctrl_c_returns_the_sweep(spark: Any, blobs: DataSet) -> None:
    master = MASTER.with_hooks(Paced(0.02))

    def slow(trial: Any) -> Any:
        threading.Timer(1.0, signal.raise_signal, [signal.SIGINT]).start()
        return dense_of(trial)

    options = {**QUIET, "master": master, "epochs": 500, "parallel": 1}
    sweep = sw.sweep(spark, slow, **halves(blobs), trials=2, **options)
    assert (sweep.state, sweep.best) == ("stopped", None)
    with pytest.raises(ConfigurationError, match="needs a best trial that this sweep has trained"):
        _ = sweep.best_network


@pytest.mark.thorough
def test_trials_use_several_workers_and_invalid_sweeps_raise(spark: Any, blobs: DataSet) -> None:
    data = halves(blobs)
    options = {**QUIET, "master": sw.SharedTrainingMaster(workers=3, seed=1)}
    sweep = sw.sweep(spark, dense_of, **data, trials=1, **options)
    assert sweep.parallel == 1
    wide = sw.ParameterAveragingTrainingMaster(workers=9)
    with pytest.raises(SlotsError):
        sw.sweep(spark, dense_of, **data, trials=1, **{**QUIET, "master": wide})
    with pytest.raises(ConfigurationError, match="neither `validation`"):
        sw.sweep(spark, dense_of, data["data"], trials=1)
    with pytest.raises(ConfigurationError, match="Received: resume"):
        sw.sweep(spark, dense_of, **data, trials=1, resume="x", **QUIET)
    with pytest.raises(ConfigurationError, match=r"Received: log_to, workers\."):
        sw.sweep(
            spark, lambda trial: (dense(), {"workers": 2, "log_to": []}), **data, trials=1, **QUIET
        )


# MLflow's packages warn of one another.
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_mlflow_nests_the_runs_of_trials(spark: Any, blobs: DataSet, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.sqlite")
    place = mlflow.create_experiment("sweeps", artifact_location=str(tmp_path / "files"))
    tracker = sw.trackers.MLflow(log_model=False)
    with mlflow.start_run(experiment_id=place) as parent:
        sweep = sw.sweep(
            spark, dense_of, **halves(blobs), trials=2, epochs=2, log_to=tracker, **QUIET
        )
    found = mlflow.search_runs([place], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    rows = found.sort_values("tags.mlflow.runName").reset_index()
    assert list(rows["tags.mlflow.runName"]) == list(sweep.trials["user_attrs_run"])
    np.testing.assert_allclose(rows["metrics.val_loss"], sweep.trials["value"])
    rates = rows["params.hyperparameters.rate"].astype(float)
    np.testing.assert_allclose(rates, sweep.trials["params_rate"])
