import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import dense

import sparkwright as sw
from sparkwright.cluster.connect import context_of
from sparkwright.data import DataSet, Standardize, from_arrays
from sparkwright.evaluation import (
    ROC,
    CustomEvaluation,
    Evaluation,
    EvaluationBinary,
    EvaluationCalibration,
    RegressionEvaluation,
    ROCBinary,
    ROCDigest,
    ROCMultiClass,
)
from sparkwright.spark import _evaluating
from sparkwright.spark._exact_roc import digested


@pytest.fixture
def network(spark):
    return sw.SparkNetwork(spark, dense())


@pytest.mark.versions
def test_several_evaluations_in_one_pass_equal_local_ones(spark, network, blobs):
    x, y = blobs.features["features"], blobs.labels["labels"]
    data = from_arrays(spark, x, y, partitions=5)
    predictions = next(iter(network.predict(data).collect().features.values()))
    wanted = [
        Evaluation(("ant", "bee", "cat"), top_n=2, keep_errors=5),
        ROCMultiClass(),
        ROCMultiClass(thresholds=20),
        EvaluationCalibration(),
    ]
    found = network.do_evaluation(data, wanted)
    assert found[0] == Evaluation.from_predictions(
        y, predictions, class_names=("ant", "bee", "cat"), top_n=2, keep_errors=5,
        records=[[p, i] for p, n in enumerate(data.partition_counts()) for i in range(n)],
    )  # fmt: skip
    local = [each.updated(y, predictions) for each in wanted]
    assert found[1:3] == local[1:3]
    assert found[3].headline() == pytest.approx(local[3].headline(), rel=1e-12)
    assert network.evaluate(data, top_n=2) == Evaluation.from_predictions(y, predictions, top_n=2)
    assert network.evaluate_roc_multi_class(data) == found[1]


