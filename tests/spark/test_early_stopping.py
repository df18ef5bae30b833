"""Runs that end early, on Spark and on this machine: after the right epoch, with the best state."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.benchmarks._harness import TRAINER, processes
from tests.runs.test_early_stopping import SEQUENCES, Ended, Sequence
from tests.spark.helpers import KillOnce, Paced, dense, weights
from tests.spark.test_checkpoints import averaging, files, model_of, sharing
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.runs import EarlyStoppingVerdict
from sparkwright.runs._early_stopping import StoppingMonitor
from sparkwright.workers.pool import TrainerPool

pytestmark = pytest.mark.usefixtures("in_process")
# Scores of more epochs than any test trains.
_PLACES = 16
# One sequence for each way to end with a model.
_BY_REASON = {each.ended.kind: each for each in SEQUENCES if each.ended.best is not None}


def falls(y_true: Any, y_pred: Any) -> Any:
    """A loss whose gradient is 1 everywhere: each step lowers every weight by the learning rate."""
    import tensorflow as tf

    del y_true
    return tf.reduce_sum(y_pred, axis=-1)


def scripted(y_true: Any, y_pred: Any) -> Any:
    """A metric that says, after epoch n, what stands at place n of the labels."""
    import tensorflow as tf

    place = tf.cast(tf.round(-y_pred[:, :1]), tf.int32) % _PLACES
    return tf.gather(y_true, place, batch_dims=1)


def clock() -> Any:
    """A network whose weights are minus the number of its epochs."""
    import keras

    layer = keras.layers.Dense(_PLACES, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((1,)), layer], name="clock")
    model.compile(keras.optimizers.SGD(0.25), falls, metrics=[scripted])
    return model


def script(*scores: float) -> DataSet:
    """40 examples: 4 minibatches of 5 for each of 2 workers."""
    labels = np.resize(np.array([0.0, *scores], np.float32), _PLACES)
    return DataSet(np.ones((40, 1), np.float32), np.tile(labels, (40, 1)))


def epoch_of(model: Any) -> float:
    """How many epochs the clock's weights have seen."""
    found = np.unique(-model.get_weights()[0])
    assert found.size == 1
    return float(found[0])


def rules(**options: Any) -> Any:
    settings: dict[str, Any] = {"monitor": "scripted", "mode": "min", **options}
    return sw.EarlyStopping(**settings)


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """Two workers, threads of this process, that keep their networks warm."""
    with sw.ParallelWrapper(clock(), averaging(), workers=2) as wrapper:
        yield wrapper


def start(wrapper: Any, scores: list[float], rules: Any, **options: Any) -> Any:
    """Begin a run of the clock; its model's weights are 0 at the beginning."""
    wrapper.model.set_weights([np.zeros((1, _PLACES))])
    wrapper.model.optimizer.iterations.assign(0)
    data = script(*scores)
    options = {"epochs": len(scores), "validation": data, **options}
    return wrapper.start(data, early_stopping=rules, display=False, **options)


def trained(wrapper: Any, scores: list[float], rules: Any, **options: Any) -> Any:
    """A finished run of the clock."""
    run = start(wrapper, scores, rules, **options)
    run.wait(60)
    return run


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_scripted_scores_stop_training_after_the_expected_epoch(
    two: Any, sequence: Sequence
) -> None:
    options = {**sequence.rules, "monitor": "scripted"}
    run = trained(two, sequence.scores, rules(**options))
    found = run.early_stopping
    assert Ended(found.epochs, found.reason.kind, found.best_epoch) == sequence.ended
    assert run.status.epoch == sequence.ended.epoch
    assert run.history["epoch"].max() == sequence.ended.epoch
    assert found.model == ("last" if sequence.ended.best is None else "best")
    assert epoch_of(two.model) == (sequence.ended.best or sequence.ended.epoch)
    assert int(two.model.optimizer.iterations) == 4 * epoch_of(two.model)
    evaluated = [point.epoch for point in run.status.validation]
    assert evaluated == list(found.scores)


def test_validation_loss_is_monitored_by_default(two: Any) -> None:
    run = trained(two, [9] * 6, sw.EarlyStopping(target=-4 * _PLACES))
    assert run.early_stopping.scores == {n: -float(_PLACES * n) for n in range(1, 5)}
    assert (run.early_stopping.reason.kind, epoch_of(two.model)) == ("target", 4)


def test_epochs_default_to_those_of_the_rules(two: Any) -> None:
    run = trained(two, [3, 2, 1], rules(max_epochs=2), epochs=None)
    assert (run.status.epochs, epoch_of(two.model)) == (2, 2)
    with pytest.raises(sw.ConfigurationError, match="maximum number of epochs"):
        trained(two, [3, 2, 1], rules(patience=2), epochs=None)


