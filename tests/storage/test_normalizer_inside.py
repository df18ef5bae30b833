import json
import warnings
import zipfile

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.storage.test_model_stores import assert_equal

import sparkwright as sw
from sparkwright.data import DataSet, ImageScale, MinMaxScale, NormalizerChain, Standardize

layers = keras.layers
random = np.random.default_rng(7)


def table(rows=40):
    """Columns of very different sizes; one is constant, one hardly varies."""
    scales, means = [1, 100, 1e-9, 0, 3e4], [0, -4000, 1e-8, 7, 1.6e9]
    return (random.normal(size=(rows, 5)) * scales + means).astype(np.float32)


def prices(rows=40):
    return random.normal(300_000, 40_000, (rows, 1)).astype(np.float32)


def series(filling):
    """Twelve of up to six steps, what is beyond their ends filled with a number; and a mask."""
    raw = random.normal(50, 9, (12, 6, 2)).astype(np.float32)
    mask = np.arange(6) < random.integers(2, 7, (12, 1))
    raw[~mask] = filling
    return raw, mask


def sequential(width=5, **options):
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


def train(model, data, normalizer):
    """A few steps, as a worker makes them."""
    for batch in normalizer.transform(data).batches(8):
        model.train_on_batch(batch.features["features"], batch.labels["labels"])


def expected(model, raw, normalizer):
    """What Sparkwright predicts for one input and one output."""
    return normalizer.revert_labels(model.predict(normalizer.transform(raw), verbose=0))


def saved(model, normalizer, folder):
    url = str(folder / "model.keras")
    sw.save_model(model, url, normalizer=normalizer)
    return url


def described(model):
    return json.dumps(keras.saving.serialize_keras_object(model))


def keras_alone(url, **options):
    """As a program without Sparkwright loads it."""
    with warnings.catch_warnings():
        # Of an optimizer that has not begun; Keras warns of its own files likewise.
        warnings.filterwarnings("ignore", "Skipping variable loading for optimizer")
        return keras.saving.load_model(url, **options)


def assert_close(found, wanted, rtol=1e-5, atol=0.0):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


@pytest.mark.thorough
@cases(
    "fit",
    lambda data: Standardize.fit(data, columns=[0, 1, 4], labels=True),
    lambda data: MinMaxScale.fit(data, low=-1.5, high=2, columns=[1, 2, 3], labels=True),
    lambda data: MinMaxScale.fit(data, per="element"),
    ids=["standardized columns", "scaled columns", "elements"],
)
def test_keras_alone_predicts_the_same_values(fit, tmp_path):
    data = DataSet(table(), prices())
    normalizer = fit(data)
    model = sequential()
    train(model, data, normalizer)
    raw = data.features["features"]
    plain = keras_alone(saved(model, normalizer, tmp_path))
    assert plain.predict(raw, verbose=0).dtype == np.float32
    assert (plain.name, plain.output_names) == ("houses", ["price"])
    assert int(plain.optimizer.iterations) == 5  # and training goes on
    plain.train_on_batch(raw, data.labels["labels"])
    plain = keras_alone(saved(model, normalizer, tmp_path))
    # Integers keep all their digits.
    for given in (raw, raw.astype(np.int64)):
        assert_close(plain.predict(given, verbose=0), expected(model, given, normalizer))


@pytest.mark.thorough
def test_sparkwright_restores_the_model_and_continues_training(tmp_path):
    data = DataSet(table(), prices())
    normalizer = Standardize.fit(data, labels=True)
    model = sequential()
    train(model, data, normalizer)
    before, nodes = described(model), len(model._inbound_nodes)
    url = saved(model, normalizer, tmp_path)
    assert described(model) == before
    assert len(model._inbound_nodes) == nodes
    again = sw.load_model(url)
    assert sw.load_normalizer(url) == normalizer
    assert_equal(model, again)
    train(model, data, normalizer)
    train(again, data, normalizer)
    assert_equal(model, again)
    assert int(again.optimizer.iterations) == 10
    sw.verify_model(url)


