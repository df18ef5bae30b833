"""Networks as values: fields are checked, problems are told at the row, edits keep them whole."""

from dataclasses import replace
from typing import Any

import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.networks import (
    LOSSES,
    METRICS,
    PRESETS,
    LayerSpec,
    NetworkSpec,
    OptimizerSpec,
    OutputSpec,
    add_layer,
    defaults_for,
    duplicate_layer,
    estimate,
    move_layer,
    remove_layer,
    rename_layer,
    replace_layer,
    switch_layer,
)


def layer(kind: str, name: str, *inputs: str, **options: Any) -> LayerSpec:
    return LayerSpec(kind=kind, name=name, inputs=inputs, options=options)


def chain(*layers: LayerSpec, loss: str = "mse", **fields: Any) -> NetworkSpec:
    outputs = (OutputSpec(layer=layers[-1].name, loss=loss),)
    return NetworkSpec(layers=layers, outputs=outputs, **fields)


IMAGE = layer("Input", "image", shape=[12, 12, 1])
TABLE = layer("Input", "table", shape=[4])


def test_tuples_become_lists_so_that_json_gives_back_the_same() -> None:
    assert layer("Conv2D", "c", filters=2, kernel_size=(3, 5)).options["kernel_size"] == [3, 5]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"layers": "Dense"}, "layers"),
        ({"layers": [{"kind": "Dense"}]}, r"layers\[0\].*name"),
        ({"layers": [{"kind": "Dense", "name": "d", "units": 3}]}, "units"),
        ({"layers": [{"kind": "Dense", "name": "d", "options": [3]}]}, "options"),
        ({"layers": [{"kind": "Dense", "name": "d", "enabled": 1}]}, "enabled"),
        ({"layers": [{"kind": "Dense", "name": "d", "options": {"units": float("nan")}}]}, "units"),
        ({"layers": [{"kind": "Dense", "name": "d", "options": {"units": {}}}]}, "units"),
        ({"outputs": [{"layer": "d"}]}, "loss"),
        ({"outputs": [{"layer": "d", "loss": "mse", "weight": -1}]}, "weight"),
        ({"task": "clustering"}, "task"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"optimizer": "adam"}, "optimizer"),
        ({"loss": "mse"}, "loss"),
        ([], "settings"),
    ],
)
def test_wrong_fields_are_refused_by_name(settings: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        NetworkSpec.from_dict(settings)


@pytest.mark.parametrize("read", [NetworkSpec.from_json, NetworkSpec.from_yaml])
@pytest.mark.parametrize("text", ["{", "[" * 100_000, "- a: !!python/object:os.system x"])
def test_text_that_is_no_network_is_refused(read: Any, text: str) -> None:
    with pytest.raises(ConfigurationError):
        read(text)


def test_a_row_says_what_it_needs_and_later_rows_wait_for_it() -> None:
    spec = chain(
        IMAGE,
        layer("Conv2D", "conv_1", filters=20, kernel_size=5),
        layer("MaxPooling2D", "pool"),
        layer("Conv2D", "conv_2", filters=50, kernel_size=5),
        layer("Flatten", "flatten"),
        layer("Dense", "out", units=3),
    )
    rows = spec.analysis.rows
    assert "negative" in str(rows[3].problem)
    assert "(None, 4, 4, 20)" in str(rows[3].problem)
    assert [row.waiting_for for row in rows] == [None, None, None, None, 3, 3]
    assert [row.problem for row in rows[4:]] == [None, None]
    assert spec.analysis.reason == f"Row 4 (conv_2): {rows[3].problem}"
    assert not spec.analysis.ok


def test_rows_beside_the_broken_one_are_known() -> None:
    spec = NetworkSpec(
        layers=(
            IMAGE,
            layer("Conv2D", "broken", filters=2, kernel_size=20),
            layer("Flatten", "flat", "image"),
            layer("Concatenate", "both", "broken", "flat"),
        )
    )
    rows = spec.analysis.rows
    assert rows[2].output_shape == (144,)
    assert rows[3].waiting_for == 1


@pytest.mark.parametrize(
    ("broken", "words"),
    [
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
    ],
)
def test_what_is_wrong_with_a_row_is_said_in_one_sentence(broken: LayerSpec, words: str) -> None:
    spec = chain(TABLE, broken, layer("Dense", "end", units=1))
    problem = spec.analysis.rows[1].problem
    assert problem is not None
    assert words in problem


def test_integers_are_refused_where_keras_needs_fractions() -> None:
    words = layer("Input", "words", shape=[7], dtype="int32")
    spec = chain(words, layer("Dense", "d", units=2))
    assert "int32" in (spec.analysis.rows[1].problem or "")
    embedded = layer("Embedding", "e", input_dim=9, output_dim=2)
    assert chain(words, embedded, layer("Dense", "d", units=2)).analysis.ok


def test_a_layer_that_is_switched_off_passes_on_what_it_takes_first() -> None:
    spec = NetworkSpec(
        layers=(
            TABLE,
            layer("Dense", "wide", units=9),
            replace(layer("Dense", "off", units=7), enabled=False),
            layer("Dense", "next", units=2),
            layer("Dense", "named", "off", units=2),
            replace(layer("Add", "sum", "next", "named"), enabled=False),
            layer("Dense", "end", "sum", units=1),
        ),
    )
    rows = spec.analysis.rows
    assert rows[2].parameters == 0
    assert rows[3].inputs == rows[4].inputs == ("wide",)
    assert rows[3].input_shapes == ((9,),)
    assert rows[6].inputs == ("next",)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (NetworkSpec(), "no layers"),
        (NetworkSpec(layers=(TABLE, layer("Dense", "d", units=1))), "no output"),
        (chain(TABLE), "an Input"),
        (
            replace(chain(TABLE, layer("Dense", "d", units=1)), name="my network"),
            "network's name",
        ),
        (
            NetworkSpec(
                layers=(TABLE, layer("Dense", "d", units=1)),
                outputs=(OutputSpec(layer="e", loss="mse"),),
            ),
            "no layer of the network",
        ),
        (
            chain(TABLE, layer("Dense", "a", units=1), layer("Dense", "b", "table", units=1)),
            "Nobody takes the output of row 2",
        ),
        (chain(TABLE, layer("Dense", "d", units=1), loss="mile"), "'mile'"),
        (
            chain(TABLE, layer("Dense", "d", units=1), loss="sparse_categorical_crossentropy"),
            "at least 2",
        ),
        (
            chain(TABLE, layer("Dense", "d", units=3), loss="sparse_categorical_crossentropy"),
            "Give it softmax",
        ),
        (chain(TABLE, layer("Dense", "d", units=1), loss="binary_crossentropy"), "sigmoid"),
        (
            chain(TABLE, layer("Dense", "d", units=1), optimizer=OptimizerSpec(kind="Sdg")),
            "'Sdg'",
        ),
        (
            chain(
                TABLE,
                layer("Dense", "d", units=1),
                optimizer=OptimizerSpec(options={"learning_rate": -1}),
            ),
            "learning_rate",
        ),
        (
            chain(
                TABLE,
                layer("Dense", "d", units=1),
                optimizer=OptimizerSpec(options={"clipnorm": 1.0, "clipvalue": 1.0}),
            ),
            "Only one of",
        ),
    ],
)
def test_what_is_wrong_with_the_whole_is_said(spec: NetworkSpec, words: str) -> None:
    assert any(words in problem for problem in spec.analysis.problems), spec.analysis.problems
    assert not spec.analysis.ok


