import pytest

from sparkwright.networks import PRESETS, LayerSpec, NetworkSpec, OutputSpec
from sparkwright_widgets._network_builder._data_fit import DataFacts, misfits, preset_for


def network(units=10, loss="sparse_categorical_crossentropy", shape=(8,)):
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": list(shape)}),
            LayerSpec(kind="Dense", name="out", options={"units": units}),
        ),
        outputs=(OutputSpec(layer="out", loss=loss),),
    )


def found(spec, **facts):
    return misfits(spec, spec.analysis, DataFacts(**facts))


def test_an_input_takes_the_datas_shape():
    [misfit] = found(network(), features={"features": (12,)})
    assert misfit.sentence == "The input in takes 8, the data has 12 for an example of features."
    assert misfit.stops
    assert found(misfit.mended, features={"features": (12,)}) == ()


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


def test_one_hot_labels_and_class_numbers_ask_for_different_losses():
    [misfit] = found(network(), labels={"y": (10,)})
    assert misfit.mended.outputs[0].loss == "categorical_crossentropy"
    [back] = found(misfit.mended, labels={"y": ()})
    assert back.mended.outputs[0].loss == "sparse_categorical_crossentropy"


def test_more_classes_than_outputs_stop_training_and_fewer_do_not():
    [few] = found(network(units=3), labels={"y": ()}, classes={"y": 10})
    assert few.stops
    assert few.mended.layers[-1].options["units"] == 10
    [many] = found(network(units=100), labels={"y": ()}, classes={"y": 10})
    assert not many.stops


@pytest.mark.parametrize(("label", "units"), [((), 1), ((1,), 1), ((4,), 4)])
def test_a_regression_gives_as_many_numbers_as_the_label_has(label, units):
    spec = network(units=units, loss="mean_squared_error")
    assert found(spec, labels={"y": label}) == ()
    [misfit] = found(network(units=7, loss="mean_squared_error"), labels={"y": label})
    assert misfit.mended.layers[-1].options["units"] == units


def test_a_preset_takes_the_datas_shape_and_classes_if_it_can():
    data = DataFacts(features={"x": (32, 32, 3)}, classes={"y": 4})
    spec = preset_for(PRESETS["lenet"], data)
    assert spec.layers[0].options["shape"] == [32, 32, 3]
    assert spec.analysis.rows[-1].output_shape == (4,)
    table = DataFacts(features={"x": (7,)})
    assert preset_for(PRESETS["lenet"], table) == PRESETS["lenet"].make()


@pytest.mark.parametrize("name", ["mlp", "regression"])
def test_one_answer_at_each_place_does_not_fit_one_label_and_is_flattened(name):
    facts = {"features": {"x": (28, 28, 1)}, "labels": {"y": ()}}
    if name == "mlp":
        facts["classes"] = {"y": 10}
    spec = preset_for(PRESETS[name], DataFacts(**facts))
    [misfit] = found(spec, **facts)
    assert misfit.stops
    assert "A label is one number" in misfit.sentence
    assert misfit.remedy == "Add Flatten"
    assert [layer.kind for layer in misfit.mended.layers][:3] == ["Input", "Flatten", "Dense"]
    assert found(misfit.mended, **facts) == ()


def test_one_output_tells_only_two_classes_apart():
    spec = network(units=1, loss="binary_crossentropy")
    assert found(spec, labels={"y": ()}, classes={"y": 2}) == ()
    [misfit] = found(spec, labels={"y": ()}, classes={"y": 5})
    assert misfit.stops
    assert misfit.mended.layers[-1].options == {"units": 5, "activation": "softmax"}
    assert found(misfit.mended, labels={"y": ()}, classes={"y": 5}) == ()


def sequences(**options):
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="in", options={"shape": [None, 3]}),
            LayerSpec(kind="Dense", name="out", options={"units": 4}, **options),
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
def test_what_fits_is_not_mentioned(spec, facts, fits):
    assert (found(spec, **facts) == ()) is fits


def test_a_sequence_of_any_length_is_averaged_before_the_dense_layers():
    [misfit] = found(sequences(inputs=("in",)), labels={"y": ()})
    assert misfit.remedy == "Add GlobalAveragePooling1D"
    assert misfit.mended.layers[1].inputs == ("in",)
    assert found(misfit.mended, labels={"y": ()}) == ()


@pytest.mark.parametrize(
    ("classes", "preset"), [({"labels": 3}, "mlp"), ({}, "regression")], ids=["classes", "numbers"]
)
def test_layers_for_images_give_way_to_dense_ones_where_the_data_is_a_table(classes, preset):
    (misfit, *_) = found(PRESETS["lenet"].make(), features={"features": (6,)}, classes=classes)
    assert misfit.remedy == f"Begin with dense layers ({preset})"
    assert misfit.mended.analysis.ok
    assert misfit.mended.layers[0].options["shape"] == [6]
    assert found(misfit.mended, features={"features": (6,)}, classes=classes) == ()
