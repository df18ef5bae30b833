import asyncio
import sys
import time
from dataclasses import replace

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import Hook, dense, numbered, train_locally, weights
from tests.support.in_process import InProcessPool, fit

import sparkwright as sw
from sparkwright.masters.plan import epoch_order
from sparkwright.runs._events import RowsLogged, StateChanged
from sparkwright.updates import ThresholdState

pytestmark = pytest.mark.usefixtures("in_process")


def one_worker(**options):
    """Settings under which training equals training here, minibatch by minibatch."""
    return sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, shuffle=False, **options
    )


def averaging(**options):
    options = {"batch_size_per_worker": 5, "averaging_frequency": 2, "seed": 1, **options}
    return sw.ParameterAveragingTrainingMaster(workers=2, **options)


def sharing(workers=2, **options):
    settings = {
        "batch_size_per_worker": 5,
        "seed": 1,
        "threshold": sw.AdaptiveThreshold(initial=1e-3),
        **options,
    }
    return sw.SharedTrainingMaster(workers=workers, **settings)


def init(seed):
    return keras.initializers.GlorotUniform(seed=seed)


class CountedThreshold:
    """A threshold algorithm of the user's own, whose threshold is the number of the message."""

    def init(self):
        return ThresholdState(1.0)

    def update(self, state, *, sparsity):
        return ThresholdState(state.threshold + 1, sparsity)

    def to_dict(self):
        return {}


@pytest.mark.thorough
def test_custom_threshold_algorithm_runs_on_the_workers(blobs):
    text = sharing(threshold=CountedThreshold(), minibatches_per_message=1).to_json()
    master = sw.SharedTrainingMaster.from_json(text, allow=[f"{__name__}.CountedThreshold"])
    run = fit(dense(), master, blobs)
    for _, rows in run.history.groupby("worker"):
        assert rows["threshold"].tolist() == [*range(1, len(rows) + 1)]


def test_thresholds_are_carried_over_between_fits(blobs):
    master = sharing(threshold=sw.AdaptiveThreshold(decay=0.5), minibatches_per_message=1)
    with sw.ParallelWrapper(dense(), master) as wrapper:
        ended = wrapper.start(blobs, display=False)
        ended.wait(120)
        resumed = wrapper.start(blobs, display=False)
        resumed.wait(120)
        first = resumed.history.groupby("worker")["threshold"].first()
        assert first.tolist() == pytest.approx(2 * [ended.thresholds[0]], rel=1e-6)
        wrapper.master = replace(master, threshold=sw.FixedThreshold(threshold=0.125))
        other = wrapper.start(blobs, display=False)
        other.wait(120)
        assert set(other.history["threshold"]) == {0.125}


@pytest.mark.thorough
def test_wrapper_reads_exported_minibatches_and_iterators(tmp_path):
    url = str(tmp_path / "export")
    sw.data.to_minibatch_files(numbered(61), url, batch_size=8)
    found = []
    given = [numbered(61), url, sw.data.read_minibatches(url), list(numbered(61).batches(7))]
    for data in given:
        model = dense()
        run = fit(model, averaging(), data, validation=url)
        assert run.history["examples"].sum() == 61
        assert run.status.validation[-1].loss > 0
        found.append(weights(model))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    (tmp_path / "a.csv").write_text("1,2")
    with pytest.raises(sw.DataError, match=r"give a `loader` to `fit_paths`.*`read_minibatches`"):
        fit(dense(), averaging(), str(tmp_path))
    with pytest.raises(sw.ConfigurationError, match=r"`validation` must be .*`.*read_minibatches`"):
        fit(dense(), averaging(), url, validation=3)


@pytest.mark.thorough(but=["average"])
@cases(
    "updater, optimizer",
    ("average", keras.optimizers.SGD),
    ("reset", keras.optimizers.Adam),
    ids=["average", "reset"],
)
def test_one_worker_equals_local_training(blobs, updater, optimizer):
    # As in Deeplearning4j's test: three minibatches of ten, one averaging.
    part = blobs.take(slice(0, 30))
    master = sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, updater=updater, seed=3
    )
    model, local = dense(optimizer(0.05)), dense(optimizer(0.05))
    fit(model, master, part)
    order = epoch_order(30, seed=3, epoch=0, worker=0, shuffle=True)
    train_locally(local, list(part.take(order).batches(10)))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)
    assert int(model.optimizer.iterations) == 3


