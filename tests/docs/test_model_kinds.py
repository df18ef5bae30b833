from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
import pyspark.cloudpickle
import pytest
from tests.support import own_models
from tests.support.own_models import Nested, OwnLoss, OwnTrainStep, Plain, compiled, dense

import sparkwright as sw
from sparkwright.networks import ModelState
from sparkwright.networks.building import prepare
from sparkwright.networks.signature import output_names

layers = keras.layers
ROWS, PARTITIONS = 24, 2
OPTIONS = {"workers": 2, "batch_size_per_worker": 6, "seed": 1}
AVERAGING = sw.ParameterAveragingTrainingMaster(**OPTIONS, averaging_frequency=2)
SHARING = sw.SharedTrainingMaster(**OPTIONS, threshold=sw.FixedThreshold(threshold=1e-3))
CLASSES = "sparse_categorical_crossentropy"


def numbers(*shape):
    return np.random.default_rng(0).normal(size=(ROWS, *shape)).astype(np.float32)


def classes(count=3):
    return np.arange(ROWS, dtype=np.int32) % count


def mask():
    """The steps that count of series of 2 to 6 steps."""
    return np.arange(6) < 2 + np.arange(ROWS)[:, None] % 5


def texts():
    return np.array([f"{word} word" for word in ["red", "green", "blue"]] * 8, object)[:, None]


def ready(model, loss=CLASSES, **options):
    options.setdefault("metrics", ["accuracy"] if loss == CLASSES else None)
    model.compile(keras.optimizers.Adam(0.01), loss, **options)
    return model


def sequential():
    return ready(keras.Sequential([keras.Input((4,)), dense(6, 1, "tanh"), dense(3, 2, "softmax")]))


def several():
    wide, narrow = keras.Input((4,), name="wide"), keras.Input((2,), name="narrow")
    both = layers.Concatenate()([wide, layers.Dense(3, "tanh")(narrow)])
    kind = layers.Dense(3, "softmax", name="kind")(both)
    model = keras.Model([wide, narrow], [kind, layers.Dense(1, name="size")(both)])
    return ready(model, {"kind": CLASSES, "size": "mse"}, loss_weights={"kind": 1.0, "size": 0.5})


def recurrent():
    return ready(keras.Sequential([keras.Input((6, 2)), layers.GRU(4), layers.Dense(3, "softmax")]))


def masking():
    steps = keras.Input((6, 2))
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(layers.Masking()(steps))
    return ready(keras.Model(steps, layers.TimeDistributed(layers.Dense(1))(x)), "mse")


def convolutional():
    image = keras.Input((6, 6, 1))
    x = layers.BatchNormalization()(layers.Conv2D(3, 3, use_bias=False)(image))
    x = layers.Flatten()(layers.MaxPooling2D()(layers.ReLU()(x)))
    return ready(keras.Model(image, layers.Dense(3, "softmax")(layers.Dropout(0.1)(x))))


def nested():
    x = keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(5, "tanh")])
    return ready(keras.Model(x, Plain()(inner(x))))


def transformer():
    tokens = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 8, mask_zero=True)(tokens)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4, use_bias=False)(x, x))
    x = layers.GlobalAveragePooling1D()(layers.Dense(8, "gelu")(x))
    return ready(keras.Model(tokens, layers.Dense(3, "softmax")(x)))


def autoencoder():
    encoder = keras.Sequential([keras.Input((4,)), layers.Dense(2, name="code")], name="encoder")
    decoder = keras.Sequential([keras.Input((2,)), layers.Dense(4)], name="decoder")
    x = keras.Input((4,))
    return ready(keras.Model(x, decoder(encoder(x))), "mse")


def of_text():
    text = keras.Input((1,), dtype="string", name="text")
    kind = keras.Input((1,), dtype="string", name="kind")
    words = layers.TextVectorization(vocabulary=["red", "green", "blue"], output_sequence_length=3)
    x = layers.GlobalAveragePooling1D()(layers.Embedding(5, 4)(words(text)))
    known = layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")(kind)
    x = layers.Concatenate()([x, known])
    return ready(keras.Model([text, kind], layers.Dense(3, "softmax")(x)))


