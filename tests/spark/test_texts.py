import re
import runpy
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from tests.cases import cases

import sparkwright as sw

DOCS = Path(__file__).parents[2] / "docs"


def without_the_last_letter(texts):
    import tensorflow as tf

    return tf.strings.regex_replace(texts, ".$", "")


def mixed(count=400):
    random = np.random.default_rng(5)
    words = ["red", "Green,", "BLUE!", "cat", "语言", "Straße", "\u2028", "a\0b", "dog."]
    weights = 1 / np.arange(1, 10)
    texts = [" ".join(random.choice(words, 5, p=weights / weights.sum())) for _ in range(count)]
    return sw.DataSet(
        {
            "text": np.array(texts, object)[:, None],
            "words": random.choice(np.array(words, object), (count, 3)),
            "codes": random.integers(-5, 5, (count, 2)),
            "numbers": random.normal(50, 3, (count, 4)).astype(np.float32),
            "images": random.normal(size=(count, 2, 3)).astype(np.float32),
            "skewed": random.lognormal(size=(count, 1)).astype(np.float32),
        }
    )


LOOKUPS = {
    "vocabulary": ("text", lambda: layers.TextVectorization()),
    "few": ("text", lambda: layers.TextVectorization(max_tokens=6, ngrams=2, standardize="lower")),
    "custom": ("text", lambda: layers.TextVectorization(standardize=without_the_last_letter)),
    "whole": ("words", lambda: layers.TextVectorization(split=None, output_mode="count")),
    "tf_idf": ("text", lambda: layers.TextVectorization(output_mode="tf_idf")),
    "strings": ("words", lambda: layers.StringLookup(mask_token="cat")),
    "string_idf": ("words", lambda: layers.StringLookup(output_mode="tf_idf", max_tokens=7)),
    "integers": ("codes", lambda: layers.IntegerLookup()),
}


def test_layers_are_adapted_to_all_data_as_by_keras(spark):
    data = mixed()
    # Several layers of one input need inputs of their own.
    features = {name: data.features[of] for name, (of, _) in LOOKUPS.items()}
    features |= {name: data.features[name] for name in ("numbers", "images", "skewed")}
    features["one_mean"] = data.features["numbers"]
    ours = {name: make() for name, (_, make) in LOOKUPS.items()}
    ours |= {
        "numbers": layers.Normalization(),
        "images": layers.Normalization(axis=(1, -1)),
        "one_mean": layers.Normalization(axis=None),
        "skewed": layers.Discretization(num_bins=5),
    }
    sw.adapt(ours, sw.data.from_arrays(spark, features, partitions=3))
    here = {"strings": layers.StringLookup(mask_token="cat")}
    sw.adapt(here, sw.DataSet(features))  # without Spark
    assert here["strings"].get_vocabulary() == ours["strings"].get_vocabulary()
    for name, (of, make) in LOOKUPS.items():
        theirs = make()
        theirs.adapt(data.features[of])
        assert ours[name].get_vocabulary() == theirs.get_vocabulary()
        assert len(theirs.get_vocabulary()) > 4
        tensor = keras.ops.convert_to_tensor(data.features[of])
        np.testing.assert_array_equal(np.asarray(ours[name](tensor)), np.asarray(theirs(tensor)))
    for name, axis in (("numbers", -1), ("images", (1, -1)), ("one_mean", None)):
        theirs = layers.Normalization(axis=axis)
        theirs.adapt(features[name].astype(np.float64))
        for variable in ("adapt_mean", "adapt_variance"):
            np.testing.assert_allclose(
                getattr(ours[name], variable), getattr(theirs, variable), rtol=1e-6, atol=1e-7
            )
    shares = np.mean(features["skewed"] < ours["skewed"].bin_boundaries, axis=0)
    np.testing.assert_allclose(shares, [0.2, 0.4, 0.6, 0.8], atol=0.01)


@cases(
    "layer, column, message",
    (lambda: layers.Hashing(num_bins=3), None, "Received: Hashing"),
    (lambda: layers.StringLookup(vocabulary=["a"]), None, "without a given mean, vocabulary or"),
    (lambda: layers.StringLookup(), None, "`column` must name one of"),
    (lambda: layers.StringLookup(), "none", "Received: 'none'"),
    (lambda: layers.Normalization(), "text", "finite numbers. Received: text"),
)
def test_layers_that_cannot_be_adapted_are_rejected(spark, layer, column, message):
    data = sw.data.from_arrays(spark, mixed(3).features, partitions=1)
    with pytest.raises((sw.ConfigurationError, sw.DataError), match=message):
        sw.adapt(layer(), data, column=column)


@pytest.mark.thorough
def test_text_is_exported_shuffled_and_inspected(spark, tmp_path):
    whole = mixed(50)
    data = sw.data.from_arrays(spark, whole.features, partitions=1)
    url = str(tmp_path / "export")
    data.export(url, batch_size=20)
    again = sw.data.from_minibatches(spark, url)
    assert again.collect().equals(whole)
    look = sw.data.preview(sw.data.DataSource(format="minibatches", url=url))
    assert not look.problems
    assert "Straße" in str(look.rows)
    shuffled = again.shuffle(seed=1, partitions=2).collect().features["text"].ravel().tolist()
    assert sorted(shuffled) == sorted(whole.features["text"].ravel().tolist())
    assert {column.array for column in data.statistics()} == {
        f"features/{name}" for name in ("codes", "numbers", "images", "skewed")
    }
    with pytest.raises(sw.DataError, match="in a record file must be one of"):
        sw.data.write_sequence_file(whole, str(tmp_path / "records"))


def test_text_classifier_trains_predicts_in_sql_and_from_a_file(spark, tmp_path):
    page = (DOCS / "data" / "preprocessing.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    script, url = tmp_path / "page.py", str(tmp_path / "liked.keras")
    script.write_text(block.replace("spark = sw.start_spark(workers=2)\n", ""), encoding="utf-8")
    found = runpy.run_path(str(script), {"spark": spark})
    network = found["network"]
    losses = network.history.history["loss"]
    assert losses[-1] < losses[0]
    assert network.evaluate(found["data"]).examples == 200
    network.save(url)
    spark.udf.register("odds", network.as_udf())
    found["reviews"].createOrReplaceTempView("reviews")
    rows = spark.sql("SELECT review, odds(review)[1] AS liked FROM reviews LIMIT 4").collect()
    texts, liked = [row.review for row in rows], [row.liked for row in rows]
    # Keras and a network that load the file predict the same as Spark SQL.
    model = keras.saving.load_model(url)
    tensor = keras.ops.convert_to_tensor(np.array(texts, object)[:, None])
    np.testing.assert_allclose(np.asarray(model(tensor))[:, 1], liked, rtol=1e-5)
    network = sw.SparkNetwork.load(spark, url)
    outputs = network.predict(np.array(texts, object)[:, None])
    np.testing.assert_allclose(outputs[:, 1], liked, rtol=1e-5)


def test_feature_space_is_part_of_a_network(spark):
    example = runpy.run_path(str(DOCS / "examples" / "feature_space.py"))
    assert example["run"](spark, count=600, epochs=6).accuracy() > 0.8
