"""Models saved with their normalizer inside: right in plain Keras, and unchanged in Sparkwright."""

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from tests.storage.test_model_stores import assert_equal

import sparkwright as sw
from sparkwright.data import (
    DataSet,
    ImageScale,
    MinMaxScale,
    Normalizer,
    NormalizerChain,
    Standardize,
)

layers = keras.layers
random = np.random.default_rng(7)


def table(rows: int = 40) -> np.ndarray[Any, Any]:
    """Columns of very different sizes; one is constant, one hardly varies."""
    scales, means = [1, 100, 1e-9, 0, 3e4], [0, -4000, 1e-8, 7, 1.6e9]
    return (random.normal(size=(rows, 5)) * scales + means).astype(np.float32)


def prices(rows: int = 40) -> np.ndarray[Any, Any]:
    return random.normal(300_000, 40_000, (rows, 1)).astype(np.float32)


def series(filling: float) -> tuple[Any, Any]:
    """Twelve of up to six steps, what is beyond their ends filled with a number; and a mask."""
    raw = random.normal(50, 9, (12, 6, 2)).astype(np.float32)
    mask = np.arange(6) < random.integers(2, 7, (12, 1))
    raw[~mask] = filling
    return raw, mask


def sequential(width: int = 5, **options: Any) -> Any:
    model = keras.Sequential(
        [
            keras.Input((width,), name="x"),
            layers.Dense(8, activation="tanh"),
            layers.BatchNormalization(),
            layers.Dropout(0.2),
            layers.Dense(1, name="price"),
        ],
        name="houses",
        **options,
    )
    model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    return model


def train(model: Any, data: DataSet, normalizer: Normalizer) -> None:
    """A few steps, as a worker makes them."""
    for batch in normalizer.transform(data).batches(8):
        model.train_on_batch(batch.features["features"], batch.labels["labels"])


def expected(model: Any, raw: Any, normalizer: Normalizer) -> Any:
    """What Sparkwright predicts for one input and one output."""
    return normalizer.revert_labels(model.predict(normalizer.transform(raw), verbose=0))


def saved(model: Any, normalizer: Normalizer, folder: Path) -> str:
    url = str(folder / "model.keras")
    sw.save_model(model, url, normalizer=normalizer)
    return url


def described(model: Any) -> str:
    return json.dumps(keras.saving.serialize_keras_object(model))


def keras_alone(url: str, **options: Any) -> Any:
    """As a program without Sparkwright loads it."""
    with warnings.catch_warnings():
        # Of an optimizer that has not begun; Keras warns of its own files likewise.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
        return keras.saving.load_model(url, **options)


def agreeing(
    model: Any, normalizer: Normalizer, raw: Any, folder: Path, *, atol: float = 0.0, **options: Any
) -> tuple[Any, str]:
    """Keras' own model, which gives what Sparkwright predicts; and where it lies."""
    url = saved(model, normalizer, folder)
    plain = keras_alone(url, **options)
    predicted = plain.predict(raw, verbose=0)
    np.testing.assert_allclose(predicted, expected(model, raw, normalizer), rtol=1e-5, atol=atol)
    return plain, url


@pytest.mark.thorough
@pytest.mark.parametrize(
    "fit",
    [
        lambda data: Standardize.fit(data, labels=True),
        lambda data: Standardize.fit(data, columns=[0, 1, 4], labels=True),
        lambda data: MinMaxScale.fit(data, low=-1.5, high=2, columns=[1, 2, 3], labels=True),
        lambda data: Standardize.fit(data),
        lambda data: MinMaxScale.fit(data, per="element", labels=True),
    ],
)
def test_keras_alone_predicts_the_same_values(fit: Any, tmp_path: Path) -> None:
    data = DataSet(table(), prices())
    normalizer = fit(data)
    model = sequential()
    train(model, data, normalizer)
    raw = data.features["features"]
    plain, _ = agreeing(model, normalizer, raw, tmp_path)
    assert plain.predict(raw, verbose=0).dtype == np.float32
    assert (plain.name, plain.output_names) == ("houses", ["price"])
    # Integers keep all their digits.
    whole = raw.astype(np.int64)
    np.testing.assert_allclose(
        plain.predict(whole, verbose=0), expected(model, whole, normalizer), rtol=1e-5
    )


