import keras
import numpy as np
import pytest
from tests.spark.helpers import dense

import sparkwright as sw
from sparkwright.data import DataSet, Standardize, from_arrays


def close(found, expected):
    return np.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def network(spark):
    return sw.SparkNetwork(spark, dense())


@pytest.fixture
def two(spark):
    """Two inputs, two outputs."""
    left, right = keras.Input((3,), name="left"), keras.Input((2,), name="right")
    joined = keras.layers.Concatenate()([left, right])
    one = keras.layers.Dense(1, name="one")(joined)
    other = keras.layers.Dense(2, activation="softmax", name="other")(joined)
    model = keras.Model([left, right], [one, other])
    model.compile("sgd", loss={"one": "mse", "other": "sparse_categorical_crossentropy"})
    return sw.SparkNetwork(spark, model)


@pytest.fixture(scope="module")
def masked_model():
    """Sequences of any length, with masks, one output a step."""
    x = keras.Input((None, 2), name="steps")
    hidden = keras.layers.LSTM(3, return_sequences=True)(x)
    model = keras.Model(x, keras.layers.Dense(1, name="level")(hidden))
    model.compile("sgd", loss="mse")
    return model


def outputs_of(predicted):
    """The only output."""
    (found,) = predicted.features.values()
    return found


@pytest.mark.connect
def test_prediction_returns_the_type_of_its_input(network, blobs):
    x = blobs.features["features"]
    expected = network.model.predict(x, verbose=0)
    assert close(network.predict(x, batch_size=7), expected)
    found = network.predict(blobs)
    assert close(outputs_of(found), expected)
    assert np.array_equal(found.labels["labels"], blobs.labels["labels"])


@pytest.mark.versions
def test_distributed_data_keeps_its_order_and_labels(spark, network, blobs):
    x = blobs.features["features"]
    expected = network.model.predict(x, verbose=0)
    data = from_arrays(spark, x, blobs.labels["labels"], partitions=3)
    lazy = network.predict(data)
    assert lazy.partition_counts() == data.partition_counts()
    # The weights are those at the time of the call.
    network.model.set_weights([0 * w for w in network.model.get_weights()])
    found = lazy.collect()
    assert close(outputs_of(found), expected)
    assert np.array_equal(found.labels["labels"], blobs.labels["labels"])
    assert not close(network.predict(x), expected)


def test_keys_keep_their_rows(spark, network, blobs):
    x = blobs.features["features"]
    expected = network.model.predict(x, verbose=0)
    cuts = [(0, 1), (1, 6), (6, 8), (8, 9), (9, 14)]
    pairs = [(f"key {a}", x[a:b]) for a, b in cuts]
    found = network.predict(spark.sparkContext.parallelize(pairs, 2)).collect()
    assert [key for key, _ in found] == [key for key, _ in pairs]
    assert all(close(y, expected[a:b]) for (_, y), (a, b) in zip(found, cuts, strict=True))
    single = network.predict(spark.sparkContext.parallelize([("one", x[3])], 1)).collect()
    assert single[0][1].shape == (3,)
    assert close(single[0][1], expected[3])


def test_keys_of_invalid_examples_are_named(spark, network):
    for key, value in (
        ("key='bad'", np.zeros((1, 1, 4))),
        ("key='short'", np.zeros(3)),
        ("none for key='nobody'", np.zeros((0, 4))),
    ):
        pairs = [("good", np.zeros(4)), (key.split("'")[1], value)]
        with pytest.raises(Exception, match=key):
            network.predict(spark.sparkContext.parallelize(pairs, 1)).collect()
    named = spark.sparkContext.parallelize([("k", {"pixels": np.zeros(4)})], 1)
    assert network.predict(named).collect()[0][1].shape == (3,)


def test_several_inputs_and_outputs_by_key(spark, two):
    random = np.random.default_rng(1)
    left, right = random.normal(size=(5, 3)), random.normal(size=(5, 2))
    one, other = two.model.predict([left, right], verbose=0)
    pairs = [(k, {"left": left[k : k + 1], "right": right[k : k + 1]}) for k in range(4)]
    pairs.append((4, [left[4:], right[4:]]))
    for key, found in two.predict(spark.sparkContext.parallelize(pairs, 2)).collect():
        assert close(found["one"], one[key : key + 1])
        assert close(found["other"], other[key : key + 1])
    found = two.predict({"left": left, "right": right})
    assert close(found["one"], one)
    assert close(found["other"], other)


@pytest.mark.filterwarnings("ignore:.*does not support masking")
def test_sequences_of_different_length_with_masks_by_key(spark, masked_model):
    network = sw.SparkNetwork(spark, masked_model)
    random = np.random.default_rng(2)
    features = [random.normal(size=(t, 2)).astype(np.float32) for t in (3, 5, 5, 2)]
    masks = [np.arange(len(f)) < len(f) - 1 for f in features]
    pairs = [(i, (f, m)) for i, (f, m) in enumerate(zip(features, masks, strict=True))]
    for key, found in network.predict(spark.sparkContext.parallelize(pairs, 1)).collect():
        expected = masked_model(features[key][None], mask=masks[key][None])
        assert found.shape == (len(features[key]), 1)
        assert close(found, expected[0])


