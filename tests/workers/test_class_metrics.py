import keras
import numpy as np
import pytest
from sklearn import metrics as sklearn
from tests.spark.helpers import dense
from tests.support.in_process import fit

import sparkwright as sw
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec, describe_model
from sparkwright.networks.metrics import F1, MacroAUC, MacroPrecision, MacroRecall

pytestmark = pytest.mark.usefixtures("in_process")
AVERAGING = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=5, seed=1)
SHARING = sw.SharedTrainingMaster(workers=2, batch_size_per_worker=5, seed=1)


def scored(classes, rows=200):
    """Labels, of which two classes are rare or missing, and probabilities."""
    random = np.random.default_rng(classes)
    labels = np.minimum(random.geometric(0.5, rows) - 1, classes - 2)
    scores = random.dirichlet(np.ones(classes), rows) + np.eye(classes)[labels] / 3
    return labels, (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("one_hot", [False, True])
def test_multiclass_metrics_equal_scikit_learn(one_hot):
    labels, scores = scored(5)
    given = np.eye(5)[labels] if one_hot else labels[:, None]
    found = {}
    for kind in (MacroPrecision, MacroRecall, F1, MacroAUC):
        metric = kind()
        for part in (slice(0, 150), slice(150, None)):
            metric.update_state(given[part], scores[part])
        found[metric.name] = float(metric.result())
    predicted = scores.argmax(axis=1)
    assert found["f1"] == pytest.approx(
        sklearn.f1_score(labels, predicted, average="macro"), abs=1e-6
    )
    evaluation = sw.evaluation.Evaluation().updated(labels, scores)
    assert found["macro_precision"] == pytest.approx(evaluation.precision(), abs=1e-6)
    assert found["macro_recall"] == pytest.approx(evaluation.recall(), abs=1e-6)
    areas = [sklearn.roc_auc_score(labels == c, scores[:, c]) for c in range(4)]
    assert found["macro_auc"] == pytest.approx(np.mean(areas), abs=2e-3)


def test_f1_of_one_output_equals_weighted_scikit_learn_f1_of_class_1():
    labels, scores = scored(2)
    labels = np.random.default_rng(1).integers(0, 2, 200)
    weights = np.arange(200) % 3
    metric = F1()
    metric.update_state(labels, scores[:, 1:], weights)
    expected = sklearn.f1_score(labels, scores[:, 1] > 0.5, sample_weight=weights)
    assert float(metric.result()) == pytest.approx(expected, abs=1e-6)


def test_sequence_steps_are_rows():
    labels, scores = scored(4)
    steps, whole = MacroAUC(), MacroAUC()
    steps.update_state(labels.reshape(20, 10), scores.reshape(20, 10, 4), np.ones(20))
    whole.update_state(labels, scores)
    assert float(steps.result()) == pytest.approx(float(whole.result()))


@pytest.mark.thorough
def test_metric_of_all_workers_equals_that_of_all_validation_data(blobs):
    # Sorted by class: no worker sees all classes, so means over workers would be wrong.
    held_back = blobs.take(np.argsort(blobs.labels["labels"], kind="stable")[:100])
    model = dense()
    metrics = [F1(), MacroAUC(), MacroPrecision(), MacroRecall()]
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=metrics)
    run = fit(model, AVERAGING, blobs, validation=held_back, epochs=2)
    found = run.status.validation[-1].metrics
    scores = model.predict(held_back.features["features"], verbose=0)
    for kind in (F1, MacroAUC, MacroPrecision, MacroRecall):
        metric = kind()
        metric.update_state(held_back.labels["labels"], scores)
        assert found[metric.name] == pytest.approx(float(metric.result()), abs=1e-5)
    history = run.epoch_history.history
    assert all(0 < history[name][-1] <= 1 for name in ("f1", "macro_auc"))


@pytest.mark.thorough
def test_binary_keras_metrics_equal_those_of_all_data(blobs):
    data = sw.DataSet(blobs.features, (blobs.labels["labels"] == 1).astype(np.int32))
    held_back = data.take(np.argsort(data.labels["labels"], kind="stable"))
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    names = ["auc", "precision", "recall"]
    model.compile("sgd", "binary_crossentropy", metrics=[*names, F1()])
    run = fit(model, SHARING, data, validation=held_back, epochs=2)
    found = run.status.validation[-1].metrics
    x, y = held_back.features["features"], held_back.labels["labels"]
    expected = model.evaluate(x, y, verbose=0, return_dict=True)
    for name in (*names, "f1"):
        assert found[name] == pytest.approx(expected[name], abs=1e-5)


def test_metrics_are_selected_by_name_written_as_code_and_saved(tmp_path):
    loss, metrics = "sparse_categorical_crossentropy", ("accuracy", "macro_auc", "f1")
    spec = NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="features", options={"shape": [4]}),
            LayerSpec(kind="Dense", name="out", options={"units": 3, "activation": "softmax"}),
        ),
        outputs=(OutputSpec(layer="out", loss=loss, metrics=metrics),),
    )
    assert spec.analysis.ok
    model = spec.build()
    assert describe_model(model).outputs == spec.outputs
    code = spec.to_code()
    assert 'metrics=["accuracy", class_metrics.MacroAUC(), class_metrics.F1()]' in code
    made = {}
    exec(code, made)
    sw.save_model(made["model"], str(tmp_path / "m.keras"))
    loaded = sw.load_model(str(tmp_path / "m.keras"))
    assert describe_model(loaded).outputs == spec.outputs
