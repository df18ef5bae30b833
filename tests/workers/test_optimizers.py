import inspect

import keras
import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.networks import ModelDefinition, pack_arrays
from sparkwright.networks.optimizer_checks import check_summed_updates
from sparkwright.runs.driver_model import DriverModel
from sparkwright.runs.outcome import Outcome
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers._replica import make_replica
from sparkwright.workers.protocol import Progress

STEPS, BATCH = 7, 8
KINDS = {
    name: kind
    for name, kind in vars(keras.optimizers).items()
    if inspect.isclass(kind)
    and issubclass(kind, keras.optimizers.Optimizer)
    and kind is not keras.optimizers.Optimizer
}
SCHEDULES = {
    name: kind
    for name, kind in vars(keras.optimizers.schedules).items()
    if inspect.isclass(kind) and name != "LearningRateSchedule"
}
# Of the optimizer's own options, those that give it further state or other steps.
OWN = {
    "momentum": 0.9,
    "amsgrad": True,
    "centered": True,
    "nesterov": True,
    "warmup_steps": 3,
    "rho": 0.8,
    "relative_step": False,
    "beta_1": 0.8,
    "l1_regularization_strength": 0.01,
}
BASE = {
    "default": {},
    "own": {"use_ema": True, "ema_momentum": 0.8, "clipvalue": 0.02, "weight_decay": 0.01},
    "all": {
        "use_ema": True,
        "ema_momentum": 0.8,
        "ema_overwrite_frequency": 2,
        "gradient_accumulation_steps": 2,
        "global_clipnorm": 0.1,
        "loss_scale_factor": 8.0,
    },
}


def examples(count=STEPS * BATCH):
    random = np.random.default_rng(0)
    x = random.normal(size=(count, 4)).astype(np.float32)
    return x, np.tanh(x @ random.normal(size=(4, 3))).astype(np.float32)


def network(optimizer, *, policy=None):
    """One layer, with the same weights each time."""
    start = keras.initializers.GlorotUniform(seed=3)
    layer = keras.layers.Dense(
        3, "tanh", kernel_initializer=start, bias_initializer="ones", name="only", dtype=policy
    )
    model = keras.Sequential([keras.Input((4,)), layer], name="small")
    model.compile(optimizer, "mse")
    return model


def optimizer(name, case):
    kind, options = KINDS[name], dict(BASE[case])
    known = inspect.signature(kind).parameters
    if name == "MultiOptimizer":
        inner = optimizer("Adam", case), optimizer("SGD", case)
        return kind(keras.optimizers.OptimizerMap(inner[0], {".*bias": inner[1]}))
    if name == "LossScaleOptimizer":
        options.pop("loss_scale_factor", None)
        # The first steps overflow in half precision: they are skipped, and halve the scale.
        inner = keras.optimizers.Adam(0.01, **options)
        return kind(inner, initial_scale=2.0**19, dynamic_growth_steps=2)
    if case == "own":
        options |= {option: value for option, value in OWN.items() if option in known}
    return kind(1.0 if name == "Adadelta" else 0.01, **options)


def expected(model, data, *, batch=BATCH, eagerly=True):
    """`model` after `fit`; by default eagerly, because tracing takes longer than these few steps.

    Processors that compute in half precision round other intermediate results once it is traced.

    Traced, Keras 3.15 would also build ScheduleFreeAdamW inside the step, and so set its momentum
    back to the weights in every step; not so if it is built before.
    """
    model.run_eagerly = eagerly
    model.fit(*data, batch_size=batch, epochs=1, shuffle=False, verbose=0)
    return model


