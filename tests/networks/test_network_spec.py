from dataclasses import replace

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.errors import ConfigurationError


def layer(kind, name, *inputs, **options):
    return sw.networks.LayerSpec(kind=kind, name=name, inputs=inputs, options=options)


def chain(*layers, loss="mse", metrics=(), **fields):
    outputs = (sw.networks.OutputSpec(layer=layers[-1].name, loss=loss, metrics=metrics),)
    return sw.networks.NetworkSpec(layers=layers, outputs=outputs, **fields)


IMAGE = layer("Input", "image", shape=[12, 12, 1])
TABLE = layer("Input", "table", shape=[4])


@cases(
    "settings, named",
    ({"layers": "Dense"}, "layers"),
    ({"layers": [{"kind": "Dense"}]}, r"layers\[0\].*name"),
    ({"layers": [{"kind": "Dense", "name": "d", "units": 3}]}, "units"),
    ({"layers": [{"kind": "Dense", "name": "d", "options": [3]}]}, "options"),
    ({"layers": [{"kind": "Dense", "name": "d", "enabled": 1}]}, "enabled"),
    ({"layers": [{"kind": "Dense", "name": "d", "options": {"units": float("nan")}}]}, "units"),
    ({"layers": [{"kind": "Dense", "name": "d", "options": {"units": {3}}}]}, "units"),
    ({"outputs": [{"layer": "d"}]}, "loss"),
    ({"outputs": [{"layer": "d", "loss": "mse", "weight": -1}]}, "weight"),
    ({"task": "clustering"}, "task"),
    ({"seed": -1}, "seed"),
    ({"seed": True}, "seed"),
    ({"optimizer": "adam"}, "optimizer"),
    ({"loss": "mse"}, "loss"),
    ([], "settings"),
)
def test_invalid_fields_are_rejected_by_name(settings, named):
    with pytest.raises(ConfigurationError, match=named):
        sw.networks.NetworkSpec.from_dict(settings)


ANCHORS = "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40))
PASTED = {
    sw.networks.NetworkSpec.from_json: [
        "{",
        "[" * 100_000,
        *('{"seed": 1' + "0" * n + "}" for n in (400, 9000)),
    ],
    sw.networks.NetworkSpec.from_yaml: [
        *("{", "[" * 100_000, "- a: !!python/object:os.system x", "name: &a [*a]", "seed: 0b_"),
        *("name: !!timestamp later", "name: !!bool later", f"a0: &a0 [x, x]\n{ANCHORS}"),
    ],
}


@cases("read, text", *[(r, text) for r, texts in PASTED.items() for text in texts])
def test_invalid_pasted_text_is_rejected_with_the_expected_format(read, text):
    with pytest.raises(ConfigurationError, match=r"must be .*\. Received: "):
        read(text)


def test_incomplete_row_is_reported_and_later_rows_wait_for_it():
    spec = chain(
        IMAGE,
        layer("Conv2D", "conv_1", filters=20, kernel_size=5),
        layer("MaxPooling2D", "pool"),
        layer("Conv2D", "conv_2", filters=50, kernel_size=5),
        layer("Flatten", "flatten"),
        layer("Dense", "out", units=3),
    )
    rows = spec.analysis.rows
    assert "output size would be zero or negative" in str(rows[3].problem)
    assert [row.waiting_for for row in rows] == [None, None, None, None, 3, 3]
    assert [row.problem for row in rows[4:]] == [None, None]
    assert spec.analysis.reason == f"Row 4 (conv_2): {rows[3].problem}"
    beside = replace(spec, layers=(*spec.layers[:4], layer("Flatten", "flat", "image")))
    assert beside.analysis.rows[4].output_shape == (144,)


@cases(
    "broken, words",
    (layer("Dense", "d"), "argument: 'units'"),
    (layer("Dense", "d", units=0), "units=0"),
    (layer("Dense", "d", units=3, bias=True), "'bias': True"),
    (layer("Densest", "d"), "Received: 'Densest'"),
    (layer("Dense", "d", "nobody", units=3), "no layer has that name"),
    (layer("Dense", "d", "d", units=3), "is itself or comes later"),
    (layer("Dense", "d", "end", units=3), "comes later"),
    (layer("Dense", "d", "table", "table", units=3), "takes 1 input, receives 2"),
    (layer("Add", "d"), "takes at least 2 inputs"),
    (layer("Subtract", "d", "table", "table", "table"), "takes 2 inputs, receives 3"),
    (layer("Dense", "table", units=3), "same name as row 1"),
    (layer("Dense", "my layer", units=3), "letters"),
    (layer("Conv2D", "d", filters=3, kernel_size=3), "expected min_ndim=4"),
    (layer("Input", "d", "table", shape=[3]), "takes nothing"),
)
def test_row_error_is_one_sentence(broken, words):
    spec = chain(TABLE, broken, layer("Dense", "end", units=1))
    problem = spec.analysis.rows[1].problem
    assert problem is not None
    assert words in problem


