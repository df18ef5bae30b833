"""Code is read and never executed; what cannot be read is named by its line."""

from pathlib import Path

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks import PRESETS, NetworkSpec

BY_HAND = """
# A comment.
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.layers import Dense as D

WIDTH = 2 * 8
seed = 7
inputs = keras.Input(name="in", shape=(28, 28, 1))
relu = keras.activations.relu
x = tf.keras.layers.Conv2D(kernel_size=(3, 3), filters=WIDTH, activation=relu)(inputs)
x = keras.layers.Flatten()(x)
x = D(32, kernel_regularizer=keras.regularizers.l2(1 / 1000))(keras.layers.Dropout(0.5)(x))
outputs = D(10, "softmax", name="out")(x)
model = keras.models.Model(inputs=inputs, outputs=outputs)
model.summary()
model.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(), metrics=["accuracy"])
model
"""


def test_code_of_people_is_read() -> None:
    spec = NetworkSpec.from_code(BY_HAND.replace('D(10, "softmax"', 'D(10, activation="softmax"'))
    assert [layer.kind for layer in spec.layers] == [
        *("Input", "Conv2D", "Flatten", "Dropout", "Dense", "Dense")
    ]
    assert spec.layers[1].options == {"filters": 16, "kernel_size": 3, "activation": "relu"}
    assert spec.layers[4].options == {"units": 32, "kernel_l2": 0.001}
    assert all(layer.inputs == () for layer in spec.layers)
    assert (spec.seed, spec.task, spec.optimizer.kind) == (7, "classification", "SGD")
    assert spec.outputs[0].loss == "sparse_categorical_crossentropy"
    assert spec.analysis.reason is None


def test_a_sequential_model_that_grows_is_read() -> None:
    spec = NetworkSpec.from_code(
        "import keras\n"
        "net = keras.Sequential(name='net')\n"
        "net.add(keras.Input((4,)))\n"
        "net.add(keras.layers.Dense(1, activation='sigmoid'))\n"
    )
    assert spec.name == "net"
    assert spec.task == "binary"
    assert spec.outputs[0].loss == "binary_crossentropy"
    assert spec.seed is None


def test_arguments_may_come_in_another_order() -> None:
    code = PRESETS["lenet"].make().to_code()
    swapped = code.replace('(name="pool_1")', '(strides=None, name="pool_1", pool_size=(2))')
    assert swapped != code
    assert NetworkSpec.from_code(swapped) == PRESETS["lenet"].make()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("import os; os.system('true')", "cannot be read"),
        ("x = __import__('os').system('true')", "is not known"),
        ("x = [n for n in range(3)]", "is not known"),
        ("def f(): pass", "only imports"),
        ("for n in range(3): pass", "only imports"),
        ("x = 'a' * 10**9", "is not a number"),
        ("x = 1 / 0", "division by zero"),
        ("x = keras.layers.Dense(**{'units': 3})(i)", "`**`"),
        ("x = keras.layers.Dense(3)", "not given what it takes"),
        ("x = keras.layers.Lambda(len)(i)", "is not known"),
        ("x = keras.layers.Dense(3, bias_initializer='ones')(i)", "bias_initializer"),
        ("x = keras.layers.Dense(3, 'relu')(i)", "without names"),
        ("x = keras.layers.Dense(3, units=3)(i)", "twice"),
        ("x = keras.layers.Nothing(3)(i)", "no layer"),
        ("x = keras.layers.Dense(3)(j)", "not the output of a layer"),
        ("x = keras.layers.Dense(3, name='in')(i)", "two layers"),
        ("x = (", "never closed"),
        (
            "x = keras.layers.Dense(3, kernel_initializer=keras.initializers.Constant(3))(i)",
            "Constant",
        ),
        ("x = keras.layers.Dense(3)(i, training=True)", "takes one output"),
    ],
)
def test_other_code_is_refused_with_its_line(line: str, words: str) -> None:
    code = f"import keras\ni = keras.Input((4,), name='in')\n{line}\n"
    with pytest.raises(ConfigurationError, match="line 3 of the code") as caught:
        NetworkSpec.from_code(code)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "x = 1", "(" * 5000, "a" * 2_000_000, "\0", "x = " + "-" * 20_000 + "1"]
)
def test_text_that_makes_no_model_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        NetworkSpec.from_code(text)


