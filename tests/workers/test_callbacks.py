import time
from dataclasses import replace

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import dense, weights
from tests.support.in_process import fit

import sparkwright as sw
from sparkwright.data import DataSet
from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.runs._callback_state import prepare_scores
from sparkwright.runs.callbacks import checked_callbacks
from sparkwright.workers._control import ControlLine
from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span

MASTERS = ["averaging", "sharing"]
pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def control_lines(monkeypatch):
    """The workers' lines to the driver, in the order in which they were connected."""
    lines = []
    begin = ControlLine.__init__
    monkeypatch.setattr(
        ControlLine,
        "__init__",
        lambda self, *args, **options: (lines.append(self), begin(self, *args, **options))[1],
    )
    return lines


@pytest.fixture
def blobs(blobs):
    return blobs.take(slice(0, 60))


def network(rate=0.05):
    return dense(keras.optimizers.SGD(rate))


def master_of(kind, workers=1, **options):
    common = {
        "workers": workers, "batch_size_per_worker": 10, "shuffle": False, "seed": 1, **options
    }  # fmt: skip
    if kind == "averaging":
        return sw.ParameterAveragingTrainingMaster(averaging_frequency=1, **common)
    return sw.SharedTrainingMaster(residual_clipping=None, **common)


def rate_of(model):
    return float(model.optimizer.learning_rate)


def fit_here(data, callbacks, **options):
    """A network that Keras itself has trained, likewise."""
    model = network()
    if "steps_per_execution" in options:
        steps = options.pop("steps_per_execution")
        model.compile(model.optimizer, model.loss, metrics=["accuracy"], steps_per_execution=steps)
    x, y = data.features["features"], data.labels["labels"]
    fixed = {"batch_size": 10, "shuffle": False, "verbose": 0}
    model.fit(x, y, callbacks=callbacks, validation_data=(x, y), **fixed, **options)
    return model


@pytest.mark.thorough
@cases("kind", *MASTERS)
def test_one_worker_with_callbacks_equals_keras(blobs, tmp_path, kind):
    def callbacks(name):
        return [
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch else 0.08),
            keras.callbacks.CSVLogger(tmp_path / f"{name}.csv"),
        ]

    local = fit_here(blobs, callbacks("here"), epochs=3)
    model = network()
    run = fit(
        model, master_of(kind), blobs, epochs=3, validation=blobs, callbacks=callbacks("there")
    )
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)
    assert rate_of(model) == rate_of(local) == pytest.approx(0.02)
    found, expected = run.epoch_history, local.history
    assert list(found.history) == list(expected.history)
    assert (found.epoch, found.params["epochs"], found.params["steps"]) == ([0, 1, 2], 3, 6)
    for name, values in expected.history.items():
        np.testing.assert_allclose(found.history[name], values, atol=1e-6, err_msg=name)
    lines = [(tmp_path / f"{name}.csv").read_text().splitlines() for name in ("here", "there")]
    assert lines[0][0] == lines[1][0]
    assert [line.partition(",")[0] for line in lines[1]] == ["epoch", "0", "1", "2"]
    # What workers trained with, not only what the driver set.
    rates = run.history.groupby("epoch")["learning_rate"].max()
    np.testing.assert_allclose(rates, [0.08, 0.04, 0.02], rtol=1e-6)


@pytest.mark.thorough
def test_checkpoint_plateau_and_early_stopping_callbacks_work(blobs, tmp_path):
    seen = []
    model = network(rate=0.6)
    callbacks = [
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.ReduceLROnPlateau(monitor="epochs", factor=0.5, patience=1, mode="min"),
        keras.callbacks.EarlyStopping(
            monitor="epochs", mode="min", patience=3, restore_best_weights=True
        ),
        keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: seen.append((epoch, rate_of(model), weights(model))),
            on_train_end=lambda logs: seen.append(sorted(logs)),
        ),
    ]
    # A score that is best in the second epoch; callbacks share their logs, as in Keras.
    score = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(epochs=abs(epoch - 1))
    )
    master = master_of("averaging", 2)
    run = fit(model, master, blobs, epochs=9, validation=blobs, callbacks=[score, *callbacks])
    epochs, *_ = zip(*seen[:-1], strict=True)
    assert epochs == (0, 1, 2, 3, 4)
    assert run.status.state == "done"
    assert run.history["epoch"].max() == 5
    np.testing.assert_allclose([rate for _, rate, _ in seen[:-1]], [0.6, 0.6, 0.3, 0.15, 0.075])
    assert seen[-1] == ["accuracy", "epochs", "learning_rate", "loss", "val_accuracy", "val_loss"]
    np.testing.assert_array_equal(weights(model), seen[1][2])
    for epoch, _, expected in seen[:-1]:
        saved = keras.saving.load_model(tmp_path / f"{epoch + 1}.keras")
        np.testing.assert_array_equal(weights(saved), expected)
        saved.load_weights(tmp_path / f"{epoch + 1}.weights.h5")
        np.testing.assert_array_equal(weights(saved), expected)


