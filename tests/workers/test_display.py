import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import dense, numbered

import sparkwright as sw
from sparkwright.runs import begin

pytestmark = pytest.mark.usefixtures("in_process")


def train(**options):
    master = sw.ParameterAveragingTrainingMaster(workers=1, batch_size_per_worker=10)
    with sw.ParallelWrapper(dense(), master, workers=1, cores_per_worker=1) as wrapper:
        run = wrapper.start(numbered(40), epochs=2, **options)
        run.wait(120)
    return run


@cases("display, shown", (None, True), (True, True), (False, False))
def test_progress_is_printed_outside_notebooks_unless_disabled(display, shown, capsys):
    run = train(display=display)
    lines = capsys.readouterr().out.splitlines()
    expected = [f"Run {run.name}: ", "Epoch 1/2 - 4/4 - ", "Epoch 2/2 - 4/4 - "] if shown else []
    assert len(lines) == len(expected)
    assert all(map(str.startswith, lines, expected))


def test_notebook_shows_the_panel_and_no_lines(capsys, monkeypatch):
    panels = []
    monkeypatch.setattr(begin, "in_notebook", lambda: True)
    monkeypatch.setattr(begin, "show", panels.append)
    assert panels == [train()]
    assert capsys.readouterr().out == ""


@cases(
    "labels, loss, message",
    (np.arange(40) % 10, "sparse_categorical_crossentropy", "Received: labels from 0 to 9"),
    (np.arange(40) % 3 + 0.5, "sparse_categorical_crossentropy", "Received: 0.5. Number"),
    (np.arange(40) % 3 - 1, "sparse_categorical_crossentropy", "labels from -1 to 1"),
    (np.eye(3)[np.arange(40) % 3], "sparse_categorical_crossentropy", "one-hot ones"),
    (np.eye(10)[np.arange(40) % 10], "categorical_crossentropy", r"Received: \(10\)"),
    (np.zeros(40), "mse", r"\(3\) an example, for the loss 'mean_squared_error'"),
    (np.zeros((40, 1)), "mae", r"\(3\) an example, for the loss 'mean_absolute_error'"),
    (np.zeros(40), "binary_crossentropy", r"Received: \(\)"),
    (np.zeros((40, 2, 3)), "mse", r"Received: \(2, 3\)"),
)
def test_invalid_labels_are_rejected_before_a_run_begins(labels, loss, message):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", loss)
    features, master = np.zeros((40, 4), np.float32), sw.ParameterAveragingTrainingMaster()
    data = sw.DataSet(features, labels)
    with pytest.raises(sw.DataError, match=message):
        sw.SparkNetwork(None, model, master).start(features, labels)
    with (
        sw.ParallelWrapper(model, master, workers=1) as wrapper,
        pytest.raises(sw.DataError, match=message) as caught,
    ):
        wrapper.start(data, display=False)
    assert "\n" not in str(caught.value)
    assert wrapper.history is None


def test_unbuilt_network_raises_a_configuration_error():
    from sparkwright.networks import ModelDefinition

    model = keras.Sequential([keras.layers.Dense(3)])
    assert "not built" in repr(sw.SparkNetwork(None, model))
    with pytest.raises(sw.ConfigurationError, match=r"must be built .* Received: .* `keras.Input`"):
        ModelDefinition.of(model)