def test_nothing_is_executed(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for code in (f"open({str(mark)!r}, 'w')", f"x = open({str(mark)!r}, 'w')"):
        with pytest.raises(ConfigurationError):
            NetworkSpec.from_code(f"import keras\n{code}\n")
    assert not mark.exists()


def test_compile_must_name_the_outputs() -> None:
    code = PRESETS["two_inputs_two_outputs"].make().to_code()
    with pytest.raises(ConfigurationError, match="other"):
        NetworkSpec.from_code(code.replace('loss={"class"', 'loss={"other"'))


def test_code_of_a_network_with_a_problem_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match="no layers"):
        NetworkSpec().to_code()
    with pytest.raises(ConfigurationError, match="variable"):
        PRESETS["mlp"].make().to_code("layers")


def test_code_has_a_variable_for_each_layer_whatever_their_names() -> None:
    spec = PRESETS["residual_cnn"].make()
    odd = {"stem": "class", "stem_norm": "class_layer", "block_1_conv_1": "1-2", "pool": "layers"}
    text = spec.to_json()
    for before, after in odd.items():
        text = text.replace(f'"{before}"', f'"{after}"')
    renamed = NetworkSpec.from_json(text)
    assert NetworkSpec.from_code(renamed.to_code()) == renamed


TWO_INPUTS = """
import keras
a = keras.Input((2,), name="a")
x = keras.layers.Dense(3, name="x")(a)
b = keras.Input((5,), name="b")
out = keras.layers.Concatenate(name="both")([x, b])
model = keras.Model([b, a], out)
"""


def test_inputs_come_in_the_order_in_which_the_model_takes_arrays() -> None:
    spec = NetworkSpec.from_code(TWO_INPUTS)
    assert [layer.name for layer in spec.layers] == ["b", "a", "x", "both"]
    assert spec.layers[3].inputs == ("x", "b")
    assert not [row.problem for row in spec.analysis.rows if row.problem]
    straight = NetworkSpec.from_code(TWO_INPUTS.replace("[b, a]", "[a, b]"))
    assert [layer.name for layer in straight.layers] == ["a", "x", "b", "both"]


def test_inputs_must_be_inputs() -> None:
    with pytest.raises(ConfigurationError, match="only with Inputs"):
        NetworkSpec.from_code(TWO_INPUTS.replace("[b, a]", "[b, x]"))


@pytest.mark.parametrize("grown", ["a = a * a", "a = [a, a]", "a = (a, {'b': a}, a)"])
def test_values_that_grow_without_end_are_refused(grown: str) -> None:
    with pytest.raises(ConfigurationError, match=r"line .* of the code"):
        NetworkSpec.from_code("a = 3\n" + f"{grown}\n" * 60)


@pytest.mark.parametrize(
    "given", ["input_shape=(20,)", "input_dim=20", "batch_input_shape=[8, 20]"]
)
def test_a_shape_in_the_first_layer_becomes_an_input(given: str) -> None:
    spec = NetworkSpec.from_code(
        f"import keras\nm = keras.Sequential([keras.layers.Dense(64, {given})])\n"
    )
    assert [layer.kind for layer in spec.layers] == ["Input", "Dense"]
    assert spec.layers[0].options == {"shape": [20]}
    assert spec.analysis.rows[1].parameters == 64 * 21


def test_a_shape_in_another_layer_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"begin with a `keras.Input`"):
        NetworkSpec.from_code(
            "import keras\ni = keras.Input((4,))\nx = keras.layers.Dense(3, input_shape=(4,))(i)\n"
        )


def test_a_second_model_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="second model"):
        NetworkSpec.from_code(TWO_INPUTS + "other = keras.Model(a, x)\n")


@pytest.mark.parametrize(
    ("before", "comment"),
    [
        ("model = ", "# off: an old idea, see (below"),
        ("model = ", "# off: model.compile('sgd')"),
        ("Dense", "# off: an old idea, see (below"),
        ("Dense", "# off: idea"),
        ("Dense", "# off: later("),
    ],
)
def test_a_comment_that_switches_no_layer_off_stays_a_comment(before: str, comment: str) -> None:
    spec = PRESETS["lenet"].make()
    lines = spec.to_code().split("\n")
    row = next(row for row, line in enumerate(lines) if before in line)
    lines.insert(row, comment)
    assert NetworkSpec.from_code("\n".join(lines)) == spec


def test_a_layers_variable_leaves_reserved_names_alone() -> None:
    spec = NetworkSpec.from_code(TWO_INPUTS)
    ready = NetworkSpec(
        layers=spec.layers, outputs=(*spec.outputs,), optimizer=spec.optimizer, task=spec.task
    )
    code = ready.to_code(reserved={"x", "a"})
    assert "x = " not in [line[:4] for line in code.split("\n")]
    assert NetworkSpec.from_code(code) == ready