@pytest.mark.thorough
def test_several_inputs_and_outputs_are_matched_by_name(tmp_path):
    photo = keras.Input((6, 6, 3), name="photo")
    facts = keras.Input((5,), name="facts")
    kind = keras.Input((1,), name="kind", dtype="int64")
    lookup = layers.IntegerLookup(name="lookup")
    lookup.adapt(np.array([[11], [12], [13]]))
    kinds = layers.Flatten()(layers.Embedding(5, 2)(lookup(kind)))
    joined = layers.Concatenate()([layers.Flatten()(photo), facts, kinds])
    outputs = {
        "price": layers.Dense(1, name="price")(joined),
        "odds": layers.Dense(2, activation="softmax", name="odds")(joined),
    }
    model = keras.Model({"photo": photo, "facts": facts, "kind": kind}, outputs, name="both")
    model.compile("adam", {"price": "mse", "odds": "sparse_categorical_crossentropy"})
    raw = {
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
    assert_close(found["odds"], ours["odds"])
    prices_found = normalizer.revert_labels({"price": ours["price"]})["price"]
    assert_close(found["price"], prices_found)
    again = sw.load_model(url)
    assert_equal(model, again)
    np.testing.assert_array_equal(again.predict(seen.features, verbose=0)["odds"], ours["odds"])


def test_inputs_without_names_are_matched_in_order(tmp_path):
    pair = [keras.Input((5,)), keras.Input((5,))]
    model = keras.Model(pair, layers.Dense(1)(layers.Subtract()(pair)))
    raw = {"new": table() * 3, "old": table()}
    normalizer = Standardize.fit(DataSet(raw))
    seen = normalizer.transform(raw)
    plain = keras_alone(saved(model, normalizer, tmp_path))
    pairs = ((plain, raw), (model, seen))
    found, ours = (one.predict([*each.values()], verbose=0) for one, each in pairs)
    assert_close(found, ours, atol=1e-6)


def test_masked_steps_are_unchanged_and_do_not_count_in_the_loss(tmp_path):
    recurrent = layers.LSTM(4, return_sequences=True)
    steps = [keras.Input((None, 2)), layers.Masking(-1.0), recurrent, layers.Dense(1)]
    model = keras.Sequential(steps)
    model.compile("sgd", "mse")
    raw, mask = series(-1.0)
    targets = random.normal(300, 40, (12, 6, 1)).astype(np.float32)
    masks = mask.astype(np.float32)
    data = DataSet(raw, targets, features_masks=masks, labels_masks=masks)
    normalizer = Standardize.fit(data, labels=True)
    seen = normalizer.transform(data).features["features"]
    ours = normalizer.revert_labels(model.predict(seen, verbose=0))
    plain = keras_alone(saved(model, normalizer, tmp_path))
    assert_close(plain.predict(raw, verbose=0)[mask], ours[mask])
    assert not np.allclose(ours, expected(model, raw, normalizer), rtol=1e-5)
    loss = ((ours - targets) ** 2)[mask].mean()
    assert_close(plain.evaluate(raw, targets, verbose=0), loss)


# Keras does not know that the network inside uses the mask.
@pytest.mark.filterwarnings("ignore:Layer .* does not support masking")
def test_explicit_mask_reaches_the_layers(tmp_path):
    model = keras.Sequential([keras.Input((None, 2)), layers.GRU(4), layers.Dense(1)])
    raw, mask = series(0.0)
    normalizer = Standardize.fit(DataSet(raw, features_masks=mask.astype(np.float32)))
    plain = keras_alone(saved(model, normalizer, tmp_path))
    ours = model(normalizer.transform(raw), mask=mask)
    assert_close(plain(raw, mask=mask), ours, rtol=1e-4)


@pytest.mark.thorough
@cases("policy", "mixed_float16", "float64")
def test_every_precision_round_trips(policy, tmp_path):
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
    assert_close(plain.predict(raw, verbose=0), normalizer.revert_labels(wide))


class Own(keras.Model):
    """Functional, of a class of its own."""


@pytest.mark.thorough
def test_custom_classes_are_saved_with_their_normalizer(tmp_path):
    x = keras.Input((5,), name="x")
    model = Own(x, layers.Dense(1)(x), name="own")
    normalizer = Standardize.fit(DataSet(table()))
    objects = {"Own": Own}
    raw, url = table(), saved(model, normalizer, tmp_path)
    found = keras_alone(url, custom_objects=objects).predict(raw, verbose=0)
    assert_close(found, expected(model, raw, normalizer), atol=1e-6)
    assert type(sw.load_model(url, custom_objects=objects)) is Own


class Subclassed(keras.Model):
    def build(self, shape):
        self.dense = layers.Dense(1)
        self.dense.build(shape)
        self.built = True

    def call(self, inputs):
        return self.dense(inputs)


class Compiling(Own):
    def compile(self, *args, **options):
        super().compile(*args, **options)


def without_equivalent():
    """Words of the error -> a model that its normalizer cannot be put into, and the normalizer."""
    normalizer = Standardize.fit(DataSet(table(), prices()))
    subclassed = Subclassed()
    subclassed.build((None, 5))
    x = keras.Input((5,), name="features")
    pair = [keras.Input((5,), name="one"), keras.Input((5,), name="two")]
    sequence = keras.Input((None, 2))
    masked = layers.Masking()(layers.Dense(2)(sequence))
    steps = Standardize.fit(DataSet(random.normal(size=(4, 3, 2))))
    return {
        r'neither Sequential.*normalizer="beside"': (subclassed, normalizer),
        "a `compile` of its own": (Compiling(x, layers.Dense(1)(x)), normalizer),
        r"fitted to another shape than \(4,\)": (sequential(4), normalizer),
        r"\['features'\]: use the same names": (keras.Model(pair, layers.Add()(pair)), normalizer),
        "masks steps of what layers computed": (
            keras.Model(sequence, layers.LSTM(2)(masked)),
            steps,
        ),
    }


def test_normalizers_without_equivalent_layers_raise_with_the_alternative(tmp_path):
    for words, (model, normalizer) in without_equivalent().items():
        with pytest.raises(sw.ConfigurationError, match=words):
            saved(model, normalizer, tmp_path)
    assert list(tmp_path.iterdir()) == []
    wrong = "within"
    with pytest.raises(sw.ConfigurationError, match="Received: normalizer_place='within'"):
        sw.save_model(sequential(), str(tmp_path / "a.keras"), normalizer_place=wrong)


@pytest.mark.thorough
def test_second_normalizer_raises(tmp_path):
    normalizer = Standardize.fit(DataSet(table()))
    plain = keras_alone(saved(sequential(), normalizer, tmp_path))
    master = sw.ParameterAveragingTrainingMaster()
    for use in (
        lambda: saved(plain, normalizer, tmp_path),
        lambda: sw.SparkNetwork(None, plain, normalizer=normalizer),
        lambda: sw.ParallelWrapper(plain, master, workers=1, normalizer=normalizer),
    ):
        with pytest.raises(sw.ConfigurationError, match="scaled twice"):
            use()
    url, raw = str(tmp_path / "again.keras"), table()
    sw.save_model(plain, url)
    again = sw.load_model(url).predict(raw, verbose=0)
    np.testing.assert_array_equal(again, plain.predict(raw, verbose=0))


def test_file_that_contradicts_its_metadata_is_damaged(tmp_path):
    url = saved(sequential(), Standardize.fit(DataSet(table())), tmp_path)
    rewrite(url, lambda notes: notes["about"].update(name="other"))
    with pytest.raises(sw.DataError, match="cannot be extracted"):
        sw.load_model(url)
    rewrite(url, lambda notes: notes["about"].update(normalizer="between"))
    with pytest.raises(sw.DataError, match="'between'"):
        sw.model_info(url)


def rewrite(url, change):
    """Change the notes of a file, and nothing else."""
    with zipfile.ZipFile(url) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    notes = json.loads(members["sparkwright.json"])
    change(notes)
    members["sparkwright.json"] = json.dumps(notes).encode()
    with zipfile.ZipFile(url, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
