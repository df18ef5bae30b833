from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from sparkwright.networks import PRESETS, LayerSpec, NetworkSpec, OutputSpec
from sparkwright_widgets._network_builder._data_fit import (
    DataFacts,
    fits,
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


def changed(misfit):
    """The network after the first fix."""
    return misfit.fixes[0].spec


def found(spec, **facts):
    return misfits(spec, spec.analysis, DataFacts(**facts))


def test_input_gets_the_shape_of_the_data():
    [misfit] = found(network(), features={"features": (12,)})
    assert misfit.sentence == "The input in has shape 8; each example of features has shape 12."
    assert misfit.stops
    assert found(changed(misfit), features={"features": (12,)}) == ()


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


def test_one_hot_and_integer_labels_require_different_losses():
    [misfit] = found(network(), labels={"y": (10,)})
    assert changed(misfit).outputs[0].loss == "categorical_crossentropy"
    [back] = found(changed(misfit), labels={"y": ()})
    assert changed(back).outputs[0].loss == "sparse_categorical_crossentropy"


def test_more_classes_than_outputs_block_training_and_fewer_do_not():
    [few] = found(network(units=3), labels={"y": ()}, classes={"y": 10})
    assert few.stops
    assert changed(few).layers[-1].options["units"] == 10
    [many] = found(network(units=100), labels={"y": ()}, classes={"y": 10})
    assert not many.stops


@pytest.mark.parametrize(("label", "units"), [((), 1), ((1,), 1), ((4,), 4)])
def test_regression_has_as_many_outputs_as_the_label(label, units):
    spec = network(units=units, loss="mean_squared_error")
    assert found(spec, labels={"y": label}) == ()
    [misfit] = found(network(units=7, loss="mean_squared_error"), labels={"y": label})
    assert changed(misfit).layers[-1].options["units"] == units


def test_preset_adapts_to_the_shape_and_classes_of_compatible_data():
    data = DataFacts(features={"x": (32, 32, 3)}, classes={"y": 4})
    spec = preset_for(PRESETS["lenet"], data)
    assert spec.layers[0].options["shape"] == [32, 32, 3]
    assert spec.analysis.rows[-1].output_shape == (4,)
    table = DataFacts(features={"x": (7,)})
    assert preset_for(PRESETS["lenet"], table) == PRESETS["lenet"].make()


@pytest.mark.parametrize("name", ["mlp", "regression"])
def test_per_position_outputs_with_scalar_labels_offer_flatten(name):
    facts = {"features": {"x": (28, 28, 1)}, "labels": {"y": ()}}
    if name == "mlp":
        facts["classes"] = {"y": 10}
    spec = preset_for(PRESETS[name], DataFacts(**facts))
    [misfit] = found(spec, **facts)
    assert misfit.stops
    assert "A label is one number" in misfit.sentence
    assert misfit.fixes[0].label == "Add Flatten"
    assert [layer.kind for layer in changed(misfit).layers][:3] == ["Input", "Flatten", "Dense"]
    assert found(changed(misfit), **facts) == ()


def test_one_output_distinguishes_only_two_classes():
    spec = network(units=1, loss="binary_crossentropy")
    assert found(spec, labels={"y": ()}, classes={"y": 2}) == ()
    [misfit] = found(spec, labels={"y": ()}, classes={"y": 5})
    assert misfit.stops
    assert changed(misfit).layers[-1].options == {"units": 5, "activation": "softmax"}
    assert found(changed(misfit), labels={"y": ()}, classes={"y": 5}) == ()


FOUR = {"units": 4, "activation": "softmax"}


def sequences(**options):
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": [None, 3]}),
            LayerSpec(kind="Dense", name="out", options=FOUR, **options),
        ),
        outputs=(OutputSpec(layer="out", loss="sparse_categorical_crossentropy"),),
    )


@pytest.mark.parametrize(
    ("spec", "facts", "fits"),
    [
        (network(), {}, True),
        (network(), {"features": {"x": (8,)}}, True),  # whatever the two are called
        *((network(), {"labels": {"y": label}}, True) for label in ((), (1,))),
        (sequences(), {"features": {"x": (20, 3)}}, True),
        (sequences(), {"features": {"x": (20, 4)}}, False),
        *(
            (network(units=3, shape=(5, 2)), {"labels": {"y": label}}, fits)
            for label, fits in (((5,), True), ((5, 1), True), ((6,), False))
        ),
    ],
)
def test_matching_settings_are_not_mentioned(spec, facts, fits):
    assert (found(spec, **facts) == ()) is fits


def test_a_sequence_of_any_length_is_averaged_before_the_dense_layers():
    [misfit] = found(sequences(inputs=("in",)), labels={"y": ()})
    assert misfit.fixes[0].label == "Add GlobalAveragePooling1D"
    assert changed(misfit).layers[1].inputs == ("in",)
    assert found(changed(misfit), labels={"y": ()}) == ()


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
    spec = changed(misfit)
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


def test_mean_squared_error_for_classes_offers_crossentropy():
    spec = network(units=10, loss="mean_squared_error")
    [misfit] = found(spec, labels={"y": ()}, classes={"y": 3})
    labels = [fix.label for fix in misfit.fixes]
    assert labels == ["Use 3 units and sparse categorical crossentropy", "Use 1 unit"]
    assert changed(misfit).analysis.ok


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


def test_presets_that_fit_the_data_are_found():
    table = DataFacts(features={"x": (6,)}, labels={"y": (2,)})
    assert [name for name, preset in PRESETS.items() if fits(preset, table)] == ["regression"]
    assert not any(fits(preset, DataFacts()) for preset in PRESETS.values())
