from types import SimpleNamespace

import keras
import pytest
from tests.runs.recorded import train as record_run
from tests.spark.helpers import dense
from tests.support.in_process import fit as train
from tests.waiting import wait_until
from tests.workers.test_training import averaging

import sparkwright as sw
from sparkwright.runs.begin import _compiled

pytestmark = pytest.mark.usefixtures("in_process")


@pytest.fixture
def fit(blobs):
    def fit_blobs(**options):
        return train(dense(), averaging(), blobs, validation=blobs, epochs=2, **options)

    return fit_blobs


@pytest.mark.thorough
def test_training_is_stored_with_the_settings_of_its_network(fit, monkeypatch, tmp_path):
    monkeypatch.setenv("SPARKWRIGHT_RUNS", str(tmp_path / "runs.sqlite"))
    record_run(sw.RunStore(), name="stored")  # by an earlier session
    earlier = sw.RunStore().runs()
    run = fit(name="stored")
    assert run.name == "stored-2"
    wait_until(lambda: sw.RunStore().runs() != earlier and sw.RunStore().runs()[0].has_ended)
    found = sw.RunStore().runs()[0]
    assert (found.name, found.state, found.epoch) == (run.name, "done", 2)
    history = run.epoch_history.history
    assert found.metrics == pytest.approx({name: values[-1] for name, values in history.items()})
    assert found.status.validation == run.status.validation
    assert found.configuration["optimizer"]["learning_rate"] > 0
    assert found.configuration["loss"]
    assert found.configuration["master"] == run.configuration["master"]


def test_functions_among_losses_are_stored_by_their_names():
    loss = {"a": dense, "b": ["mse", keras.losses.MeanSquaredError()]}
    compiled = _compiled(SimpleNamespace(loss=loss))
    assert compiled == {"loss": {"a": "dense", "b": ["mse", "mean_squared_error"]}}


@pytest.mark.thorough(but=["off-options0"])
@pytest.mark.parametrize(("variable", "options"), [("off", {}), ("", {"record": False})])
def test_training_is_not_stored_when_that_is_off(fit, monkeypatch, tmp_path, variable, options):
    monkeypatch.setenv("SPARKWRIGHT_RUNS", variable)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run = fit(**options)
    assert run.status.state == "done"
    assert not list(tmp_path.iterdir())
