import math
import time
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.errors import ConfigurationError
from sparkwright_widgets._comparison_table import differences, distinct_names, results
from sparkwright_widgets._figure_svg import figure_html
from sparkwright_widgets._loss_feed import ComparisonFeed
from sparkwright_widgets._quantities import LINES_APART, VALIDATION_APART
from sparkwright_widgets._run_figures import comparison_figure
from sparkwright_widgets.comparison import compare_runs


def trained(fake, *, name="net", steps=10, factor=1.0, state="done", **options):
    run = fake.FakeRun(title=name, **options)
    for step in range(1, steps + 1):
        for worker in range(2):
            run.report(worker, step, factor * (1 + worker) / step, accuracy=step / steps)
    point = fake.FakeValidation(epoch=1, step=steps, loss=factor, metrics={"accuracy": 0.5})
    run.set(state=state, validation=(point,))
    return run


def label(quantities, text):
    return next(number for number, quantity in quantities if quantity.label == text)


def test_each_run_has_a_mean_loss_line_and_a_validation_line(fake):
    feed = ComparisonFeed([False, False])
    for number, factor in enumerate((1.0, 3.0)):
        run = trained(fake, factor=factor)
        feed.add_rows(number, run.log.rows(), workers=2)
        feed.add_validation(number, run.status.validation)
        feed.finish(number)
    lines = feed.lines()
    assert list(lines) == [0, 1, VALIDATION_APART, VALIDATION_APART + 1]
    np.testing.assert_allclose(lines[1], lines[0] * [1, 3])
    assert lines[VALIDATION_APART + 1].tolist() == [[10, 3.0]]
    assert feed.mean_losses[1] == pytest.approx(3 * feed.mean_losses[0])


def test_throughput_is_of_all_workers_and_metrics_share_an_axis(fake):
    feed = ComparisonFeed([False, False])
    run = trained(fake)
    for number in (0, 1):
        feed.add_rows(number, run.log.rows(), workers=2)
        feed.finish(number)
    points = np.frombuffer(feed.hello()[0].points, "<f4").reshape(-1, 3)
    names = ("throughput (examples/s)", "accuracy")
    speed, accuracy = (label(feed.quantities(), name) for name in names)
    for number in (0, 1):
        line = points[points[:, 0] == speed * LINES_APART + number]
        assert set(line[:, 2]) == {6000}  # two workers with 3,000 each
        assert (points[:, 0] == accuracy * LINES_APART + number).any()


@given(cuts=st.lists(st.integers(0, 40), max_size=8).map(sorted))
def test_lines_are_monotonic_in_step_for_any_row_order(cuts):
    index = np.arange(40)
    rows = {
        "worker": index % 2,
        "epoch": np.ones(40, int),
        "round": index // 10 + 1,
        "step": index // 2 + 1,
        "loss": np.ones(40),
        "examples": np.full(40, 32),
        "time_s": index * 0.3 + np.random.default_rng(len(cuts)).random(40),
        "learning_rate": np.ones(40),
    }
    feed = ComparisonFeed([False])
    for start, stop in pairwise([0, *cuts, 40]):
        feed.add_rows(0, {name: rows[name][start:stop] for name in rows}, workers=2)
    feed.finish(0)
    points = np.frombuffer(feed.hello()[0].points, "<f4").reshape(-1, 3)
    for line in np.unique(points[:, 0]):
        assert (np.diff(points[points[:, 0] == line, 1]) >= 0).all()


def test_three_runs_are_shown_live_until_the_last_ends(fake, comms):
    runs = [trained(fake, name=f"run {n}", factor=n, state="training") for n in (1, 2, 3)]
    shown = compare_runs(runs)
    for run in runs:
        run.set(state="done")
    assert shown.wait(10)
    assert "problem" not in shown.texts
    assert shown._runs == [None] * 3  # nothing keeps a finished run alive
    assert shown.line_names == ["run 1", "run 2", "run 3"]
    bundle = shown._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    html = bundle["text/html"]
    assert html.count("<svg") == 1
    assert "at step 8; run 2 " in html
    assert "0.5" in shown.texts["table"]
    assert "run 3" in bundle["text/plain"]
    shown.close()


def test_immediate_copy_shows_all_finished_runs(fake, comms):
    first, second = trained(fake), trained(fake)
    rows = second.log.rows
    second.log.rows = lambda start: (time.sleep(0.3), rows(start))[1]
    shown = compare_runs([first, second], names=["first", "second"])
    assert "at step 8; second " in shown._repr_mimebundle_()["text/html"]
    shown.close()


def test_runs_without_points_and_with_nan_can_be_compared(fake, comms):
    nothing, bad = fake.FakeRun(title="a $x_1"), fake.FakeRun(title="<b>")
    bad.report(0, 1, math.nan)
    for run in (nothing, bad):
        run.set(state="failed")
    shown = compare_runs([nothing, bad])
    assert shown.wait(10)
    html = shown._repr_mimebundle_()["text/html"]
    assert "<b>" not in html.replace("<b>0", "")
    assert "&lt;b&gt; nan at step 1" in html
    assert "problem" not in shown.texts
    shown.close()


def test_number_of_runs_and_names_is_limited(fake, comms):
    with pytest.raises(ConfigurationError, match="Received: 0 runs"):
        compare_runs([])
    with pytest.raises(ConfigurationError, match="Received: 1 names for 2 runs"):
        compare_runs([fake.FakeRun(), fake.FakeRun()], names=["a"])


def test_equal_names_are_made_distinct(fake):
    runs = [fake.FakeRun(title=title) for title in ("a", "b", "b", "b")]
    runs[2].id = "fake-2"
    assert distinct_names(runs) == ["a", "2. fake-1: b", "fake-2: b", "4. fake-1: b"]


def test_only_settings_that_differ_are_listed(fake):
    one, other = fake.FakeRun(), fake.FakeRun(sharing=True)
    heads, rows = differences(["one", "other"], [one, other])
    assert heads == ["Setting", "one", "other"]
    assert rows == [
        ["master.name", "ParameterAveragingTrainingMaster", "SharedTrainingMaster"],
        ["master.averaging_frequency", "5", "—"],
        ["master.batch_size_per_worker", "—", "32"],
    ]
    assert differences(["one", "two"], [one, one])[1] == []


def test_results_mark_unknown_values(fake):
    runs = [trained(fake), fake.FakeRun()]
    heads, rows = results(["a", "b"], [run.status for run in runs], [0.5, None])
    assert "Validation accuracy" in heads
    assert rows[0][3:6] == ["0.5000", "1.0000", "0.5000"]
    assert rows[1][3:6] == ["—", "—", "—"]


def test_figure_with_many_long_names_is_drawn():
    lines = {run: np.array([[1, 2], [2, 1.0]], np.float32) for run in range(12)}
    names = [f"_{'x' * 60}{run}" for run in range(12)]
    assert "<svg" in figure_html(comparison_figure(lines, names))
    assert comparison_figure({}, names[:1]).caption.endswith("Final values: no loss yet.")