def test_the_activation_counts_through_layers_that_keep_the_values() -> None:
    dense = layer("Dense", "d", units=3, activation="softmax")
    cross_entropy = "sparse_categorical_crossentropy"
    assert chain(TABLE, dense, layer("Dropout", "o", rate=0.1), loss=cross_entropy).analysis.ok
    apart = (TABLE, layer("Dense", "d", units=3), layer("Softmax", "s"))
    assert chain(*apart, loss=cross_entropy).analysis.ok
    assert not chain(*apart[:2], layer("ReLU", "r"), loss=cross_entropy).analysis.ok


def test_metrics_that_do_not_understand_the_labels_are_told() -> None:
    spec = PRESETS["mlp"].make()
    wrong = replace(spec.outputs[0], metrics=("mean_absolute_error",))
    assert "class numbers" in (replace(spec, outputs=(wrong,)).analysis.reason or "")


@pytest.mark.parametrize("task", ["classification", "binary", "regression", "other"])
def test_defaults_of_a_task_go_together(task: Any) -> None:
    for shape in ((1,), (5,)):
        fitting = defaults_for(task, shape)
        units = 1 if task == "binary" else shape[0]
        end = layer("Dense", "end", units=units, activation=fitting.activation)
        output = OutputSpec(layer="end", loss=fitting.loss, metrics=fitting.metrics)
        spec = NetworkSpec(layers=(TABLE, end), outputs=(output,), task=task)
        assert spec.analysis.reason is None