@cases("metric, expected", ("accuracy", 1), ("mae", 2), (keras.metrics.F1Score(name="f"), 1))
def test_direction_of_a_score_is_that_of_its_metric(metric, expected):
    """As after training by Keras, although the driver's model has not trained."""
    model = network()
    model.compile("sgd", "categorical_crossentropy", metrics=[metric])
    name = f"val_{metric if isinstance(metric, str) else metric.name}"
    stop = keras.callbacks.EarlyStopping(name)
    prepare_scores([stop], model)
    stop.set_model(model)
    stop.on_train_begin()
    for epoch, score in enumerate((0.5, 0.7, 0.3)):
        stop.on_epoch_end(epoch, {name: score})
    assert stop.best_epoch == expected
    assert not model._compile_metrics.built


def test_callbacks_that_act_by_scores_require_them(blobs):
    plateau, master = keras.callbacks.ReduceLROnPlateau(), master_of("averaging")
    best = keras.callbacks.ModelCheckpoint("a.keras", save_best_only=True)
    for callback in (plateau, best, keras.callbacks.EarlyStopping()):
        with pytest.raises(sw.ConfigurationError, match="Received: monitor='val_loss', and no"):
            fit(network(), master, blobs, callbacks=[callback])
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    with pytest.raises(sw.ConfigurationError, match="Received: ExponentialDecay"):
        fit(network(rate=schedule), master, blobs, validation=blobs, callbacks=[plateau])


@pytest.mark.thorough
def test_tensorboard_writes_its_files(blobs, tmp_path):
    pytest.importorskip("tensorboard")
    callback = keras.callbacks.TensorBoard(str(tmp_path), histogram_freq=1, update_freq=1)
    master = master_of("averaging")
    fit(network(), master, blobs, epochs=2, callbacks=[callback], callback_frequency=2)
    (events,) = tmp_path.glob("train/events*")
    found = events.read_bytes()
    assert b"epoch_loss" in found
    assert b"batch_loss" in found


class Seen(keras.callbacks.Callback):
    """Remembers what it was called with, and lowers the learning rate in each epoch's midst."""

    def __init__(self):
        super().__init__()
        self.calls = []
        self.states = []

    def on_train_batch_begin(self, batch, logs=None):
        self.calls.append(("begin", batch))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("end", batch))
        self.states.append((logs["loss"], logs["accuracy"], *weights(self.model)))
        assert sorted(logs) == ["accuracy", "loss"]
        self.model.optimizer.learning_rate = rate_of(self.model) * 0.8

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch", epoch))


@pytest.mark.thorough
def test_callbacks_at_averagings_equal_keras(blobs, tmp_path):
    """As with `steps_per_execution`; Keras counts beyond the epoch if it does not divide it."""
    here, there = Seen(), Seen()

    def saves(name):
        path = tmp_path / name / "{epoch}-{batch}.weights.h5"
        return keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=5)

    local = fit_here(blobs, [here, saves("here")], epochs=2, steps_per_execution=3)
    model = network()
    run = fit(
        model, master_of("averaging"), blobs, epochs=2, validation=blobs,
        callbacks=[there, saves("there")], callback_frequency=3,
    )  # fmt: skip
    assert there.calls == here.calls
    assert ("end", 2) in there.calls
    np.testing.assert_allclose(there.states, here.states, atol=1e-5)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)
    rates = run.history["learning_rate"].to_numpy()
    np.testing.assert_allclose(rates, 0.05 * 0.8 ** np.repeat([0, 1, 2, 3], 3), 1e-6)
    files = [
        sorted(each.name for each in (tmp_path / name).iterdir()) for name in ("here", "there")
    ]
    assert files[0] == files[1] != []


