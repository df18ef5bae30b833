import keras
import numpy as np
import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks import (
    PRESETS,
    LayerSpec,
    NetworkSpec,
    OptimizerSpec,
    OutputSpec,
    analysis_now,
    describe_model,
    keras_catalog,
    layer_kind,
    layer_kinds,
    optimizer_kinds,
)
from sparkwright.networks.palette import PALETTE

SHAPES = ([32], [8, 4], [9, 9, 3], [600, 1], [9, 9, 4], [8, 8, 8, 4], [4, 8, 8, 8, 4])
# Without an argument that Keras has no default for and no form could guess.
NEED_MORE = {
    *("EinsumDense", "HashedCrossing", "Discretization", "MaxNumBoundingBoxes"),
    *("CategoryEncoding", "RandomPosterization"),
}
KINDS = [kind for kind in layer_kinds() if kind.name != "Input" and ">" not in kind.name]


def networks_with(kind):
    """The layer as a form begins it, after inputs of several ranks."""
    for dtype in ("float32", "int32"):
        for shape in SHAPES:
            names = tuple(f"input_{number}" for number in range(kind.takes[0]))
            inputs = [
                LayerSpec(kind="Input", name=name, options={"shape": shape, "dtype": dtype})
                for name in names
            ]
            layer = LayerSpec(kind=kind.name, name="layer", options=kind.starts, inputs=names)
            end = OutputSpec(layer="layer", loss="mean_squared_error")
            yield NetworkSpec(layers=(*inputs, layer), outputs=(end,), task="regression")


@pytest.mark.thorough(but=["Dense", "Conv2D", "LSTM", "Embedding", "MultiHeadAttention", "Add"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_layer_is_analyzed_built_described_and_written_as_code(kind):
    found = [spec for spec in networks_with(kind) if spec.analysis.reason is None]
    if kind.name in NEED_MORE:
        assert not found
        return
    assert found, [spec.analysis.reason for spec in networks_with(kind)]
    spec = found[0]
    if kind.name == "Equalization":  # Keras returns the symbolic input itself
        with pytest.raises(ConfigurationError, match="cycle"):
            spec.build()
        return
    model = spec.build()
    assert model.count_params() == spec.analysis.parameters
    assert tuple(model.outputs[0].shape[1:]) == spec.analysis.rows[-1].output_shape
    made = {}
    exec(spec.to_code(), made)
    assert made["model"].count_params() == model.count_params()
    described = describe_model(model)
    options = described.layers[-1].options.keys() - {"seed"}  # RandomCrop saves the seed it draws
    assert options == kind.tidy(spec.layers[-1].options).keys()
    assert describe_model(described.build()).layers == described.layers


def test_palette_names_keras_layers_and_lists_other_layers_after_them():
    names = [kind.name for kind in layer_kinds()]
    common = [name for group in PALETTE.values() for name in group]
    assert names[: len(common)] == common
    assert {"EinsumDense", "RandomFlip"} <= {k.name for k in layer_kinds("other")}
    assert {"ConvLSTM2D", "Conv3D"} <= {k.name for k in layer_kinds("convolution")}
    assert all(kind.sentence.endswith(".") for kind in layer_kinds() if kind.name in common)


def test_form_reads_back_the_defaults_of_every_layer_and_optimizer():
    for kind in (*layer_kinds(), *optimizer_kinds()):
        names = [option.name for option in kind.options]
        assert len(set(names)) == len(names)
        for option in kind.options:
            option.check(option.default)
            text = option.text(option.default)
            assert option.text(option.parse(text)) == text


def test_losses_and_metrics_without_help_text_are_offered_and_used():
    assert {"dice", "tversky", "mean_squared_error"} <= {*keras_catalog.names_of("losses")}
    assert {"f1_score", "true_positives"} <= {*keras_catalog.names_of("metrics")}
    spec = PRESETS["regression"].make()
    output = OutputSpec(layer="values", loss="dice", metrics=("mean_squared_error",))
    model = NetworkSpec(layers=spec.layers, outputs=(output,)).build()
    assert describe_model(model).outputs == (output,)


def test_layer_of_any_size_is_analyzed_without_allocating():
    spec = NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": [10**7]}),
            LayerSpec(kind="Dense", name="large", options={"units": 10**8}),
        )
    )
    assert spec.analysis.rows[1].parameters == 10**15 + 10**8
    with keras.StatelessScope():  # at its end Keras gives values to variables that wait for them
        pass


def test_shapes_are_computed_once_keras_is_loaded(monkeypatch):
    monkeypatch.setattr("sparkwright.networks.analysis.is_loaded", lambda: False)
    spec = PRESETS["residual_cnn"].make()
    pending = analysis_now(spec)
    assert pending.is_pending
    assert "Keras is loading" in str(pending.reason)
    assert [row.inputs for row in pending.rows] == [row.inputs for row in spec.analysis.rows]
    assert {row.output_shape for row in pending.rows} == {None}


@pytest.fixture
def registered():
    """A layer, a loss and an optimizer of the user."""

    @keras.saving.register_keras_serializable(package="tests")
    class Scale(keras.layers.Layer):
        def __init__(self, factor=2.0, **kwargs):
            super().__init__(**kwargs)
            self.factor = factor

        def build(self, shape):
            self.offset = self.add_weight(shape=(shape[-1],), initializer="zeros")

        def call(self, inputs):
            return inputs * self.factor + self.offset

        def get_config(self):
            return {**super().get_config(), "factor": self.factor}

    @keras.saving.register_keras_serializable(package="tests")
    def fourth_power(y_true, y_pred):
        return keras.ops.mean((y_true - y_pred) ** 4)

    @keras.saving.register_keras_serializable(package="tests")
    class Slow(keras.optimizers.SGD):
        pass

    yield
    for name in ("Scale", "fourth_power", "Slow"):
        keras.saving.get_custom_objects().pop(f"tests>{name}")


@pytest.mark.usefixtures("registered")
def test_registered_classes_are_used_like_keras_classes():
    kind = layer_kind("tests>Scale")
    assert kind.defaults == {"factor": 2.0}
    assert "tests>fourth_power" in keras_catalog.names_of("losses")
    spec = NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": [4]}),
            LayerSpec(kind="tests>Scale", name="scale", options={"factor": 3.0}),
        ),
        outputs=(OutputSpec(layer="scale", loss="tests>fourth_power"),),
        optimizer=OptimizerSpec(kind="tests>Slow"),
        task="regression",
        seed=None,
    )
    assert spec.analysis.reason is None
    assert spec.analysis.parameters == 4
    model = spec.build()
    made = {}
    exec(spec.to_code(), made)
    for each in (model, made["model"]):
        assert describe_model(each).layers == spec.layers
        assert float(each.evaluate(np.zeros((2, 4)), np.ones((2, 4)), verbose=0)) == pytest.approx(
            1.0
        )
        assert type(each.optimizer).__name__ == "Slow"
