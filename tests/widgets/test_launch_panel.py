import threading
from dataclasses import replace

import pytest

from sparkwright import Experiment
from sparkwright.experiments import EarlyStoppingOptions, ReduceLROnPlateauOptions
from sparkwright_widgets._launch_panel import LaunchPanel


@pytest.fixture
def begun(run):
    """What was asked to begin, and a gate that holds it up."""

    class Begun:
        def __init__(self):
            self.asked = []
            self.gate = threading.Event()
            self.gate.set()

        def __call__(self, panel, resume):
            self.asked.append((panel.experiment.epochs, resume))
            assert self.gate.wait(10)
            return run

    return Begun()


@pytest.fixture
def panel(begun, comms):
    panel = LaunchPanel(begin=begun)
    yield panel
    panel.settle(5)
    panel.close()


def typed(panel, *path):
    *path, text = path
    panel.run_form.field(*path).control.value = text


def test_start_button_starts_a_run_and_shows_it(panel, begun, run):
    typed(panel, "epochs", "3")
    told = []
    panel.on_run(told.append)
    panel.start_button.click()
    assert panel.settle(5)
    assert begun.asked == [(3, None)]
    assert told == [run]
    assert panel.live in panel.place.children
    assert panel.start_button.disabled
    assert not panel.stop_button.disabled


def test_stop_during_startup_stops_the_run_once_started(panel, begun, run):
    begun.gate.clear()
    panel.start_button.click()
    typed(panel, "epochs", "7")  # which leaves the buttons unchanged
    assert panel.start_button.disabled
    assert not panel.stop_button.disabled
    panel.stop_button.click()
    assert panel.stop_button.description == "Stopping"
    begun.gate.set()
    assert panel.settle(5)
    assert run.stop_calls == 1


def test_start_function_can_check_whether_stop_was_pressed(panel, begun, run):
    def begin(panel, _resume):
        panel.stop()
        panel.check_not_stopped()
        return run

    panel._begin = begin
    panel.start_button.click()
    assert panel.settle(5)
    assert "Stopped before the run started" in panel.doing.value
    assert panel.error.value == ""
    assert panel.run is None
    assert not panel.start_button.disabled


def test_end_of_the_run_enables_start_and_notifies_listeners(panel, run):
    ended = threading.Event()
    panel.on_end(lambda _run: ended.set())
    panel.start_button.click()
    assert panel.settle(5)
    run.set(state="done")
    assert ended.wait(5)
    assert not panel.start_button.disabled
    assert panel.stop_button.disabled


def test_failed_start_is_shown_and_start_is_enabled_again(panel, begun, run):
    def fail(_panel, _resume):
        raise ValueError("no such <file>")

    panel._begin = fail
    panel.start_button.click()
    assert panel.settle(5)
    assert "no such &lt;file&gt;" in panel.error.value
    assert not panel.start_button.disabled


def test_disabled_start_shows_the_reason(panel, begun):
    panel.set_ready("Row 3 (flatten): receives 4 x 4.")
    assert panel.start_button.disabled
    assert "Row 3 (flatten)" in panel.why.value
    panel.start()
    assert begun.asked == []
    panel.set_ready(None)
    assert not panel.start_button.disabled
    assert panel.why.value == ""


def test_invalid_field_disables_start_until_corrected(panel):
    typed(panel, "epochs", "0")
    assert "epochs=0" in panel.run_form.field("epochs").alert.value
    assert panel.start_button.disabled
    typed(panel, "epochs", "4")
    assert panel.experiment.epochs == 4
    assert not panel.start_button.disabled


def test_early_stopping_keeps_the_options_that_are_not_edited(panel):
    given = EarlyStoppingOptions(patience=2, monitor="val_accuracy")
    panel.experiment = Experiment(early_stopping=given)
    assert panel.experiment.early_stopping == given
    typed(panel, "early_stopping", "patience", "4")
    assert panel.experiment.early_stopping == replace(given, patience=4)
    typed(panel, "early_stopping", "patience", "-1")
    assert "patience=-1" in panel.problem
    typed(panel, "early_stopping", False)
    assert panel.experiment.early_stopping is None
    assert panel.problem is None


def test_cell_and_button_do_not_start_two_runs(panel, begun):
    begun.gate.clear()
    cell = threading.Thread(target=panel.start_now)
    cell.start()
    while not begun.asked:
        cell.join(0.01)
    panel.start_button.click()
    begun.gate.set()
    cell.join(5)
    assert panel.settle(5)
    assert len(begun.asked) == 1


def test_failing_listener_is_reported_and_does_not_block_others(panel, run):
    ended = threading.Event()

    def fail(_run):
        raise ValueError("listener")

    panel.on_run(fail)
    panel.on_end(lambda _run: ended.set())
    assert panel.start_now() is run
    assert "listener" in panel.error.value
    run.set(state="done")
    assert ended.wait(5)


def test_plateau_callback_is_configured_in_the_form(panel):
    typed(panel, "reduce_lr_on_plateau", True)
    typed(panel, "reduce_lr_on_plateau", "patience", "2")
    assert panel.experiment.callbacks == [ReduceLROnPlateauOptions(patience=2)]
    typed(panel, "reduce_lr_on_plateau", "factor", "1")
    assert "less than 1" in panel.problem


def test_resume_requires_a_checkpoint_and_passes_it_on(panel, begun):
    assert panel.resume_button.disabled
    panel.resume_form.fields["resume"].control.value = "hdfs://n/checkpoints"
    panel.resume_button.click()
    assert panel.settle(5)
    assert begun.asked == [(5, "hdfs://n/checkpoints")]