@pytest.mark.thorough
def test_training_can_end_at_an_averaging(blobs):
    class Ends(Seen):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            self.model.stop_training = batch == 3

    callback, model = Ends(), network()
    run = fit(
        model, master_of("averaging", 2), blobs, epochs=3, callbacks=callback, callback_frequency=1
    )
    assert run.status.state == "done"
    assert callback.calls == [
        ("begin", 0), ("end", 1), ("begin", 2), ("end", 3), ("epoch", 0)
    ]  # fmt: skip
    assert len(run.history) == 4
    assert run.epoch_history.epoch == [0]
    np.testing.assert_array_equal(weights(model), callback.states[-1][2:])


@pytest.mark.thorough
def test_worker_lost_at_an_averaging_does_not_affect_callbacks(blobs, control_lines):
    class Loses(Seen):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(
                batch, {**logs, "accuracy": 0}
            )  # a replacement's begins anew
            if len(self.states) == at:
                control_lines[0].hang_up()

    found = []
    for at in (-1, 4):  # nobody is lost in the first run
        control_lines.clear()
        callback, model = Loses(), network()
        run = fit(
            model, master_of("averaging", 2), blobs, epochs=3, callbacks=callback,
            callback_frequency=1,
        )  # fmt: skip
        assert (run.events["event"] == "WorkerLost").sum() == (at >= 0)
        rates = run.history.sort_values(["epoch", "round"])["learning_rate"]
        found.append((callback.calls, callback.states, weights(model), rates.tolist()))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1:], found[1][1:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=0)


def test_callbacks_are_due_once_after_epochs_and_averagings():
    todo = (Span(0, 0, 3, 5),)
    after = Progress(epoch=0, opened=1, round=2, todo=todo)
    assert [n for n in range(5) if after.awaits_callbacks(n)] == [1, 2]
    assert not after.after_callbacks(None).awaits_callbacks(2)
    assert not replace(after, todo=()).awaits_callbacks(2)  # the epoch's end is next
    ended = replace(after, epoch=1, round=0)
    assert ended.awaits_callbacks(0)
    assert not ended.after_callbacks(None).awaits_callbacks(1)
    owed = replace(ended.after_callbacks(None), round=1)
    assert not owed.awaits_callbacks(1)


def test_callbacks_at_averagings_require_averagings(blobs):
    with pytest.raises(ConfigurationError, match=r"Received: callback_frequency=3\. Leave it out"):
        fit(network(), master_of("sharing"), blobs, callbacks=Seen(), callback_frequency=3)


@cases("method", "on_train_begin", "on_train_end")
def test_callback_failing_at_the_start_or_end_fails_the_run(blobs, method):
    def fails(logs=None):
        raise LookupError(method)

    callback = keras.callbacks.LambdaCallback(**{method: fails})
    with pytest.raises(LookupError, match=method):
        fit(network(), master_of("averaging"), blobs, callbacks=[callback])


def test_callback_cannot_wait_for_its_own_run(blobs):
    found = []

    def wait(epoch, logs):
        while not found:
            time.sleep(0.01)
        found[0].wait()

    callback = keras.callbacks.LambdaCallback(on_epoch_end=wait)
    with sw.ParallelWrapper(network(), master_of("averaging"), cores_per_worker=1) as wrapper:
        found.append(wrapper.start(blobs, display=False, callbacks=[callback]))
        with pytest.raises(ConfigurationError, match="a run cannot wait for itself"):
            found[0].wait(60)


@cases(
    "kind, method, error, trained",
    ("averaging", "on_train_begin", SystemExit(3), 0),
    ("averaging", "on_epoch_end", KeyboardInterrupt(), 6),
    ("averaging", "on_train_end", GeneratorExit(), 6),
    ("sharing", "on_epoch_end", SystemExit(3), 6),
)
def test_callback_that_exits_fails_the_run_with_its_place(blobs, kind, method, error, trained):
    def exits(*_):
        raise error

    model = network()
    callback = keras.callbacks.LambdaCallback(**{method: exits})
    name = type(error).__name__
    with pytest.raises(SparkwrightError, match=rf"Received: {name}\(.*test_callbacks\.py, line"):
        fit(model, master_of(kind), blobs, callbacks=[callback])
    assert int(model.optimizer.iterations) == trained


