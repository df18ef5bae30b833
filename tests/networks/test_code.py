import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, LayerSpec, NetworkSpec, OutputSpec, describe_model

TWO_INPUTS = NetworkSpec(
    layers=(
        LayerSpec(kind="Input", name="b", options={"shape": [5]}),
        LayerSpec(kind="Input", name="a", options={"shape": [2]}),
        LayerSpec(kind="Dense", name="x", options={"units": 3}),
        LayerSpec(kind="Concatenate", name="both", inputs=("x", "b")),
    ),
    outputs=(OutputSpec(layer="both", loss="mean_squared_error"),),
    task="regression",
)


def model_of(code, variable="model"):
    """Run the code, and return the model that it makes."""
    made = {}
    exec(code, made)
    return made[variable]


def test_code_of_an_invalid_network_raises_with_the_reason():
    with pytest.raises(ConfigurationError, match="no layers"):
        NetworkSpec().to_code()
    with pytest.raises(ConfigurationError, match="variable"):
        PRESETS["mlp"].make().to_code("layers")


def test_each_layer_has_a_variable_whose_name_is_not_reserved():
    text = PRESETS["residual_cnn"].make().to_json()
    odd = {"stem": "class", "stem_norm": "class_layer", "block_1_conv_1": "1-2", "pool": "layers"}
    for before, after in odd.items():
        text = text.replace(f'"{before}"', f'"{after}"')
    renamed = NetworkSpec.from_json(text)
    assert describe_model(model_of(renamed.to_code())) == renamed
    code = TWO_INPUTS.to_code(reserved={"x", "a"})
    assert not {"x = ", "a = "} & {line[:4] for line in code.split("\n")}
    assert describe_model(model_of(code)).layers == TWO_INPUTS.layers


def test_disabled_layer_stays_in_the_code_as_a_comment():
    settings = TWO_INPUTS.to_dict()
    settings["layers"][2]["enabled"] = False
    code = NetworkSpec.from_dict(settings).to_code()
    assert "# off: x = layers.Dense(" in code
    assert [row.kind for row in describe_model(model_of(code)).layers] == [
        *("Input", "Input", "Concatenate")
    ]
