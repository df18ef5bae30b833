from types import SimpleNamespace

import numpy as np
import pytest
from tests.waiting import wait_until

from sparkwright.errors import ConfigurationError
from sparkwright.runs.histograms import RunHistograms
from sparkwright.workers.histograms import Histogram, HistogramsTaken
from sparkwright_widgets import HistogramView
from sparkwright_widgets._histogram_view import histogram_blocks


def taken(step, *, names=("a/kernel", "b/kernel"), notes=()):
    random = np.random.default_rng(step)
    found = {
        (what, name): Histogram.of(random.normal(step / 100, 0.1, 500), 32)
        for what in ("weights", "updates")
        for name in names
    }
    return HistogramsTaken(
        step=step, epoch=1, minibatches=5, seconds=0.002, found=found, notes=notes
    )


class GoingOn:
    id, finished, asks = "run-7", False, True

    def __init__(self):
        self.histograms, self.requests = RunHistograms(), 0

    def request_histograms(self):
        self.requests += 1
        return self.asks


@pytest.fixture
def run():
    return GoingOn()


@pytest.fixture
def view(run):
    shown = HistogramView(run)
    yield shown
    shown.close()
    shown._thread.join(5.0)
    assert not shown._thread.is_alive()


@pytest.mark.thorough
def test_histograms_taken_during_the_run_are_shown(run, view):
    assert "No histograms yet" in view.picture.value
    run.histograms.add(taken(5))
    wait_until(lambda: "Weights a/kernel after minibatch 5" in view.picture.value, 20)
    assert "<svg" in view.picture.value
    run.finished = True
    run.histograms.add(taken(105))
    view._thread.join(20.0)
    assert "minibatches 5 to 105" in view.picture.value
    assert "Taken 2 times" in view.cost.value
    assert view.button.disabled


def test_selected_variable_is_kept_when_histograms_are_added(run, view):
    run.histograms.add(taken(5))
    view.refresh()
    view.what.value = "updates"
    view.layer.value = "b/kernel"
    assert "Changes in b/kernel" in view.picture.value
    run.histograms.add(taken(105, names=("a/kernel", "b/kernel", "c/kernel")))
    view.refresh()
    assert (view.what.value, view.layer.value) == ("updates", "b/kernel")
    assert "minibatches 5 to 105" in view.picture.value
    kept = view._repr_mimebundle_()
    assert "<svg" in kept["text/html"]
    assert "minibatches 5 to 105" in kept["text/plain"]


def test_take_now_requests_histograms_and_reports_if_no_worker_trains(run, view):
    view.button.click()
    assert run.requests == 1
    assert view.doing.value == ""
    run.asks = False
    view.button.click()
    assert "No worker is training" in view.doing.value


@pytest.mark.parametrize("source", [None, 7, SimpleNamespace(histograms="none")])
def test_values_that_are_not_runs_raise(source):
    with pytest.raises(ConfigurationError, match="must be a training run"):
        HistogramView(source)


@pytest.mark.thorough
def test_report_shows_samples_of_each_kind_and_their_cost(run):
    assert histogram_blocks(run) == []
    run.histograms.add(taken(5, names=[f"layer_{n}/kernel" for n in range(8)], notes=("None.",)))
    (block,) = histogram_blocks(run)
    assert block.html.count("<svg") == 12
    assert "4 more are in" in block.html
    assert "training waited 0.0 s for that. None." in block.text
    assert len(block.html) < 1_000_000
