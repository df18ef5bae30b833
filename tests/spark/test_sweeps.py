import os
import signal
import threading
import time
from pathlib import Path

import keras
import numpy as np
import optuna
import pytest
from tests.spark.helpers import Paced, dense
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.errors import ConfigurationError, SlotsError

MASTER = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10, seed=3)
UNPRUNED = optuna.pruners.NopPruner()


VALIDATION = slice(90, None)


def build(rate):
    return dense(keras.optimizers.SGD(rate))


def dense_of(trial):
    return build(trial.suggest_float("rate", 0.01, 0.1))


def swept(spark, network, blobs, **options):
    data, validation = blobs.take(slice(0, 90)), blobs.take(VALIDATION)
    settings = {"master": MASTER, "pruner": UNPRUNED, "seed": 1, "display": False}
    return sw.sweep(spark, network, data, **{**settings, "validation": validation, **options})


@pytest.mark.thorough
@pytest.mark.connect
def test_trials_train_in_parallel_and_the_best_network_is_kept(spark, blobs, leaves_nothing):
    space = {"rate": (1e-4, 1.0, "log"), "batch_size_per_worker": [5, 10], "epochs": [1, 2]}
    sweep = swept(spark, build, blobs, trials=3, space=space, parallel=2, wait=False)
    runs = {}
    while not sweep.finished:
        runs |= sweep.runs
        time.sleep(0.02)
    assert sweep.wait() is sweep
    going = [
        sum(r.started_at <= run.started_at < r.ended_at for r in runs.values())
        for run in runs.values()
    ]
    assert (sweep.state, len(runs), max(going)) == ("done", 3, 2)
    assert not any((run.events.get("state") == "queued").any() for run in runs.values())
    assert set(sweep.trials["state"]) == {"COMPLETE"}
    best = sweep.best
    last = best.intermediate_values[best.params["epochs"]]
    assert best.value == sweep.trials["value"].min() == last
    network, run = sweep.best_network, runs[best.number]
    assert network.model is run.model
    assert run.configuration["hyperparameters"] == best.params
    size = best.params["batch_size_per_worker"]
    assert run.configuration["master"]["batch_size_per_worker"] == size
    held = blobs.take(VALIDATION)
    assert network.score(held) == pytest.approx(best.value, rel=1e-5)
    network.fit(held, epochs=1, display=False)
    assert network.history.params["steps"] == 30 // size


def test_data_is_read_once_for_all_trials(spark, blobs, tmp_path):
    folder = str(tmp_path)

    def read(chunk):
        import uuid

        (Path(folder) / uuid.uuid4().hex).touch()
        return chunk

    data = sw.data.from_arrays(spark, blobs, partitions=2).map_chunks(read, step="counted")
    options = {"master": MASTER, "seed": 1, "display": False}
    space, validation = {"rate": (0.01, 0.1)}, blobs.take(VALIDATION)
    sw.sweep(spark, build, data, trials=2, space=space, validation=validation, **options)
    assert len(list(tmp_path.iterdir())) == 2, "each partition once"