def test_integers_are_rejected_where_keras_requires_fractions():
    words = layer("Input", "words", shape=[7], dtype="int32")
    dense = layer("Dense", "d", units=2)
    assert "int32" in (chain(words, dense).analysis.rows[1].problem or "")
    assert chain(words, layer("Embedding", "e", input_dim=9, output_dim=2), dense).analysis.ok


def test_disabled_layer_passes_on_its_first_input():
    spec = sw.networks.NetworkSpec(
        layers=(
            TABLE,
            layer("Dense", "wide", units=9),
            replace(layer("Dense", "off", units=7), enabled=False),
            layer("Dense", "next", units=2),
            layer("Dense", "named", "off", units=2),
            replace(layer("Add", "sum", "next", "named"), enabled=False),
            layer("Dense", "end", "sum", units=1),
        )
    )
    rows = spec.analysis.rows
    assert rows[2].parameters == 0
    assert rows[3].inputs == rows[4].inputs == ("wide",)
    assert rows[3].input_shapes == ((9,),)
    assert rows[6].inputs == ("next",)


ONE = layer("Dense", "d", units=1)
CLASSES = "sparse_categorical_crossentropy"


@cases(
    "spec, words",
    (sw.networks.NetworkSpec(), "no layers"),
    (sw.networks.NetworkSpec(layers=(TABLE, ONE)), "no output"),
    (chain(TABLE), "an Input"),
    (chain(TABLE, ONE, name="my network"), "network's name"),
    (replace(chain(layer("Dense", "e")), layers=(TABLE, ONE)), "not a layer of the network"),
    (chain(TABLE, ONE, layer("Dense", "b", "table", units=1)), "uses the output of row 2"),
    (chain(TABLE, ONE, loss="mile"), "'mile'"),
    (chain(TABLE, ONE, loss=CLASSES), "at least 2"),
    (chain(TABLE, layer("Dense", "d", units=3), loss=CLASSES), "Use softmax"),
    (chain(TABLE, ONE, loss="binary_crossentropy"), "sigmoid"),
    (chain(TABLE, ONE, metrics=("accuracy", "recall")), "labels that are zeros and ones"),
    (chain(TABLE, ONE, optimizer=sw.networks.OptimizerSpec(kind="Sdg")), "'Sdg'"),
    *(
        (chain(TABLE, ONE, optimizer=sw.networks.OptimizerSpec(options=options)), words)
        for options, words in (
            ({"learning_rate": 1}, "learning_rate"),
            ({"clipnorm": 1.0, "clipvalue": 1.0}, "Only one of"),
        )
    ),
)
def test_errors_of_the_whole_network_are_reported(spec, words):
    assert any(words in problem for problem in spec.analysis.problems), spec.analysis.problems
    assert not spec.analysis.ok


def test_activation_is_found_through_value_preserving_layers():
    dense = layer("Dense", "d", units=3, activation="softmax")
    assert chain(TABLE, dense, layer("Dropout", "o", rate=0.1), loss=CLASSES).analysis.ok
    apart = (TABLE, layer("Dense", "d", units=3), layer("Softmax", "s"))
    assert chain(*apart, loss=CLASSES).analysis.ok
    assert not chain(*apart[:2], layer("ReLU", "r"), loss=CLASSES).analysis.ok


@cases("task", "classification", "binary", "regression", "other")
def test_task_defaults_are_consistent(task):
    for shape in ((1,), (5,)):
        fitting = sw.networks.defaults_for(task, shape)
        units = 1 if task == "binary" else shape[0]
        end = layer("Dense", "end", units=units, activation=fitting.activation)
        output = sw.networks.OutputSpec(layer="end", loss=fitting.loss, metrics=fitting.metrics)
        spec = sw.networks.NetworkSpec(layers=(TABLE, end), outputs=(output,), task=task)
        assert spec.analysis.reason is None


def test_adding_layers_one_by_one_makes_a_trainable_network():
    spec = sw.networks.add_layer(sw.networks.NetworkSpec(), "Input", options={"shape": [28, 28, 1]})
    spec = sw.networks.add_layer(spec, "Conv2D", options={"filters": 4})
    assert spec.outputs[0].layer == "conv2d"
    spec = sw.networks.add_layer(spec, "Flatten")
    spec = sw.networks.add_layer(spec, "Dense", options={"units": 10, "activation": "softmax"})
    assert [output.layer for output in spec.outputs] == ["dense"]
    spec = sw.networks.add_layer(spec, "Dense", after=2)
    assert [x.name for x in spec.layers][3:] == ["dense_2", "dense"]
    assert spec.analysis.reason is None