@pytest.mark.thorough
@cases("kind, non_finite", ("averaging", "stop"), ("sharing", "continue"))
def test_terminate_on_nan_ends_the_run_without_an_error(blobs, kind, non_finite):
    model = network()
    broken = blobs.features["features"].copy()
    broken[45] = np.nan
    data = DataSet(broken, blobs.labels)
    master = master_of(kind, 2, non_finite=non_finite)
    run = fit(model, master, data, epochs=50, callbacks=keras.callbacks.TerminateOnNaN())
    assert run.status.state == "done"
    assert run.status.epoch < 50
    assert np.isfinite(weights(model)).all()


def test_worker_lost_while_callbacks_run_does_not_affect_them(blobs, control_lines):
    seen = []

    def lose(epoch, logs):
        seen.append((epoch, logs["loss"]))
        if epoch == 1:
            control_lines[0].hang_up()
            model.optimizer.learning_rate = 0.01

    callback, model = keras.callbacks.LambdaCallback(on_epoch_end=lose), network()
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, _: 0.05 / (1 + epoch))
    run = fit(model, master_of("sharing", 2), blobs, epochs=4, callbacks=[callback, halve])
    assert [epoch for epoch, _ in seen] == run.epoch_history.epoch == [0, 1, 2, 3]
    assert run.epoch_history.history["loss"] == [loss for _, loss in seen]
    assert (run.events["event"] == "WorkerLost").sum() == 1
    rates = run.history.groupby("epoch")["learning_rate"]
    np.testing.assert_allclose(rates.max(), 0.05 / np.arange(1, 5), rtol=1e-6)


BY_BATCH = {"save_freq": 10}


class Counts(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        del batch, logs


class Harmless(keras.callbacks.ModelCheckpoint):
    def on_epoch_end(self, epoch, logs=None):
        del epoch, logs


@cases(
    "callback, problem",
    (Counts(), r"Received: Counts with `on_train_batch_end`\. Override .* `callback_frequency=n`"),
    (keras.callbacks.LambdaCallback(on_batch_end=print), "with `on_batch_end`"),
    (keras.callbacks.LambdaCallback(on_train_batch_begin=print), "`on_train_batch_begin`"),
    (keras.callbacks.LambdaCallback(on_predict_end=print), "`on_predict_end`"),
    (keras.callbacks.LambdaCallback(on_test_begin=print), "`on_test_begin`"),
    (keras.callbacks.ProgbarLogger(), r"ProgbarLogger.*`display=True`"),
    (keras.callbacks.BackupAndRestore("/tmp/none"), "`resume=url`"),
    (keras.callbacks.ModelCheckpoint("a.keras", **BY_BATCH), r'Use `save_freq="epoch"`, or'),
    (Harmless("a.keras", **BY_BATCH), r"or `callback_frequency=n`, which"),
    (object(), r"must be a keras\.callbacks\.Callback\. Received: object\."),
)
def test_unsupported_callback_is_rejected(callback, problem):
    with pytest.raises(ConfigurationError, match=problem):
        checked_callbacks([callback])


def test_keras_callbacks_are_accepted():
    callbacks = [
        keras.callbacks.CSVLogger("a.csv"),
        Harmless("a.keras"),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.LambdaCallback(on_epoch_end=print),
        keras.callbacks.RemoteMonitor(),
        keras.callbacks.History(),
    ]
    assert checked_callbacks(callbacks) == callbacks
    assert checked_callbacks(callbacks[0]) == callbacks[:1]
    assert checked_callbacks(None) == []


def test_minibatch_methods_are_accepted_with_a_frequency():
    callbacks = [Counts(), keras.callbacks.ModelCheckpoint("a.keras", **BY_BATCH)]
    assert checked_callbacks(callbacks, by_averaging=True) == callbacks
    for callback in (
        keras.callbacks.LambdaCallback(on_predict_end=print),
        keras.callbacks.BackupAndRestore("/tmp/none", **BY_BATCH),
        keras.callbacks.TensorBoard("/tmp/none", profile_batch=2),
    ):
        with pytest.raises(ConfigurationError):
            checked_callbacks(callback, by_averaging=True)
