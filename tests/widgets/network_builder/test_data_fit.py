from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from sparkwright.networks import PRESETS, LayerSpec, NetworkSpec, OutputSpec
from sparkwright_widgets._network_builder._data_fit import (
    DataFacts,
    misfits,
    preset_fixes,
    preset_for,
)
from sparkwright_widgets._network_builder._fixes import fixes


def network(units=10, loss="sparse_categorical_crossentropy", shape=(8,)):
    activation = (
        "linear" if loss == "mean_squared_error" else "sigmoid" if units == 1 else "softmax"
    )
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": list(shape)}),
            LayerSpec(kind="Dense", name="out", options={"units": units, "activation": activation}),
        ),
        outputs=(OutputSpec(layer="out", loss=loss),),
    )


def found(spec, **facts):
    return misfits(spec, spec.analysis, DataFacts(**facts))


def test_several_inputs_are_matched_by_name():
    spec = NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="a", options={"shape": [2]}),
            LayerSpec(kind="Input", name="b", options={"shape": [3]}),
        )
    )
    assert found(spec, features={"b": (3,), "a": (2,)}) == ()
    [misfit] = found(spec, features={"b": (3,), "c": (2,)})
    assert "no features for the input a" in misfit.sentence


def test_unused_outputs_do_not_block_training():
    [many] = found(network(units=100), labels={"y": ()}, classes={"y": 10})
    assert not many.stops


def test_preset_adapts_to_the_shape_and_classes_of_compatible_data():
    data = DataFacts(features={"x": (32, 32, 3)}, classes={"y": 4})
    spec = preset_for(PRESETS["lenet"], data)
    assert spec.layers[0].options["shape"] == [32, 32, 3]
    assert spec.analysis.rows[-1].output_shape == (4,)
    table = DataFacts(features={"x": (7,)})
    assert preset_for(PRESETS["lenet"], table) == PRESETS["lenet"].make()


FOUR = {"units": 4, "activation": "softmax"}


def sequences(**options):
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": [None, 3]}),
            LayerSpec(kind="Dense", name="out", options=FOUR, **options),
        ),
        outputs=(OutputSpec(layer="out", loss="sparse_categorical_crossentropy"),),
    )


NUMBER, CLASSES = {"labels": {"y": ()}}, {"labels": {"y": ()}, "classes": {"y": 5}}
REGRESSION = network(units=7, loss="mean_squared_error")
ONE_HOT = network(loss="categorical_crossentropy")
BINARY = network(units=1, loss="binary_crossentropy")
FIVE = "Use 5 units and sparse categorical crossentropy"


@pytest.mark.parametrize(
    ("spec", "facts", "labels"),
    [
        (network(), {"features": {"x": (12,)}}, ["Use the data's shape: 12"]),
        (network(), {"labels": {"y": (10,)}}, ["Use categorical crossentropy"]),
        (ONE_HOT, NUMBER, ["Use sparse categorical crossentropy"]),
        (network(units=3), CLASSES, ["Use 5 units"]),
        (BINARY, CLASSES, [FIVE]),
        (REGRESSION, CLASSES, [FIVE, "Use 1 unit"]),
        (REGRESSION, NUMBER, ["Use 1 unit"]),
        (REGRESSION, {"labels": {"y": (4,)}}, ["Use 4 units"]),
        (sequences(inputs=("in",)), NUMBER, ["Add GlobalAveragePooling1D"]),
        (network(units=5, shape=(28, 28, 1)), CLASSES, ["Add Flatten"]),
    ],
)
def test_first_fix_solves_a_mismatch(spec, facts, labels):
    [misfit] = found(spec, **facts)
    assert misfit.stops
    assert [fix.label for fix in misfit.fixes] == labels
    fixed = misfit.fixes[0].spec
    assert fixed.analysis.ok
    assert found(fixed, **facts) == ()


@pytest.mark.parametrize(
    ("spec", "facts", "fits"),
    [
        (network(), {}, True),
        (network(), {"features": {"x": (8,)}}, True),  # whatever the two are called
        (network(), {"labels": {"y": ()}}, True),
        (network(), {"labels": {"y": (1,)}}, True),
        (BINARY, {"labels": {"y": ()}, "classes": {"y": 2}}, True),
        (network(units=1, loss="mean_squared_error"), {"labels": {"y": (1,)}}, True),
        (network(units=4, loss="mean_squared_error"), {"labels": {"y": (4,)}}, True),
        (sequences(), {"features": {"x": (20, 3)}}, True),
        (network(units=3, shape=(5, 2)), {"labels": {"y": (5,)}}, True),
        (network(units=3, shape=(5, 2)), {"labels": {"y": (5, 1)}}, True),
        (sequences(), {"features": {"x": (20, 4)}}, False),
        (network(units=3, shape=(5, 2)), {"labels": {"y": (6,)}}, False),
    ],
)
def test_only_mismatches_are_mentioned(spec, facts, fits):
    assert (found(spec, **facts) == ()) is fits


