import threading
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst
from tests.cases import cases
from tests.spark.helpers import weights
from tests.support.in_process import fit
from tests.waiting import wait_until
from tests.workers.test_callbacks import blobs, master_of, network

import sparkwright as sw
from sparkwright.errors import ConfigurationError, NetworkError
from sparkwright.masters.histograms import HistogramSchedule
from sparkwright.mesh.framing import Message
from sparkwright.runs.histograms import RunHistograms
from sparkwright.workers._histogram_taker import HistogramTaker
from sparkwright.workers._wire import pack
from sparkwright.workers.histograms import Histogram, HistogramsTaken, variable_names

__all__ = ["blobs"]  # the fixture
ALL = sw.Histograms(every=1, of=("weights", "updates", "activations"), bins=8)


pytestmark = pytest.mark.usefixtures("in_process")

arrays = npst.arrays(
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 200),
    elements=st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf, -np.inf]),
)


@given(values=arrays, bins=st.integers(1, 70))
def test_every_finite_value_is_counted_in_its_bin(values, bins):
    found = Histogram.of(values, bins)
    finite = values[np.isfinite(values)].astype(np.float64)
    assert found.counts.sum() == len(finite)
    assert found.not_finite == len(values) - len(finite)
    if len(finite):
        assert (found.low, found.high) == (finite.min(), finite.max())
        assert found.mean == pytest.approx(finite.mean(), abs=1e-6)
        edges = found.edges
        for place in np.flatnonzero(found.counts):
            slack = 1e-9 * (found.high - found.low) + 1e-12
            inside = (finite >= edges[place] - slack) & (finite <= edges[place + 1] + slack)
            assert inside.sum() >= found.counts[place] or found.low == found.high


def test_large_array_is_sampled_evenly():
    values = np.repeat(np.arange(4, dtype=np.float32), 1 << 19)
    found = Histogram.of(values, 4)
    assert found.counts.sum() <= 1 << 18
    assert np.ptp(found.counts) < 0.05 * found.counts.sum()


def test_histograms_round_trip_through_a_message():
    taken = moment(7)
    back = HistogramsTaken.received(as_received(*taken.message))
    assert back.step == 7
    (before,), (after,) = taken.found.values(), back.found.values()
    np.testing.assert_array_equal(after.counts, before.counts)
    with pytest.raises(NetworkError, match=r"expected histograms\. Received: a int"):
        HistogramsTaken.received(as_received(*pack(7, own_code=False)))


def as_received(fields, payload):
    content = bytearray(b"".join(bytes(memoryview(piece)) for piece in payload))
    return Message(kind="histograms", fields=fields, payload=content)


def test_histograms_are_due_at_intervals_on_request_and_after_a_rewind():
    schedule = HistogramSchedule(100)
    assert schedule.is_due(5, asked=False)
    schedule.record(5)
    assert not schedule.is_due(5, asked=False)
    assert not schedule.is_due(104, asked=False)
    assert schedule.is_due(104, asked=True)
    assert schedule.is_due(105, asked=False)
    assert schedule.is_due(4, asked=False)
    assert not HistogramSchedule(None).is_due(1000, asked=False)
    assert HistogramSchedule(None).is_due(1, asked=True)


def test_lowest_worker_of_the_group_handles_a_request_and_others_drop_it():
    asked = threading.Event()
    settings = SimpleNamespace(worker=1, histograms=None)
    control, replica = SimpleNamespace(histograms_asked=asked), SimpleNamespace(model=network())
    taker = HistogramTaker(settings, replica, None, control, None)
    for workers, is_due in (((0, 1), False), ((1, 2), True)):
        asked.set()
        group = SimpleNamespace(seats=[SimpleNamespace(worker=worker) for worker in workers])
        assert taker.is_due(group, 5) is asked.is_set() is is_due


def trained(blobs, kind, workers, histograms):
    options = {"minibatches_per_message": 1} if kind == "sharing" else {}
    model = network()
    master = master_of(kind, workers, **options)
    return model, fit(model, master, blobs, epochs=2, histograms=histograms)


@pytest.mark.thorough
@cases("kind, workers", ("averaging", 2), ("sharing", 1))
def test_histograms_do_not_change_training_bits(blobs, kind, workers):
    plain, _ = trained(blobs, kind, workers, None)
    model, run = trained(blobs, kind, workers, ALL)
    np.testing.assert_array_equal(weights(model), weights(plain))
    assert run.histograms.count >= 4
    assert 0 < run.histograms.cost_s < run.seconds
    assert run.histograms.notes == ()


