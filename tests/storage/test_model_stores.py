import keras
import numpy as np
import pytest

import sparkwright as sw
from sparkwright.storage.files import join, read_bytes, write_bytes
from sparkwright.storage.listing import list_entries
from sparkwright.storage.models import read_notes

# The S3 server's own libraries warn, and Keras' variables under NumPy 2.
pytestmark = [
    pytest.mark.stores,
    pytest.mark.filterwarnings("default"),
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


def network(optimizer="adam", *, loss="sparse_categorical_crossentropy"):
    """Dropout and BatchNormalization: states that are no parameters."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4,), name="x"),
            layers.Dense(8, activation="tanh"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3, activation="softmax"),
        ],
        name="small",
    )
    model.compile(optimizer, loss, metrics=["accuracy"])
    return model


random = np.random.default_rng(0)
FEATURES = random.normal(size=(48, 4)).astype(np.float32)
LABELS = np.arange(48) % 3


def train(model):
    model.fit(FEATURES, LABELS, batch_size=8, epochs=1, shuffle=False, verbose=0)


def state(model):
    return [np.asarray(each) for each in (*model.variables, *model.optimizer.variables)]


def assert_equal(first, second):
    for expected, found in zip(state(first), state(second), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def trained():
    rates = keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.9)
    model = network(keras.optimizers.Adam(rates))
    train(model)
    return model


def test_loaded_model_continues_training_without_interruption(store, trained):
    url = join(store, "round/model.keras")
    sw.save_model(trained, url)
    one, two = sw.load_model(url), sw.load_model(url)
    assert_equal(trained, one)
    assert int(one.optimizer.iterations) == 6
    np.testing.assert_array_equal(
        one.predict(FEATURES, verbose=0), trained.predict(FEATURES, verbose=0)
    )
    sw.save_model(one, url)
    train(one)
    train(two)
    assert_equal(one, two)
    assert list_entries(join(store, "round")) == ["model.keras"]


def test_model_info_is_read_without_loading_the_model(store, trained):
    url = join(store, "info/model.keras")
    metadata = {
        "title": "first", "comment": "a < b", "saved_by": "me",
        "metrics": {"accuracy": np.float32(0.5)}, "training": {"run": "run-7", "epochs": 2},
    }  # fmt: skip
    sw.save_model(trained, url, notes={"class_names": {"y": ["a"]}}, metadata=metadata)
    info = sw.model_info(url)
    assert (info.url, info.format, info.name) == (url, "keras", "small")
    assert info.size_bytes == len(read_bytes(url))
    assert (info.title, info.comment, info.saved_by) == ("first", "a < b", "me")
    assert info.metrics == {"accuracy": 0.5}
    assert info.training == {"run": "run-7", "epochs": 2}
    assert (info.parameters, info.trainable_parameters) == (4 * 8 + 8 + 32 + 8 * 3 + 3, 83)
    assert (info.inputs, list(info.outputs.values())) == ({"x": (None, 4)}, [(None, 3)])
    assert info.has_updater
    assert info.kept == ("class_names",)
    assert info.versions["keras"] == keras.__version__
    assert set(info.versions) == {"sparkwright", "keras", "tensorflow", "python", "numpy"}
    assert sw.verify_model(url) == info
    assert read_notes(url) == {"class_names": {"y": ["a"]}}


def test_folder_is_listed_newest_first_with_damaged_files(store, trained):
    place = join(store, "list")
    for name in ("a.keras", "b.keras", "deeper/c.keras"):
        sw.save_model(trained, join(place, name), metadata={"title": name})
    write_bytes(join(place, "d.keras"), read_bytes(join(place, "a.keras"))[:3000])
    write_bytes(join(place, "notes.txt"), b"no model")
    models = sw.list_models(place)
    assert [model.url for model in models] == [
        join(place, n) for n in ["b.keras", "a.keras", "d.keras"]
    ]
    assert [model.problem is None for model in models] == [True, True, False]
    assert "must be complete" in str(models[2].problem)
    assert models[2].size_bytes == 3000
    assert len(sw.list_models(place, recursive=True)) == 4
    assert "b.keras" in repr(models)
    assert sw.delete_model(join(place, "d.keras"))
    assert not sw.delete_model(join(place, "d.keras"))
    assert len(sw.list_models(place)) == 2
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sw.list_models(join(store, "nowhere"))


def test_damaged_file_raises(store, trained):
    url = join(store, "damaged/model.keras")
    sw.save_model(trained, url)
    content = bytearray(read_bytes(url))
    content[len(content) // 2] ^= 1  # in the weights
    write_bytes(url, bytes(content))
    for read in (sw.load_model, sw.verify_model):
        with pytest.raises(sw.DataError, match="weights") as told:
            read(url)
        assert url in str(told.value)
    assert sw.model_info(url).parameters == 99  # the weights are not looked at
    with pytest.raises(FileNotFoundError, match="missing"):
        sw.load_model(join(store, "damaged/missing.keras"))


def test_plain_keras_model_is_loaded(store, trained, tmp_path):
    trained.save(tmp_path / "plain.keras")
    url = join(store, "plain.keras")
    write_bytes(url, (tmp_path / "plain.keras").read_bytes())
    info = sw.verify_model(url)
    assert (info.name, info.inputs, info.versions) == (
        "small", {"x": (None, 4)}, {"keras": keras.__version__},
    )  # fmt: skip
    assert info.saved_at is not None
    assert (info.parameters, info.has_updater, info.sha256) == (None, None, None)
    loaded = sw.load_model(url)
    np.testing.assert_array_equal(
        loaded.predict(FEATURES, verbose=0), trained.predict(FEATURES, verbose=0)
    )
    assert read_notes(url) == {}


def test_optimizer_without_saved_state_starts_fresh(trained, tmp_path):
    url = str(tmp_path / "model.keras")
    before = state(trained)
    sw.save_model(trained, url, save_updater=False)
    assert sw.model_info(url).has_updater is False
    model = sw.load_model(url)
    assert int(model.optimizer.iterations) == 0
    assert all(not np.asarray(v).any() for v in model.optimizer.variables)
    np.testing.assert_array_equal(model.get_weights()[0], trained.get_weights()[0])
    # Neither is the model that was saved changed, nor what is saved of it next.
    for now, earlier in zip(state(trained), before, strict=True):
        np.testing.assert_array_equal(now, earlier)
    sw.save_model(trained, url)
    assert int(sw.load_model(url).optimizer.iterations) == 6


@pytest.mark.parametrize("save_updater", [True, False])
def test_untrained_and_uncompiled_models_round_trip(tmp_path, save_updater):
    url = str(tmp_path / "model.keras")
    model = network()
    model.optimizer.learning_rate = 0.125
    sw.save_model(model, url, save_updater=save_updater)
    loaded = sw.load_model(url)
    np.testing.assert_array_equal(model.get_weights()[0], loaded.get_weights()[0])
    assert float(loaded.optimizer.learning_rate) == 0.125
    train(loaded)
    sw.save_model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), url)
    assert sw.model_info(url).has_updater is False
    assert getattr(sw.load_model(url), "optimizer", None) is None


@pytest.mark.parametrize("save_updater", [True, False])
def test_loss_scaling_round_trips(tmp_path, save_updater):
    url = str(tmp_path / "model.keras")
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = network()
    finally:
        keras.config.set_dtype_policy(before)
    train(model)
    sw.save_model(model, url, save_updater=save_updater)
    loaded = sw.load_model(url)
    assert type(loaded.optimizer) is type(model.optimizer) is keras.optimizers.LossScaleOptimizer
    assert keras.config.dtype_policy() == before
    if save_updater:
        assert_equal(model, loaded)
    else:
        assert int(loaded.optimizer.inner_optimizer.iterations) == 0


class Scale(keras.layers.Layer):
    def call(self, x):
        return 2 * x


def test_custom_layers_must_be_passed(tmp_path):
    url = str(tmp_path / "model.keras")
    sw.save_model(keras.Sequential([keras.Input((2,)), Scale()]), url)
    with pytest.raises(sw.DataError, match="Scale") as told:
        sw.load_model(url)
    assert url in str(told.value)
    assert "`custom_objects`" in str(told.value)
    model = sw.load_model(url, custom_objects={"Scale": Scale})
    assert np.asarray(model(np.ones((1, 2)))).tolist() == [[2, 2]]


def test_vocabularies_round_trip(tmp_path):
    url = str(tmp_path / "model.keras")
    lookup = keras.layers.StringLookup(name="lookup")
    lookup.adapt(["a", "b", "b"])
    sw.save_model(keras.Sequential([keras.Input((1,), dtype="string"), lookup]), url)
    words = keras.ops.convert_to_tensor(np.array([["b"], ["c"]], dtype="object"))
    assert np.asarray(sw.load_model(url)(words)).tolist() == [[1], [0]]


def test_other_extensions_and_names_raise(tmp_path, trained):
    with pytest.raises(sw.ConfigurationError, match=r'ending in "\.keras"'):
        sw.save_model(trained, str(tmp_path / "model.h5"))
    with pytest.raises(sw.ConfigurationError, match="'about'"):
        sw.save_model(trained, str(tmp_path / "model.keras"), notes={"about": 1})
    for name in ("model.csv", "folder.keras"):
        (tmp_path / "folder.keras").mkdir(exist_ok=True)
        with pytest.raises(sw.ConfigurationError, match="not be a folder"):
            sw.delete_model(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.keras"]