def lenet(row=None, outputs=None, **options):
    """LeNet with other options of a row, or other fields of its output."""
    spec = PRESETS["lenet"].make()
    if row is not None:
        layer = spec.layers[row]
        layer = replace(layer, options={**layer.options, **options})
        spec = replace(spec, layers=(*spec.layers[:row], layer, *spec.layers[row + 1 :]))
    return replace(spec, outputs=(replace(spec.outputs[0], **(outputs or {})),))


def test_tabular_data_with_lenet_offers_only_valid_dense_networks():
    facts = {"features": {"x": (6,)}, "labels": {"y": ()}, "classes": {"y": 3}}
    misfit, units = found(lenet(), **facts)
    assert units.fixes[0].label == "Use 3 units"
    assert misfit.fixes[0].label == "Use the preset “Dense layers: tables, one class each”"
    spec = misfit.fixes[0].spec
    assert spec.analysis.ok
    assert spec.analysis.rows[-1].output_shape == (3,)
    assert found(spec, **facts) == ()


@pytest.mark.parametrize(
    ("facts", "use"),
    [({"labels": {"y": ()}}, "numbers"), ({}, "one class each")],
)
def test_the_preset_for_the_labels_comes_first(facts, use):
    [misfit, *_] = found(lenet(), features={"x": (6,)}, **facts)
    assert misfit.fixes[0].label == f"Use the preset “Dense layers: tables, {use}”"


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        (lenet(3, kernel_size=13), ["Use 5", "Same padding"]),
        (lenet(0, shape=[10, 10, 1]), ["Use 2", "Same padding"]),
        (lenet(0, shape=[4, 4, 1]), ["Same padding in every layer"]),
        (lenet(0, shape=[28, 28]), ["Add Reshape to 28 x 28 x 1"]),
        (lenet(0, dtype="int32"), ["Use float32 inputs"]),
        (lenet(2, pool_size=30), ["Use 2", "Same padding in every layer"]),
        (lenet(1, strides=0), ["Use the default for strides"]),
        (lenet(6, units=-1), ["Use 64 for units"]),
        (lenet(7, units=1), ["Use binary crossentropy"]),
        (lenet(7, activation="relu"), ["Use sparse categorical crossentropy"]),
        (lenet(outputs={"loss": "mean_squared_error"}), ["Use sparse categorical crossentropy"]),
        (lenet(outputs={"loss": "magic"}), ["Use sparse categorical crossentropy"]),
        (replace(lenet(), outputs=()), ["Make classes an output"]),
    ],
)
def test_problem_offers_valid_fixes(spec, labels):
    assert not spec.analysis.ok
    offered = fixes(spec, spec.analysis)
    assert [fix.label for fix in offered][: len(labels)] == labels
    assert all(fix.spec.analysis.ok for fix in offered)


@pytest.mark.thorough
@settings(max_examples=30)
@given(st.data())
def test_fixes_for_any_problem_give_buildable_networks(data):
    spec = PRESETS[data.draw(st.sampled_from(sorted(PRESETS)))].make()
    layers = list(spec.layers)
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.integers(0, len(layers) - 1))
        options = dict(layers[row].options)
        for name in data.draw(st.lists(st.sampled_from(sorted(options) or ["rate"]), max_size=2)):
            options[name] = data.draw(st.sampled_from([0, -1, 99, "same", [3], [6, 6], None, 2.5]))
        inputs = data.draw(st.sampled_from([layers[row].inputs, (), ("ghost",), (layers[0].name,)]))
        other = data.draw(st.sampled_from([layers[row], *layers]))
        layers[row] = replace(other, options=options, inputs=inputs)
    added = OutputSpec(layer="ghost", loss="mse")
    outputs = data.draw(st.sampled_from([spec.outputs, (), (*spec.outputs, added)]))
    spec = replace(spec, layers=tuple(layers), outputs=outputs)
    for fix in (*fixes(spec, spec.analysis), *preset_fixes(spec, DataFacts(features={"x": (6,)}))):
        assert fix.spec.analysis.ok
        assert fix.spec != spec


def test_unsolvable_and_absent_problems_offer_no_fix():
    assert fixes(lenet(), lenet().analysis) == ()
    spec = lenet(0, shape=[6])  # a vector for a convolution of images
    assert fixes(spec, spec.analysis) == ()
