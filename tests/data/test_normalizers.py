import json
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import (
    DataSet,
    ImageScale,
    MinMaxScale,
    Normalizer,
    NormalizerChain,
    Standardize,
)
from sparkwright.data.dataset import fold
from sparkwright.errors import ConfigurationError, DataError

F = "features"
columns = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 30), st.integers(1, 4)),
    elements=st.floats(-1000, 1000, width=32),
)


def table(rows=300):
    random = np.random.default_rng(0)
    features = random.normal(size=(rows, 4)) * [1, 50, 0.1, 3] + [0, 1000, -7, 5]
    return DataSet(features.astype(np.float32), (features[:, :1] * 9 + 4).astype(np.float32))


def of(normalizer, data):
    return normalizer.transform(data).features[F]


def test_standardized_columns_match_numpy():
    array = table().features[F]
    wide = array.astype(np.float64)
    expected = ((wide - wide.mean(axis=0)) / wide.std(axis=0)).astype(np.float32)
    normalizer = Standardize.fit(table())
    np.testing.assert_allclose(normalizer.features[F].mean, wide.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(normalizer.features[F].std, wide.std(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(of(normalizer, table()), expected)
    np.testing.assert_array_equal(normalizer.transform(array), expected)
    np.testing.assert_array_equal(normalizer.transform({F: array})[F], expected)


@given(columns, st.floats(-5, 0), st.floats(0.5, 5))
def test_scaled_columns_lie_between_low_and_high(array, low, high):
    scaled = of(MinMaxScale.fit(DataSet(array), low=low, high=high), DataSet(array))
    wide = array.astype(np.float64)
    width = np.ptp(wide, axis=0)
    expected = (wide - wide.min(axis=0)) / np.where(width > 0, width, 1) * (high - low) + low
    np.testing.assert_array_equal(scaled, expected.astype(np.float32))


@given(columns)
def test_revert_restores_the_original_values(array):
    data = DataSet(array, array.copy())
    for normalizer in (
        Standardize.fit(data, labels=True),
        MinMaxScale.fit(data, labels=True, low=-1),
    ):
        back = normalizer.revert_labels(normalizer.revert_features(normalizer.transform(data)))
        tolerance = np.abs(array).max() * 1e-6
        np.testing.assert_allclose(back.features[F], array, atol=tolerance)
        np.testing.assert_allclose(back.labels["labels"], array, atol=tolerance)


def test_constant_columns_become_zero_and_revert():
    data = DataSet(np.full((7, 1), 0.1, np.float32))
    normalizer = Standardize.fit(data)
    assert set(of(normalizer, data).ravel()) == {0}
    assert normalizer.revert_features(normalizer.transform(data)).equals(data)


def test_pixel_scaling_matches_single_precision_division():
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    np.testing.assert_array_equal(
        of(ImageScale(), DataSet(pixels)), pixels.astype(np.float32) / np.float32(255)
    )
    assert of(ImageScale(low=-1), DataSet(pixels)).min() == -1
    named = "image"
    assert ImageScale(inputs=named).inputs == ("image",)
    np.testing.assert_array_equal(
        ImageScale().revert_features(ImageScale().transform(pixels)), pixels
    )


def test_images_are_fitted_per_channel_or_per_pixel():
    images = np.random.default_rng(0).integers(0, 256, (30, 4, 5, 3)).astype(np.uint8)
    wide = images.astype(np.float64)
    by_channel = Standardize.fit(DataSet(images))
    by_pixel = Standardize.fit(DataSet(images), per="element")
    np.testing.assert_allclose(by_channel.features[F].mean, wide.mean(axis=(0, 1, 2)), rtol=1e-12)
    np.testing.assert_allclose(by_pixel.features[F].std, wide.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(of(by_pixel, DataSet(images)).mean(axis=0), 0, atol=1e-6)
    assert of(by_channel, DataSet(images)).dtype == np.float32


def test_padding_is_neither_counted_nor_changed():
    array = np.random.default_rng(0).normal(5, 2, (6, 4, 2)).astype(np.float32)
    mask = np.arange(4) < np.array([1, 2, 3, 4, 4, 4])[:, None]
    array[~mask] = -99
    data = DataSet(array, features_masks=mask)
    normalizer = Standardize.fit(data)
    np.testing.assert_allclose(normalizer.features[F].mean, array[mask].mean(0, np.float64), 1e-12)
    changed = of(normalizer, data)
    assert (changed[~mask] == -99).all()
    np.testing.assert_allclose(changed[mask].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(
        normalizer.revert_features(normalizer.transform(data)).features[F], array, 1e-5
    )


def test_masked_labels_are_neither_counted_nor_changed():
    labels = np.array([1.0, 3.0, np.nan])
    data = DataSet(np.zeros((3, 1)), labels, labels_masks=np.array([1, 1, 0]))
    normalizer = Standardize.fit(data, labels=True)
    np.testing.assert_array_equal(normalizer.transform(data).labels["labels"], [-1, 1, np.nan])


class Chunks(list[DataSet]):
    """As a pass over partitions would see them."""

    def reduce_chunks(self, summarize, merge, *, description):
        return fold(self, summarize, merge)


@cases(
    "lengths, width, masked, per",
    ((4,), None, False, "value"),
    ((4, 4), None, True, "value"),
    ((4, 6), None, False, "value"),
    ((3, 4), None, True, "value"),
    ((3, 5), 3, False, "feature"),
    ((5, 3), 3, False, "feature"),
    ((3, 5, 3), 3, False, "feature"),
    ids=str,
)
def test_labels_are_one_column_if_their_length_follows_the_steps(lengths, width, masked, per):
    """A vector as long as one of the sequences keeps its columns."""
    random = np.random.default_rng(0)
    chunks = Chunks(
        DataSet(
            random.normal(size=(2, time, 3)),
            random.normal(5, 3, (2, width or time)),
            labels_masks=np.ones((2, time)) if masked else None,
        )
        for time in lengths
    )
    normalizer = Standardize.fit(chunks, labels=True)
    labels = [chunk.labels["labels"].reshape(-1, width or 1) for chunk in chunks]
    assert normalizer.labels["labels"].per == per
    assert normalizer.features[F].per == "feature"
    expected = np.concatenate(labels)
    np.testing.assert_allclose(normalizer.labels["labels"].mean, expected.mean(axis=0), 1e-12)
    np.testing.assert_allclose(normalizer.labels["labels"].std, expected.std(axis=0), 1e-12)


def test_vector_as_long_as_the_sequences_keeps_its_chosen_columns():
    data = DataSet({"series": np.zeros((4, 2, 3)), "facts": np.array([[0.0, 10]] * 4)})
    assert Standardize.fit(data).features["facts"].mean.tolist() == [5]
    chosen = Standardize.fit(data, columns={"facts": [0, 1]})
    assert chosen.features["facts"].mean.tolist() == [0, 10]


def test_only_chosen_inputs_and_columns_change():
    facts = np.array([[np.nan, 10], [3, 20], [4, 30]])  # the first may hold anything
    data = DataSet({"a": facts, "b": np.arange(3), "c": np.arange(3.0)})
    normalizer = Standardize.fit(data, columns={"a": [-1], "c": None})
    changed = normalizer.transform(data)
    assert changed.features["b"] is data.features["b"]
    np.testing.assert_array_equal(changed.features["a"][:, 0], facts[:, 0])
    np.testing.assert_allclose(changed.features["a"][:, 1], [-1.2247449, 0, 1.2247449])
    np.testing.assert_allclose(changed.features["c"], [-1.2247449, 0, 1.2247449])
    scaled = MinMaxScale.fit(data, columns={"a": [-1]}).transform(data).features["a"]
    np.testing.assert_array_equal(scaled, [[np.nan, 0], [3, 0.5], [4, 1]])


def test_predictions_are_reverted_to_the_units_of_the_labels():
    data = DataSet(
        np.zeros((3, 1)), {"y": np.array([10.0, 20, 30]), "z": np.array([[1.0], [2], [6]])}
    )
    normalizer = Standardize.fit(data, labels=True)
    assert list(normalizer.labels) == ["y", "z"]
    outputs = [np.zeros((2, 1), np.float32), np.zeros((2, 1), np.float32)]
    assert [o.tolist() for o in normalizer.revert_labels(outputs)] == [[[20], [20]], [[3], [3]]]
    named = normalizer.revert_labels({"z": outputs[0], "y": outputs[1]})
    assert named["z"].tolist() == [[3], [3]]
    one = Standardize.fit(data, labels="z")
    assert one.revert_labels(outputs[0]).tolist() == [[3], [3]]
    assert Standardize.fit(data).revert_labels(outputs[0]) is outputs[0]


@cases(
    "normalizer",
    Standardize.fit(table(), labels=True, columns=[1, 2]),
    MinMaxScale.fit(table(), low=-1, high=3, per="element"),
    ImageScale(low=np.float32(-1), max_value=15, inputs=("image", "mask")),
    NormalizerChain((ImageScale(), Standardize.fit(table()))),
    ids=lambda normalizer: type(normalizer).__name__,
)
def test_json_and_pickle_round_trip_exactly(normalizer):
    again = Normalizer.from_dict(json.loads(json.dumps(normalizer.to_dict(), allow_nan=False)))
    assert type(again) is type(normalizer)
    assert again == normalizer
    assert hash(again) == hash(normalizer)
    assert again != ImageScale(low=-2)
    assert pickle.loads(pickle.dumps(normalizer)) == normalizer


def test_chain_is_inverted_in_reverse_order():
    data = table()
    first = MinMaxScale.fit(data, labels=True)
    second = Standardize.fit(first.transform(data), labels=True)
    chain = NormalizerChain((first, second))
    assert chain.transform(data).equals(second.transform(first.transform(data)))
    back = chain.revert_labels(chain.revert_features(chain.transform(data)))
    np.testing.assert_allclose(back.features[F], data.features[F], rtol=1e-4)
    np.testing.assert_allclose(back.labels["labels"], data.labels["labels"], rtol=1e-4, atol=1e-4)


fit = Standardize.fit
STEPS = DataSet(np.ones((1, 2, 3)), features_masks=np.ones((1, 2)))
TWO = DataSet({"a": np.zeros(1), "b": np.zeros(1)})
CLASSES = DataSet([1.0], np.array([1]))
INFINITE = DataSet([[1.0, np.nan], [2.0, np.inf]])


@cases(
    "action, error, text",
    (lambda d: fit([[1.0]]), DataError, "Received: list."),
    (lambda d: fit(d.take(slice(0, 0))), DataError, "at least one example"),
    (lambda d: fit(d, per="pixel"), ConfigurationError, "per='pixel'"),
    (lambda d: fit(d, labels="x"), DataError, "['labels']. Received: ['x']"),
    (lambda d: fit(d, labels=[1]), ConfigurationError, "labels=[1]"),
    (lambda d: fit(DataSet([1.0]), labels=True), DataError, "without labels"),
    (lambda d: fit(d, columns=[4]), ConfigurationError, "has 4 for 'features/f"),
    (lambda d: fit(d, columns=[]), ConfigurationError, "Received: []"),
    (lambda d: fit(d, columns=["age"]), ConfigurationError, "Received: ['age']"),
    (lambda d: fit(d, columns={"x": None}), DataError, "Received: ['x']"),
    (lambda d: fit(CLASSES, labels=True), DataError, "int64, which are class numbers"),
    (lambda d: fit(INFINITE), DataError, "1 NaN and 1 infinite of 2 numbers in features"),
    (lambda d: fit(STEPS, per="element"), ConfigurationError, 'a mask. Use `per="feature"`'),
    (lambda d: MinMaxScale.fit(d, low=1, high=1), ConfigurationError, "low=1, high=1"),
    (lambda d: ImageScale(max_value=0), ConfigurationError, "max_value=0"),
    (lambda d: NormalizerChain(()), ConfigurationError, "Received: ()"),
    (lambda d: fit(d).transform({"x": [1.0]}), DataError, "['features']. Received: ['x']"),
    (lambda d: fit(d).transform(np.zeros((1, 3))), DataError, "4 columns. Received: shape (3,)"),
    (
        lambda d: fit(TWO).transform(np.zeros(1)),
        DataError,
        "a list in this order. Received: ndarray",
    ),
)
def test_invalid_options_raise(action, error, text):
    with pytest.raises(error) as refused:
        action(table())
    assert text in str(refused.value)


def settings_of(name="Standardize", **array):
    return {"name": name, "features": {"x": array}}


@cases(
    "settings, text",
    ({}, "name=None"),
    (3, "`settings` must be a dictionary"),
    ({"name": "Standardize"}, "`features` must be given"),
    ({"name": "Standardize", "features": 3}, "must be a dict: name -> settings. Received: 3"),
    ({"name": "Standardize", "features": {"x": 1}}, "settings of 'x' must be those of a Mean"),
    (settings_of(per="value", mean=[0], std=[0]), "must not be 0"),
    (settings_of(per="x", mean=[0], std=[1]), "per='x'"),
    (settings_of(per="value", mean=[0, 1], std=[1]), "arrays of shape (2,) and (1,)"),
    ({"name": "ImageScale", "maximum": 3}, "unknown options ['maximum'] of ImageScale"),
    ({"name": "NormalizerChain", "normalizers": [{"name": "x"}]}, "name='x'"),
)
def test_invalid_settings_raise(settings, text):
    with pytest.raises(ConfigurationError) as refused:
        Normalizer.from_dict(settings)
    assert text in str(refused.value)


def test_one_pass_over_partitions_equals_one_machine(spark):
    data = table(1000)
    spread = sw.data.from_arrays(spark, data.features, data.labels, partitions=3)
    here, there = Standardize.fit(data, labels=True), Standardize.fit(spread, labels=True)
    for name in ("mean", "std"):
        np.testing.assert_allclose(
            getattr(there.features[F], name), getattr(here.features[F], name), rtol=1e-12
        )
        np.testing.assert_allclose(
            getattr(there.labels["labels"], name), getattr(here.labels["labels"], name), rtol=1e-12
        )
    ranges = MinMaxScale.fit(spread)
    assert ranges == MinMaxScale.fit(data)
    spread.fingerprint = "known"
    lazy = there.transform(spread)
    assert lazy.fingerprint == there.transform(spread).fingerprint
    assert lazy.fingerprint != ranges.transform(spread).fingerprint
    assert lazy.is_counted
    assert lazy.collect().equals(there.transform(data))
    assert there.revert_labels(lazy).collect().equals(there.revert_labels(there.transform(data)))


@pytest.mark.thorough
def test_non_finite_values_raise_with_their_partition(spark):
    array = np.zeros((8, 3))
    array[7, 2] = np.nan
    data = sw.data.from_arrays(spark, array, partitions=4)
    with pytest.raises(DataError, match=r"in features 'features', column 2\..* in partition 3\."):
        Standardize.fit(data)


@pytest.mark.thorough
def test_columns_of_a_table_have_names(spark, tmp_path):
    (tmp_path / "t.csv").write_text("age,income,label\n30,1000,1.5\n40,3000,2.5\n")
    data = sw.data.from_csv(spark, str(tmp_path / "t.csv"), labels="label")
    normalizer = Standardize.fit(data, columns=["income"])
    assert normalizer.transform(data).collect().features[F].tolist() == [[30, -1], [40, 1]]
    assert Standardize.fit(data, columns={F: ["income"]}) == normalizer
    mixed = Standardize.fit(data, columns=["age", 1])
    assert mixed == Standardize.fit(data, columns={F: ["age", -1]})
    with pytest.raises(ConfigurationError, match=r"has 2 for 'features/features'"):
        Standardize.fit(data, columns=["age", 2])
    with pytest.raises(ConfigurationError, match=r"\['age', 'income'\].* Received: \['height'\]"):
        Standardize.fit(data, columns=["height"])