@pytest.mark.thorough
@pytest.mark.versions
def test_output_column_is_added_to_the_users_columns(spark, network, blobs):
    from pyspark.ml.linalg import Vectors

    x = blobs.features["features"]
    expected = network.model.predict(x, verbose=0)
    rows = [(i, row, Vectors.dense(row), *row) for i, row in enumerate(x.tolist())]
    names = ["number", "features", "vectors", "a", "b", "c", "d"]
    frame = spark.createDataFrame(rows, names).repartition(3)
    predicted = network.predict(frame)
    assert predicted.columns == [*names, "prediction"]
    assert dict(predicted.dtypes)["prediction"] == "array<float>"
    predicted = network.predict(predicted, features=["vectors"], output_column="of_vectors")
    predicted = network.predict(
        predicted, features=["a", "b", "c", "d"], output_column="of_columns"
    )
    found = predicted.orderBy("number").collect()
    for name in ("prediction", "of_vectors", "of_columns"):
        assert close([row[name] for row in found], expected)
    with pytest.raises(sw.ConfigurationError, match="output_column"):
        network.predict(predicted)
    with pytest.raises(sw.DataError, match="unknown columns"):
        network.predict(frame.drop("features"))


@pytest.mark.versions
@pytest.mark.connect
def test_network_can_be_used_as_a_function_in_queries(spark, network, two, blobs):
    x = blobs.features["features"]
    rows = list(enumerate(x.tolist()))
    spark.createDataFrame(rows, "i int, f array<double>").createOrReplaceTempView("blobs")
    spark.udf.register("classify", network.as_udf())
    found = spark.sql("SELECT classify(f) AS p FROM blobs WHERE i < 9 ORDER BY i").collect()
    assert close([row["p"] for row in found], network.model.predict(x[:9], verbose=0))
    spark.udf.register("both", two.as_udf())
    row = spark.sql("SELECT both(array(1.0D, 2.0D, 3.0D), array(4.0D, 5.0D)) AS p").first()["p"]
    one, other = two.model.predict([np.array([[1.0, 2, 3]]), np.array([[4.0, 5]])], verbose=0)
    assert row["one"] == pytest.approx(float(one[0, 0]), rel=1e-5)
    assert close(row["other"], other[0])


@pytest.mark.thorough
def test_regression_outputs_are_in_label_units(spark):
    random = np.random.default_rng(4)
    x = random.normal(size=(40, 3)) * 5 + 2
    y = x @ np.array([[1.0], [2.0], [-1.0]]) * 100 + 1000
    data = from_arrays(spark, x, y, partitions=2)
    normalizer = Standardize.fit(data, labels=True)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    network = sw.SparkNetwork(spark, model, normalizer=normalizer)
    expected = normalizer.revert_labels(model.predict(normalizer.transform(x), verbose=0))

    def is_near(prices):
        return np.allclose(prices, expected, rtol=1e-4, atol=0.01)  # of thousands, in float32

    assert is_near(network.predict(x))
    found = network.predict(data).collect()
    assert is_near(outputs_of(found))
    assert close(found.labels["labels"], y)
    frame = spark.createDataFrame(x.tolist(), "a double, b double, c double")
    udf = network.predict(frame, features=["a", "b", "c"])
    assert dict(udf.dtypes)["prediction"] == "float"
    assert is_near([[row["prediction"]] for row in udf.collect()])


@pytest.mark.thorough
@pytest.mark.versions
def test_table_with_text_is_predicted_with_its_training_schema(spark, tmp_path):
    file = tmp_path / "passengers.csv"
    lines = [f"{'abc'[i % 3]},{i},{i % 2}" for i in range(30)]
    file.write_text("\n".join(["deck,age,survived", *lines]))
    train = sw.data.from_csv(spark, str(file), labels="survived", categories={"deck": "infer"})
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", loss="binary_crossentropy")
    network = sw.SparkNetwork(spark, model)
    network.schema = train.schema
    frame = spark.read.csv(str(file), header=True, inferSchema=True)
    found = [row["prediction"] for row in network.predict(frame).collect()]
    assert close(found, model.predict(train.collect().features["features"], verbose=0)[:, 0])
    frame.createOrReplaceTempView("passengers")
    spark.udf.register("survives", network.as_udf())
    row = spark.sql("SELECT survives('b', 4.0D) AS p").collect()[0]
    assert row["p"] == pytest.approx(found[4], rel=1e-5)