@pytest.mark.thorough
def test_sparkwright_restores_the_model_and_continues_training(tmp_path: Path) -> None:
    data = DataSet(table(), prices())
    normalizer = Standardize.fit(data, labels=True)
    model = sequential()
    train(model, data, normalizer)
    before = described(model)
    nodes = len(model._inbound_nodes)
    url = saved(model, normalizer, tmp_path)
    assert described(model) == before
    assert len(model._inbound_nodes) == nodes
    again = sw.load_model(url)
    beside = str(tmp_path / "beside.keras")
    sw.save_model(model, beside, normalizer=normalizer, normalizer_place="beside")
    assert described(again) == described(sw.load_model(beside))
    assert sw.load_normalizer(url) == normalizer
    assert_equal(model, again)
    train(model, data, normalizer)
    train(again, data, normalizer)
    assert_equal(model, again)
    assert int(again.optimizer.iterations) == 10
    sw.verify_model(url)


@pytest.mark.thorough
def test_plain_keras_evaluates_and_trains_on_raw_data(tmp_path: Path) -> None:
    data = DataSet(table(), random.integers(0, 3, 40))
    normalizer = Standardize.fit(data)
    model: Any = keras.Sequential(
        [keras.Input((5,)), layers.Dense(3, activation="softmax")], name="kinds"
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    train(model, data, normalizer)
    raw, labels = data.features["features"], data.labels["labels"]
    seen = normalizer.transform(raw)
    plain = keras_alone(saved(model, normalizer, tmp_path))
    np.testing.assert_allclose(
        plain.evaluate(raw, labels, verbose=0), model.evaluate(seen, labels, verbose=0), rtol=1e-5
    )
    assert int(plain.optimizer.iterations) == 5
    model.train_on_batch(seen, labels)
    plain.train_on_batch(raw, labels)
    for ours, theirs in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)


@pytest.mark.thorough
def test_several_inputs_and_outputs_are_matched_by_name(tmp_path: Path) -> None:
    photo = keras.Input((6, 6, 3), name="photo")
    facts = keras.Input((5,), name="facts")
    kind = keras.Input((1,), name="kind", dtype="int64")
    lookup = layers.IntegerLookup(name="lookup")
    lookup.adapt(np.array([[11], [12], [13]]))
    parts = [
        layers.Flatten()(photo),
        facts,
        layers.Flatten()(layers.Embedding(5, 2)(lookup(kind))),
    ]
    joined = layers.Concatenate()(parts)
    outputs = {
        "price": layers.Dense(1, name="price")(joined),
        "odds": layers.Dense(2, activation="softmax", name="odds")(joined),
    }
    model: Any = keras.Model({"photo": photo, "facts": facts, "kind": kind}, outputs, name="both")
    model.compile("adam", {"price": "mse", "odds": "sparse_categorical_crossentropy"})
    raw: dict[str, Any] = {
        "photo": random.integers(0, 256, (40, 6, 6, 3)).astype(np.uint8),
        "facts": table(),
        "kind": random.integers(10, 15, (40, 1)),
    }
    data = DataSet(raw, {"price": prices(), "odds": random.integers(0, 2, 40)})
    first = ImageScale(low=-1, inputs=("photo",))
    second = Standardize.fit(
        first.transform(data), columns={"photo": [0, 2], "facts": None}, labels="price"
    )
    normalizer = NormalizerChain((first, second))
    seen = normalizer.transform(data)
    model.train_on_batch(seen.features, seen.labels)
    url = saved(model, normalizer, tmp_path)
    plain = keras_alone(url)
    found = plain.predict(raw, verbose=0)
    ours = model.predict(seen.features, verbose=0)
    assert set(found) == {"price", "odds"}
    np.testing.assert_allclose(found["odds"], ours["odds"], rtol=1e-5)
    np.testing.assert_allclose(
        found["price"], normalizer.revert_labels({"price": ours["price"]})["price"], rtol=1e-5
    )
    again = sw.load_model(url)
    assert_equal(model, again)
    np.testing.assert_array_equal(again.predict(seen.features, verbose=0)["odds"], ours["odds"])


def test_inputs_without_names_are_matched_in_order(tmp_path: Path) -> None:
    pair = [keras.Input((5,)), keras.Input((5,))]
    model: Any = keras.Model(pair, layers.Dense(1)(layers.Subtract()(pair)))
    raw = {"new": table() * 3, "old": table()}
    normalizer = Standardize.fit(DataSet(raw))
    seen = normalizer.transform(raw)
    plain = keras_alone(saved(model, normalizer, tmp_path))
    pairs = ((plain, raw), (model, seen))
    found, ours = (one.predict([*each.values()], verbose=0) for one, each in pairs)
    np.testing.assert_allclose(found, ours, rtol=1e-5, atol=1e-6)