@pytest.mark.thorough(but=["local"])
@cases("updater", "average", "local")
def test_moments_continue_across_averagings(blobs, updater):
    master = one_worker(averaging_frequency=2, updater=updater)
    model, local = dense("adam"), dense("adam")
    # The driver's optimizer holds the average: training continues as if it had never ended.
    for epochs in (2, 1):
        fit(model, master, blobs, epochs=epochs)
        train_locally(local, list(blobs.batches(10)) * epochs)
        np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


def test_reset_restarts_the_optimizer_after_each_averaging(blobs):
    master = one_worker(averaging_frequency=2, updater="reset")
    model, local = (dense(keras.optimizers.SGD(0.1, momentum=0.9)) for _ in range(2))
    fit(model, master, blobs.take(slice(0, 60)))
    for start in range(0, 60, 20):
        train_locally(local, list(blobs.take(slice(start, start + 20)).batches(10)))
        for variable in local.optimizer.variables[2:]:
            variable.assign(np.zeros(variable.shape))
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


SLOW_MOMENTUM = sw.OuterOptimizer(momentum=0.6, learning_rate=0.8, nesterov=False)


def normalized():
    """With what is averaged but not trained, and Adam's moments."""
    model = keras.Sequential(
        [
            keras.Input((4,)),
            # A bias would have gradients of rounding errors alone, which Adam makes large.
            keras.layers.Dense(5, use_bias=False, kernel_initializer=init(1)),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dense(3, activation="softmax", kernel_initializer=init(2)),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    return model


def simulated(data, master, *, epochs):
    """The network that two workers train, and worker 0's moments; Keras' SGD is the outer step."""
    replicas, batches = [normalized(), normalized()], list(data.batches(10))
    half, outer = len(batches) // 2, master.outer_optimizer
    trained = len(replicas[0].trainable_variables)
    variables = [variable.numpy() for variable in replicas[0].trainable_variables]
    kept = [keras.Variable(value) for value in variables]
    slow = outer and keras.optimizers.SGD(
        outer.learning_rate, momentum=outer.momentum, nesterov=outer.nesterov
    )
    under_way = None  # an average, and each worker's variables when it began

    def train(start, stop):
        for worker, replica in enumerate(replicas):
            train_locally(replica, batches[worker * half + start : worker * half + stop])

    def variables_of(replica):
        return [*replica.trainable_variables, *replica.non_trainable_variables[:2]]

    def apply():
        means, states = under_way
        for replica, before in zip(replicas, states, strict=True):
            pairs = zip(variables_of(replica), means, before, strict=True)
            for place, (variable, mean, old) in enumerate(pairs):
                is_trained = place < trained
                variable.assign(variable.numpy() - old + mean if is_trained else mean)
        moments = [replica.optimizer.variables[2:] for replica in replicas]
        for pair in zip(*moments, strict=True):
            if master.updater != "local":
                mean = (pair[0].numpy() + pair[1].numpy()) / 2
                for variable in pair:
                    variable.assign(mean * (master.updater == "average"))

    for epoch in range(epochs):
        start, frequency = 0, master.averaging_frequency
        if not isinstance(frequency, int):
            frequency = next(frequency[n] for n in range(epoch + 1, 0, -1) if n in frequency)
        while start < half:
            stop = min(half, start + frequency)
            if under_way is not None:
                middle = min(stop, start + master.averaging_delay)
                train(start, middle)
                apply()
                start = middle
            train(start, stop)
            start = stop
            states = [[v.numpy() for v in variables_of(replica)] for replica in replicas]
            means = [(one + other) / 2 for one, other in zip(*states, strict=True)]
            if slow is not None:
                slow.apply([x - m for x, m in zip(kept, means[:trained], strict=True)], kept)
                means[:trained] = [variable.numpy() for variable in kept]
            under_way = means, states
            if not master.averaging_delay:
                apply()
                under_way = None
    if under_way is not None:
        apply()
    return replicas[0], [v.numpy() for v in replicas[0].optimizer.variables[2:]]


@pytest.mark.thorough(but=["plain"])
@cases(
    "updater, outer",
    ("local", None),
    ("average", sw.OuterOptimizer()),
    ("reset", SLOW_MOMENTUM),
    ("local", sw.OuterOptimizer(momentum=0.0)),
    ids=["plain", "diloco", "slowmo", "no velocity"],
)
def test_two_workers_equal_their_simulation(blobs, updater, outer):
    master = averaging(
        batch_size_per_worker=10,
        shuffle=False,
        updater=updater,
        outer_optimizer=outer,
        averaging_frequency={1: 1, 2: 4, 3: 2},
    )
    model = normalized()
    fit(model, master, blobs, epochs=3)
    expected, moments = simulated(blobs, master, epochs=3)
    for one, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    if updater != "reset":
        for variable, value in zip(model.optimizer.variables[2:], moments, strict=True):
            np.testing.assert_allclose(variable.numpy(), value, atol=2e-5)


@pytest.mark.thorough
@cases(
    "updater, frequency, delay, outer",
    ("local", 1, 1, sw.OuterOptimizer()),
    ("reset", 5, 2, SLOW_MOMENTUM),
    ("local", {1: 1, 2: 5, 3: 2}, 4, None),  # 6 minibatches: by 1, then 5 and 1, then by 2
)
def test_delayed_averages_equal_their_simulation(blobs, updater, frequency, delay, outer):
    master = averaging(
        batch_size_per_worker=10,
        shuffle=False,
        updater=updater,
        averaging_frequency=frequency,
        averaging_delay=delay,
        outer_optimizer=outer,
    )
    model = normalized()
    run = fit(model, master, blobs, epochs=3)
    expected, _ = simulated(blobs, master, epochs=3)
    for one, other in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
    assert run.history["examples"].sum() == 3 * 120


class KeepsParameters(Hook):
    """Writes the parameters with which each minibatch begins into a folder."""

    def __init__(self, folder):
        self._folder, self._count = folder, 0

    def pre_update(self, minibatch, model):
        np.save(self._folder / f"{self._count:02}-{id(model)}.npy", weights(model))
        self._count += 1


@pytest.mark.thorough
@cases("updater, precision, limit", ("local", "int8", 5e-3), ("reset", "bfloat16", 2e-3))
def test_rounded_averages_stay_close_to_exact_ones(blobs, updater, precision, limit):
    master = averaging(shuffle=False, updater=updater, averaging_frequency=3)
    exact, rounded = normalized(), normalized()
    fit(exact, master, blobs, epochs=2)
    fit(rounded, replace(master, exchange_precision=precision), blobs, epochs=2)
    apart = np.abs(weights(rounded) - weights(exact))
    assert 0 < apart.max() < limit


@pytest.mark.thorough(but=["local-bfloat16"])
@cases("updater, precision", ("average", "float32"), ("local", "bfloat16"), ("reset", "int8"))
def test_replicas_hold_the_same_parameters_after_each_averaging(
    blobs, tmp_path, updater, precision
):
    master = averaging(
        averaging_frequency=3,
        updater=updater,
        outer_optimizer=sw.OuterOptimizer(),
        exchange_precision=precision,
    )
    fit(normalized(), master.with_hooks(KeepsParameters(tmp_path)), blobs)
    for step in range(12):
        one, other = (np.load(path) for path in sorted(tmp_path.glob(f"{step:02}-*.npy")))
        assert np.array_equal(one, other) == (step % 3 == 0), step


@pytest.mark.thorough
def test_local_moments_are_reset_after_a_nan(blobs):
    """The NaN is in the last of worker 1's minibatches; in the next epoch it trains again."""
    features = blobs.features["features"].copy()
    features[-1] = np.nan
    master = averaging(updater="local", shuffle=False, non_finite="continue")
    run = fit(dense("adam"), master, sw.DataSet(features, blobs.labels), epochs=2)
    losses = run.history[run.history["worker"] == 1]["loss"]
    assert np.flatnonzero(np.isnan(losses)).tolist() == [11, 23]


def test_averaging_every_step_equals_the_large_batch_for_a_cnn():
    def cnn():
        init = keras.initializers.GlorotUniform
        model = keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                keras.layers.Conv2D(4, 3, activation="relu", kernel_initializer=init(seed=1)),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dense(3, activation="softmax", kernel_initializer=init(seed=2)),
            ]
        )
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        return model

    random = np.random.default_rng(1)
    data = sw.DataSet(
        random.random((40, 8, 8, 1), np.float32), random.integers(0, 3, 40).astype(np.int32)
    )
    master = sw.ParameterAveragingTrainingMaster(
        workers=4, batch_size_per_worker=10, averaging_frequency=1
    )
    model, local = cnn(), cnn()
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-8)
    fit(model, master, data, epochs=3)
    train_locally(local, [data] * 3)
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-6)


