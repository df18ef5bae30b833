import json
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.storage.test_model_stores import FEATURES, LABELS, network, train
from tests.support.in_process import InProcessPool

import sparkwright as sw
from sparkwright.storage.models import read_notes

# Keras says that the format is old.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SYNCHRONOUS = {"mode": "synchronous", "num_workers": 2, "batch_size": 8}


@pytest.fixture(scope="module")
def trained():
    model = network()
    train(model)
    return model


@pytest.fixture
def saved(trained, tmp_path):
    path = tmp_path / "model.h5"
    trained.save(path)
    return str(path)


def distribute(url, content):
    with h5py.File(url, "a") as file:
        file.attrs["distributed_config"] = content


def elephas(**config):
    return json.dumps({"class_name": "SparkModel", "config": config}).encode()


def test_whole_model_is_loaded_with_its_optimizer_whatever_its_name(saved, trained, tmp_path):
    renamed = str(Path(saved).rename(tmp_path / "model.keras"))
    model = sw.load_model(renamed)
    np.testing.assert_array_equal(
        model.predict(FEATURES, verbose=0), trained.predict(FEATURES, verbose=0)
    )
    for read, kept in zip(model.optimizer.variables, trained.optimizer.variables, strict=True):
        np.testing.assert_array_equal(read.numpy(), kept.numpy(), err_msg=kept.path)
    train(model)
    assert int(model.optimizer.iterations) == 12
    assert read_notes(renamed) == {}
    assert sw.load_normalizer(renamed) is None


def test_metadata_of_the_file_is_returned(saved):
    info = sw.verify_model(saved)
    assert (info.format, info.name, info.parameters) == ("hdf5", "small", 99)
    assert (info.inputs, info.has_updater) == ({"x": (None, 4)}, True)
    assert info.versions == {"keras": keras.__version__}
    distribute(saved, elephas(**SYNCHRONOUS))
    assert sw.model_info(saved).kept == ("distributed_config",)
    assert [model.url for model in sw.list_models(str(Path(saved).parent))] == [saved]


@pytest.mark.thorough
@cases("loss", "mse", "mean_absolute_error")
def test_losses_are_resolved_by_their_short_names(tmp_path, loss):
    url = str(tmp_path / "model.h5")
    network(loss=loss).save(url)
    model = sw.load_model(url)
    expected = network(loss=loss)
    expected.set_weights(model.get_weights())
    labels = np.ones((48, 3))
    assert model.evaluate(FEATURES, labels, verbose=0) == pytest.approx(
        expected.evaluate(FEATURES, labels, verbose=0)
    )


@cases("as_bytes", True, False, ids=["bytes", "text"])
def test_model_is_loaded_with_its_training_master(saved, as_bytes):
    content = elephas(**SYNCHRONOUS, averaging_frequency=3)
    distribute(saved, content if as_bytes else content.decode())
    model, master = sw.load_distributed_model(saved)
    assert model.name == "small"
    assert master == sw.ParameterAveragingTrainingMaster(
        workers=2, batch_size_per_worker=8, averaging_frequency=3, prefetch_batches=0
    )


@cases(
    "content, text",
    (elephas(**{**SYNCHRONOUS, "mode": "hogwild"}), "mode='hogwild'"),
    (elephas(**SYNCHRONOUS, workers=2), "workers=2"),
    (b"{", "distributed_config is not JSON"),
    (b"[1]", "distributed_config is a list"),
    (np.arange(3), "distributed_config is not JSON"),
    (b"{}", "`config` must be a dict"),
    ids=["mode", "key", "not JSON", "no dict", "no text", "nothing"],
)
def test_invalid_settings_raise_with_the_url(saved, content, text):
    distribute(saved, content)
    with pytest.raises(sw.DataError) as told:
        sw.load_distributed_model(saved)
    assert saved in str(told.value)
    assert text in str(told.value)


def test_file_without_training_settings_raises(saved, tmp_path):
    url = str(tmp_path / "model.keras")
    sw.save_model(network(), url)
    for each in (saved, url):
        with pytest.raises(sw.DataError, match="has none") as told:
            sw.load_distributed_model(each)
        assert each in str(told.value)


@cases("name", "model.keras", "model.h5")
def test_code_is_executed_only_on_request(tmp_path, name):
    url = str(tmp_path / name)
    double = keras.layers.Lambda(lambda x: 2 * x, name="double")
    model = keras.Sequential([keras.Input((2,)), double])
    model.compile("sgd", "mse")
    model.save(url)
    with pytest.raises(sw.DataError, match="a lambda in 'double'") as told:
        sw.load_model(url)
    assert url in str(told.value)
    assert "`safe_mode=False`" in str(told.value)
    loaded = sw.load_model(url, safe_mode=False)
    assert np.asarray(loaded(np.ones((1, 2)))).tolist() == [[2, 2]]


@cases("kind", "soft", "external", "data")
def test_links_and_external_data_raise(saved, tmp_path, kind):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(400))
    with h5py.File(saved, "a") as file:
        if kind == "soft":
            file["optimizer_weights/more"] = h5py.SoftLink("/model_weights")
        elif kind == "external":
            file["optimizer_weights/more"] = h5py.ExternalLink(str(secret), "/")
        else:
            group = file["optimizer_weights"]
            group.create_dataset("more", (100,), "f4", external=[(str(secret), 0, 400)])
    for safe_mode in (True, False):
        with pytest.raises(sw.DataError, match="whose 'optimizer_weights/more' does"):
            sw.load_model(saved, safe_mode=safe_mode)


def test_incomplete_models_raise(saved, trained, tmp_path):
    weights, cut = str(tmp_path / "only.weights.h5"), str(tmp_path / "cut.h5")
    trained.save_weights(weights)
    content = Path(saved).read_bytes()
    Path(cut).write_bytes(content[: len(content) // 2])
    for url, text in ((weights, "must hold a whole model"), (cut, "must be complete")):
        for read in (sw.load_model, sw.model_info):
            with pytest.raises(sw.DataError, match=text) as told:
                read(url)
            assert url in str(told.value)
    problems = [model.problem for model in sw.list_models(str(tmp_path))]
    assert [problem is None for problem in problems] == [False, True, False]


@pytest.mark.thorough
def test_keras_2_optimizer_is_reset_with_a_warning(saved):
    with h5py.File(saved, "a") as file:
        group = file["optimizer_weights"]
        names = list(group.attrs["weight_names"])
        for name in names[2:]:
            group.move(name, f"Adam/m/{name}:0")
        group.attrs["weight_names"] = names[:2]
    with pytest.warns(UserWarning, match=r"moments are lost.*not those of Keras 3"):
        model = sw.load_model(saved)
    assert int(model.optimizer.iterations) == 6
    train(model)


@pytest.mark.thorough
def test_elephas_file_trains_with_its_master(saved, monkeypatch):
    monkeypatch.setattr("sparkwright.local.TrainerPool", InProcessPool)
    distribute(saved, elephas(**SYNCHRONOUS))
    data = sw.DataSet(FEATURES, LABELS)
    model, master = sw.load_distributed_model(saved)
    with sw.ParallelWrapper(model, master, cores_per_worker=1) as wrapper:
        wrapper.fit(data)
    assert int(model.optimizer.iterations) == 9  # two workers, three minibatches each
    by_keras = keras.saving.load_model(saved)
    with (
        sw.ParallelWrapper(by_keras, master, cores_per_worker=1) as wrapper,
        pytest.warns(UserWarning, match=r"moments are lost. `sw.load_model` reads moments"),
    ):
        wrapper.fit(data)
    assert int(by_keras.optimizer.iterations) == 9