class Worker:
    """A replica, and its part of the examples."""

    def __init__(self, model, data, *, batch=BATCH):
        self.replica = make_replica(ModelDefinition.of(model))
        start = DriverModel(model)
        self.replica.state.write(start.vector())
        self.replica.state.write_extras(start.extras())
        columns = sw.DataSet(*data).columns()
        self._layout = BatchLayout(self.replica.model, columns, training=True)
        self._columns = {
            name: column.reshape(-1, batch, *column.shape[1:]) for name, column in columns.items()
        }

    def train(self, start, stop):
        part = {name: column[start:stop] for name, column in self._columns.items()}
        self.replica.train(self._layout, part)

    def read(self, *, updater=True):
        state = self.replica.state
        return state.read(updater=updater), state.read_counters(), self.replica.state.iterations

    def write(self, vector, counters, iterations):
        self.replica.state.write(vector)
        self.replica.state.write_extras(counters)
        self.replica.state.set_iterations(iterations)


def taken(model, vector, counters, iterations):
    """`model` with the result of a run."""
    progress = Progress(iterations=iterations)
    outcome = Outcome(vector=vector, counters=pack_arrays(counters), progress=progress)
    DriverModel(model).take(outcome)
    return model


def assert_same(model, other, *, state=True):
    pairs = [*zip(model.variables, other.variables, strict=True)]
    if state:
        pairs += zip(model.optimizer.variables, other.optimizer.variables, strict=True)
    for one, its in pairs:
        np.testing.assert_allclose(one.numpy(), its.numpy(), rtol=2e-5, atol=1e-6, err_msg=one.path)


# The other options of "all" are the same code of Keras in each of them.
CASES = [
    *((name, "own") for name in KINDS),
    *((name, "all") for name in ("SGD", "Adam", "LossScaleOptimizer", "MultiOptimizer")),
]


@pytest.mark.thorough(but=["Adam-own", "LossScaleOptimizer-own", "MultiOptimizer-own", "SGD-all"])
@cases("name, case", *CASES)
def test_one_worker_trains_like_fit_with_every_optimizer(name, case):
    policy = "mixed_float16" if name == "LossScaleOptimizer" else None
    local = expected(
        network(optimizer(name, case), policy=policy), examples(), eagerly=policy is None
    )
    model = network(optimizer(name, case), policy=policy)
    before = model.get_weights()
    worker = Worker(model, examples())
    worker.train(0, 2)
    # Vector, counters and iterations are all that there is to the state.
    kept = worker.read()
    worker.train(3, 6)
    worker.replica.reset_updater()
    worker.write(*kept)
    worker.train(2, STEPS)
    assert_same(taken(model, *worker.read()), local)
    assert any(np.abs(w - b).max() > 1e-4 for w, b in zip(model.get_weights(), before, strict=True))
    if name == "LossScaleOptimizer":
        assert 0 < worker.replica.state.iterations < STEPS


RATES = {
    "CosineDecay": {"decay_steps": 5, "warmup_target": 0.2, "warmup_steps": 2},
    "CosineDecayRestarts": {"first_decay_steps": 3},
    "ExponentialDecay": {"decay_steps": 2, "decay_rate": 0.5},
    "InverseTimeDecay": {"decay_steps": 2, "decay_rate": 0.5},
    "PiecewiseConstantDecay": {"boundaries": [2, 4], "values": [0.1, 0.05, 0.01]},
    "PolynomialDecay": {"decay_steps": 5},
}


@cases("name, steps", *((name, None) for name in SCHEDULES), ("CosineDecay", 2))
def test_every_schedule_counts_minibatches_like_fit(name, steps):
    first = {} if name == "PiecewiseConstantDecay" else {"initial_learning_rate": 0.1}

    def build():
        rate = SCHEDULES[name](**first, **RATES[name])
        return network(keras.optimizers.SGD(rate, gradient_accumulation_steps=steps))

    worker, local = Worker(build(), examples()), expected(build(), examples())
    worker.train(0, STEPS)
    assert_same(taken(build(), *worker.read()), local)
    rate = local.optimizer._learning_rate(STEPS - 1)
    assert worker.replica.learning_rate == pytest.approx(float(rate))


LINEAR = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 3, "clipnorm": 100.0},
    "average": {"use_ema": True, "ema_momentum": 0.8, "weight_decay": 0.01},
    "all": {
        "use_ema": True,
        "ema_momentum": 0.8,
        "ema_overwrite_frequency": 2,
        "gradient_accumulation_steps": 2,
        "loss_scale_factor": 8.0,
    },
}