def test_the_analysis_is_made_once() -> None:
    spec = PRESETS["lenet"].make()
    assert spec.analysis is spec.analysis
    assert replace(spec, name="other").analysis is not spec.analysis


def test_adding_layers_one_by_one_makes_a_network_that_can_be_trained() -> None:
    spec = add_layer(NetworkSpec(), "Input", options={"shape": [28, 28, 1]})
    spec = add_layer(spec, "Conv2D", options={"filters": 4})
    assert spec.outputs[0].layer == "conv2d"
    spec = add_layer(spec, "Flatten")
    spec = add_layer(spec, "Dense", options={"units": 10, "activation": "softmax"})
    assert [output.layer for output in spec.outputs] == ["dense"]
    spec = add_layer(spec, "Dense", after=2)
    assert [x.name for x in spec.layers][3:] == ["dense_2", "dense"]
    assert spec.analysis.reason is None


def test_a_merging_layer_takes_the_loose_ends() -> None:
    spec = NetworkSpec(layers=(TABLE, layer("Dense", "a", units=3)))
    spec = replace(spec, layers=(*spec.layers, layer("Dense", "b", "table", units=3)))
    assert add_layer(spec, "Add").layers[-1].inputs == ("a", "b")


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "Nothing"}, {"kind": "Dense", "after": 9}, {"kind": "Dense", "name": "table"}],
)
def test_layers_that_cannot_be_added_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        add_layer(NetworkSpec(layers=(TABLE,)), **wrong)


def residual() -> NetworkSpec:
    return chain(
        TABLE,
        layer("Dense", "a", units=4),
        layer("Dense", "b", units=4),
        layer("Add", "sum", "b", "a"),
        layer("Dense", "end", units=1),
    )


def test_renaming_re_points_inputs_and_outputs() -> None:
    spec = rename_layer(rename_layer(residual(), 1, "first"), 4, "last")
    assert spec.layers[3].inputs == ("b", "first")
    assert spec.outputs[0].layer == "last"
    assert spec.analysis.ok
    with pytest.raises(ConfigurationError):
        rename_layer(spec, 1, "last")


def test_removing_re_points_to_what_the_layer_took() -> None:
    assert remove_layer(residual(), 2).layers[2].inputs == ("a",)
    assert remove_layer(residual(), 1).layers[2].inputs == ("b", "table")
    assert remove_layer(residual(), 4).outputs[0].layer == "sum"
    assert remove_layer(residual(), 3).analysis.ok
    assert remove_layer(chain(TABLE, layer("Dense", "d", units=1)), 1).outputs == ()


def test_duplicates_have_names_of_their_own_and_follow_the_original() -> None:
    spec = duplicate_layer(residual(), 1)
    assert spec.layers[2].name == "a_2"
    assert spec.analysis.rows[2].inputs == ("a",)
    assert duplicate_layer(residual(), 3).layers[4].inputs == ("b", "a")
    assert duplicate_layer(residual(), 4).outputs[0].layer == "end_2"


def test_moving_stops_at_the_ends() -> None:
    spec = residual()
    assert move_layer(spec, 2, -1).layers[1].name == "b"
    assert move_layer(spec, 1, -9).layers[0].name == "a"
    assert move_layer(spec, 1, 9).layers[-1].name == "a"
    assert "comes later" in (move_layer(spec, 3, -3).analysis.reason or "")


