import keras
import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, lenet
from sparkwright_widgets._network_builder import NetworkBuilder

pytestmark = pytest.mark.usefixtures("comms")


class Doubling(keras.layers.Layer):
    def call(self, inputs):
        return 2 * inputs


def own_layer():
    model = keras.Sequential(
        [keras.Input((4,)), Doubling(name="twice"), keras.layers.Dense(3, name="out")]
    )
    model.compile("adam", "mse")
    return model


def test_keras_model_is_shown_and_returned_unchanged():
    model = lenet()
    builder = NetworkBuilder(model)
    assert builder.build() is model
    assert builder.problem is None
    assert builder.analysis.parameters == model.count_params()
    assert "431,080 parameters" in builder._repr_mimebundle_()["text/html"]


def test_model_of_known_layers_is_copied_before_editing():
    model = lenet()
    builder = NetworkBuilder(model)
    heard = []
    builder.on_change(lambda part: heard.append(part.spec))
    builder.viewing.edit_button.click()
    assert builder.viewing is None
    assert builder.editing in builder.children
    assert heard
    assert builder.analysis.parameters == 431_080
    builder.editing.layers.selected = 1
    builder.editing.editor.buttons["delete"].click()
    assert len(builder.spec.layers) == 7
    assert model.count_params() == 431_080


def test_model_with_a_custom_layer_is_read_only():
    model = own_layer()
    builder = NetworkBuilder(model)
    assert [row.name for row in builder.analysis.rows][-2:] == ["twice", "out"]
    assert builder.viewing.edit_button.disabled
    with pytest.raises(ConfigurationError, match="cannot be written as a NetworkSpec"):
        _ = builder.spec
    assert builder.build() is model
    builder.viewing.layers.selected = len(builder.analysis.rows) - 1
    assert "Dense" in builder.viewing.details.value


def test_branched_model_shows_its_graph_and_is_replaced_by_a_spec():
    given = keras.Input((4,), name="given")
    left = keras.layers.Dense(3, name="left")(given)
    right = keras.layers.Dense(3, name="right")(given)
    model = keras.Model(given, keras.layers.Add(name="sum")([left, right]))
    builder = NetworkBuilder(model)
    assert "sum (Add) takes left and right" in builder.viewing.layers.graph
    assert "not compiled" in builder.problem
    builder.spec = PRESETS["lenet"].make()
    assert builder.viewing is None
    assert builder.problem is None