def test_several_inputs_and_outputs_by_name():
    def build():
        left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
        joined = keras.layers.Concatenate()([left, right])
        one = keras.layers.Dense(1, name="one", kernel_initializer=init(1))(joined)
        two = keras.layers.Dense(2, activation="softmax", name="two", kernel_initializer=init(2))(
            joined
        )
        model = keras.Model([left, right], [one, two])
        model.compile(
            keras.optimizers.SGD(0.05),
            loss=["mse", "sparse_categorical_crossentropy"],
            loss_weights=[1.0, 0.5],
        )
        return model

    random = np.random.default_rng(0)
    # In another order than the network's: they are matched by name.
    data = sw.DataSet(
        {"right": random.random((30, 2), np.float32), "left": random.random((30, 3), np.float32)},
        {"two": random.integers(0, 2, 30).astype(np.int32), "one": random.random((30, 1))},
    )
    model, local = build(), build()
    fit(model, one_worker(), data)
    for batch in data.batches(10):
        local.train_on_batch(
            [batch.features["left"], batch.features["right"]],
            [batch.labels["one"], batch.labels["two"]],
        )
    np.testing.assert_allclose(weights(model), weights(local), atol=1e-5)


def test_integer_state_is_unchanged(blobs):
    class Counting(keras.layers.Layer):
        def build(self, shape):
            self.calls = self.add_weight(
                shape=(), dtype="int32", initializer="zeros", trainable=False
            )

        def call(self, inputs, training=False):
            if training:
                self.calls.assign_add(1)
            return inputs

    model = keras.Sequential(
        [keras.Input((4,)), Counting(), keras.layers.Dense(3, activation="softmax")]
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    fit(model, averaging(batch_size_per_worker=10), blobs)
    assert int(model.layers[0].calls.numpy()) == 6  # worker 0's own count, no mean


@pytest.mark.thorough
def test_dropout_differs_between_workers_and_repeats_with_the_seed(blobs):
    layers = [
        keras.layers.Dense(16, kernel_initializer=init(1)),
        keras.layers.Dropout(0.5, seed=3),
        keras.layers.Dense(3, activation="softmax", kernel_initializer=init(2)),
    ]

    def after(workers):
        model = keras.models.clone_model(keras.Sequential([keras.Input((4,)), *layers]))
        model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        # The same twenty examples for each worker: alike draws would make the workers alike.
        twice = sw.DataSet.concatenate([blobs.take(slice(0, 20))] * workers)
        master = sw.ParameterAveragingTrainingMaster(
            workers=workers, batch_size_per_worker=10, averaging_frequency=1, shuffle=False
        )
        fit(model, master, twice)
        return weights(model)

    both = after(2)
    np.testing.assert_array_equal(both, after(2))
    assert abs(both - after(1)).max() > 1e-4


def test_validation_loss_and_metrics_are_those_of_the_averaged_network(blobs):
    train, held_back = blobs.take(slice(0, 87)), blobs.take(slice(87, 120))
    model = dense()
    run = fit(model, averaging(), train, epochs=3, validation=held_back)
    points = run.status.validation
    assert [point.epoch for point in points] == [1, 2, 3]
    x, y = held_back.features["features"], held_back.labels["labels"]
    loss, accuracy = model.evaluate(x, y, verbose=0)
    assert points[-1].loss == pytest.approx(loss, abs=1e-5)
    assert points[-1].metrics["accuracy"] == pytest.approx(accuracy, abs=1e-6)


@pytest.mark.thorough
def test_measuring_xla_does_not_change_the_result(blobs):
    """Whichever is chosen, the trial leaves no trace in the result."""
    found = []
    for xla in ("off", "measure"):
        model = dense("adam")
        fit(model, one_worker(xla=xla), blobs)
        found.append(weights(model))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_bounded_staleness_limits_a_fast_worker(blobs):
    """One worker sleeps in every minibatch: the other may be two minibatches ahead, no more."""
    master = sharing(max_staleness=2).with_hooks(SlowWorkerZero())
    run = fit(dense(), master, blobs)
    assert run.history["staleness"].max() <= 4  # told after the two minibatches that were allowed
    unbounded = sharing().with_hooks(SlowWorkerZero())
    run = fit(dense(), unbounded, blobs)
    assert run.history["staleness"].max() > 4


def test_slow_worker_does_not_delay_the_epoch(blobs):
    """Others take pieces off its end: it trains far less than half of the minibatches."""
    slowed = sharing(piece_minibatches=1).with_hooks(SlowWorkerZero())
    run = fit(dense(), slowed, blobs, epochs=2)
    steps = run.history.groupby("worker")["step"].max()
    assert run.history["examples"].sum() == 2 * 120
    assert steps[0] < steps[1] / 2


class SlowWorkerZero(Hook):
    """Makes worker 0 slow, found by its shuffle: the first process to take the marker."""

    def __init__(self):
        self.slow = None

    def pre_update(self, minibatch, model):
        if self.slow is None:
            frame = sys._getframe()
            while frame is not None and self.slow is None:
                owner = frame.f_locals.get("self")
                settings = getattr(owner, "_settings", None)
                if settings is not None:
                    self.slow = settings.worker == 0
                frame = frame.f_back
        if self.slow:
            time.sleep(0.1)


@pytest.mark.thorough
def test_nan_loss_stops_the_run_and_keeps_the_last_finite_state():
    """With all that could carry it on: Adam's moments, BatchNormalization's statistics."""
    features = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    features[90:] = np.nan  # of worker 1
    data = sw.DataSet(features, np.arange(120, dtype=np.int32) % 3)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    with pytest.raises(sw.errors.NonFiniteLossError, match=r"the loss became nan in epoch 1"):
        fit(model, sharing(shuffle=False), data)
    for variable in (*model.variables, *model.optimizer.variables):
        assert np.isfinite(variable.numpy()).all(), variable.path


@pytest.mark.thorough
def test_batch_normalization_and_lstm_train():
    random = np.random.default_rng(0)
    labels = np.arange(160, dtype=np.int32) % 2
    series = random.normal(size=(160, 6, 3)) + labels[:, None, None]
    data = sw.DataSet(series.astype(np.float32), labels)
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((6, 3)),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.LSTM(8),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    fit(model, sharing(batch_size_per_worker=8), data, epochs=8)
    assert model.evaluate(data.features["features"], labels, verbose=0)[1] > 0.95
    # Averaged at the meetings, never encoded: the statistics are those of the data.
    mean = model.layers[0].moving_mean.numpy()
    np.testing.assert_allclose(mean, series.mean(axis=(0, 1)), atol=0.2)


def test_warm_replicas_keep_no_state_between_networks_and_masters(blobs):
    """What one run wants of a warm replica does not stay: the same averaging, the same bits."""
    other = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    other.compile("adam", "sparse_categorical_crossentropy")
    averaging = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=5, seed=1)
    first, second = dense("adam"), dense("adam")
    for model, master in (
        (first, averaging),
        (other, sharing()),
        (dense("adam"), sharing(combine="mean")),
        (second, averaging),
    ):
        before = weights(model)
        fit(model, master, blobs)
        assert abs(weights(model) - before).max() > 0
    np.testing.assert_array_equal(weights(first), weights(second))