def test_compiled_metrics_are_those_of_keras(spark):
    keras.utils.set_random_seed(4)
    inputs = keras.Input((4, 3))
    rows = keras.layers.Dense(3, activation="softmax", name="rows")(inputs)
    total = keras.layers.Dense(1, name="total")(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, {"rows": rows, "total": total})
    model.compile(
        "sgd",
        {"rows": "sparse_categorical_crossentropy", "total": "mse"},
        metrics={"rows": ["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)]},
        weighted_metrics={"total": [keras.metrics.MeanAbsoluteError(name="mae")]},
    )
    random = np.random.default_rng(5)
    x = random.normal(size=(70, 4, 3)).astype(np.float32)
    y = {"rows": random.integers(0, 3, (70, 4)), "total": random.normal(size=70)}
    expected = model.evaluate(x, y, batch_size=70, verbose=0, return_dict=True)
    network = sw.SparkNetwork(spark, model)
    data = from_arrays(spark, x, y, partitions=5)
    found = network.evaluate(data, return_dict=True, verbose=0)
    assert found["loss"] == pytest.approx(network.score(data))
    assert found == pytest.approx(expected, rel=1e-5)


def test_data_error_names_the_first_partition_that_has_one(spark, network, blobs):
    narrow = DataSet(blobs.features["features"][:, :3], blobs.labels["labels"])
    parts = context_of(spark).parallelize([blobs, blobs, narrow, blobs, narrow, blobs], 6)
    with pytest.raises(sw.DataError, match=r"Counted from row 0 of partition 2\.$"):
        network.evaluate(sw.data.from_rdd(spark, parts))


@cases("use", "evaluate", "score", "worst_examples", "evaluate_roc_multi_class")
def test_frame_without_rows_raises(spark, network, use):
    """Spark plans it without partitions."""
    frame = spark.createDataFrame([([1.0] * 4, 0)], "features array<double>, label int")
    with pytest.raises(sw.DataError, match=r"at least one example\. Received: data without"):
        getattr(network, use)(frame.where("false"))


def test_binary_evaluations_support_masks_and_custom_functions(spark):
    random = np.random.default_rng(1)
    x = random.normal(size=(50, 6, 2)).astype(np.float32)
    y = (x.sum(axis=2, keepdims=True) > 0).astype(np.float32)
    mask = np.arange(6)[None, :] < random.integers(1, 7, 50)[:, None]
    inputs = keras.Input((6, 2))
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(inputs))
    model.compile("sgd", loss="binary_crossentropy")
    data = DataSet(x, y, labels_masks=mask)
    count = CustomEvaluation(
        lambda labels, predictions, mask: int(np.sum(mask)), lambda a, b: a + b, title="steps"
    )
    kinds = [ROC(), ROC(thresholds=16), ROCBinary(), EvaluationBinary(), Evaluation(), count]
    found = sw.SparkNetwork(spark, model).do_evaluation(data, kinds)
    predictions = model.predict(x, verbose=0)
    assert all(each.examples == mask.sum() for each in found[:5])
    assert found[5].result == int(mask.sum())
    for each, kind in zip(found[:5], kinds[:5], strict=True):
        local = kind.updated(y, predictions, mask=mask)
        for metric, value in local.headline().items():
            assert each.headline()[metric] == pytest.approx(value, abs=1e-6)


def test_outputs_are_evaluated_by_name(spark):
    inputs = keras.Input((2,))
    number = keras.layers.Dense(1, name="number")(inputs)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(inputs)
    model = keras.Model(inputs, [number, kind])
    model.compile("sgd", loss=["mse", "sparse_categorical_crossentropy"])
    network = sw.SparkNetwork(spark, model)
    random = np.random.default_rng(2)
    labels = {"number": random.normal(size=(30, 1)), "kind": random.integers(0, 3, 30)}
    data = DataSet(random.normal(size=(30, 2)), labels)
    found = network.do_evaluation(
        data, {"number": RegressionEvaluation(), "kind": [Evaluation(), ROCMultiClass()]}
    )
    number_p, kind_p = model.predict(data.features["features"], verbose=0)
    assert found["number"].mean_squared_error() == pytest.approx(
        np.mean((labels["number"] - number_p) ** 2), rel=1e-5
    )
    assert found["kind"][0] == Evaluation.from_predictions(labels["kind"], kind_p)
    assert network.evaluate(data, output="kind") == found["kind"][0]
    with pytest.raises(sw.ConfigurationError, match="need output names"):
        network.do_evaluation(data, Evaluation())
    with pytest.raises(sw.ConfigurationError, match=r"\['kinds'\]"):
        network.do_evaluation(data, {"kinds": Evaluation()})


def test_regression_is_evaluated_in_label_units(spark):
    random = np.random.default_rng(3)
    x = random.normal(size=(80, 2))
    y = 1000 + 100 * x[:, :1] + random.normal(size=(80, 1))
    data = from_arrays(spark, x, y, partitions=3)
    normalizer = Standardize.fit(data, labels=True)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse")
    network = sw.SparkNetwork(spark, model, normalizer=normalizer)
    found = network.evaluate_regression(data, names=["price"])
    errors = y - network.predict(x)
    assert found.mean_absolute_error() == pytest.approx(np.abs(errors).mean(), rel=1e-5)
    assert found.root_mean_squared_error(of="price") > 50


def test_outputs_are_named_after_their_label_columns(spark, tmp_path):
    (tmp_path / "homes.csv").write_text("size,rooms,price,rent\n1,2,3,4\n2,3,4,5\n3,3,5,6\n")
    inputs = keras.Input((2,))
    both = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    data = sw.data.from_csv(spark, str(tmp_path), labels=["price", "rent"])
    assert _regression(spark, both, data).output_names == ("price", "rent")
    two = keras.Model(inputs, [keras.layers.Dense(1, name=n)(inputs) for n in ("cost", "loan")])
    labels = {"cost": "price", "loan": "rent"}
    data = sw.data.from_csv(spark, str(tmp_path), labels=labels).map_chunks(lambda d: d, step="")
    assert _regression(spark, two, data, output="loan").output_names == ("rent",)


def _regression(spark, model, data, **options):
    model.compile("sgd", loss="mse")
    return sw.SparkNetwork(spark, model).evaluate_regression(data, **options)


@pytest.mark.thorough
def test_evaluation_requires_labels_numbers_and_examples(network, blobs):
    found = network.evaluate(blobs)
    unlabeled = DataSet(blobs.features["features"])
    broken = sw.SparkNetwork(network.spark, dense())
    broken.model.set_weights([np.nan * w for w in broken.model.get_weights()])
    for message, called, data, wanted in (
        ("needs labels", network, unlabeled, Evaluation()),
        ("must not be NaN", broken, blobs, Evaluation()),
        ("at least one evaluation", network, blobs, []),
        ("must be values such as", network, blobs, [Evaluation]),
        ("counted 120 examples", network, blobs, found),
    ):
        with pytest.raises((sw.ConfigurationError, sw.DataError), match=message):
            called.do_evaluation(data, wanted)


def test_minibatch_files_are_evaluated_like_the_data_they_contain(network, blobs, tmp_path):
    sw.data.to_minibatch_files(blobs, str(tmp_path), batch_size=16)
    found = network.do_evaluation_paths(str(tmp_path), [Evaluation(), EvaluationCalibration()])
    assert found[0] == network.evaluate(blobs)
    assert found[1].examples == 120


def test_results_round_trip_through_json_at_a_url(network, blobs, tmp_path):
    kinds = [Evaluation(), ROCMultiClass(), EvaluationCalibration()]
    for number, found in enumerate(network.do_evaluation(blobs, kinds)):
        url = f"file://{tmp_path}/{number}.json"
        sw.save_evaluation(found, url)
        assert sw.load_evaluation(url) == found
        assert (sw.load_evaluation(url) + found).examples == 240


@pytest.mark.thorough
@pytest.mark.versions
def test_exact_roc_of_many_rows_is_aggregated_on_the_cluster(spark, monkeypatch):
    random = np.random.default_rng(4)
    labels = random.integers(0, 2, 3000)
    scores = np.round(random.normal(labels * 0.5, 1.0), 2)
    parts = [ROC().updated(labels[i::7], scores[i::7]) for i in range(7)] + [ROC()]
    rdd = spark.sparkContext.parallelize(parts, 4)
    whole = ROC().updated(labels, scores)
    found = digested(ROC(), rdd, examples=3000, rows_per_range=400)
    assert isinstance(found, ROCDigest)
    assert found.auc == whole.auc
    assert found.headline() == pytest.approx(whole.headline(), rel=1e-12)
    assert found.best_threshold() == whole.best_threshold()
    monkeypatch.setattr(_evaluating, "SCORES_ON_DRIVER", 100)
    network = sw.SparkNetwork(spark, dense())
    x = random.normal(size=(400, 4)).astype(np.float32)
    data = from_arrays(spark, x, random.integers(0, 3, 400), partitions=3)
    large = network.evaluate_roc_multi_class(data)
    monkeypatch.undo()
    small = network.evaluate_roc_multi_class(data)
    assert all(isinstance(roc, ROCDigest) for roc in large.rocs)
    assert large.headline() == pytest.approx(small.headline(), rel=1e-12)
    assert ROCMultiClass.from_dict(large.to_dict()) == large


@pytest.mark.thorough
def test_partitions_of_large_arrays_are_at_most_16_mib(spark):
    data = from_arrays(spark, np.zeros((20, 1 << 20), np.float32))  # 80 MB
    assert max(data.partition_counts()) * (4 << 20) <= 16 << 20
    assert from_arrays(spark, np.zeros((50, 3)), partitions=3).rdd.getNumPartitions() == 3
