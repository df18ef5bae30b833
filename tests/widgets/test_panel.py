import gc
import math
import threading
import time
import weakref

import ipywidgets
import numpy as np
import pytest
from tests.waiting import wait_until

from sparkwright_widgets import LivePanel, _live_chart


def panel_threads():
    return [t for t in threading.enumerate() if t.name.startswith("sparkwright-panel")]


@pytest.fixture
def panel(run, comms):
    panel = LivePanel(run)
    yield panel
    panel.close()
    assert panel.wait(5)


def finish(run, state="done"):
    run.set(state=state, message="The end.")


def test_hello_is_answered_with_a_snapshot_then_updates(run, panel):
    for step in range(1, 11):
        run.report(0, step, 1 / step)
    wait_until(lambda: panel.feed.curve.lines().get(0) is not None)
    panel.comm.receive({"kind": "something"})
    panel.comm.receive("text")
    assert panel.comm.custom_messages() == []
    panel.comm.receive({"kind": "hello"})
    kinds = [content["kind"] for content, _ in panel.comm.custom_messages()]
    assert kinds == ["snapshot"]
    run.report(0, 11, 0.5)
    wait_until(lambda: len(panel.comm.custom_messages()) == 2)
    snapshot, append = panel.comm.custom_messages()
    assert append[0] == {"kind": "append", "start": snapshot[0]["count"]}


@pytest.mark.thorough
def test_stop_calls_the_run_once_and_is_shown(run, panel):
    panel.comm.receive({"kind": "stop"})
    assert run.stop_calls == 1
    assert panel.stop_word == "Stopping"
    wait_until(lambda: "Stopping" in panel.texts.get("state", ""))


def test_error_in_stop_is_shown_and_the_button_is_reenabled(run, panel):
    def refuse():
        raise RuntimeError("no <route> to the coordinator")

    run.stop = refuse
    panel.comm.receive({"kind": "stop"})
    assert "RuntimeError: no &lt;route&gt; to the coordinator" in panel.texts.get("problem", "")
    assert "The training is not affected." in panel.texts.get("problem", "")
    assert panel.stop_word == "Stop"


@pytest.mark.thorough
def test_error_of_the_run_is_shown_and_the_panel_keeps_working(run, panel):
    good = run.log.rows
    run.log.rows = lambda start: {}[start]
    wait_until(lambda: "KeyError" in panel.texts.get("problem", ""))
    run.log.rows = good
    run.report(0, 1, 1.0)
    wait_until(lambda: 0 in panel.feed.curve.lines())


def test_thread_ends_with_the_run_and_releases_it(run, panel):
    run.report(0, 1, 1.5)
    wait_until(lambda: 0 in panel.feed.curve.lines())
    for step in range(2, 501):  # between two polls
        run.report(0, step, 1.5)
    finish(run)
    assert panel.wait(5)
    assert panel.has_ended
    assert panel_threads() == []
    assert "Done" in panel.texts.get("state", "")
    assert panel.summary.startswith("done; epoch 1 of 5; loss 1.500;")
    assert panel.stop_word == "Run ended"
    assert panel.feed.curve.lines()[0][-1, 0] == 500
    assert panel._run is None


def test_restarted_run_gets_a_new_curve(run, panel):
    for step in range(1, 31):
        run.report(0, step, 9.0)
    wait_until(lambda: len(panel.feed.curve.lines().get(0, ())) == 30)
    run.log.clear()
    run.report(0, 1, 1.0)
    finish(run)
    assert panel.wait(5)
    assert panel.feed.curve.lines()[0].tolist() == [[1.0, 1.0]]


def heartbeats(panel):
    told = panel.comm.custom_messages(heartbeats=True)
    return sum(content == {"kind": "alive"} for content, _ in told)


@pytest.mark.thorough
def test_heartbeats_continue_during_a_slow_poll_and_end_with_the_run(run, comms, monkeypatch):
    monkeypatch.setattr(_live_chart, "_HEARTBEAT_S", 0.02)
    gate, rows = threading.Event(), run.log.rows
    panel = LivePanel(run)
    run.log.rows = lambda start: gate.wait() and rows(start)
    time.sleep(0.3)  # it looks, and waits for the log
    before = heartbeats(panel)
    wait_until(lambda: heartbeats(panel) > before + 3)
    gate.set()
    finish(run)
    assert panel.wait(5)
    assert panel.has_ended
    after = heartbeats(panel)
    time.sleep(0.1)
    assert heartbeats(panel) == after


def test_panel_without_a_stop_button_never_gets_one(run, comms):
    panel = LivePanel(run, has_stop=False)
    panel.comm.receive({"kind": "stop"})
    finish(run)
    assert panel.wait(5)
    assert panel.stop_word == ""
    panel.close()


@pytest.mark.thorough
def test_closing_ends_the_thread_and_frees_the_widgets(run, comms):
    before = set(ipywidgets.widgets.widget._instances)
    panel = LivePanel(run)
    panel.close()
    assert panel.wait(5)
    comms.clear()  # a comm knows its widget
    reference = weakref.ref(panel)
    del panel
    gc.collect()
    assert reference() is None
    assert set(ipywidgets.widgets.widget._instances) - before == set()


def test_static_copy_accompanies_the_live_view(run, panel):
    for step in range(1, 21):
        run.report(0, step, 1 / step)
        run.report(1, step, 2 / step)
    finish(run)
    panel.wait(5)
    bundle = panel._repr_mimebundle_()
    assert bundle["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.model_id
    html = bundle["text/html"]
    assert '<svg role="img" aria-label="Last loss up to each minibatch. Loss curve of 2' in html
    assert "LeNet on handwritten digits" in html
    assert "6,123" in html
    assert "http://" not in html.replace("http://www.w3.org/", "")
    assert bundle["text/plain"].startswith("LeNet on handwritten digits: done; epoch 1 of 5")


def test_immediate_copy_shows_the_curve_so_far(run, comms):
    run.report(0, 1, 1.0)
    rows = run.log.rows
    run.log.rows = lambda start: (time.sleep(0.3), rows(start))[1]
    panel = LivePanel(run)
    assert "<svg" in panel._repr_mimebundle_()["text/html"]
    panel.close()
    assert panel.wait(5)


@pytest.mark.parametrize("losses", [[], [1.0], [math.nan], [0.0, math.inf, 1.0], [-1.0, -2.0]])
def test_any_curve_can_be_kept(run, panel, losses):
    for step, loss in enumerate(losses, start=1):
        run.report(0, step, loss)
    finish(run)
    panel.wait(5)
    html = panel._repr_mimebundle_()["text/html"]
    assert ("<svg" in html) == bool(losses)
    assert ("not finite" in html) == (not np.isfinite(losses).all())


def labels(panel):
    return [choice["label"] for choice in panel.quantities]


def test_curve_can_be_selected_once_it_has_a_value(run, panel):
    assert labels(panel) == ["loss"]
    run.report(0, 5, 1.0, learning_rate=1e-3, accuracy=0.5, update_ratio=2e-3)
    finish(run)
    assert panel.wait(5)
    assert labels(panel) == [
        *("loss", "accuracy", "learning rate", "update to parameters (ratio)"),
        "throughput (examples/s)",
    ]
    ratio = panel.quantities[3]
    assert ratio["log"]
    assert ratio["band"]["low"] < ratio["band"]["target"] < ratio["band"]["high"]
    assert "CS231n" in ratio["note"]
    kept = panel._repr_mimebundle_()["text/html"]
    assert "accuracy 0.5; learning rate 0.001; update to parameters (ratio) 0.002;" in kept
