import keras
import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.errors import ConfigurationError
from sparkwright.networks.metrics import F1
from sparkwright.networks.training import optimizer_slots


def examples(spec, count=4):
    """Random inputs, then labels, one array each."""
    generator = np.random.default_rng(0)
    rows = {row.name: row for row in spec.analysis.rows}
    for layer in spec.layers:
        if layer.kind == "Input":
            shape = tuple(n or 5 for n in layer.options["shape"])
            yield generator.integers(0, 9, (count, *shape)).astype(rows[layer.name].output_dtype)
    for output in spec.outputs:
        classes = output.loss.startswith("sparse")
        shape = (count,) if classes else (count, *(rows[output.layer].output_shape or ()))
        yield generator.integers(0, 2, shape) if classes else generator.random(shape)


@pytest.mark.thorough
@cases("preset", *sw.networks.PRESETS)
def test_presets_match_their_descriptions_and_train(preset):
    spec = sw.networks.PRESETS[preset].make()
    assert spec.task == sw.networks.PRESETS[preset].task
    assert sw.networks.NetworkSpec.from_yaml(spec.to_yaml()) == spec
    model = spec.build()
    told = {row.name: row for row in spec.analysis.rows}
    for row in sw.networks.view_model(model).rows:
        said = told[row.name]
        assert (row.kind, row.inputs, row.output_shape, row.parameters) == (
            *(said.kind, said.inputs, said.output_shape, said.parameters),
        )
        assert row.trainable_parameters == said.trainable_parameters
    assert sw.networks.describe_model(model) == spec
    made = {}
    exec(spec.to_code("net"), made)
    assert sw.networks.describe_model(made["net"]) == spec
    inputs, labels = examples(spec)
    before = [weight.copy() for weight in model.get_weights()]
    history = model.fit(inputs, labels, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert any((a != b).any() for a, b in zip(before, model.get_weights(), strict=True))


def test_lenet_preset_equals_the_lenet_model_in_every_weight():
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(20, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(50, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(500, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ],
        name="lenet",
    )
    loss = "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"])
    built = sw.networks.lenet(seed=7, learning_rate=0.01)
    assert (
        sw.networks.ModelDefinition.of(built).architecture
        == sw.networks.ModelDefinition.of(model).architecture
    )
    for ours, theirs in zip(built.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


KEPT = {
    "Adam": [{}, {"amsgrad": True}],
    "SGD": [{}, {"momentum": 0.9, "use_ema": True}],
    "RMSprop": [{}, {"momentum": 0.9, "centered": True}],
    **{kind: [{}] for kind in ("Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl", "Lion", "Lamb")},
}


@cases("kind, options", *[(k, each) for k, o in KEPT.items() for each in o])
def test_optimizers_keep_the_estimated_state_size(kind, options):
    optimizer = getattr(keras.optimizers, kind)(**options)
    optimizer.build([keras.Variable(np.zeros(7))])
    state = sum(np.prod(v.shape, dtype=int) for v in optimizer.variables if len(v.shape))
    assert state == 7 * optimizer_slots(kind, options)


def test_models_with_custom_layers_can_be_inspected_but_not_edited():
    class Twice(keras.layers.Layer):
        def call(self, inputs):
            return inputs * 2

    inputs = keras.Input((4,), name="in")
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)], name="inner")
    model = keras.Model(inputs, inner(Twice(name="twice")(inputs)) + 1.0)
    rows = sw.networks.view_model(model).rows
    assert [row.kind for row in rows] == ["Input", "Twice", "Sequential", "Add"]
    assert [row.inputs for row in rows[1:3]] == [("in",), ("twice",)]
    assert (rows[2].parameters, rows[2].output_shape) == (15, (3,))
    with pytest.raises(ConfigurationError, match="twice"):
        sw.networks.describe_model(model)


def test_subclassed_models_are_shown_as_far_as_known():
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3, name="first")

        def call(self, inputs):
            return self.dense(inputs)

    model = Net()
    unbuilt = sw.networks.view_model(model)
    assert [(row.name, row.parameters) for row in unbuilt.rows] == [("first", None)]
    assert unbuilt.problems
    model(np.zeros((1, 4), "float32"))
    assert sw.networks.view_model(model).rows[0].parameters == 15
    with pytest.raises(ConfigurationError, match="Net"):
        sw.networks.describe_model(model)


@cases("thing", None, 3, object(), keras.Sequential())
def test_inspection_never_raises(thing):
    assert not sw.networks.view_model(thing).ok


def twice(x, _):
    shared = keras.layers.Dense(4)
    return shared(keras.layers.Dense(4)(shared(x)))