def transferred():
    base = keras.applications.MobileNet(
        (32, 32, 3), alpha=0.25, weights=None, include_top=False, pooling="avg"
    )
    base.trainable = False
    for layer in base.layers:
        if isinstance(layer, layers.BatchNormalization):  # as in a trained base
            layer.moving_variance.assign(layer.moving_variance * 0.05)
    image = keras.Input((32, 32, 3))
    return ready(keras.Model(image, layers.Dense(3, "softmax")(base(image, training=False))))


def adapted():
    model = sequential()
    for layer in model.layers:
        layer.enable_lora(2)
    return ready(model)


def half_precision():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(6, "tanh", dtype="mixed_float16"),
            layers.BatchNormalization(dtype="mixed_float16"),
            layers.Dense(3, "softmax", dtype="float32"),
        ]
    )
    return ready(model)


class OwnSteps(OwnTrainStep):
    def test_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        loss = self.compute_loss(x, y, self(x, training=False), weights, training=False)
        self.mean_loss.update_state(loss)
        return {"loss": self.mean_loss.result()}


# -- the table ----------------------------------------------------------------------------------

TRAINING = ("parameter averaging", "gradient sharing", "`ParallelWrapper`")
USE = ("evaluation", "inference", "save and load")
NO_CALL = ("it has no `call`", "need a model whose `call` TensorFlow can trace")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of model.

    Attributes:
        build: builds and compiles one.
        data: what it is trained on.
        by_function: whether `build` itself is given in place of the model.
        own: classes that loading needs to know.
        refused: capability -> (reason, part of the error).
    """

    build: Callable[[], Any]
    data: sw.DataSet
    by_function: bool = False
    own: tuple[type, ...] = ()
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def loading(self):
        """The options of `load_model`."""
        if self.by_function:
            return {"build_model": self.build}
        return {"custom_objects": {kind.__name__: kind for kind in self.own}} if self.own else {}

    def distributed(self, spark):
        """The data on Spark."""
        columns = (self.data.features, self.data.labels)
        masks = self.data.features_masks
        return sw.data.from_arrays(spark, *columns, features_masks=masks, partitions=PARTITIONS)

    def cell(self, capability):
        if capability in self.refused:
            return f"no: {self.refused[capability][0]}"
        options = self.loading if capability == "save and load" else {}
        return ", ".join(["yes", *(f"with `{name}`" for name in options)])


PLAIN = sw.DataSet(numbers(4), classes())
KINDS = {
    "Sequential": Kind(build=sequential, data=PLAIN),
    "functional, several inputs and outputs": Kind(
        build=several,
        data=sw.DataSet(
            {"wide": numbers(4), "narrow": numbers(2)}, {"kind": classes(), "size": numbers(1)}
        ),
    ),
    "recurrent, masks in the data": Kind(
        build=recurrent, data=sw.DataSet(numbers(6, 2), classes(), features_masks=mask())
    ),
    "time series with a `Masking` layer": Kind(
        build=masking, data=sw.DataSet(numbers(6, 2) * mask()[..., None], numbers(6, 1))
    ),
    "convolutional, with `BatchNormalization`": Kind(
        build=convolutional, data=sw.DataSet(numbers(6, 6, 1), classes())
    ),
    "nested: functional and subclassed models within": Kind(build=nested, data=PLAIN, own=(Plain,)),
    "transformer (`MultiHeadAttention`)": Kind(
        build=transformer,
        data=sw.DataSet(np.arange(ROWS * 5, dtype=np.int32).reshape(ROWS, 5) % 9, classes()),
    ),
    "autoencoder": Kind(build=autoencoder, data=sw.DataSet(numbers(4), numbers(4))),
    "text: `TextVectorization`, `StringLookup`": Kind(
        build=of_text,
        data=sw.DataSet(
            {"text": texts(), "kind": np.array(["a", "b", "c"] * 8, object)[:, None]}, classes()
        ),
    ),
    "transfer learning, frozen `keras.applications` base": Kind(
        build=transferred, data=sw.DataSet(numbers(32, 32, 3), classes())
    ),
    "LoRA": Kind(build=adapted, data=PLAIN),
    "mixed precision": Kind(build=half_precision, data=PLAIN),
    "subclassed, with a configuration": Kind(
        build=lambda: compiled(Nested()), data=PLAIN, own=(Nested, Plain)
    ),
    "subclassed, without a configuration": Kind(
        build=own_models.undescribed, data=PLAIN, by_function=True
    ),
    "own `train_step`, `test_step`": Kind(
        build=lambda: compiled(OwnSteps()), data=PLAIN, own=(OwnSteps,)
    ),
    "own `compute_loss`": Kind(
        build=lambda: compiled(OwnLoss()), data=sw.DataSet(numbers(4), numbers(5)), own=(OwnLoss,)
    ),
    "GAN: several optimizers": Kind(
        build=own_models.gan,
        data=sw.DataSet(numbers(4)),
        by_function=True,
        refused={"evaluation": NO_CALL, "inference": NO_CALL},
    ),
}


# Each kind with one way of training and one use of what was trained; each of these with several
# kinds. `tests/workers/test_own_models.py` trains kinds with code of their own by wrappers.
TRIED = {
    "Sequential": ("gradient sharing", "inference"),
    "functional, several inputs and outputs": ("parameter averaging", "evaluation"),
    "recurrent, masks in the data": ("gradient sharing", "evaluation"),
    "time series with a `Masking` layer": ("`ParallelWrapper`", "inference"),
    "convolutional, with `BatchNormalization`": ("parameter averaging", "inference"),
    "nested: functional and subclassed models within": ("gradient sharing", "save and load"),
    "transformer (`MultiHeadAttention`)": ("parameter averaging", "save and load"),
    "autoencoder": ("`ParallelWrapper`", "evaluation"),
    "text: `TextVectorization`, `StringLookup`": ("parameter averaging", "save and load"),
    "transfer learning, frozen `keras.applications` base": ("gradient sharing", "save and load"),
    "LoRA": ("parameter averaging", "inference"),
    "mixed precision": ("`ParallelWrapper`", "evaluation"),
    "subclassed, with a configuration": ("parameter averaging", "save and load"),
    "subclassed, without a configuration": ("gradient sharing", "save and load"),
    "own `train_step`, `test_step`": ("parameter averaging", "evaluation"),
    "own `compute_loss`": ("gradient sharing", "inference"),
    "GAN: several optimizers": ("parameter averaging", "save and load"),
}


def table():
    """One row for each group of kinds with the same cells; every kind can be trained."""
    assert not any(kind.refused.keys() & set(TRAINING) for kind in KINDS.values())
    groups = {}
    for name, kind in KINDS.items():
        groups.setdefault(tuple(map(kind.cell, USE)), []).append(name)
    rows = [("model", *USE), ("---",) * (1 + len(USE))]
    rows += [("; ".join(names), *cells) for cells, names in groups.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def test_page_contains_the_generated_table():
    page = Path(__file__).parents[2] / "docs" / "own-models.md"
    assert f"\n\n{table()}\n\n" in page.read_text()


@pytest.fixture(scope="module", autouse=True)
def _by_value():
    # Executors cannot import test modules: their classes travel whole, as a notebook's do.
    modules = [own_models, __import__("sys").modules[__name__]]
    for pickle in (cloudpickle, pyspark.cloudpickle):
        for module in modules:
            pickle.register_pickle_by_value(module)
    yield
    for pickle in (cloudpickle, pyspark.cloudpickle):
        for module in modules:
            pickle.unregister_pickle_by_value(module)


def inputs(data):
    """The features as Keras takes them."""
    tensors = {name: keras.ops.convert_to_tensor(x) for name, x in data.features.items()}
    return tensors if len(tensors) > 1 else next(iter(tensors.values()))


def labels(data):
    return data.labels if len(data.labels) > 1 else next(iter(data.labels.values()))


def outputs(model, data):
    """What Keras predicts."""
    if data.features_masks:
        (steps,) = data.features_masks.values()
        found = model(inputs(data), mask=steps, training=False)
    else:
        found = model.predict(inputs(data), verbose=0)
    return [np.asarray(each) for each in (found if isinstance(found, list) else [found])]


def loss(model, data):
    """What Keras' `evaluate` finds, in batches as large as the partitions."""
    if data.features_masks:  # which `evaluate` does not take
        return float(model.compute_loss(None, labels(data), *outputs(model, data), training=False))
    half = ROWS // PARTITIONS
    found = model.evaluate(inputs(data), labels(data), batch_size=half, verbose=0, return_dict=True)
    return float(found["loss"])


