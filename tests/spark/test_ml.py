from dataclasses import replace

import keras
import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StandardScaler, StringIndexer, VectorAssembler
from pyspark.ml.tuning import (
    ParamGridBuilder,
    TrainValidationSplit,
    TrainValidationSplitModel,
)
from tests.cases import cases
from tests.spark.helpers import dense, weights

import sparkwright as sw
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import TrainingMaster
from sparkwright.ml import KerasEstimator, KerasModel

pytestmark = pytest.mark.spark
# A search leaves its pool of threads open.
POOL_STAYS_OPEN = pytest.mark.filterwarnings(
    "ignore:.*ThreadPool:pytest.PytestUnraisableExceptionWarning"
)
POOL_IS_UNCLOSED = pytest.mark.filterwarnings(
    "ignore:unclosed running multiprocessing pool:ResourceWarning"
)
MASTER = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10, seed=3)


@pytest.fixture(scope="module")
def flowers(spark):
    """Four numbers a flower, its kind as text, a weight, and which rows validate."""
    generator = np.random.default_rng(5)
    kinds = generator.integers(3, size=120)
    numbers = generator.normal(size=(120, 4)) + 2 * np.eye(4)[kinds]
    rows = [
        (*map(float, row), "abc"[kind], float(1 + kind), bool(i % 5 == 0))
        for i, (row, kind) in enumerate(zip(numbers, kinds, strict=True))
    ]
    return (
        spark.createDataFrame(
            rows, "a double, b double, c double, d double, kind string, weight double, held boolean"
        )
        .repartition(4)
        .cache()
    )


@pytest.fixture(scope="module")
def stages():
    """From the table to `label` and `features`."""
    return [
        StringIndexer(inputCol="kind", outputCol="label"),
        VectorAssembler(inputCols=["a", "b", "c", "d"], outputCol="numbers"),
        StandardScaler(inputCol="numbers", outputCol="features", withMean=True),
    ]


@pytest.fixture(scope="module")
def prepared(flowers, stages):
    return Pipeline(stages=stages).fit(flowers).transform(flowers).cache()


def one(outputs, activation, loss):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(outputs, activation)])
    model.compile("sgd", loss)
    return model


def columns(frame, *names):
    """(rows, ...) array of each column."""
    rows = frame.select(*names).collect()
    return [
        np.array([getattr(row[n], "toArray", lambda v=row[n]: v)() for row in rows]) for n in names
    ]


@pytest.mark.thorough
@pytest.mark.versions
@pytest.mark.connect
def test_pipeline_fits_and_round_trips(flowers, stages, tmp_path):
    model = dense("adam")
    before = weights(model)
    estimator = KerasEstimator(
        model=model, master=MASTER, epochs=2, weightCol="weight", validationIndicatorCol="held"
    )
    pipeline = Pipeline(stages=[*stages, estimator])
    fitted = pipeline.fit(flowers)
    assert np.array_equal(weights(model), before), "the estimator's own model stays"
    trained = fitted.stages[-1]
    assert len(trained.history.history["val_loss"]) == 2
    found = fitted.transform(flowers)
    probability, prediction, features = columns(found, "probability", "prediction", "features")
    expected = trained.model.predict(features.astype(np.float32), verbose=0)
    assert np.allclose(probability, expected, atol=1e-6)
    assert np.array_equal(prediction, expected.argmax(1))
    network = trained.network(flowers)
    (direct,) = columns(network.predict(found, output_column="direct"), "direct")
    assert np.array_equal(probability, direct), "bit for bit in the same batches"

    fitted.write().overwrite().save(str(tmp_path / "fitted"))
    again = PipelineModel.load(str(tmp_path / "fitted"))
    assert np.array_equal(columns(again.transform(flowers), "probability")[0], probability)
    pipeline.save((tmp_path / "pipeline").as_uri())
    loaded = Pipeline.load((tmp_path / "pipeline").as_uri()).getStages()[-1]
    assert loaded.getOrDefault("master") == MASTER
    assert loaded.getOrDefault("epochs") == 2
    assert np.array_equal(weights(loaded.getOrDefault("model")), before)
    with pytest.raises(DataError, match=r"must hold a sparkwright\.ml\.model\.KerasModel"):
        KerasModel.load(str(next((tmp_path / "pipeline/stages").glob("*KerasEstimator*"))))


