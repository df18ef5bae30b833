import pytest
from IPython.core.interactiveshell import InteractiveShell

from sparkwright_widgets import display as _display
from sparkwright_widgets.display import panel_for


class Publisher:
    """Keeps what IPython displays, by display id."""

    def __init__(self):
        self.first, self.latest, self.updates = {}, {}, 0

    def publish(self, data, metadata=None, *, transient=None, update=False, **_more):
        key = transient["display_id"]
        assert update == (key in self.first)
        self.updates += update
        self.first.setdefault(key, data)
        self.latest[key] = data


@pytest.fixture
def published(monkeypatch):
    shell = InteractiveShell.instance()
    publisher = Publisher()
    monkeypatch.setattr(shell, "display_pub", publisher)
    yield publisher
    InteractiveShell.clear_instance()


@pytest.fixture(autouse=True)
def no_panels(comms):
    yield
    for panel in _display._panels.values():
        panel.close()
        panel.wait(5)
    _display._panels.clear()


def test_panel_and_card_are_displayed_and_updated_at_the_end(run, published):
    shown = panel_for(run)
    shown._ipython_display_()
    panel_id, card_id = published.first
    assert "application/vnd.jupyter.widget-view+json" in published.first[panel_id]
    assert "The result appears here" in published.first[card_id]["text/html"]
    run.report(0, 1, 0.5)
    run.set(state="done")
    _display.settle()
    assert published.updates == 2
    assert "<svg" in published.latest[panel_id]["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in published.latest[panel_id]
    assert "application/vnd.jupyter.widget-view+json" not in published.latest[card_id]
    assert published.latest[card_id]["text/plain"].startswith(
        "LeNet on handwritten digits: done; epoch 1 of 5; loss 0.5000"
    )


def test_displaying_a_run_twice_uses_one_panel_unless_it_was_closed(run, published):
    first = panel_for(run).panel
    assert panel_for(run).panel is first
    first.close()
    assert panel_for(run).panel is not first


def test_finished_run_is_displayed_complete_immediately(run, published):
    run.report(0, 1, 0.5)
    run.set(state="stopped")
    shown = panel_for(run)
    shown.panel.wait(5)
    shown._ipython_display_()
    assert published.updates == 0
    assert all("0.5000" in data["text/plain"] for data in published.first.values())