@pytest.mark.thorough
def test_open_wrapper_keeps_the_processes_of_other_runs(monkeypatch):
    closed = []

    class Pool(InProcessPool):
        def close(self):
            closed.append(self)
            super().close()

    monkeypatch.setattr("sparkwright.local.TrainerPool", Pool)
    monkeypatch.setattr("sparkwright.local._open_wrappers", set())
    with sw.ParallelWrapper(dense(), averaging(), workers=2):
        fit(dense(), averaging(), numbered(20))
        assert not closed
    assert len(closed) == 1


def test_half_precision_variables_are_rejected(blobs):
    layers = [
        keras.layers.Dense(8, activation="tanh", dtype="bfloat16"),
        keras.layers.Dense(3, activation="softmax", dtype="float32"),
    ]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile("sgd", "sparse_categorical_crossentropy")
    with pytest.raises(sw.ConfigurationError, match=r"kernel' of bfloat16.*mixed_bfloat16"):
        fit(model, sharing(), blobs)


def test_same_seed_gives_identical_bits_and_another_seed_does_not(blobs):
    found = []
    for seed in (5, 5, 6):
        model = dense("adam")
        fit(model, averaging(seed=seed), blobs)
        found.append(weights(model))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).any()


def test_listeners_receive_events_and_a_failing_one_is_harmless(blobs):
    heard = []
    model = dense()

    def fail(event):
        raise RuntimeError("a listener's own bug")

    async def returned(run):
        return await run

    with sw.ParallelWrapper(model, averaging(), workers=2, cores_per_worker=1) as wrapper:
        run = wrapper.start(blobs, epochs=2, display=False)
        run.add_listener(fail)
        remove = run.add_listener(heard.append)
        assert asyncio.run(returned(run)) is model
        remove()
    assert sum(event.count for event in heard if isinstance(event, RowsLogged)) == len(run.log)
    assert [e.state for e in heard if isinstance(e, StateChanged)][-1] == "done"