class _PruneOdd(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        return trial.number % 2 == 1


@pytest.mark.thorough
def test_pruned_trial_stops_after_the_epoch_and_others_continue(spark, blobs):
    options = {"master": MASTER.with_hooks(Paced(0.02)), "pruner": _PruneOdd()}
    sweep = swept(spark, dense_of, blobs, trials=2, epochs=9, monitor="accuracy", **options)
    full, pruned = sweep.study.trials
    assert (full.state.name, pruned.state.name) == ("COMPLETE", "PRUNED")
    assert len(full.intermediate_values) == 9
    assert 1 <= len(pruned.intermediate_values) < 9
    assert full.value == full.intermediate_values[9]
    assert sweep.study.direction == optuna.study.StudyDirection.MAXIMIZE


def failing(trial):
    if trial.number != 1:
        raise ValueError(f"no network of trial {trial.number}")
    return dense(), {"batch_size_per_worker": 30}


def test_failed_trial_is_recorded_and_the_sweep_continues(spark, blobs, capsys):
    sweep = swept(spark, failing, blobs, trials=2, display=None)
    assert list(sweep.trials["state"]) == ["FAIL", "COMPLETE"]
    assert sweep.trials["user_attrs_error"][0] == "ValueError: no network of trial 0"
    assert "Trial 0 failed: no network of trial 0" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no network of trial 0") as raised:
        swept(spark, failing, blobs, trials=1)
    assert raised.value.__notes__ == ["This was trial 0 of sweep sweep: {}"]
    with pytest.raises(ConfigurationError, match=r"`monitor` must be one of accuracy, loss"):
        swept(spark, dense_of, blobs, trials=1, monitor="auc")


@pytest.mark.thorough
def test_stopped_sweep_has_its_best_trial_and_can_be_resumed(
    spark, blobs, tmp_path, leaves_nothing
):
    options = {"storage": tmp_path / "trials.sqlite", "trials": 2, "parallel": 1}

    def slow(trial):
        return dense_of(trial), {"epochs": 1 if trial.number == 0 else 500}

    paced = MASTER.with_hooks(Paced(0.02))
    sweep = swept(spark, slow, blobs, wait=False, master=paced, **options)
    wait_until(lambda: 1 in sweep.runs and sweep.runs[1].status.state == "training", 60)
    sweep.stop()
    sweep.wait(60)
    assert sweep.state == "stopped"
    states = [trial.state.name for trial in sweep.study.trials]
    assert states == ["COMPLETE", "FAIL", "WAITING"]
    assert sweep.best.number == 0
    assert sweep.best_network.history.epoch == [0]
    again = swept(spark, dense_of, blobs, **options)
    assert [trial.state.name for trial in again.study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert again.study.trials[2].params == again.study.trials[1].params
    other = {**options, "trials": 3, "space": {"rate": ["a", "b"]}}
    with pytest.raises(ValueError, match="different distribution kind"):
        swept(spark, build, blobs, **other)


def test_ctrl_c_returns_the_sweep(spark, blobs):
    def slow(trial):
        threading.Timer(1.0, signal.raise_signal, [signal.SIGINT]).start()
        return dense_of(trial)

    options = {"master": MASTER.with_hooks(Paced(0.02)), "epochs": 500, "parallel": 1}
    sweep = swept(spark, slow, blobs, trials=2, **options)
    assert (sweep.state, sweep.best) == ("stopped", None)
    with pytest.raises(ConfigurationError, match="needs a best trial that this sweep has trained"):
        _ = sweep.best_network


@pytest.mark.thorough
def test_sigterm_ends_the_sweep_and_keeps_its_best_model(
    spark, blobs, monkeypatch, tmp_path, capfd
):
    monkeypatch.setenv("SPARKWRIGHT_RUNS", str(tmp_path / "runs.sqlite"))

    def slow(trial):
        if trial.number:
            threading.Timer(1.0, terminate).start()
        return dense_of(trial), {"epochs": 1 if trial.number == 0 else 500}

    def terminate():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)

    paced = MASTER.with_hooks(Paced(0.02))
    with pytest.raises(SystemExit) as caught:
        swept(spark, slow, blobs, master=paced, trials=3, parallel=1)
    assert caught.value.code == 128 + signal.SIGTERM
    (file,) = tmp_path.glob("*.keras")
    words = "was ended by SIGTERM after 1 of 3 trials. The best model is kept. It is in"
    assert f"sweep sweep {words} {file}: `sw.load_model`" in capfd.readouterr().err
    assert sw.load_model(str(file)).count_params() == dense().count_params()


@pytest.mark.thorough
def test_trials_use_several_workers_and_invalid_sweeps_raise(spark, blobs):
    sharing = sw.SharedTrainingMaster(workers=3, seed=1)
    assert swept(spark, dense_of, blobs, trials=1, master=sharing).parallel == 1
    fixed = lambda trial: (dense(), {"workers": 2, "log_to": []})  # noqa: E731
    for message, network, options in (
        ("workers=9", dense_of, {"master": sw.ParameterAveragingTrainingMaster(workers=9)}),
        ("neither `validation`", dense_of, {"validation": None}),
        ("Received: resume", dense_of, {"resume": "x"}),
        (r"Received: log_to, workers\.", fixed, {}),
    ):
        with pytest.raises((ConfigurationError, SlotsError), match=message):
            swept(spark, network, blobs, trials=1, **options)


# MLflow's packages warn of one another.
@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_mlflow_nests_the_runs_of_trials(spark, blobs, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.sqlite")
    place = mlflow.create_experiment("sweeps", artifact_location=str(tmp_path / "files"))
    tracker = sw.trackers.MLflow(log_model=False)
    with mlflow.start_run(experiment_id=place) as parent:
        sweep = swept(spark, dense_of, blobs, trials=2, log_to=tracker)
    found = mlflow.search_runs([place], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'")
    rows = found.sort_values("tags.mlflow.runName").reset_index()
    assert list(rows["tags.mlflow.runName"]) == list(sweep.trials["user_attrs_run"])
    np.testing.assert_allclose(rows["metrics.val_loss"], sweep.trials["value"])
    rates = rows["params.hyperparameters.rate"].astype(float)
    np.testing.assert_allclose(rates, sweep.trials["params_rate"])
