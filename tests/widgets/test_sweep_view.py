import threading
from types import SimpleNamespace

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.sweeps._study import open_study
from sparkwright_widgets import SweepView
from sparkwright_widgets._sweep_view import parallel_coordinates

SPACE = {
    "rate": FloatDistribution(1e-4, 1, log=True),
    "kind": CategoricalDistribution(["a<b", "c"]),
}


class GoingOn(sw.Sweep):
    """A sweep whose trials a test runs."""

    def _start(self, target):
        return threading.Thread()

    def end(self):
        self._over.set()


@pytest.fixture
def sweep():
    study = open_study(None, "shown", maximizes=False, seed=1)
    objective = SimpleNamespace(monitor="val_loss")
    return GoingOn(study, objective, trials=4, parallel=1, prints=False)


@pytest.fixture
def view(sweep):
    shown = SweepView(sweep)
    yield shown
    shown.close()
    shown._thread.join(5.0)
    assert not shown._thread.is_alive()


def told(sweep, *values):
    for value in values:
        trial = sweep.study.ask(SPACE)
        trial.report(value, 3)
        sweep.study.tell(trial, value)


@pytest.mark.thorough
def test_trials_are_shown_during_the_sweep(sweep, view):
    assert "Trials are training: 0 of 4 trials" in view.body.value
    assert "<svg" not in view.body.value
    told(sweep, 0.5, 0.25)
    wait_until(lambda: "2 of 4 trials" in view.body.value, 20)
    assert "Best val_loss 0.2500, of trial 1" in view.body.value
    assert view.body.value.count("<polyline") == 2
    failed = sweep.study.ask(SPACE)
    failed.set_user_attr("error", "ValueError: <script>")
    sweep.study.tell(failed, state=TrialState.FAIL)
    ends = []
    view.on_end(lambda: ends.append(view.body.value))
    sweep.end()
    view.wait(20)
    assert ends == [view.body.value]
    assert "Done: 3 of 4 trials" in ends[0]
    assert "ValueError: &lt;script&gt;" in ends[0]
    assert "<script>" not in ends[0]
    assert view.button.disabled
    bundle = view._repr_mimebundle_()
    assert "Best val_loss 0.2500" in bundle["text/plain"]
    assert "<polyline" in bundle["text/html"]


def test_stop_ends_the_sweep(sweep, view):
    view.button.click()
    assert sweep.state == "stopping"
    assert view.button.disabled
    assert "Stopping" in view.body.value


def test_best_trial_is_drawn_bold_and_last(sweep):
    told(sweep, 0.5, 0.25, 0.75)
    svg = parallel_coordinates(sweep.study.trials, "val_loss", 1)
    lines = svg.split("<polyline")[1:]
    assert ["2.6" in line for line in lines] == [False, False, True]
    assert "trial 1: val_loss 0.2500" in lines[-1]
    assert "a&lt;b" in svg
    assert "a<b" not in svg
    # The score is the last axis: 0.25 at its foot.
    assert lines[-1].split('points="')[1].split('"')[0].split()[-1] == "680.0,220.0"


def test_trials_with_other_hyperparameters_share_the_figure(sweep):
    trials = [
        optuna.create_trial(value=v, params=p, distributions={n: SPACE[n] for n in p})
        for v, p in [(1.0, {"rate": 0.1}), (1.0, {"kind": "c"}), (float("inf"), {"rate": 0.2})]
    ]
    assert parallel_coordinates(trials, "loss", None).count("<polyline") == 2
    assert parallel_coordinates([], "loss", None) == ""


def test_only_sweeps_can_be_shown():
    with pytest.raises(sw.ConfigurationError, match="Received: a str"):
        SweepView("sweep")
