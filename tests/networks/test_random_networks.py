import random

import keras
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import sparkwright as sw
from sparkwright.networks._keras_graph import layers_of, uses_of

# Layers that fit sequences of any length, with options to draw from.
LAYERS = {
    "Dense": {
        "units": [1, 3],
        "activation": ["relu", "linear"],
        "kernel_initializer": ["he_normal", "zeros"],
        "kernel_l2": [0.1],
        "kernel_max_norm": [2.0, None],
    },
    "TimeDistributed": {"units": [2], "use_bias": [False]},
    "Conv1D": {"filters": [4], "kernel_size": [1, [2]], "padding": ["same", "causal"]},
    "Dropout": {"rate": [0.0, 0.5]},
    "GaussianNoise": {"stddev": [0.1]},
    "LSTM": {"units": [2], "return_sequences": [True], "recurrent_dropout": [0.2]},
    "Bidirectional": {"cell": ["GRU"], "units": [2], "return_sequences": [True]},
    "MultiHeadAttention": {"num_heads": [2], "key_dim": [3], "value_dim": [2], "dropout": [0.1]},
    "LayerNormalization": {"center": [False], "epsilon": [0.1]},
    "BatchNormalization": {"momentum": [0.9]},
    "MaxPooling1D": {"pool_size": [1], "strides": [1]},
    "ReLU": {"max_value": [None, 6.0]},
    "Activation": {"activation": ["tanh"]},
    "Add": {},
    "Concatenate": {"axis": [-1]},
}


def random_layer(chance, number, names):
    kind = chance.choice([*LAYERS])
    known = sw.networks.layer_kind(kind)
    options = {
        name: chance.choice(values)
        for name, values in LAYERS[kind].items()
        if name in known.required or name == "return_sequences" or chance.random() < 0.4
    }
    count = 2 if kind in ("Add", "Concatenate") else int(chance.random() < 0.3)
    return sw.networks.LayerSpec(
        kind=kind,
        name=chance.choice(["for", "keras", "x", "2d", "dense"]) + f"_{number}",
        options=known.tidy(options),
        inputs=tuple(chance.choice(names) for _ in range(count)),
        enabled=chance.random() < 0.85,
    )


@st.composite
def networks(draw):
    """Chains and graphs, with layers that are switched off."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    layers = [
        sw.networks.LayerSpec(
            kind="Input", name="first", options={"shape": [chance.choice([None, 4]), 3]}
        )
    ]
    for number in range(chance.randint(1, 6)):
        layers.append(random_layer(chance, number, [layer.name for layer in layers]))
    layers.append(sw.networks.LayerSpec(kind="GlobalAveragePooling1D", name="end"))
    return sw.networks.NetworkSpec(
        name=chance.choice(["net", "a.b", "n-1"]),
        layers=tuple(layers),
        outputs=(
            sw.networks.OutputSpec(
                layer="end",
                loss=chance.choice(["mean_squared_error", "mse", "huber"]),
                metrics=tuple(chance.sample(["mae", "mean_squared_error"], chance.randint(0, 2))),
                weight=chance.choice([1.0, 0.5]),
            ),
        ),
        optimizer=sw.networks.OptimizerSpec(
            kind=chance.choice(["SGD", "Adam"]), options={"clipnorm": 0.5}
        ),
        seed=chance.choice([None, 0, 42]),
        task="other",
    )


@settings(max_examples=30)
@given(spec=networks())
def test_networks_round_trip_through_json_yaml_and_dicts(spec):
    assert sw.networks.NetworkSpec.from_dict(spec.to_dict()) == spec
    assert sw.networks.NetworkSpec.from_json(spec.to_json()) == spec
    assert sw.networks.NetworkSpec.from_yaml(spec.to_yaml()) == spec


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*does not support masking")
@settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None)
@given(spec=networks())
def test_code_builds_the_same_model_as_the_spec(spec):
    # Layers that nobody takes are a problem of the network, and no part of this test.
    assume(spec.analysis.ok)
    # Names count from one; collecting garbage would take most of the time.
    keras.backend.clear_session(free_memory=False)
    built = spec.build()
    keras.backend.clear_session(free_memory=False)
    made = {}
    exec(spec.to_code(), made)
    model = made["model"]
    assert type(model) is type(built)
    assert model.get_config() == built.get_config()
    assert model.get_compile_config() == built.get_compile_config()
    assert built.count_params() == spec.analysis.parameters
    shapes = {row.name: row.output_shape for row in spec.analysis.rows}
    assert [tuple(o.shape[1:]) for o in built.outputs] == [shapes[o.layer] for o in spec.outputs]
    described = sw.networks.describe_model(built).build()
    assert seedless_layers(described) == seedless_layers(built)
    assert uses_of(described) == uses_of(built)


def seedless_layers(model):
    """Configurations by layer, without seeds and names that Keras counts on within a process."""
    return {x.name: seedless(x.get_config()) for x in layers_of(model)}


def seedless(value):
    if isinstance(value, dict):
        left_out = ("seed", "build_config", "shared_object_id")
        kept = {key: seedless(inner) for key, inner in value.items() if key not in left_out}
        if value.get("class_name") in ("LSTM", "GRU", "SimpleRNN", "Dense"):
            kept["config"].pop("name")
        return kept
    return value
