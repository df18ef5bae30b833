import threading
from types import SimpleNamespace

from tests.cases import cases
from tests.widgets.evaluation_panel import found

import sparkwright.spark
from sparkwright.networks import PRESETS, NetworkSpec
from sparkwright.timeline import SpanStore
from sparkwright_widgets import TimelineView
from sparkwright_widgets._evaluation_panel import EvaluationPanel
from sparkwright_widgets._master_picker import TrainingMasterPicker, _picker
from sparkwright_widgets._partition_preview import PartitionPreview, _preview


def evaluation(work, monkeypatch):
    network = found.Network()
    monkeypatch.setattr(network, "do_evaluation", work)
    panel = EvaluationPanel(network, found.Data())
    return panel, panel.evaluate_button


def partitions(work, monkeypatch):
    monkeypatch.setattr(_preview, "DistributedDataSet", SimpleNamespace)
    monkeypatch.setattr(sparkwright.spark, "survey_partitions", work)
    preview = PartitionPreview(SimpleNamespace(is_counted=False), workers=2)
    return preview, preview.count_button


def measurement(work, monkeypatch):
    monkeypatch.setattr(_picker, "measure_step", work)
    monkeypatch.setattr(NetworkSpec, "build", lambda self: "a model")
    picker = TrainingMasterPicker()
    picker.set_context(network=PRESETS["mlp"].make(), slots=2)
    return picker, picker.measure_button


class Run:
    """Has a timeline that takes `work` to read."""

    work = staticmethod(lambda: SpanStore(workers=1).timeline())
    timeline = property(lambda self: self.work())


def timeline(work, monkeypatch):
    view = TimelineView(Run())
    monkeypatch.setattr(Run, "work", staticmethod(work))
    return view, view.button


@cases("make", evaluation, partitions, measurement, timeline)
def test_button_is_disabled_until_its_task_fails_visibly(comms, make, monkeypatch):
    may_fail = threading.Event()

    def work(*_given, **_options):
        assert may_fail.wait(30)
        raise OSError("no <host>")

    part, button = make(work, monkeypatch)
    shown = part._repr_mimebundle_().get("text/html")
    button.click()
    assert button.disabled
    may_fail.set()
    assert part.settle()
    assert "no &lt;host&gt;" in part.error.value
    assert 'role="alert"' in part.error.value
    assert part._repr_mimebundle_().get("text/html") == shown
    assert not button.disabled
