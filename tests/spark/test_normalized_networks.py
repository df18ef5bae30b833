import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
from tests.spark.helpers import dense, weights

import sparkwright as sw
from sparkwright.data import DataSet, Standardize

pytestmark = pytest.mark.spark


def master():
    return sw.ParameterAveragingTrainingMaster(
        workers=1, batch_size_per_worker=10, shuffle=False, seed=3
    )


@pytest.fixture
def raw(blobs):
    features = blobs.features["features"] * [1, 100, 0.01, 5] + [0, 1000, 7, -3]
    return DataSet(features.astype(np.float32), blobs.labels)


@pytest.fixture
def trained(spark, raw):
    network = sw.SparkNetwork(spark, dense(), master(), normalizer=Standardize.fit(raw))
    network.fit(raw, validation=raw)
    return network


def test_training_on_raw_data_equals_training_on_normalized_data(spark, raw, trained):
    plain = sw.SparkNetwork(spark, dense(), master())
    normalized = trained.normalizer.transform(raw)
    plain.fit(normalized)
    np.testing.assert_array_equal(weights(plain.model), weights(trained.model))
    assert trained.evaluate(raw) == plain.evaluate(normalized)
    assert trained.score(raw) == plain.score(normalized)


def test_network_is_loaded_with_its_normalizer(spark, raw, trained):
    url = "memory://normalized/model.keras"
    trained.class_names = {"labels": ("a", "b", "c")}
    trained.save(url)
    again = sw.SparkNetwork.load(spark, url)
    assert again.normalizer == trained.normalizer == sw.load_normalizer(url)
    assert again.class_names == {"labels": ("a", "b", "c")}
    assert again.evaluate(raw) == trained.evaluate(raw)
    assert again.evaluate(raw).class_names == ("a", "b", "c")
    np.testing.assert_array_equal(weights(sw.load_model(url)), weights(trained.model))


@pytest.mark.thorough
def test_new_files_are_read_like_the_training_files(spark, tmp_path):
    old, new, url = (str(tmp_path / name) for name in ("old.csv", "new.csv", "model.keras"))
    Path(old).write_text("color,size,kind\nred,1,a\nblue,2,b\ngreen,3,c\nred,4,a\n")
    # Other columns, another order, and neither all colors nor all classes.
    Path(new).write_text("kind,other,size,color\nc,9,7,red\n")
    train = sw.data.from_csv(
        spark, old, labels="kind", classes="infer", categories={"color": "infer"}
    )
    network = sw.SparkNetwork(spark, dense(), master())
    assert network.schema is None
    network.fit(train.shuffle(seed=1))
    network.save(url)
    again = sw.SparkNetwork.load(spark, url)
    assert again.schema == train.schema
    found = sw.data.from_csv(spark, new, schema=again.schema).collect()
    assert found.features["features"].tolist() == [[0, 0, 1, 7]]
    assert found.labels["labels"].tolist() == [2]
    again.save(url)
    assert sw.SparkNetwork.load(spark, url).schema == train.schema


def test_keras_reads_the_file_with_sparkwright_metadata(spark, raw, tmp_path):
    path = tmp_path / "model.keras"
    sw.SparkNetwork(spark, dense(), normalizer=Standardize.fit(raw)).save(str(path))
    np.testing.assert_array_equal(weights(keras.saving.load_model(path)), weights(dense()))
    names = set(zipfile.ZipFile(path).namelist())
    assert names == {"metadata.json", "config.json", "model.weights.h5", "sparkwright.json"}


def test_only_normalizers_are_accepted(spark):
    wrong = "x"
    for make in (
        lambda: sw.SparkNetwork(spark, dense(), normalizer=wrong),
        lambda: sw.ParallelWrapper(dense(), master(), normalizer=wrong),
    ):
        with pytest.raises(sw.ConfigurationError, match="`normalizer` must be a normalizer or"):
            make()