def test_merging_layer_takes_all_unconnected_outputs():
    spec = sw.networks.NetworkSpec(
        layers=(TABLE, layer("Dense", "a", units=3), layer("Dense", "b", "table"))
    )
    assert sw.networks.add_layer(spec, "Add").layers[-1].inputs == ("a", "b")
    for wrong in ({"kind": "No"}, {"kind": "Dense", "after": 9}, {"kind": "Dense", "name": "a"}):
        with pytest.raises(ConfigurationError):
            sw.networks.add_layer(spec, **wrong)


def residual():
    return chain(
        TABLE,
        layer("Dense", "a", units=4),
        layer("Dense", "b", units=4),
        layer("Add", "sum", "b", "a"),
        layer("Dense", "end", units=1),
    )


def inputs_of(spec, row):
    return spec.layers[row].inputs


def test_edits_keep_names_unique_and_references_valid():
    spec = residual()
    renamed = sw.networks.replace_layer(spec, 1, replace(spec.layers[1], name="first"))
    renamed = sw.networks.replace_layer(renamed, 4, replace(spec.layers[4], name="last"))
    assert (inputs_of(renamed, 3), renamed.outputs[0].layer) == (("b", "first"), "last")
    with pytest.raises(ConfigurationError):
        sw.networks.replace_layer(renamed, 1, replace(renamed.layers[1], name="last"))
    wider = sw.networks.replace_layer(spec, 1, layer("Dense", "wider", units=4, activation="relu"))
    assert inputs_of(wider, 3) == ("b", "wider")
    off = sw.networks.switch_layer(spec, 2)
    assert not off.layers[2].enabled
    assert (sw.networks.switch_layer(off, 2, False), sw.networks.switch_layer(off, 2)) == (
        off,
        spec,
    )
    assert inputs_of(sw.networks.remove_layer(spec, 2), 2) == ("a",)
    assert inputs_of(sw.networks.remove_layer(spec, 1), 2) == ("b", "table")
    assert sw.networks.remove_layer(spec, 4).outputs[0].layer == "sum"
    assert sw.networks.remove_layer(chain(TABLE, layer("Dense", "d", units=1)), 1).outputs == ()
    copied = sw.networks.duplicate_layer(spec, 1)
    assert (copied.layers[2].name, copied.analysis.rows[2].inputs) == ("a_2", ("a",))
    assert inputs_of(sw.networks.duplicate_layer(spec, 3), 4) == ("b", "a")
    assert sw.networks.duplicate_layer(spec, 4).outputs[0].layer == "end_2"
    for found in (
        renamed,
        wider,
        off,
        sw.networks.remove_layer(spec, 3),
        sw.networks.duplicate_layer(spec, 4),
    ):
        assert found.analysis.ok


@cases("row, by, to", (2, -1, 1), (1, -9, 0), (1, 9, 4))
def test_moving_stops_at_the_ends(row, by, to):
    assert sw.networks.move_layer(residual(), row, by).layers[to] == residual().layers[row]
    assert "comes later" in (sw.networks.move_layer(residual(), 3, -3).analysis.reason or "")


@cases("value", 10**400, [10**400], -(2**63))
def test_integers_over_64_bits_are_rejected(value):
    with pytest.raises(ConfigurationError, match=r"2\*\*63"):
        layer("Dropout", "d", rate=value)


@cases("padding", 1, [1, 1], [[1, 1], [1, 1]])
def test_edges_are_given_per_axis_or_per_side(padding):
    rows = chain(IMAGE, layer("ZeroPadding2D", "p", padding=padding)).analysis.rows
    assert rows[1].output_shape == (14, 14, 1)


def test_values_are_normalized_to_their_json_form():
    spec = sw.networks.NetworkSpec(
        layers=(layer("Dropout", "d", rate=np.float64(0.3), noise_shape=(3, 5)),),
        outputs=(sw.networks.OutputSpec(layer="d", loss="mse", weight=np.float64(0.5)),),
        optimizer=sw.networks.OptimizerSpec(options={"learning_rate": np.float64(0.1)}),
    )
    assert spec.layers[0].options["noise_shape"] == [3, 5]
    values = (
        *(spec.layers[0].options["rate"], spec.outputs[0].weight),
        spec.optimizer.options["learning_rate"],
    )
    assert {type(value) for value in values} == {float}
    assert sw.networks.NetworkSpec.from_yaml(spec.to_yaml()) == spec