def test_steps_skipped_by_a_masking_layer_are_unchanged(tmp_path: Path) -> None:
    steps = [keras.Input((None, 2)), layers.Masking(-1.0), layers.LSTM(4), layers.Dense(1)]
    model: Any = keras.Sequential(steps)
    model.compile("adam", "mse")
    raw, mask = series(-1.0)
    data = DataSet(raw, prices(12), features_masks=mask.astype(np.float32))
    normalizer = Standardize.fit(data, labels=True)
    seen = normalizer.transform(data).features["features"]
    plain = keras_alone(saved(model, normalizer, tmp_path))
    ours = normalizer.revert_labels(model.predict(seen, verbose=0))
    np.testing.assert_allclose(plain.predict(raw, verbose=0), ours, rtol=1e-5)
    assert not np.allclose(ours, expected(model, raw, normalizer), rtol=1e-5)


@pytest.mark.thorough
def test_masked_steps_do_not_count_in_the_loss_of_plain_keras(tmp_path: Path) -> None:
    recurrent = layers.LSTM(4, return_sequences=True)
    steps = [keras.Input((None, 2)), layers.Masking(), recurrent, layers.Dense(1)]
    model: Any = keras.Sequential(steps)
    model.compile("sgd", "mse")
    raw, mask = series(0.0)
    targets = random.normal(300, 40, (12, 6, 1)).astype(np.float32)
    masks = mask.astype(np.float32)
    data = DataSet(raw, targets, features_masks=masks, labels_masks=masks)
    normalizer = Standardize.fit(data, labels=True)
    seen = normalizer.transform(data).features["features"]
    ours = normalizer.revert_labels(model.predict(seen, verbose=0))
    plain = keras_alone(saved(model, normalizer, tmp_path))
    np.testing.assert_allclose(
        plain.evaluate(raw, targets, verbose=0), ((ours - targets) ** 2)[mask].mean(), rtol=1e-5
    )


# Keras does not know that the network inside uses the mask.
@pytest.mark.filterwarnings("ignore:Layer .* does not support masking")
def test_explicit_mask_reaches_the_layers(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((None, 2)), layers.GRU(4), layers.Dense(1)])
    raw, mask = series(0.0)
    normalizer = Standardize.fit(DataSet(raw, features_masks=mask.astype(np.float32)))
    plain = keras_alone(saved(model, normalizer, tmp_path))
    np.testing.assert_allclose(
        plain(raw, mask=mask), model(normalizer.transform(raw), mask=mask), rtol=1e-4
    )


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float64"])
def test_every_precision_round_trips(policy: str, tmp_path: Path) -> None:
    data = DataSet(table(), prices())
    normalizer = Standardize.fit(data, labels=True)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        model = sequential()
        train(model, data, normalizer)
    finally:
        keras.config.set_dtype_policy(before)
    url = saved(model, normalizer, tmp_path)
    plain, again = keras_alone(url), sw.load_model(url)
    assert_equal(model, again)
    raw = data.features["features"]
    wide = model.predict(normalizer.transform(raw), verbose=0).astype(np.float32)
    np.testing.assert_allclose(
        plain.predict(raw, verbose=0), normalizer.revert_labels(wide), rtol=1e-5
    )


class Own(keras.Model):
    """Functional, of a class of its own."""


@pytest.mark.thorough
def test_custom_classes_are_saved_with_their_normalizer(tmp_path: Path) -> None:
    x = keras.Input((5,), name="x")
    model: Any = Own(x, layers.Dense(1)(x), name="own")
    normalizer = Standardize.fit(DataSet(table()))
    objects = {"Own": Own}
    _, url = agreeing(model, normalizer, table(), tmp_path, atol=1e-6, custom_objects=objects)
    assert type(sw.load_model(url, custom_objects=objects)) is Own


class Subclassed(keras.Model):
    def build(self, shape: Any) -> None:
        self.dense = layers.Dense(1)
        self.dense.build(shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)


class Compiling(Own):
    def compile(self, *args: Any, **options: Any) -> None:
        super().compile(*args, **options)