def values(variables):
    return [np.array(variable) for variable in variables]


def assert_trains(network, data):
    """The run changes all that is trained, to finite numbers, and nothing that is frozen."""
    trained = network.model.trainable_variables
    fixed = ModelState.of(network.model, training=False).fixed
    before, frozen = values(trained), values(fixed)
    network.fit(data, epochs=2, display=False)
    for variable, old, new in zip(trained, before, values(trained), strict=True):
        assert np.isfinite(new).all(), variable.path
        assert np.abs(new - old).max() > 1e-4, variable.path
    for variable, old, new in zip(fixed, frozen, values(fixed), strict=True):
        np.testing.assert_array_equal(new, old, err_msg=variable.path)


def try_averaging(network, kind, folder):
    network.master = AVERAGING
    assert_trains(network, kind.data)


def try_sharing(network, kind, folder):
    network.master = SHARING
    assert_trains(network, kind.data)


def try_wrapper(network, kind, folder):
    with sw.ParallelWrapper(network.model, AVERAGING, cores_per_worker=1) as wrapper:
        assert_trains(wrapper, kind.data)


def try_evaluation(network, kind, folder):
    data = kind.distributed(network.spark)
    assert network.score(data) == pytest.approx(loss(network.model, kind.data), rel=1e-3)