@pytest.mark.thorough
@POOL_STAYS_OPEN
@POOL_IS_UNCLOSED
def test_grid_search_runs_fits_in_parallel(prepared):
    estimator = KerasEstimator(model=dense, master=MASTER)
    metric = "logLoss"
    search = TrainValidationSplit(
        estimator=estimator,
        estimatorParamMaps=ParamGridBuilder().addGrid(estimator.epochs, [1, 4]).build(),
        evaluator=MulticlassClassificationEvaluator().setMetricName(metric),
        seed=1,
        parallelism=2,
    )
    fitted = search.fit(prepared)
    assert fitted.validationMetrics[1] < fitted.validationMetrics[0]
    assert len(fitted.bestModel.history.epoch) == 4


def test_each_param_has_spark_mls_methods():
    stages = [
        KerasEstimator(model=dense),
        KerasModel(one(3, "softmax", "categorical_crossentropy")),
    ]
    for stage in stages:
        for param in stage.params:
            title = param.name[0].upper() + param.name[1:]
            assert callable(getattr(stage, f"get{title}"))
            assert callable(getattr(stage, f"set{title}"))
    estimator = stages[0].setEpochs(3).setFeaturesCol("x").setMaster(MASTER)
    assert (estimator.getEpochs(), estimator.getFeaturesCol()) == (3, "x")
    assert estimator.copy().getMaster() is MASTER
    assert "averaging_frequency" in estimator.explainParam("master")
    assert estimator.extractParamMap()[estimator.epochs] == 3
    assert (stages[1].numFeatures, stages[1].numClasses) == (4, 3)
    assert KerasModel(one(1, "sigmoid", "binary_crossentropy")).numClasses == 2


@pytest.mark.thorough
@POOL_STAYS_OPEN
@POOL_IS_UNCLOSED
def test_search_over_any_param_round_trips(prepared, tmp_path):
    estimator = KerasEstimator(model=dense(), master=MASTER)
    masters = [MASTER, replace(MASTER, averaging_frequency=2)]
    grid = ParamGridBuilder().addGrid(estimator.master, masters).addGrid(estimator.model, [dense])
    search = TrainValidationSplit(
        estimator=estimator,
        estimatorParamMaps=grid.build(),
        evaluator=MulticlassClassificationEvaluator(),
    )
    fitted = search.fit(prepared)
    fitted.save(str(tmp_path / "fitted"))
    again = TrainValidationSplitModel.load(str(tmp_path / "fitted"))
    assert again.validationMetrics == fitted.validationMetrics
    (expected,), (found,) = (columns(e.transform(prepared), "probability") for e in (fitted, again))
    np.testing.assert_array_equal(found, expected)
    first = again.getEstimatorParamMaps()[1]
    loaded = again.getEstimator()
    assert TrainingMaster.from_dict(first[loaded.master]) == masters[1]
    with pytest.raises(ConfigurationError, match="a saved grid of Params has no models"):
        loaded.fit(prepared, first)


@pytest.mark.thorough
@cases("features", {"featuresCol": "x"}, {"featuresCols": ["a", "b", "c", "d"]})
def test_rows_with_missing_values_raise_are_skipped_or_kept(spark, features):
    from pyspark.ml.linalg import Vectors

    random = np.random.default_rng(3)
    numbers = random.normal(size=(40, 4)).round(3)
    numbers[[3, 7], [0, 2]] = np.nan
    rows = [
        (n, Vectors.dense(row), *map(float, row), float(n % 3)) for n, row in enumerate(numbers)
    ]
    rows[5] = (5, None, *[None] * 4, 0.0)
    rows[9] = (*rows[9][:-1], None)  # its label is missing, and it can be predicted
    frame = spark.createDataFrame(rows, ["id", "x", *"abcd", "label"]).repartition(2)
    estimator = KerasEstimator(model=dense(), master=MASTER, handleInvalid="skip", **features)
    fitted = estimator.fit(frame)
    assert fitted.history.params["epochs"] == 1
    expected = {3, 5, 7}

    kept = fitted.setHandleInvalid("keep").transform(frame)
    assert kept.columns == [*frame.columns, "rawPrediction", "probability", "prediction"]
    rows = {row.id: row for row in kept.collect()}
    assert {n for n, row in rows.items() if row.prediction is None} == expected
    assert {n for n, row in rows.items() if row.probability is None} == expected
    known = [n for n in range(40) if n not in expected]
    direct = fitted.model.predict(numbers[known].astype(np.float32), verbose=0)
    found = np.array([rows[n].probability.toArray() for n in known])
    np.testing.assert_allclose(found, direct, atol=1e-6)

    skipped = fitted.setHandleInvalid("skip").transform(frame)
    assert {row.id for row in skipped.collect()} == set(known)
    with pytest.raises(Exception, match="must have no missing values"):
        fitted.setHandleInvalid("error").transform(frame).collect()