def test_losses_of_examples_equal_those_of_batches_of_one(spark, blobs):
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(5, activation="tanh", kernel_regularizer="l2"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(3, activation="softmax", kernel_regularizer="l1"),
        ]
    )
    model.compile("sgd", loss="sparse_categorical_crossentropy")
    network = sw.SparkNetwork(spark, model)
    x, y = blobs.features["features"], blobs.labels["labels"]
    one_by_one = [model.evaluate(x[i : i + 1], y[i : i + 1], verbose=0) for i in range(9)]
    data = from_arrays(spark, x, y, partitions=3)
    found = network.score_examples(data).collect()
    assert len(found) == 120
    assert np.allclose(found[:9], one_by_one, atol=1e-5)
    assert np.mean(found) == pytest.approx(network.score(blobs), abs=1e-5)
    bare = network.score_examples(data, regularization=False).collect()
    terms = float(sum(keras.ops.sum(term) for term in model.losses))
    assert np.allclose(np.add(bare, terms), found, atol=1e-5)
    pairs = [(f"k{i}", blobs.take(slice(i, i + 1))) for i in range(4)] + [("k4", (x[4], y[4]))]
    rdd = spark.sparkContext.parallelize(pairs, 2)
    keyed = network.score_examples(rdd, keyed=True, regularization=False).collect()
    assert [key for key, _ in keyed] == [key for key, _ in pairs]
    assert np.allclose([loss for _, loss in keyed], bare[:5], atol=1e-5)
    two = spark.sparkContext.parallelize([("two", blobs.take(slice(0, 2)))], 1)
    with pytest.raises(Exception, match="exactly one example"):
        network.score_examples(two, keyed=True).collect()


@pytest.mark.thorough
def test_losses_of_sequences_and_of_several_outputs(spark, masked_model, two):
    random = np.random.default_rng(5)
    x, y = random.normal(size=(6, 4, 2)), random.normal(size=(6, 4, 1))
    mask = np.arange(4)[None, :] < np.array([4, 2, 1, 3, 4, 2])[:, None]
    data = DataSet({"steps": x}, {"level": y}, labels_masks={"level": mask})
    found = sw.SparkNetwork(spark, masked_model).score_examples(data).collect()
    expected = [  # of steps that count; Keras' masks of weights leave the others in the mean
        masked_model.evaluate(x[i : i + 1], y[i : i + 1], sample_weight=mask[i : i + 1], verbose=0)
        / mask[i].mean()
        for i in range(6)
    ]
    assert np.allclose(found, expected, atol=1e-5)
    left, right = random.normal(size=(5, 3)), random.normal(size=(5, 2))
    labels = {"one": random.normal(size=(5, 1)), "other": np.array([0, 1, 1, 0, 1])}
    several = DataSet({"left": left, "right": right}, labels)
    found = two.score_examples(several).collect()
    for i in range(5):
        one = slice(i, i + 1)
        whole = two.model.evaluate(
            [left[one], right[one]], [labels["one"][one], labels["other"][one]], verbose=0
        )
        assert found[i] == pytest.approx(whole[0] if isinstance(whole, list) else whole, abs=1e-5)


def test_network_without_a_loss_can_predict(spark):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    x = np.ones((3, 4), np.float32)
    found = sw.SparkNetwork(spark, model).predict(x)
    assert close(found, model.predict(x, verbose=0))


def test_eval_workers_must_be_positive_and_all_examples_are_evaluated(spark, network, blobs):
    x, y = blobs.features["features"], blobs.labels["labels"]
    data = from_arrays(spark, x, y, partitions=8)
    for workers in (1, None):
        assert network.evaluate(data, eval_workers=workers).examples == 120
    with pytest.raises(sw.ConfigurationError, match="eval_workers"):
        network.evaluate(data, eval_workers=0)


def test_network_reads_predictions_of_another_in_the_same_task(spark, network, blobs):
    head = sw.SparkNetwork(
        spark, keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="head")])
    )
    x = blobs.features["features"]
    lazy = network.predict(from_arrays(spark, x, partitions=2), eval_workers=1)
    found = head.predict(lazy, eval_workers=1).collect().features["head"]
    assert close(found, head.model.predict(network.model.predict(x, verbose=0), verbose=0))


def test_features_are_matched_to_their_scaling_by_name(spark):
    a, b = keras.Input((1,), name="a"), keras.Input((1,), name="b")
    model = keras.Model([a, b], keras.layers.Concatenate(name="both")([a, b]))
    data = DataSet({"a": np.array([[0.0], [2000.0]]), "b": np.array([[10.0], [30.0]])})
    network = sw.SparkNetwork(spark, model, normalizer=Standardize.fit(data))
    one = {"b": np.array([[20.0]]), "a": np.array([[1000.0]])}
    assert close(network.predict(one), [[0.0, 0.0]])
    income = {"income": one["a"], "age": one["b"]}
    with pytest.raises(sw.DataError, match="income"):
        network.predict(income)