def try_inference(network, kind, folder):
    found = network.predict(kind.distributed(network.spark)).collect().features
    names = output_names(network.model)
    assert list(found) == names
    for name, array in zip(names, outputs(network.model, kind.data), strict=True):
        np.testing.assert_allclose(found[name], array, atol=1e-3)
        assert np.ptp(array) > 1e-2


def try_saving(network, kind, folder):
    url = str(folder / "model.keras")
    network.save(url)
    again = sw.SparkNetwork.load(network.spark, url, **kind.loading).model
    assert ModelState.of(again).updater_size == ModelState.of(network.model).updater_size
    models = [again, network.model]
    data = kind.data
    if "inference" in kind.refused:
        models, data = [model.generator for model in models], sw.DataSet(numbers(2))
    for ours, theirs in zip(*(outputs(model, data) for model in models), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


TRIALS = dict(
    zip(
        (*TRAINING, *USE),
        (try_averaging, try_sharing, try_wrapper, try_evaluation, try_inference, try_saving),
        strict=True,
    )
)


@pytest.mark.notebook  # too long for `make test`
@pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")  # though it obeys it
@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("name", KINDS)
def test_model_kind_supports_or_rejects_each_capability(name, spark, tmp_path):
    kind = KINDS[name]
    network = sw.SparkNetwork(spark, kind.build if kind.by_function else kind.build())
    prepare(network.model, lambda: kind.data.layout)
    for capability in TRIED[name]:
        TRIALS[capability](network, kind, tmp_path)
    jobs = jobs_of(spark)
    for capability, (_, error) in kind.refused.items():
        with pytest.raises(sw.ConfigurationError, match=error):
            TRIALS[capability](network, kind, tmp_path)
    assert jobs_of(spark) == jobs


def jobs_of(spark):
    """How many jobs the session has begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())