@pytest.mark.thorough(but=["plain-0.0"])
@cases("case, momentum", ("plain", 0.0), ("accumulation", 0.0), ("average", 0.9), ("all", 0.9))
def test_averaging_each_minibatch_equals_training_on_the_union(case, momentum):
    def build():
        return network(keras.optimizers.SGD(0.1, momentum=momentum, **LINEAR[case]))

    x, y = examples(2 * STEPS * BATCH)
    both = [part.reshape(STEPS, 2, BATCH, -1) for part in (x, y)]
    workers = [
        Worker(build(), (both[0][:, i].reshape(-1, 4), both[1][:, i].reshape(-1, 3)))
        for i in range(2)
    ]
    updater = momentum > 0  # without moments, `updater="reset"` loses nothing
    found = []
    for step in range(STEPS):
        for worker in workers:
            worker.train(step, step + 1)
        found = [worker.read(updater=updater) for worker in workers]
        mean = (found[0][0] + found[1][0]) / 2
        for worker, (_, counters, iterations) in zip(workers, found, strict=True):
            worker.write(mean, counters, iterations)
            if not updater:
                worker.replica.reset_updater()
    model = taken(build(), *workers[0].read(updater=updater))
    assert_same(model, expected(build(), (x, y), batch=2 * BATCH), state=updater)


@pytest.mark.thorough(but=["variable"])
@cases("kind", "variable", "inner")
def test_variables_excluded_from_weight_decay_stay_excluded(kind, tmp_path):
    def build():
        decaying = keras.optimizers.AdamW(0.01, weight_decay=0.5)
        outer = keras.optimizers.LossScaleOptimizer(decaying) if kind == "inner" else decaying
        model = network(outer)
        if kind == "variable":
            decaying.exclude_from_weight_decay(var_list=[model.layers[0].bias])
        else:
            decaying.exclude_from_weight_decay(var_names=["bias"])
        return model

    worker, local = Worker(build(), examples()), expected(build(), examples())
    worker.train(0, STEPS)
    assert_same(taken(build(), *worker.read()), local)
    plain = ModelDefinition.of(network(keras.optimizers.AdamW(0.01, weight_decay=0.5)))
    definition = ModelDefinition.of(build())
    url = str(tmp_path / "model.keras")
    sw.save_model(build(), url)
    assert ModelDefinition.of(sw.load_model(url)).undecayed == definition.undecayed
    if kind == "variable":
        assert definition.fingerprint != plain.fingerprint
        assert definition.architecture != plain.architecture


def for_biases(variable):
    return keras.optimizers.Adam(0.01) if "bias" in variable.path else keras.optimizers.SGD(0.1)


def test_function_selects_an_optimizer_for_each_variable():
    def build():
        return network(keras.optimizers.MultiOptimizer(for_biases))

    worker, local = Worker(build(), examples()), expected(build(), examples())
    worker.train(0, STEPS)
    assert_same(taken(build(), *worker.read()), local)
    without_name = keras.optimizers.MultiOptimizer(lambda variable: for_biases(variable))
    with pytest.raises(sw.ConfigurationError, match="must have a name"):
        ModelDefinition.of(network(without_name))


@cases(
    "name, case, text",
    ("ScheduleFreeAdamW", "default", "ScheduleFreeAdamW with averaged weights"),
    ("LossScaleOptimizer", "all", "Adam with ema_overwrite_frequency=2"),
)
def test_optimizers_with_averaged_weights_are_rejected_by_gradient_sharing(name, case, text):
    model = network(optimizer(name, case))
    master = sw.SharedTrainingMaster(workers=2, batch_size_per_worker=4)
    data = sw.DataSet(*examples())
    with (
        sw.ParallelWrapper(model, master, workers=2) as wrapper,
        pytest.raises(sw.ConfigurationError, match=text),
    ):
        wrapper.start(data)
    check_summed_updates(network(keras.optimizers.Adam(use_ema=True)))
