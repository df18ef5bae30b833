import contextlib
import math
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.cases import cases
from tests.runs.recorded import begin, train
from tests.waiting import wait_until

from sparkwright._process import SILENT_S, Process
from sparkwright.errors import ConfigurationError
from sparkwright.runs import RunStore, _run_file
from sparkwright.runs._recorder import POINTS, Curve
from sparkwright.runs._run_file import default_path, opened


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "a folder?#%20" / "rüns.sqlite")


@pytest.fixture
def processes():
    """`processes(path, name, count)`: one that stores so many runs, and ends another when told."""
    begun = []

    def begin_one(path, name, count):
        command = [sys.executable, "-m", "tests.runs.recorded", str(path), name, str(count)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        begun.append(subprocess.Popen(command, text=True, **pipes))
        return begun[-1]

    yield begin_one
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(_run_file, "BUSY_S", 0.05)
    monkeypatch.setattr("sparkwright.runs._recorder._SOONEST_S", 0.01)


def test_an_ended_run_is_stored_with_metrics_curve_and_settings(store):
    run = train(store, name="lenet", note="scores of the test set")
    (found,) = store.runs()
    assert (found.name, found.title, found.state) == ("lenet", "dense on 2 workers", "done")
    assert (found.epoch, found.epochs, found.workers, found.has_ended) == (3, 3, 2, True)
    assert found.metrics == pytest.approx(run._record.epoch_logs(3))
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= found.metrics.keys()
    assert found.configuration["master"] == {"batch_size_per_worker": 10}
    assert (found.started_at, found.ended_at) == (run.started_at, run.ended_at)
    assert found.sparkline[0] == pytest.approx(2.05)
    assert found.seconds == pytest.approx(run.seconds)
    # As a run that goes on has them:
    status = found.status
    assert (status.state, status.epoch, len(status.workers)) == ("done", 3, 2)
    assert status.validation == run.status.validation
    rows = found.log.rows()
    assert rows["step"].tolist() == list(range(1, 31))
    assert rows["loss"] == pytest.approx(run.history.groupby("step")["loss"].mean().to_numpy())
    assert rows["epoch"].tolist() == sorted(rows["epoch"].tolist())
    assert np.nanmax(rows["learning_rate"]) == pytest.approx(0.001)


def test_a_failed_run_keeps_its_error(store):
    found = store.run(train(store, error=ValueError("no such column")).name)
    assert (found.state, found.message) == ("failed", "no such column")
    assert "ValueError: no such column" in str(found.error)


def test_the_latest_of_runs_of_one_name_counts(store):
    for name in ("same", "other"):
        train(store, name=name)
    latest, first = store.runs()
    store.rename(latest, "same")
    assert store.run("same").id == latest.id
    assert store.run(first.id).id == first.id
    assert [run.id for run in store.runs(limit=1)] == [latest.id]


def test_runs_are_tagged_renamed_and_deleted(store):
    name = train(store).name
    assert store.tag(name, "small", "baseline").tags == ("baseline", "small")
    assert store.untag(name, "small", "absent").tags == ("baseline",)
    assert [run.name for run in store.runs(tag="baseline")] == [name]
    assert store.runs(tag="base") == ()
    assert store.rename(name, "brisk heron").name == "brisk heron"
    store.delete("brisk heron")
    assert store.runs() == ()
    assert store.select("SELECT * FROM runs") == []


def test_tags_that_several_threads_add_at_once_are_all_kept(store):
    name = train(store).name
    tags = [f"tag {number:02}" for number in range(16)]
    with ThreadPoolExecutor(len(tags)) as threads:
        list(threads.map(lambda tag: store.tag(name, tag), tags))
    assert store.run(name).tags == tuple(tags)


def test_an_unknown_run_names_the_latest_ones(store):
    name = train(store).name
    for change in (store.run, store.tag, lambda unknown: store.delete(name, unknown)):
        with pytest.raises(ConfigurationError, match=rf"Received: 'nobody'.* '{name}'"):
            change("nobody")
    with pytest.raises(ConfigurationError, match="one line"):
        store.rename(name, "two\nlines")
    assert [run.name for run in store.runs()] == [name]


def test_runs_become_a_data_frame_with_the_settings_that_differ(store):
    first = train(store, epochs=3, checkpoint_path="/a", seed=1)
    second = train(store, epochs=4, checkpoint_path="/b", seed=2)
    frame = store.runs().to_pandas()
    assert frame["name"].tolist() == [second.name, first.name]
    assert frame["epochs"].tolist() == [4, 3]
    assert frame["val_loss"].tolist() == pytest.approx([0.75, 1 / 3 + 0.5])
    assert store.runs().settings() == {"epochs": [4, 3]}
    assert f"{first.name}  done  epoch 3/3  accuracy 0.75" in repr(store.runs())


def test_without_a_file_there_are_no_runs_and_none_is_made(store):
    assert store.runs() == ()
    assert repr(store.runs()) == "0 runs"
    assert not store.path.parent.exists()


@pytest.mark.usefixtures("impatient")
def test_running_run_is_listed_and_can_be_renamed(store):
    run, engine, recorder = begin(store)
    found = wait_until(lambda: [r for r in store.runs() if r.epoch == 3])[0]
    assert (found.state, found.ended_at, found.has_ended) == ("training", None, False)
    assert found.metrics["val_loss"] == pytest.approx(1.0)  # of epoch 2, the last complete one
    store.rename(found, "renamed")
    store.tag("renamed", "kept")
    engine.may_end.set()
    assert recorder.wait(30)
    found = store.run("renamed")
    assert (found.state, found.tags, found.id) == ("done", ("kept",), recorder.id)
    assert run.name != "renamed"


def test_a_run_that_waits_for_its_workers_is_stored_without_a_curve(store):
    run, engine, recorder = begin(store, trains=False)
    (found,) = wait_until(store.runs)
    assert (found.state, found.metrics, found.sparkline, len(found.log)) == ("queued", {}, (), 0)
    engine.may_train.set()
    engine.may_end.set()
    assert recorder.wait(30)
    assert run.warnings == ()
    assert store.run(run.name).state == "done"


def test_a_deleted_run_trains_on_and_is_not_stored_again(store):
    run, engine, recorder = begin(store)
    wait_until(store.runs)
    store.delete(run.name)
    engine.may_end.set()
    assert recorder.wait(30)
    assert store.runs() == ()
    assert run.status.state == "done"


@pytest.mark.usefixtures("impatient")
def test_rows_that_were_dropped_do_not_stay_in_the_curve(store):
    run, engine, recorder = begin(store)
    wait_until(lambda: store.runs() and store.runs()[0].sparkline)
    rows = run.log.rows()
    again = {name: column[rows["worker"] == 1] for name, column in rows.items()}
    run.log.discard(1, after_step=0)
    run.log.append({**again, "loss": again["loss"] + 1})  # a worker that began anew
    engine.may_end.set()
    assert recorder.wait(30)
    assert store.run(run.name).log.rows()["loss"][::10] == pytest.approx([2.55, 1.55, 2 / 3 + 0.55])


@pytest.mark.usefixtures("impatient")
@cases("trouble", "locked", "no folder", "newer", "no database")
def test_unwritable_file_warns_once_and_training_continues(store, trouble, caplog):
    with contextlib.ExitStack() as stack:
        if trouble == "no folder":
            store.path.parent.write_text("a file")
        else:
            with opened(store.path, write=True):
                pass
            lock = stack.enter_context(contextlib.closing(sqlite3.connect(store.path)))
            if trouble == "no database":
                store.path.write_text("something else " * 100)
            else:
                newer = "PRAGMA user_version = 99"
                lock.execute(newer if trouble == "newer" else "BEGIN EXCLUSIVE")
        run, engine, recorder = begin(store)
        wait_until(lambda: run.warnings)
        engine.may_end.set()
        assert run.wait(10) is None
        assert recorder.wait(30)
    assert run.status.state == "done"
    (warning,) = (text for text in caplog.messages if "is not stored" in text)
    assert warning in run.warnings
    assert "training continues" in warning
    assert "SPARKWRIGHT_RUNS" in warning


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
def test_a_lock_that_is_released_loses_nothing(store):
    first = train(store)
    lock = sqlite3.connect(store.path)
    lock.execute("BEGIN IMMEDIATE")
    run, engine, recorder = begin(store)
    wait_until(lambda: run.warnings)
    assert [each.name for each in store.runs()] == [first.name]  # readers need not wait
    lock.close()
    wait_until(lambda: len(store.runs()) == 2)
    engine.may_end.set()
    assert recorder.wait(30)
    assert store.run(run.name).state == "done"


def test_processes_that_end_or_are_killed_write_while_others_read(store, processes):
    running = [processes(store.path, f"p{number}", 4) for number in range(3)]
    problems = []
    over = threading.Event()

    def read():
        while not over.is_set():
            try:
                for run in store.runs():
                    assert len(run.log) in range(0, 31, 5)
            except BaseException as error:
                problems.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for process in running:
        assert process.stdout.readline() == "begins\n"
    wait_until(lambda: [run.epoch for run in store.runs()] == [3] * 15)
    over.set()
    reader.join()
    assert problems == []
    assert [len(run.log) for run in store.runs() if run.state == "done"] == [30] * 12
    ends, killed, _ = running
    assert ends.communicate("end\n", 60)[1] == ""
    assert store.run("p0-open").state == "done"  # stored before the interpreter exited
    killed.kill()
    assert killed.communicate()[1] == ""  # no write failed
    found = store.run("p1-open")
    assert (found.state, found.has_ended, found.status.state) == ("lost", True, "failed")
    assert found.message == "ended with its kernel, in epoch 3 of 3"
    assert store.run("p2-open").state == "training"


@cases(
    "place, is_there, started, silent_s, is_alive",
    ("here", True, 0.0, 9999.0, True),  # a debugger, or a computer that slept
    ("here", True, -3600.0, 0.0, False),  # another process got the number
    ("here", False, 0.0, 0.0, False),
    ("elsewhere", False, 0.0, SILENT_S - 1, True),
    ("elsewhere", True, 0.0, SILENT_S + 1, False),
)
def test_a_process_is_looked_for_where_that_is_possible(
    place, is_there, started, silent_s, is_alive
):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    process = Process.this()
    process = process._replace(started=process.started + started)
    if place == "elsewhere":
        process = process._replace(place=place)
    if not is_there:
        process = process._replace(pid=gone.pid)
    assert process.is_alive(silent_s=silent_s) is is_alive


def test_the_path_is_that_of_the_variable_or_the_folder_for_data(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARKWRIGHT_RUNS", str(tmp_path / "mine.sqlite"))
    assert RunStore().path == tmp_path / "mine.sqlite"
    for unset in ("", "off"):
        monkeypatch.setenv("SPARKWRIGHT_RUNS", unset)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        assert default_path() == tmp_path / "sparkwright" / "runs.sqlite"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local" / "share" / "sparkwright" / "runs.sqlite"


def test_tests_never_store_runs_in_the_home_folder():
    assert not RunStore().path.is_relative_to(Path.home() / ".local")


def test_a_file_of_another_version_is_not_read(store):
    with opened(store.path, write=True) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(OSError, match=r"Received: version 99\."):
        store.runs()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_runs_are_read_where_nothing_may_be_written(store):
    train(store)
    for path in (store.path, store.path.parent):
        path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    assert len(store.runs()) == 1


def rows_of(steps, losses):
    steps = np.asarray(steps)
    constant = {"worker": 0, "epoch": 1, "round": 1, "examples": 32, "examples_per_s": 100.0}
    columns = {name: np.full(len(steps), value) for name, value in constant.items()}
    return {**columns, "step": steps, "loss": np.asarray(losses, float), "time_s": steps * 0.1}


@cases("steps", 1, 10, POINTS, POINTS + 1, 100_003)
def test_a_curve_has_few_points_and_keeps_its_mean(steps):
    losses = np.random.default_rng(0).normal(size=steps)
    curve = Curve()
    for part in np.array_split(np.arange(1, steps + 1), 7):
        curve.add(rows_of(part, losses[part - 1]))
    found = curve.columns()
    assert min(steps, POINTS // 2) <= len(found["step"]) <= POINTS
    assert found["step"][-1] == steps
    assert sum(found["examples"]) == 32 * steps
    assert np.average(found["loss"], weights=found["examples"]) == pytest.approx(losses.mean())


def test_non_finite_loss_is_stored_and_missing_loss_is_omitted():
    rows = rows_of([1, 2, 3], [1.0, math.nan, math.nan])
    rows["examples_per_s"][2] = math.nan
    curve = Curve()
    curve.add(rows)
    assert np.isnan(curve.columns()["loss"]).tolist() == [False, True]