def test_normalizers_without_equivalent_layers_raise_with_the_alternative(tmp_path: Path) -> None:
    data = DataSet(table(), prices())
    normalizer = Standardize.fit(data)
    subclassed = Subclassed()
    subclassed.build((None, 5))
    with pytest.raises(sw.ConfigurationError, match=r'neither Sequential.*normalizer="beside"'):
        saved(subclassed, normalizer, tmp_path)
    x = keras.Input((5,), name="features")
    with pytest.raises(sw.ConfigurationError, match="a `compile` of its own"):
        saved(Compiling(x, layers.Dense(1)(x)), normalizer, tmp_path)
    with pytest.raises(sw.ConfigurationError, match=r"fitted to another shape than \(4,\)"):
        saved(sequential(4), normalizer, tmp_path)
    one, two = keras.Input((5,), name="one"), keras.Input((5,), name="two")
    unnamed = keras.Model([one, two], layers.Add()([one, two]))
    with pytest.raises(sw.ConfigurationError, match=r"\['features'\]: use the same names"):
        saved(unnamed, normalizer, tmp_path)
    sequence = keras.Input((None, 2))
    masked = layers.Masking()(layers.Dense(2)(sequence))
    deep = keras.Model(sequence, layers.LSTM(2)(masked))
    steps = Standardize.fit(DataSet(random.normal(size=(4, 3, 2))))
    with pytest.raises(sw.ConfigurationError, match="masks steps of what layers computed"):
        saved(deep, steps, tmp_path)
    assert list(tmp_path.iterdir()) == []
    wrong: Any = "within"
    with pytest.raises(sw.ConfigurationError, match="Received: 'within'"):
        sw.save_model(sequential(), str(tmp_path / "a.keras"), normalizer_place=wrong)


@pytest.mark.thorough
def test_placement_beside_keeps_the_model_without_normalizer(tmp_path: Path) -> None:
    data = DataSet(table(), prices())
    normalizer = Standardize.fit(data)
    model, raw = sequential(), data.features["features"]
    train(model, data, normalizer)
    url = str(tmp_path / "beside.keras")
    sw.save_model(model, url, normalizer=normalizer, normalizer_place="beside")
    bare = keras_alone(url)
    np.testing.assert_array_equal(bare.predict(raw, verbose=0), model.predict(raw, verbose=0))
    assert sw.load_normalizer(url) == normalizer
    info = sw.model_info(url)
    assert info.normalizer == "beside"
    assert "Keras alone does not apply it" in repr(info)
    inside = sw.model_info(saved(model, normalizer, tmp_path))
    assert (inside.normalizer, inside.to_dict()["normalizer"]) == ("inside", "inside")
    assert (inside.inputs, inside.name) == ({"x": (None, 5)}, "houses")
    # As files were written before they said it.
    old = str(tmp_path / "old.keras")
    sw.save_model(model, old, notes={"normalizer": normalizer.to_dict()})
    rewrite(old, lambda notes: notes["about"].pop("normalizer"))
    assert sw.model_info(old).normalizer == "beside"
    assert sw.load_normalizer(old) == normalizer
    assert_equal(sw.load_model(old), model)
    sw.save_model(model, old)
    assert sw.model_info(old).normalizer is None


@pytest.mark.thorough
def test_second_normalizer_raises(tmp_path: Path) -> None:
    normalizer = Standardize.fit(DataSet(table()))
    plain = keras_alone(saved(sequential(), normalizer, tmp_path))
    no_spark: Any = None
    for use in (
        lambda: saved(plain, normalizer, tmp_path),
        lambda: sw.SparkNetwork(no_spark, plain, normalizer=normalizer),
        lambda: sw.ParallelWrapper(
            plain, sw.ParameterAveragingTrainingMaster(), workers=1, normalizer=normalizer
        ),
    ):
        with pytest.raises(sw.ConfigurationError, match="scaled twice"):
            use()
    url = str(tmp_path / "again.keras")
    sw.save_model(plain, url)
    raw = table()
    np.testing.assert_array_equal(
        sw.load_model(url).predict(raw, verbose=0), plain.predict(raw, verbose=0)
    )


def test_file_that_contradicts_its_metadata_is_damaged(tmp_path: Path) -> None:
    url = saved(sequential(), Standardize.fit(DataSet(table())), tmp_path)
    rewrite(url, lambda notes: notes["about"].update(name="other"))
    with pytest.raises(sw.DataError, match="cannot be extracted"):
        sw.load_model(url)
    rewrite(url, lambda notes: notes["about"].update(normalizer="between"))
    with pytest.raises(sw.DataError, match="'between'"):
        sw.model_info(url)


def test_runs_warn_before_saving_normalizers_beside_models(tmp_path: Path) -> None:
    from sparkwright.networks.normalizing import place_for

    normalizer = Standardize.fit(DataSet(table()))
    assert place_for(sequential(), normalizer) == "inside"
    assert place_for(Subclassed(), None) == "inside"
    with pytest.warns(UserWarning, match="need Sparkwright to be right"):
        assert place_for(sequential(4), normalizer) == "beside"


def rewrite(url: str, change: Any) -> None:
    """Change the notes of a file, and nothing else."""
    with zipfile.ZipFile(url) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    notes = json.loads(members["sparkwright.json"])
    change(notes)
    members["sparkwright.json"] = json.dumps(notes).encode()
    with zipfile.ZipFile(url, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