def test_switching_and_replacing() -> None:
    spec = switch_layer(residual(), 2)
    assert not spec.layers[2].enabled
    assert switch_layer(spec, 2, False) == spec
    assert switch_layer(spec, 2) == residual()
    changed = replace_layer(residual(), 1, layer("Dense", "wider", units=4, activation="relu"))
    assert changed.layers[3].inputs == ("b", "wider")
    assert changed.analysis.ok


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_no_problem_and_come_back_from_yaml(preset: str) -> None:
    spec = PRESETS[preset].make()
    assert spec.analysis.reason is None
    assert spec.task == PRESETS[preset].task
    assert NetworkSpec.from_yaml(spec.to_yaml()) == spec


def test_the_estimate_adds_up() -> None:
    spec = PRESETS["lenet"].make()
    found = estimate(spec, batch_size=32)
    parts = {figure.name: figure.size_bytes for figure in found.memory}
    assert parts["Parameters"] == 431_080 * 4
    assert parts["Optimizer"] == 2 * 431_080 * 4
    assert parts["Exchange"] == 5 * 3 * 431_080 * 4
    assert found.worker_bytes == sum(parts.values())
    # Two workers send one whole vector each; four send one and a half.
    assert found.traffic[0].size_bytes == 3 * 431_080 * 4
    alone = estimate(spec, batch_size=32, workers=4, save_updater=False)
    assert alone.traffic[0].size_bytes == 431_080 * 6
    assert estimate(spec, batch_size=32, workers=1).traffic[0].size_bytes == 0
    shared = estimate(spec, batch_size=32, master="sharing")
    assert [figure.size_bytes for figure in shared.traffic] == [1744, (4 + 431_080 // 16 + 1) * 4]
    exchange = next(figure for figure in shared.memory if figure.name == "Exchange")
    assert exchange.size_bytes == (4 * 3 + 2) * 431_080 * 4
    assert estimate(spec, batch_size=64).worker_bytes > found.worker_bytes
    with pytest.raises(ConfigurationError):
        estimate(spec, batch_size=0)


def test_losses_and_metrics_describe_themselves() -> None:
    for found in (*LOSSES.values(), *METRICS.values()):
        assert found.sentence.endswith(".")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (NetworkSpec.from_yaml, "name: &a [*a]"),
        (NetworkSpec.from_yaml, "name: !!timestamp later"),
        (NetworkSpec.from_yaml, "name: !!bool later"),
        (NetworkSpec.from_yaml, "seed: 0b_"),
        (
            NetworkSpec.from_yaml,
            "a0: &a0 [x, x]\n"
            + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40)),
        ),
        (NetworkSpec.from_json, "{"),
        (NetworkSpec.from_json, '{"seed": 1' + "0" * 400 + "}"),
        (NetworkSpec.from_json, '{"seed": 1' + "0" * 9_000 + "}"),
    ],
)
def test_pasted_text_is_refused_with_what_it_must_be(read: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must be .*\. Received: "):
        read(text)


def test_a_date_is_text() -> None:
    assert NetworkSpec.from_yaml("name: 2020-13-45").name == "2020-13-45"
    spec = NetworkSpec(name="2020-01-02")
    assert NetworkSpec.from_yaml(spec.to_yaml()) == spec
    assert "'2020-01-02'" in spec.to_yaml()


@pytest.mark.parametrize("value", [10**400, [10**400], -(2**63)])
def test_integers_of_more_than_64_bits_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"2\*\*63"):
        layer("Dropout", "d", rate=value)


@pytest.mark.parametrize("padding", [1, [1, 1], [1, 1, 1, 1], [[1, 1], [1, 1]]])
def test_edges_are_given_once_for_each_axis_or_for_each_side(padding: Any) -> None:
    rows = chain(IMAGE, layer("ZeroPadding2D", "p", padding=padding)).analysis.rows
    assert rows[1].output_shape == (14, 14, 1)


def test_numbers_of_numpy_become_plain() -> None:
    import numpy as np

    spec = NetworkSpec(
        layers=(layer("Dropout", "d", rate=np.float64(0.3)),),
        outputs=(OutputSpec(layer="d", loss="mse", weight=np.float64(0.5)),),
        optimizer=OptimizerSpec(options={"learning_rate": np.float64(0.1)}),
    )
    values = (
        spec.layers[0].options["rate"],
        spec.outputs[0].weight,
        spec.optimizer.options["learning_rate"],
    )
    assert [type(value) for value in values] == [float] * 3
    assert NetworkSpec.from_yaml(spec.to_yaml()) == spec