@cases("kind", "averaging", "sharing")
def test_weights_and_updates_match_the_network(blobs, kind):
    """Activations of the first examples, too."""
    model, run = trained(blobs, kind, 1, ALL)
    found = run.histograms
    assert found.names["weights"] == found.names["updates"] == tuple(variable_names(model))
    for name, variable in zip(variable_names(model), model.trainable_variables, strict=True):
        moments, values = found.of(name), variable.numpy()
        steps = [taken.step for taken, _ in moments]
        assert steps == sorted(set(steps))
        assert steps[-1] == len(run.history)
        last = moments[-1][1]
        assert last.mean == pytest.approx(values.mean(), abs=1e-6)
        assert (last.low, last.high) == pytest.approx((values.min(), values.max()), abs=1e-6)
        # What the averagings changed adds up to where the weights went.
        means = [histogram.mean for _, histogram in moments]
        changes = [histogram.mean for _, histogram in found.of(name, "updates")]
        np.testing.assert_allclose(np.diff(means), changes[1:], atol=1e-6)
    values = blobs.features["features"][:10]
    for layer in model.layers:
        values = np.asarray(layer(values))
        last = found.of(layer.name, "activations")[-1][1]
        assert (last.low, last.high) == pytest.approx((values.min(), values.max()), abs=1e-5)
        assert last.counts.sum() == values.size


@pytest.mark.thorough
@cases("kind", "averaging", "sharing")
def test_histograms_are_taken_on_request_in_a_run_without_them(blobs, kind):
    with sw.ParallelWrapper(network(), master_of(kind, 2), cores_per_worker=1) as wrapper:
        run = wrapper.start(blobs, epochs=100_000, display=False)
        wait_until(lambda: run.request_histograms() and run.histograms.count, 60)
        run.stop()
        run.wait(60)
    assert set(run.histograms.names) == {"weights", "updates"}
    assert run.request_histograms() is False


class Odd(keras.Model):
    """A subclassed network."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(3, activation="softmax", name="dense")

    def call(self, x):
        return self.dense(x)


def odd():
    model = Odd()
    model(np.zeros((1, 4), np.float32))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    return model


def test_network_without_a_graph_has_weights_and_a_note_for_activations(blobs):
    run = fit(odd, master_of("averaging"), blobs, epochs=1, histograms=ALL)
    assert set(run.histograms.names) == {"weights", "updates"}
    (note,) = run.histograms.notes
    assert "sequential or functional network. This one is a Odd" in note


def test_layer_failing_in_inference_adds_a_note_and_the_run_continues(blobs, monkeypatch):
    def fails(*_):
        raise RuntimeError("no memory")

    monkeypatch.setattr("sparkwright.workers._replica_base.Replica.outputs", fails)
    run = fit(network(), master_of("averaging"), blobs, epochs=1, histograms=ALL)
    assert run.status.state == "done"
    assert run.histograms.notes == ("Some could not be taken. RuntimeError: no memory",)
    assert "weights" in run.histograms.names


def test_selected_layers_and_intervals_are_taken_and_recorded(blobs):
    model = network()
    name = model.layers[1].name
    chosen = sw.Histograms(every=4, of=("weights",), layers=(name,))
    run = fit(model, master_of("averaging"), blobs, epochs=2, histograms=chosen)
    assert run.histograms.names == {"weights": (f"{name}/kernel", f"{name}/bias")}
    assert [t.step for t, _ in run.histograms.of(f"{name}/kernel")] == [1, 5, 9]
    assert run.configuration["histograms"] == chosen.to_dict()


@cases(
    "made, problem",
    (lambda: sw.Histograms(of=("weights", "gradients")), "one or more of 'weights', 'updates'"),
    (lambda: sw.Histograms(of=()), "one or more of"),
    (lambda: {"every": 5}, "must be a Histograms or None"),
    (lambda: sw.Histograms(layers=("dense", "nothing")), "Received: .*nothing"),
)
def test_invalid_histograms_are_rejected_before_training(blobs, made, problem):
    with pytest.raises(ConfigurationError, match=problem):
        fit(network(), master_of("averaging"), blobs, epochs=1, histograms=made())


def moment(step, *, bins=64, names=1):
    histogram = Histogram.of(np.full(5, float(step)), bins)
    found = {("weights", f"layer_{n}/kernel"): histogram for n in range(names)}
    return HistogramsTaken(step=step, epoch=1, minibatches=1, seconds=0.5, found=found)


@cases("names, bins, most", (1, 64, 256), (400, 512, 20))
def test_history_is_bounded_and_keeps_the_first_and_last_histograms(names, bins, most):
    found = RunHistograms()
    for step in range(1, 300 if names == 1 else 60):
        found.add(moment(step, bins=bins, names=names))
        assert len(found) <= most
        steps = [taken.step for taken, _ in found.of("layer_0/kernel")]
        assert (steps[0], steps[-1]) == (1, step)
    assert found.count == step
    assert found.cost_s == step / 2
    assert len(steps) > most / 4


def test_histograms_of_lost_work_are_dropped_and_figures_have_a_table():
    found = RunHistograms()
    for step in (10, 20, 30, 20):
        found.add(moment(step))
    assert [taken.step for taken, _ in found.of("layer_0/kernel")] == [10, 20]
    figure = found.figure("layer_0/kernel")
    assert "minibatches 10 to 20" in figure.caption
    assert figure.table.rows[-1] == ["20", "1", "20.00", "0", "20.00", "20.00", "0"]
    with pytest.raises(ConfigurationError, match=r"among \('layer_0/kernel',\) for"):
        found.figure("layer_1/kernel")