def test_task_of_a_custom_loss_must_be_stated(prepared):
    def distance(labels, outputs):
        return keras.ops.mean(keras.ops.abs(labels - outputs))

    stage = KerasModel(one(1, None, distance))
    with pytest.raises(ConfigurationError, match=r"`task` must be set .*loss='distance'"):
        stage.transform(prepared)
    assert dict(stage.setTask("regression").transform(prepared).dtypes)["prediction"] == "double"


def test_thresholds_choose_the_class(prepared):
    stage = KerasModel(dense()).setThresholds([0.9, 0.1, 0.5])
    probability, found = columns(stage.transform(prepared), "probability", "prediction")
    np.testing.assert_array_equal(found, (probability / [0.9, 0.1, 0.5]).argmax(1))
    with pytest.raises(ConfigurationError, match="`thresholds` must be 3 numbers above 0"):
        stage.setThresholds([0.5, 0.5]).transform(prepared)


@pytest.mark.thorough
@cases(
    "outputs, loss, made",
    (3, keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.ops.softmax),
    (1, keras.losses.BinaryCrossentropy(from_logits=True), keras.ops.sigmoid),
)
def test_logits_become_probabilities(prepared, outputs, loss, made):
    model = one(outputs, None, loss)
    frame = KerasModel(model).transform(prepared)
    raw, probability, prediction, x = columns(
        frame, "rawPrediction", "probability", "prediction", "features"
    )
    logits = model.predict(x.astype(np.float32), verbose=0)
    if outputs == 1:
        assert np.allclose(raw, np.hstack([-logits, logits]), atol=1e-6)
        yes = np.asarray(made(logits))
        assert np.allclose(probability, np.hstack([1 - yes, yes]), atol=1e-6)
    else:
        assert np.allclose(raw, logits, atol=1e-6)
        assert np.allclose(probability, made(logits), atol=1e-6)
    assert np.array_equal(prediction, probability.argmax(1))


@pytest.mark.thorough
def test_regression_predicts_a_double(prepared):
    stage = KerasModel(one(1, None, "mse")).setParams(featuresCols=["a", "b", "c", "d"])
    found = stage.transform(prepared)
    assert dict(found.dtypes)["prediction"] == "double"
    assert "probability" not in found.columns
    (prediction,), x = columns(found, "prediction"), np.stack(columns(prepared, *"abcd"), 1)
    expected = stage.model.predict(x.astype(np.float32), verbose=0)[:, 0]
    assert np.allclose(prediction, expected, atol=1e-6)


def test_no_param_is_silently_ignored(prepared, tmp_path):
    regression = KerasModel(one(1, None, "mse")).setParams(probabilityCol="p")
    with pytest.raises(ConfigurationError, match="`probabilityCol` is for classification"):
        regression.transform(prepared)
    estimator = KerasEstimator(model=dense, featuresCol="features", featuresCols=["a", "b"])
    with pytest.raises(ConfigurationError, match="exclude each other"):
        estimator.fit(prepared)
    for name in ("epochs", "epoch"):
        estimator = KerasEstimator(model=dense, fitOptions={name: 2})
        with pytest.raises(ConfigurationError, match=rf"`fitOptions` takes .*Received: \['{name}"):
            estimator.fit(prepared)
    with pytest.raises(ConfigurationError, match="functions are not saved"):
        KerasEstimator(model=dense).save(str(tmp_path / "function"))
    with pytest.raises(ConfigurationError, match="Received: callbacks="):
        KerasEstimator(model=dense(), callbacks=[keras.callbacks.Callback()]).save(
            str(tmp_path / "callbacks")
        )
    with pytest.raises(ConfigurationError, match="`task` must be one of"):
        KerasEstimator(task="clustering")
    with pytest.raises(ConfigurationError, match=r"output columns must be new.*'prediction'"):
        KerasModel(dense()).transform(prepared.withColumn("prediction", prepared["a"]))
