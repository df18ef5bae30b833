import json
import subprocess
import sys
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from tests.spark.helpers import dense, weights

import sparkwright as sw
from sparkwright._process import Process
from sparkwright.trackers import trackers_for_run

# MLflow and its packages warn of one another.
pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def mlflow():
    return pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def tracked(spark, mlflow, tmp_path_factory):
    """A run that has ended, the folder for TensorBoard, and the id of the parent."""
    folder = tmp_path_factory.mktemp("tensorboard")
    random = np.random.default_rng(0)
    features = random.normal(size=(120, 4)).astype(np.float32)
    labels = (features[:, 0] > 0).astype(np.int32)
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=5, averaging_frequency=2, collect_training_stats=True
    )
    store = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{store}/runs.sqlite")
    place = mlflow.create_experiment("tracked", artifact_location=str(store / "files"))
    with mlflow.start_run(experiment_id=place) as parent:
        run = sw.SparkNetwork(spark, dense(keras.optimizers.Adam(0.01)), master).start(
            features,
            labels,
            validation=(features, labels),
            epochs=2,
            histograms=sw.Histograms(every=4),
            display=False,
            log_to=[sw.trackers.MLflow(), sw.trackers.TensorBoard(folder)],
        )
        run.wait(120)
    assert run.warnings == ()
    return run, folder, parent.info.run_id


def test_mlflow_has_parameters_metrics_and_files(tracked, mlflow):
    run, _, parent = tracked
    client = mlflow.MlflowClient()
    stored = client.get_run(run.status.tracked["MLflow"])
    assert stored.info.status == "FINISHED"
    assert stored.info.run_name == run.name
    assert stored.data.tags["mlflow.parentRunId"] == parent
    parameters = stored.data.params
    assert parameters["master.averaging_frequency"] == "2"
    assert float(parameters["optimizer.learning_rate"]) == pytest.approx(0.01)
    assert (parameters["optimizer.name"], parameters["epochs"]) == ("Adam", "2")
    assert "master.prefetch_batches" not in parameters
    for name, values in run.epoch_history.history.items():
        points = client.get_metric_history(stored.info.run_id, name)
        assert [p.step for p in points] == [1, 2]
        assert [p.value for p in points] == pytest.approx(values)
    assert client.get_metric_history(stored.info.run_id, "batch_loss")[-1].step == 24
    files = client.list_artifacts(stored.info.run_id)
    assert "timeline.html" in [file.path for file in files]


def test_the_next_run_ends_those_whose_process_was_killed(tracked, mlflow):
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    processes = {name: Process.this() for name in ("alive", "killed")}
    processes["killed"] = processes["killed"]._replace(pid=killed.pid)
    killed.kill()
    killed.wait(10)
    client = mlflow.MlflowClient()
    experiment = mlflow.create_experiment("abandoned")
    ids = {
        name: client.create_run(experiment, tags=tags).info.run_id
        for name, tags in {
            **{n: {"sparkwright.process": json.dumps(p)} for n, p in processes.items()},
            "of somebody else": {},
            "damaged": {"sparkwright.process": "{"},
        }.items()
    }
    begun = sw.trackers.MLflow("abandoned")
    begun.check()
    ids["new"] = begun.begin(SimpleNamespace(name="new"), {})
    found = {name: client.get_run(number).info.status for name, number in ids.items()}
    mlflow.end_run()
    assert found == {**dict.fromkeys(ids, "RUNNING"), "killed": "FAILED"}


def test_logged_model_equals_the_network(tracked, mlflow, spark):
    run, *_ = tracked
    url = f"runs:/{run.status.tracked['MLflow']}/model"
    np.testing.assert_array_equal(weights(mlflow.keras.load_model(url)), weights(run.model))
    about = mlflow.models.get_model_info(url)
    assert about.signature.inputs.inputs[0].shape == (-1, 4)
    assert about.signature.outputs.inputs[0].shape == (-1, 3)
    assert about.saved_input_example_info is not None
    rows = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    udf = mlflow.pyfunc.spark_udf(spark, url, result_type="array<float>", env_manager="local")
    frame = spark.createDataFrame([(row.tolist(),) for row in rows], "x: array<float>").coalesce(1)
    found = np.array([row.y for row in frame.select(udf("x").alias("y")).collect()])
    np.testing.assert_allclose(found, run.model.predict(rows, verbose=0), atol=1e-5)


def test_tensorboard_reads_scalars_histograms_and_the_graph(tracked):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run, folder, _ = tracked
    parts = {
        part: accumulators.EventAccumulator(str(folder / run.name / part)).Reload()
        for part in ("train", "validation", "worker-0", "worker-1")
    }

    def scalars(part, tag):
        return [point.value for point in parts[part].Scalars(tag)]

    history = run.epoch_history.history
    assert scalars("train", "epoch_loss") == pytest.approx(history["loss"], rel=1e-5)
    assert scalars("validation", "epoch_accuracy") == pytest.approx(history["val_accuracy"])
    assert [point.step for point in parts["validation"].Scalars("epoch_loss")] == [1, 2]
    for part in ("train", "worker-0", "worker-1"):
        assert parts[part].Scalars("batch_loss")[-1].step == 24
    name = run.histograms.names["weights"][0]
    _, kernel = run.histograms.of(name)[-1]
    last = parts["train"].Histograms(f"weights/{name}")[-1]
    assert sum(last.histogram_value.bucket) == kernel.counts.sum()
    about = parts["train"].SummaryMetadata("keras")
    assert about.plugin_data.plugin_name == "graph_keras_model"


def test_tensorboard_shows_hyperparameters(tracked):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    run, folder, _ = tracked
    metadata = EventAccumulator(str(folder / run.name)).Reload().SummaryMetadata
    found = {
        name: plugin_data_pb2.HParamsPluginData.FromString(
            metadata(f"_hparams_/session_{name}_info").plugin_data.content
        )
        for name in ("start", "end")
    }
    start = found["start"].session_start_info
    assert (start.group_name, start.hparams["optimizer.name"].string_value) == (run.name, "Adam")
    assert start.hparams["epochs"].number_value == 2
    assert found["end"].session_end_info.status == 1  # success


def test_autologging_of_mlflow_logs_runs(mlflow):
    before = trackers_for_run(())
    mlflow.autolog(log_models=False, silent=True)
    try:
        (added,) = trackers_for_run(())
        given = sw.trackers.MLflow("mine")
        (same,) = trackers_for_run(given)
    finally:
        mlflow.autolog(disable=True, silent=True)
    assert (before, trackers_for_run(())) == ((), ())
    assert (type(added), added.log_model, same.experiment) == (sw.trackers.MLflow, False, "mine")


def test_failed_run_has_the_text_of_its_error(mlflow, tmp_path):
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/failed.sqlite")
    tracker = sw.trackers.MLflow("failed")
    tracker.check()
    run = SimpleNamespace(
        name="failed",
        status=SimpleNamespace(error="DataError: no rows"),
        configuration={"master": {"collect_training_stats": False}},
    )
    number = tracker.begin(run, {})
    tracker.end("failed")
    stored = mlflow.MlflowClient().get_run(number)
    assert (stored.info.status, stored.data.tags["error"]) == ("FAILED", "DataError: no rows")