@pytest.mark.thorough(but=["constant"])
@cases(
    "frequency, expected",
    (5, [3, 3, 3]),
    ({1: 1, 2: 6, 3: 4}, [12, 2, 3]),
    ids=["constant", "by epoch"],
)
def test_iteration_epoch_and_averaging_counts_are_exact(blobs, frequency, expected):
    """120 examples, 2 workers, batch 5: 12 minibatches each; after 3 epochs 36 iterations."""
    model = dense()
    run = fit(model, averaging(averaging_frequency=frequency), blobs, epochs=3)
    assert int(model.optimizer.iterations) == 36
    assert run.status.averagings == sum(expected)
    assert (run.status.epoch, run.status.round, run.status.rounds) == (3, *expected[-1:] * 2)
    history = run.history
    assert history.groupby("worker")["step"].max().tolist() == [36, 36]
    assert history["epoch"].max() == 3
    rounds = history[history["worker"] == 0].groupby("epoch")["round"].nunique()
    assert rounds.tolist() == expected


class SpoilsMoments(Hook):
    """Makes moments infinite in the third minibatch; Adam's steps then are 0."""

    def post_update(self, minibatch, model):
        if int(model.optimizer.iterations) == 3:
            for moment in model.optimizer._velocities:
                moment.assign(np.full(moment.shape, np.inf))


@pytest.mark.thorough
def test_infinite_local_moments_are_detected_by_the_end_of_the_epoch(blobs):
    """With 12 minibatches an epoch, the 20 after which a worker looks are never reached."""
    master = averaging(updater="local", averaging_frequency=1).with_hooks(SpoilsMoments())
    with pytest.raises(sw.errors.NonFiniteLossError, match=r"parameters or moments .* in epoch 1"):
        fit(dense("adam"), master, blobs, epochs=2)
