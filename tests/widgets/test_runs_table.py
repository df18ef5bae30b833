import math
import os

import pytest
from tests.runs.recorded import begin, report, train
from tests.waiting import wait_until

from sparkwright.errors import ConfigurationError
from sparkwright.runs import RunStore, RunTable
from sparkwright_widgets import RunsTable, compare_runs, report_runs
from sparkwright_widgets._panel import LivePanel
from sparkwright_widgets._runs_grid import distinct_settings, sparkline


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "runs.sqlite")


@pytest.fixture
def table(comms, store):
    made = []

    def make():
        made.append(RunsTable(store))
        return made[-1]

    yield make
    for each in made:
        each.close()
        each._thread.join(10)
        assert not each._thread.is_alive()


def texts(table):
    return [[cell["text"] for cell in row["cells"]] for row in table.grid.rows]


def test_runs_are_listed_with_their_figures_latest_first(store, table):
    train(store, name="first", epochs=3)
    train(store, name="second", epochs=4, tags_are="no settings")
    store.tag("first", "baseline", "<b>")
    shown = table()
    second, first = texts(shown)
    assert first[:2] == ["first", "✓ Done"]
    assert first[3:5] == ["0.7167", "accuracy 0.5833"]
    assert (first[7], first[8]) == ("<b>, baseline", "epochs 3")
    assert (second[0], second[8]) == ("second", "epochs 4, tags_are no settings")
    html = shown.grid.rows[1]["cells"][7]["html"]
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "2 runs; select runs" in shown.found.value
    bundle = shown._repr_mimebundle_()
    assert "&lt;b&gt;" in bundle["text/html"]
    assert "<svg" in bundle["text/html"]
    assert "second" in bundle["text/plain"]


def test_loss_of_the_last_round_is_shown_in_table_chart_and_panel(comms, store, table):
    run, engine, recorder = begin(store, epochs=3)
    for round in (1, 2):
        for worker in (0, 1):
            report(recorder._record, worker, 4, round, more=[round, 0, 0, 0, 0])
    engine._epochs = 4
    engine.may_end.set()
    assert recorder.wait(20)
    panel, shown = LivePanel(run), table()
    assert panel.wait(20)
    shown.select(run.name)
    comparison = shown.comparison.children[0].block().text
    assert texts(shown)[0][3] == "0.9500"
    assert "Loss</span> <b>0.9500</b>" in panel.texts["progress"]
    assert "0.9500" in comparison


def test_empty_store_shows_where_runs_will_be_stored(store, table):
    shown = table()
    assert "No runs are stored in" in shown.found.value
    assert shown.grid.rows == []
    assert not store.path.exists()


def test_selected_runs_are_compared_by_relevant_differences(store, table):
    train(store, name="first", epochs=3, checkpoint_path="/a")
    train(store, name="second", epochs=4, checkpoint_path="/b")
    shown = table()
    assert shown.comparison.children == ()
    shown.select("first", "second")
    (comparison,) = shown.comparison.children
    kept = comparison.block()
    assert [line.split()[:2] for line in kept.text.splitlines()[1:]] == [
        ["first", "done"],
        ["second", "done"],
    ]
    assert "Settings that differ (1)" in kept.html
    assert "checkpoint_path" not in kept.html
    shown.select("first")
    assert shown.comparison.children[0] is not comparison
    shown.select()
    assert shown.comparison.children == ()


def test_stored_and_running_runs_are_compared(comms, store):
    stored = store.run(train(store, epochs=3).name)
    run, engine, recorder = begin(store, epochs=4)
    comparison = compare_runs([stored, run], names=["stored", "going on"])
    engine.may_end.set()
    assert comparison.wait(20)
    assert "going on" in comparison.block().text
    recorder.wait(20)


def test_stored_runs_are_reported_side_by_side(store, tmp_path):
    for epochs in (3, 5):
        train(store, epochs=epochs)
    report_runs(store.runs(), str(tmp_path / "report.html"))
    report = (tmp_path / "report.html").read_text()
    assert "The best validation accuracy, 0.65, is that of 1. dense on 2 workers." in report
    assert "1 option differed" in report


def test_run_is_renamed_tagged_and_deleted_after_confirmation(store, table):
    train(store, name="first")
    train(store, name="second")
    shown = table()
    shown.select("first")
    assert shown.name_field.value == "first"
    shown.name_field.value = "best"
    shown.rename_button.click()
    shown.tag_field.value = "small, baseline"
    shown.tag_button.click()
    assert store.run("best").tags == ("baseline", "small")
    shown.tag_field.value = "small"
    shown.untag_button.click()
    assert [row[7] for row in texts(shown)] == ["", "baseline"]
    shown.select("best", "second")
    assert shown.rename_button.disabled
    shown.tag_field.value = "both"
    shown.tag_button.click()
    assert [row[7] for row in texts(shown)] == ["both", "baseline, both"]
    shown.select("best")
    shown.delete_button.click()
    assert "Delete run best?" in shown.deleting.question.value
    shown.deleting.no_button.click()
    assert len(store.runs()) == 2
    shown.delete_button.click()
    shown.deleting.yes_button.click()
    assert [run.name for run in store.runs()] == ["second"]
    assert shown.grid.selected == []
    assert shown.error.value == ""