def test_listeners_receive_each_verdict_and_the_run_reports_results(two: Any) -> None:
    events: list[Any] = []
    run = start(two, [3, 1, 2, 2, 2], rules(patience=2))
    run.add_listener(events.append)
    run.wait(60)
    heard = [event for event in events if isinstance(event, EarlyStoppingVerdict)]
    assert [(e.epoch, e.score, e.is_best) for e in heard] == [
        *((1, 3.0, True), (2, 1.0, True), (3, 2.0, False), (4, 2.0, False)),
    ]
    assert [event.verdict is None for event in heard] == [True, True, True, False]
    assert "best scripted 1 in epoch 2; scripted has not improved" in repr(run)
    assert run.status.message.endswith("the model holds the best state, that of epoch 2")
    assert run.status.state == "done"
    assert run.configuration["early_stopping"]["patience"] == 2


def test_model_has_the_last_state_without_restoring_the_best(two: Any) -> None:
    run = trained(two, [3, 1, 2, 2, 2], rules(patience=2, keep_best=None))
    assert (epoch_of(two.model), run.early_stopping.best_epoch) == (4, 2)
    assert run.early_stopping.model == "last"


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize("lost", [0, 1])
def test_worker_lost_while_waiting_for_a_verdict_changes_nothing(
    local_trainers: None, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """One of the trainers is killed as the score of epoch 3 arrives."""
    monkeypatch.setattr("sparkwright.local.TrainerPool", TrainerPool)
    killed: list[int] = []
    judge = StoppingMonitor.judge

    def kill_first(self: StoppingMonitor, epoch: int, **found: Any) -> Any:
        if epoch == 3 and not killed:
            # By age: numbers of processes begin again at the top.
            trainers = sorted(processes(TRAINER), key=lambda process: process.create_time())
            killed.append(trainers[-2:][lost].pid)
            os.kill(killed[0], signal.SIGKILL)
        return judge(self, epoch, **found)

    monkeypatch.setattr(StoppingMonitor, "judge", kill_first)
    # Without going on meanwhile: so the lost worker's validation data counts, too.
    master = averaging(mesh=sw.MeshConfig(replacement_grace_s=50))
    with sw.ParallelWrapper(clock(), master, workers=2) as wrapper:
        run = trained(wrapper, [3, 2, 1, 2, 2, 2, 2], rules(patience=2))
    assert killed
    assert sum(worker.restarts for worker in run.status.workers) == 1
    found = run.early_stopping
    assert found.scores == {1: 3.0, 2: 2.0, 3: 1.0, 4: 2.0, 5: 2.0}
    assert (found.epochs, found.best_epoch, epoch_of(wrapper.model)) == (5, 3, 3)
    assert [point.epoch for point in run.status.validation] == [1, 2, 3, 4, 5]


def test_time_limit_ends_a_run_within_an_epoch() -> None:
    slow = sw.ParallelWrapper(clock(), averaging().with_hooks(Paced()), workers=2)
    with slow:
        run = slow.start(script(1), epochs=1000, early_stopping=sw.EarlyStopping(max_seconds=2.0))
        run.wait(60)
    found = run.early_stopping
    assert (found.reason.kind, found.model, found.scores) == ("max_seconds", "last", {})
    assert run.status.state == "done"
    assert found.epochs < 100
    assert run.status.averagings > 0


def test_loss_above_the_limit_ends_a_run_and_keeps_the_best_state(two: Any) -> None:
    # The loss of the clock falls; with its learning rate turned round it grows by 16 an epoch.
    two.model.optimizer.learning_rate.assign(-0.25)
    try:
        run = trained(two, [9] * 15, sw.EarlyStopping(max_loss=3.5 * _PLACES))
        found = run.early_stopping
        assert found.reason.kind == "max_loss"
        assert "is above max_loss=56" in found.reason.sentence
        assert (found.best_epoch, epoch_of(two.model)) == (1, -1)
    finally:
        two.model.optimizer.learning_rate.assign(0.25)


@pytest.mark.thorough(but=["sharing-stop"])
@pytest.mark.parametrize(("master_of", "non_finite"), [(averaging, "continue"), (sharing, "stop")])
def test_nan_loss_ends_a_run_with_the_best_state(
    blobs: DataSet, non_finite: str, master_of: Any
) -> None:
    columns = blobs.features["features"].copy()
    columns[::40] = np.nan
    broken = DataSet(columns, blobs.labels["labels"])
    options: dict[str, Any] = {"epochs": 9, "validation": blobs}
    model = dense("sgd")
    with sw.ParallelWrapper(model, master_of(non_finite=non_finite), workers=2) as wrapper:
        run = wrapper.start(broken, early_stopping=sw.EarlyStopping(max_epochs=5), **options)
        run.wait(60)
        found = run.early_stopping
        assert (run.status.state, found.reason.kind) == ("done", "invalid")
        assert np.isfinite(weights(model)).all() or non_finite == "continue"
        assert found.epochs <= 1
        strict = sw.EarlyStopping(max_epochs=5, stop_on_invalid=False)
        if non_finite == "stop":
            with pytest.raises(sw.errors.NonFiniteLossError):
                wrapper.fit(broken, early_stopping=strict, **options)


@pytest.mark.spark
def test_best_state_equals_that_of_its_epoch_bit_for_bit(
    spark: Any, blobs: DataSet, leaves_nothing: None
) -> None:
    """The highest accuracy, against a second run which trains just as many epochs."""
    model, same = model_of(), model_of()
    train, validation = blobs.take(slice(0, 80)), blobs.take(slice(80, 120))
    stopping = sw.EarlyStopping(monitor="accuracy", patience=2)
    master = averaging()
    network = sw.SparkNetwork(spark, model, master)
    run = network.start(train, epochs=40, validation=validation, early_stopping=stopping)
    run.wait(120)
    found = run.early_stopping
    assert found.reason.kind == "patience"
    assert found.epochs == found.best_epoch + 2 == run.status.epoch
    assert found.best_score == max(found.scores.values())
    assert network.evaluate(validation).accuracy == pytest.approx(found.best_score, abs=1e-3)
    sw.SparkNetwork(spark, same, master).fit(train, epochs=found.best_epoch, validation=validation)
    np.testing.assert_array_equal(weights(model), weights(same))
    for one, other in zip(model.optimizer.variables, same.optimizer.variables, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_best_state_has_the_best_score_with_gradient_sharing(blobs: DataSet) -> None:
    model = model_of()
    train, validation = blobs.take(slice(0, 80)), blobs.take(slice(80, 120))
    stopping = sw.EarlyStopping(patience=1, evaluate_every=2, min_improvement=0.1)
    with sw.ParallelWrapper(model, sharing(), workers=2) as wrapper:
        run = wrapper.start(train, epochs=40, validation=validation, early_stopping=stopping)
        run.wait(120)
    found = run.early_stopping
    assert found.reason.kind == "patience"
    assert found.best_score == min(found.scores.values())
    assert all(epoch % 2 == 0 for epoch in found.scores)
    assert found.epochs == max(found.scores) == run.status.epoch
    x, y = validation.features["features"], validation.labels["labels"]
    assert model.evaluate(x, y, verbose=0)[0] == pytest.approx(found.best_score, rel=1e-3)


def test_gradient_sharing_stops_after_the_expected_epoch() -> None:
    # Each step lowers each weight by just what a message carries, so both masters keep time alike.
    model = clock()
    model.optimizer.learning_rate.assign(0.125)
    master = sharing(threshold=sw.FixedThreshold(threshold=0.125), minibatches_per_message=1)
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        for sequence in _BY_REASON.values():
            options = {**sequence.rules, "monitor": "scripted"}
            found = trained(wrapper, sequence.scores, rules(**options)).early_stopping
            assert Ended(found.epochs, found.reason.kind, found.best_epoch) == sequence.ended
            assert epoch_of(model) == sequence.ended.best


@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.parametrize("master_of", [averaging, sharing])
def test_killed_worker_does_not_change_the_result(
    spark: Any, blobs: DataSet, tmp_path: Path, leaves_nothing: None, master_of: Any
) -> None:
    stopping = sw.EarlyStopping(max_epochs=4, target=-1.0)
    calm = dense("adam")  # without Dropout, whose draws a lost round uses up
    train, validation = blobs.take(slice(0, 80)), blobs.take(slice(80, 120))
    options: dict[str, Any] = {"validation": validation, "early_stopping": stopping}
    undisturbed = sw.SparkNetwork(spark, calm, master_of()).start(train, **options)
    undisturbed.wait(120)
    model = dense("adam")
    # All wait for the replacement, so that no minibatch is trained in another epoch than before.
    patient = master_of(mesh=sw.MeshConfig(replacement_grace_s=50))
    master = patient.with_hooks(KillOnce(str(tmp_path / "killed"), at=12))
    run = sw.SparkNetwork(spark, model, master).start(train, **options)
    run.wait(120)
    assert (tmp_path / "killed").exists()
    found, expected = run.early_stopping, undisturbed.early_stopping
    assert list(found.scores) == list(expected.scores) == [1, 2, 3, 4]
    assert found.epochs == 4
    if master_of is averaging:
        assert found.scores == pytest.approx(expected.scores)


def test_best_and_last_model_are_saved(blobs: DataSet, tmp_path: Path) -> None:
    best, last = str(tmp_path / "best.keras"), str(tmp_path / "last.keras")
    model = model_of()
    stopping = sw.EarlyStopping(
        monitor="accuracy", mode="min", patience=2, keep_best=best, save_last=last
    )
    with sw.ParallelWrapper(model, averaging(), workers=2) as wrapper:
        run = wrapper.start(blobs, epochs=40, validation=blobs, early_stopping=stopping)
        run.wait(120)
    found = run.early_stopping
    assert (found.best_url, found.last_url) == (best, last)
    np.testing.assert_array_equal(weights(sw.load_model(best)), weights(model))
    kept, ended = sw.load_model(best), sw.load_model(last)
    assert int(kept.optimizer.iterations) == found.best_epoch * 12
    assert int(ended.optimizer.iterations) == found.epochs * 12
    assert (weights(ended) != weights(model)).any()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.keras", "last.keras"]


def test_unwritable_path_is_reported_and_the_run_continues(
    two: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    url = str(tmp_path / "file" / "best.keras")
    run = trained(two, [3, 1, 2], rules(max_epochs=3, keep_best=url))
    assert run.early_stopping.best_url is None
    assert f"no model saved to {url}" in caplog.text
    assert epoch_of(two.model) == 2


@pytest.mark.thorough
def test_stopped_run_has_the_best_state_and_is_resumed_with_its_scores(tmp_path: Path) -> None:
    """Stopped after the best epoch; the second run finds nothing better, and so hands that back."""
    scores = [3, 1, *[2] * 12]
    stopping = rules(patience=5)
    paced = averaging(tmp_path).with_hooks(Paced(0.02))
    with sw.ParallelWrapper(clock(), paced, workers=2) as wrapper:
        run = start(wrapper, scores, stopping)
        wait_until(lambda: len(run.early_stopping.scores) >= 4, 60)
        run.stop()
        run.wait(30)
        assert (run.status.state, run.early_stopping.reason.kind) == ("stopped", "user")
        assert epoch_of(wrapper.model) == 2
        assert run.status.message == "stopped; the model holds the best state, that of epoch 2"
    assert files(tmp_path)
    with sw.ParallelWrapper(clock(), averaging(), workers=2) as wrapper:
        found = trained(wrapper, scores, stopping, resume=str(tmp_path)).early_stopping
        assert found.scores == {1: 3.0, 2: 1.0, **dict.fromkeys(range(3, 8), 2.0)}
        assert (found.reason.kind, found.epochs, found.best_epoch) == ("patience", 7, 2)
        assert epoch_of(wrapper.model) == 2


@pytest.mark.spark
def test_invalid_settings_raise_before_anything_starts(two: Any, spark: Any) -> None:
    with pytest.raises(sw.ConfigurationError, match="need validation data"):
        start(two, [1], rules(patience=1), validation=None)
    with pytest.raises(sw.ConfigurationError, match="must be an EarlyStopping or None"):
        start(two, [1], {"patience": 1})
    network = sw.SparkNetwork(spark, clock(), averaging(communication="spark"))
    with pytest.raises(sw.ConfigurationError, match='needs `communication="ring"`'):
        start(network, [1], rules(patience=1))


def test_missing_metric_raises_after_the_first_round(two: Any) -> None:
    with pytest.raises(sw.ConfigurationError, match="there are 'loss', 'scripted'"):
        trained(two, [3, 2], sw.EarlyStopping(monitor="accuracy", patience=1))
    with pytest.raises(sw.DataError, match="needs validation examples"):
        trained(two, [3, 2], rules(patience=1), validation=script(1).take(slice(0, 0)))


@pytest.mark.thorough
@pytest.mark.spark
def test_time_and_loss_limits_end_a_run_with_spark_averaging(
    spark: Any, leaves_nothing: None
) -> None:
    threads = threading.active_count()
    model = clock()
    network = sw.SparkNetwork(spark, model, averaging(communication="spark"))
    model.optimizer.learning_rate.assign(-0.25)
    run = network.start(
        script(1), epochs=9, early_stopping=sw.EarlyStopping(max_loss=1.1 * _PLACES)
    )
    run.wait(120)
    found = run.early_stopping
    assert (run.status.state, found.reason.kind, found.epochs) == ("done", "max_loss", 1)
    assert epoch_of(model) == -1.5
    timed = network.start(script(1), epochs=9, early_stopping=sw.EarlyStopping(max_seconds=1e-9))
    timed.wait(120)
    assert timed.early_stopping.reason.kind == "max_seconds"
    assert epoch_of(model) == -2
    assert threading.active_count() <= threads + 2
