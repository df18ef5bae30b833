from tests.cases import cases

from sparkwright.networks import PRESETS, LayerSpec, NetworkSpec, OutputSpec
from sparkwright_widgets._network_builder._data_fit import DataFacts, misfits, preset_for


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


@cases(
    "spec, facts, labels",
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
)
def test_first_fix_solves_a_mismatch(spec, facts, labels):
    [misfit] = found(spec, **facts)
    assert misfit.stops
    assert [fix.label for fix in misfit.fixes] == labels
    fixed = misfit.fixes[0].spec
    assert fixed.analysis.ok
    assert found(fixed, **facts) == ()


@cases(
    "spec, facts, fits",
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
)
def test_only_mismatches_are_mentioned(spec, facts, fits):
    assert (found(spec, **facts) == ()) is fits


LENET = PRESETS["lenet"].make()


def test_tabular_data_with_lenet_offers_only_valid_dense_networks():
    facts = {"features": {"x": (6,)}, "labels": {"y": ()}, "classes": {"y": 3}}
    misfit, units = found(LENET, **facts)
    assert units.fixes[0].label == "Use 3 units"
    assert misfit.fixes[0].label == "Use the preset “Dense layers: tables, one class each”"
    spec = misfit.fixes[0].spec
    assert spec.analysis.ok
    assert spec.analysis.rows[-1].output_shape == (3,)
    assert found(spec, **facts) == ()


@cases("facts, use", ({"labels": {"y": ()}}, "numbers"), ({}, "one class each"))
def test_the_preset_for_the_labels_comes_first(facts, use):
    [misfit, *_] = found(LENET, features={"x": (6,)}, **facts)
    assert misfit.fixes[0].label == f"Use the preset “Dense layers: tables, {use}”"