def test_invalid_name_is_rejected_in_the_widget(store, table):
    train(store, name="first")
    shown = table()
    shown.select("first")
    shown.name_field.value = "x" * 81
    shown.rename_button.click()
    assert "1 to 80 characters" in shown.error.value
    with pytest.raises(ConfigurationError):
        shown.select("nobody")


def test_runs_are_found_by_name_tag_and_state(store, table):
    for name in ("alpha", "beta", "gamma"):
        train(store, name=name)
    store.tag("beta", "kept")
    shown = table()
    for words, names in (("KEPT", ["beta"]), ("done", ["gamma", "beta", "alpha"]), ("a x", [])):
        shown.find_field.value = words
        assert [row[0] for row in texts(shown)] == names
    assert "0 of 3 runs" in shown.found.value
    shown.select("beta")  # ticked runs stay compared while others are looked for
    assert len(shown.comparison.children) == 1
    assert shown.found.value.count("0 of 3 runs; 1 selected") == 1


def test_run_of_another_kernel_appears_and_ends_automatically(store, table, monkeypatch):
    monkeypatch.setattr("sparkwright_widgets._runs_table._LOOK_EVERY_S", 0.05)
    shown = table()
    _, engine, recorder = begin(store, name="elsewhere")
    wait_until(lambda: shown.grid.rows)
    engine.may_end.set()
    assert recorder.wait(20)
    wait_until(lambda: texts(shown)[0][1] == "✓ Done")


@pytest.mark.thorough
def test_chart_of_a_running_run_is_kept_and_updated(store, table):
    _, engine, recorder = begin(store, name="elsewhere", epochs=4)
    wait_until(lambda: store.runs() and store.runs()[0].epoch == 4)
    shown = table()
    shown.select("elsewhere")
    (comparison,) = shown.comparison.children
    assert comparison.wait(20)
    engine.may_end.set()
    assert recorder.wait(20)
    shown.refresh()
    assert shown.comparison.children == (comparison,)  # zoom and hidden lines stay
    assert "done" in comparison.block().text
    assert "problem" not in comparison.texts


def test_run_of_a_dead_process_is_shown_as_ended(store, table, monkeypatch):
    monkeypatch.setattr("sparkwright_widgets._runs_table._LOOK_EVERY_S", 0.05)
    _, engine, recorder = begin(store, name="elsewhere")
    wait_until(lambda: store.runs() and store.runs()[0].state == "training")
    monkeypatch.setattr(recorder, "_write", lambda: True)  # the file does not change any more
    shown = table()
    assert texts(shown)[0][1] == "▶ Training"
    monkeypatch.setattr("sparkwright.runs.store.Process.is_alive", lambda self, **_: False)
    wait_until(lambda: texts(shown)[0][1] == "✕ Ended with its kernel")
    engine.may_end.set()
    assert recorder.wait(20)


def test_store_read_error_is_shown_and_cleared_by_refresh(store, table, monkeypatch):
    monkeypatch.setattr("sparkwright_widgets._runs_table._LOOK_EVERY_S", 0.05)
    train(store, name="first")
    shown = table()
    content = store.path.read_bytes()
    store.path.write_text("something else " * 100)
    wait_until(lambda: "could not be read" in shown.error.value)
    store.path.write_bytes(content)
    os.utime(store.path)
    shown.refresh_button.click()
    assert shown.error.value == ""
    assert [row[0] for row in texts(shown)] == ["first"]


def test_only_distinguishing_settings_are_named(store):
    for epochs in (3, 3, 4):
        train(store, epochs=epochs)
    runs = store.runs()
    assert distinct_settings(runs) == [{"epochs": "4"}, {}, {}]
    assert distinct_settings(RunTable(runs[:2])) == [{"epochs": "4"}, {"epochs": "3"}]
    assert distinct_settings(RunTable()) == []


@pytest.mark.parametrize(
    ("values", "strokes"),
    [([1.0, 2.0, 3.0], 1), ([1.0, math.nan, 3.0, 2.0], 2), ([5.0, 5.0], 1), ([5.0], 1)],
)
def test_sparkline_has_gaps_at_non_finite_values(values, strokes):
    svg = sparkline(values)
    assert svg.count("M") == strokes
    assert "nan" not in svg.partition("<path")[2]
