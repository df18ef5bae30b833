from types import SimpleNamespace

import numpy as np
import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.timeline import PhaseCode, SpanStore
from sparkwright_widgets import TimelineView


def store_of():
    store = SpanStore(workers=2)
    for worker in range(2):
        codes = np.array([PhaseCode.TENSORFLOW, PhaseCode.COMPUTE, PhaseCode.WORK], np.uint8)
        lengths = np.array([1.0, 3.0, 4.0], np.float32)
        store.append(worker, codes, np.array([0.0, 1.0, 0.0]), lengths)
    return store


class GoingOn:
    """A run whose timeline grows."""

    def __init__(self):
        self.store = store_of()

    @property
    def timeline(self):
        return self.store.timeline(name="run 7", hosts=["<alpha>", "beta"])


@pytest.fixture
def run():
    return GoingOn()


def test_timeline_is_shown_with_its_figures_and_no_button():
    view = TimelineView(store_of().timeline())
    assert view.button not in view.children
    assert "75% compute" in view.picture.value
    assert 'aria-label="Time by phase"' in view.picture.value
    assert view.update() is False


def test_host_names_are_escaped_as_text(run):
    view = TimelineView(run)
    bundle = view._repr_mimebundle_()
    assert "<alpha>" not in view.picture.value + bundle["text/html"]
    assert bundle["text/plain"].startswith("Timeline of run 7: 2 workers")
    assert "worker 0, &lt;alpha&gt;" in view.picture.value


def test_button_shows_new_phases(run):
    view, told = TimelineView(run), []
    view.on_change(told.append)
    assert len(view.timeline) == 6
    codes, starts_s = np.array([PhaseCode.DELIVER], np.uint8), np.array([4.0])
    run.store.append(0, codes, starts_s, np.array([2.0], np.float32))
    view.button.click()
    assert view.settle()
    assert len(view.timeline) == 7
    assert "deliver" in view.picture.value
    assert told == [view]
    assert view.button.disabled is False


@pytest.mark.parametrize("source", [None, 7, SimpleNamespace(timeline="none")])
def test_values_without_a_timeline_raise(source):
    with pytest.raises(ConfigurationError, match="must be a run or a Timeline"):
        TimelineView(source)


def test_empty_timeline_shows_a_notice():
    view = TimelineView(SpanStore(workers=2).timeline())
    assert "Nothing was measured on workers." in view.picture.value
    assert "<img" not in view.picture.value