@cases(
    "call, named",
    (twice, "2 times"),
    (lambda x, k: keras.layers.Dense(3, activation=keras.ops.cos)(x), "cos"),
    (lambda x, k: keras.layers.Lambda(lambda x: x)(x), "Lambda"),
    (lambda x, k: keras.layers.Dropout(0.5, name="d")(x, training=True), "'d'.*training=True"),
    (
        lambda x, k: keras.layers.MultiHeadAttention(2, 3, name="m")(x, x, use_causal_mask=True),
        "'m'.*use_causal_mask=True",
    ),
    (lambda x, k: keras.layers.LSTM(3, name="l")(x, mask=k), "'l'.*mask"),
)
def test_features_that_a_spec_cannot_represent_are_named(call, named):
    inputs, kept = keras.Input((5, 4)), keras.Input((5,), dtype="bool")
    model = keras.Model([inputs, kept], call(inputs, kept))
    assert sw.networks.view_model(model).rows[-1].output_shape is not None
    with pytest.raises(ConfigurationError, match=named):
        sw.networks.describe_model(model)


def test_settings_without_form_fields_are_described_and_written_as_code():
    inputs = x = keras.Input((5, 4))
    for layer in (
        keras.layers.Dense(3, activity_regularizer="l2", dtype="float16", trainable=False),
        keras.layers.Dense(3, kernel_initializer=keras.initializers.HeNormal(seed=7)),
        keras.layers.Dense(3, kernel_constraint="non_neg", bias_constraint="max_norm"),
        keras.layers.TimeDistributed(keras.layers.Softmax()),
        keras.layers.Bidirectional(keras.layers.GRU(3, kernel_regularizer="l1")),
    ):
        x = layer(x)
    model = keras.Model(inputs, x)
    rates = keras.optimizers.schedules.CosineDecay(0.25, 9, warmup_target=1.0, warmup_steps=3)
    model.compile(keras.optimizers.SGD(rates, gradient_accumulation_steps=4), "mse")
    spec = sw.networks.describe_model(model)
    assert spec.layers[1].options.keys() == {"units", "activity_regularizer", "dtype", "trainable"}
    assert spec.layers[3].options["bias_max_norm"] == 2
    assert spec.layers[5].options == {"units": 3, "cell": "GRU", "kernel_l1": 0.01}
    assert sw.networks.NetworkSpec.from_yaml(spec.to_yaml()) == spec
    made = {}
    exec(spec.to_code(), made)
    for same in (spec.build(), made["model"]):
        assert sw.networks.describe_model(same) == spec
        assert same.optimizer.get_config()["learning_rate"]["config"]["warmup_target"] == 1
        assert same.get_layer(spec.layers[2].name).kernel_initializer.seed == 7


def test_compile_arguments_are_described():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(
        keras.optimizers.SGD(0.25, momentum=0.5),
        loss=keras.losses.BinaryCrossentropy(),
        metrics=[keras.metrics.AUC(), "accuracy", F1()],
    )
    spec = sw.networks.describe_model(model)
    assert spec.optimizer == sw.networks.OptimizerSpec(
        kind="SGD", options={"learning_rate": 0.25, "momentum": 0.5}
    )
    output = sw.networks.OutputSpec(
        layer=spec.layers[-1].name, loss="binary_crossentropy", metrics=("auc", "accuracy", "f1")
    )
    assert spec.outputs == (output,)
    assert spec.task == "binary"


@cases(
    "compiled, named",
    ({"weighted_metrics": lambda: ["mse"]}, "weighted_metrics"),
    ({"loss": lambda: keras.losses.BinaryCrossentropy(label_smoothing=0.1)}, "BinaryCross"),
    ({"metrics": lambda: [keras.metrics.AUC(name="area")]}, "name='area'"),
    ({"metrics": lambda: [F1(name="of_both")]}, "name='of_both'"),
)
def test_compile_arguments_are_not_dropped(compiled, named):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    made = {name: make() for name, make in compiled.items()}
    model.compile(**{"optimizer": "sgd", "loss": "mse", **made})
    with pytest.raises(ConfigurationError, match=named):
        sw.networks.describe_model(model)


def test_inputs_are_described_in_the_order_of_the_model_arrays():
    a, b = keras.Input((2,), name="a"), keras.Input((5,), name="b")
    both = keras.layers.Concatenate(name="both")([keras.layers.Dense(3, name="x")(a), b])
    model = keras.Model([b, a], keras.layers.Dense(1, name="out")(both))
    model.compile("sgd", "mse")
    built = sw.networks.describe_model(model).build()
    assert [tuple(tensor.shape) for tensor in built.inputs] == [(None, 5), (None, 2)]


def test_masks_propagated_by_keras_are_described():
    words = keras.Input((5,), dtype="int32")
    x = keras.layers.Embedding(9, 4, mask_zero=True)(words)
    x = keras.layers.Dropout(0.1)(keras.layers.Masking()(x))
    model = keras.Model(words, keras.layers.LSTM(3)(x))
    described = sw.networks.describe_model(model)
    copy = keras.Model.from_config(model.get_config())
    assert sw.networks.describe_model(copy).layers == described.layers
