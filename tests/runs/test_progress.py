import contextlib
import io
import re
import threading
import time

import numpy as np
import pytest
from tests.waiting import wait_until

from sparkwright.masters.plan import TrainingPlan
from sparkwright.runs._events import StateChanged
from sparkwright.runs._progress import ProgressLines, duration
from sparkwright.runs.record import RunRecord


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def begin(stream, *, validates=False, epochs=2):
    record = RunRecord(workers=2, epochs=epochs, name="sparkwright-test")
    lines = ProgressLines(
        record, name="brisk-heron", title="mlp on 2 workers", validates=validates, stream=stream
    )
    plan = TrainingPlan(rows=(20, 20), batch_size=10, averaging_frequency=2, epochs=epochs)
    record.set_plan(plan)
    return record, lines


def train(record, *, epoch, worker, loss=0.5):
    block = {"epoch": epoch, "round": 1, "count": 2, "age_s": 0.0, "seconds": 0.1}
    record.rows_trained(
        worker,
        [{**block, "metrics": {"accuracy": 0.75}, "averagings": epoch}],
        np.full(2, loss, np.float32),
        np.full(2, 10, np.int32),
    )


def ended(record, lines, state="done", message="done"):
    record.state_changed(state, message)
    record.close()
    lines.join(10)


def plain(text):
    """Lines without what depends on the clock."""
    return re.sub(r"[\d:,]+(ms|s) - [\d,]+ examples/s", "TIME", text).splitlines()


def test_each_epoch_is_one_finished_line_in_a_file():
    stream = io.StringIO()
    record, lines = begin(stream, validates=True)
    for epoch in (1, 2):
        for worker in range(2):
            train(record, epoch=epoch, worker=worker, loss=1 / epoch)
        record.validated(epoch=epoch, loss=0.0004, metrics={"accuracy": 0.5})
    ended(record, lines)
    tail = "val_accuracy: 0.5000 - val_loss: 4.0000e-04"
    assert plain(stream.getvalue()) == [
        "Run brisk-heron: mlp on 2 workers",
        f"Epoch 1/2 - 4/4 - TIME - accuracy: 0.7500 - loss: 1.0000 - {tail}",
        f"Epoch 2/2 - 4/4 - TIME - accuracy: 0.7500 - loss: 0.5000 - {tail}",
    ]


def test_a_stopped_run_shows_its_last_epoch_as_far_as_it_came():
    stream = io.StringIO()
    record, lines = begin(stream, epochs=4)
    train(record, epoch=3, worker=0)  # resumed: earlier epochs are not its own
    ended(record, lines, "stopped", "stopped; the model holds the last average")
    assert plain(stream.getvalue())[1:] == [
        "Epoch 3/4 - 2/4 - TIME - accuracy: 0.7500 - loss: 0.5000",
        "Run brisk-heron: stopped; the model holds the last average",
    ]


def test_queues_and_lost_workers_are_separate_lines():
    stream = io.StringIO()
    record, lines = begin(stream)
    record.set_waiting_for(("calm-otter",))
    record.worker_joined(1, host="a", rows=20)
    record.worker_lost(1)
    ended(record, lines)
    assert stream.getvalue().splitlines()[1:] == [
        "Waiting for run calm-otter to end",
        "Worker 1 on a was lost; Spark restarts it",
    ]


@pytest.mark.parametrize("attended", [True, False])
def test_a_failure_is_printed_unless_it_is_raised(attended):
    stream = io.StringIO()
    record, lines = begin(stream)
    with lines.attended() if attended else contextlib.nullcontext():
        ended(record, lines, "failed", "the disk is full")
    assert ("Run brisk-heron: the disk is full" in stream.getvalue()) is not attended


@pytest.mark.parametrize(("columns", "bar"), [(100, "━{10}╌{10} "), (40, "")])
def test_a_terminal_shows_the_epoch_in_place_while_the_script_waits(columns, bar, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    record, lines = begin(stream)
    train(record, epoch=1, worker=0)
    time.sleep(0.5)
    assert "\r" not in stream.getvalue()
    with lines.attended():
        wait_until(lambda: "\rEpoch" in stream.getvalue(), 10)
        train(record, epoch=1, worker=1)
        ended(record, lines)
    text = stream.getvalue()
    assert re.search(rf"\rEpoch 1/2 {bar}2/4 - [^\r\n]*\x1b\[K\r", text)
    assert re.search(r"\rEpoch 1/2 (━{20} )?4/4 - [^\r\n]* - loss: 0.5000\x1b\[K\n$", text)
    assert text.count("\n") == 2
    painted = re.findall(r"\r([^\r\n]*)\x1b\[K(?=\r|\Z)", text)
    assert max(map(len, painted)) < columns


@pytest.mark.thorough
def test_a_blocked_terminal_holds_up_neither_the_run_nor_its_listeners():
    """As after Ctrl-S."""
    may_write = threading.Event()

    class Blocked(io.StringIO):
        def write(self, text):
            if "Epoch" in text:
                may_write.wait(60)
            return super().write(text)

    stream, heard = Blocked(), []
    record, lines = begin(stream)
    record.events.add_listener(heard.append)
    with lines.attended():
        for worker in range(2):
            train(record, epoch=1, worker=worker)
        record.state_changed("done", "done")
        record.close()
        assert isinstance(heard[-1], StateChanged)
    assert "Epoch" not in stream.getvalue()
    may_write.set()
    lines.join(10)
    assert "Epoch 1/2 - 4/4" in stream.getvalue()


def test_a_closed_stream_does_not_end_the_training():
    stream = io.StringIO()
    record, lines = begin(stream)
    stream.close()
    train(record, epoch=1, worker=0)
    ended(record, lines)
    assert record.status().state == "done"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250ms"), (3.4, "3s"), (62, "1:02"), (3723, "1:02:03"), (90_000, "25:00:00")],
)
def test_durations_are_written_as_keras_does(seconds, text):
    assert duration(seconds) == text
