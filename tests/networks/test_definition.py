import threading

import keras
import numpy as np
import pytest

from sparkwright.networks import ModelDefinition
from sparkwright.networks.building import model_of
from sparkwright.networks.presets import mlp_spec
from sparkwright.networks.signature import output_names


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_mixed_precision_policy_propagates_to_other_threads(policy):
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        model.compile("adam", loss="mse")
        definition = ModelDefinition.of(model)
    finally:
        keras.config.set_dtype_policy(before)
    built = []
    thread = threading.Thread(target=lambda: built.append(definition.build()))
    thread.start()
    thread.join()
    assert type(built[0].optimizer) is type(model.optimizer)
    assert built[0].dtype_policy == model.dtype_policy
    assert keras.config.dtype_policy() == before


class Unnamed(keras.layers.Layer):
    """Its `__init__` takes no name, so each one gets another."""

    def __init__(self):
        super().__init__()

    def call(self, x):
        return x * 2.0


@pytest.mark.parametrize("several", [True, False])
def test_outputs_keep_their_names(several):
    Unnamed()
    x, last = keras.Input((4,)), Unnamed()
    if several:
        model = keras.Model(x, [last(x), keras.layers.Dense(4, name="size")(x)])
        model.compile("sgd", {last.name: "mse", "size": "mae"})
    else:
        model = keras.Sequential([x, keras.layers.Dense(4), last])
        model.compile("sgd", "mse")
    definition = ModelDefinition.of(model)
    built = definition.build()
    assert output_names(built) == output_names(model)
    assert output_names(definition.build())[0] == last.name  # each time
    labels = np.zeros((6, 4))
    x, y = np.ones((6, 4)), {name: labels for name in output_names(model)} if several else labels
    built.set_weights(model.get_weights())
    assert built.evaluate(x, y, verbose=0) == pytest.approx(model.evaluate(x, y, verbose=0))


def test_outputs_of_a_function_built_model_keep_their_names():
    class Undescribed(keras.layers.Layer):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def call(self, x):
            return self.function(x)

    def build():
        x = keras.Input((4,))
        model = keras.Model(x, keras.layers.Dense(3)(Undescribed(keras.ops.abs)(x)))
        model.compile("sgd", "mse")
        return model

    model = model_of(build)
    spec = mlp_spec()
    assert model_of(spec).get_config() == spec.build().get_config()
    definition = ModelDefinition.of(model)
    assert definition.builder
    assert output_names(definition.build()) == output_names(model)


def _named(policy=None):
    """Its name is that of its first layer, and a layer's name is that of an activation."""
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(5, dtype=policy)(inputs)
    inner_inputs = keras.Input((5,))
    inner = keras.Model(inner_inputs, keras.layers.Dense(3)(inner_inputs))
    outputs = keras.layers.Softmax()(inner(keras.layers.Activation("softmax")(hidden)))
    model = keras.Model(inputs, outputs, name="dense")
    model.compile("sgd", "mse")
    return model


def _crossed(*, swapped):
    inputs = keras.Input((4,))
    pair = [keras.layers.Dense(4, activation="relu")(inputs), keras.layers.Dense(4)(inputs)]
    model = keras.Model(inputs, keras.layers.Subtract()(pair[::-1] if swapped else pair))
    model.compile("sgd", "mse")
    return model


def test_architecture_ignores_the_numbers_in_names_and_nothing_else():
    keras.utils.clear_session(free_memory=False)
    found = [ModelDefinition.of(_named()).architecture for _ in range(2)]
    assert found[0] == found[1]
    assert ModelDefinition.of(_named("mixed_float16")).architecture != found[0]
    straight, again, crossed = (
        ModelDefinition.of(_crossed(swapped=swapped)).architecture
        for swapped in (False, False, True)
    )
    assert straight == again != crossed
