import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from tests.runs.recorded import run_of

from sparkwright._interrupts import interrupts_held, interrupts_raise
from sparkwright.errors import RunInterrupted
from sparkwright.runs.outcome import Outcome
from sparkwright.runs.record import RunRecord
from sparkwright.workers.protocol import Progress


class FakeEngine:
    """Ends when it is stopped, with the average of so many averagings; 0: without one."""

    def __init__(self, averagings=0, *, stops=True, delivers=None):
        self.calls = []
        self.asked, self.over = threading.Event(), threading.Event()
        self._averagings, self._stops = averagings, stops
        self._delivers = averagings > 0 if delivers is None else delivers

    def run(self, record):
        self.over.wait(60)
        vector = np.ones(1) if self._delivers else None
        return Outcome(
            vector=vector,
            counters=None,
            progress=Progress(averagings=self._averagings, steps=(9,), opened=1),
            stopped=True,
        )

    def stop(self):
        self.calls.append("stop")
        self.asked.set()
        if self._stops:
            self.over.set()

    def cancel(self):
        self.calls.append("cancel")
        self.over.set()


def pyspark_handler(_number, _frame):
    cancelled.append("all jobs")
    raise KeyboardInterrupt


pyspark_handler.__module__ = "pyspark.core.context"
cancelled = []


@pytest.fixture(autouse=True)
def _spark_has_set_its_handler():
    cancelled.clear()
    before = signal.signal(signal.SIGINT, pyspark_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def start():
    engines = []

    def begin(engine):
        engines.append(engine)
        return run_of(engine, RunRecord(workers=1, epochs=3, name="sparkwright-run-1"))

    yield begin
    for engine in engines:
        engine.over.set()


def interrupt_when(condition, number=signal.SIGINT, *, times=1):
    """A signal, such as Ctrl-C, as soon as the main thread waits, as `condition` says."""

    def send():
        while not condition():
            time.sleep(0.001)
        for _ in range(times):
            os.kill(os.getpid(), number)
            time.sleep(0.02)

    threading.Thread(target=send, daemon=True).start()


def waits():
    """Whether PySpark's handler has been replaced."""
    return signal.getsignal(signal.SIGINT) is not pyspark_handler


@pytest.mark.parametrize(
    ("engine", "held"),
    [
        (FakeEngine(7), "the model holds the average after averaging 7, in epoch 1"),
        (FakeEngine(0), "the model is unchanged: no averaging was completed"),
        (FakeEngine(7, delivers=False), "the model is unchanged: no worker could deliver"),
        # As gradient sharing does within its first epoch.
        (FakeEngine(0, delivers=True), "the model holds the state after 9 minibatches, in epoch 1"),
    ],
)
def test_interrupt_stops_the_run_and_reports_the_model_state(start, engine, held):
    run = start(engine)
    interrupt_when(waits)
    with pytest.raises(RunInterrupted, match=held):
        run.wait()
    assert (engine.calls, cancelled) == (["stop"], [])
    assert signal.getsignal(signal.SIGINT) is pyspark_handler


def test_interrupt_names_the_epoch_whose_weights_were_restored():
    callbacks = SimpleNamespace(restored_epoch=2)
    run = run_of(FakeEngine(7), RunRecord(workers=1, epochs=3, name="run"), callbacks=callbacks)
    interrupt_when(waits)
    with pytest.raises(RunInterrupted, match="the model holds the weights of epoch 2"):
        run.wait()
    assert run.status.message == "stopped; the model holds the weights of epoch 2"


@pytest.mark.parametrize("waits_with", ["wait", "await"])
def test_more_interrupts_cancel_the_tasks_and_keep_the_average(start, monkeypatch, waits_with):
    for limit in ("_POLITE_STOP_S", "_HARD_STOP_S"):
        monkeypatch.setattr(f"sparkwright.runs._waiting.{limit}", 60.0)
    engine = FakeEngine(7, stops=False)
    run = start(engine)

    async def cell():
        await run

    interrupt_when(waits)
    interrupt_when(engine.asked.is_set, times=4)
    with pytest.raises(RunInterrupted, match="averaging 7"):
        run.wait() if waits_with == "wait" else asyncio.run(cell())
    assert engine.calls == ["stop", "cancel"]
    assert cancelled == []


@pytest.mark.parametrize(
    ("number", "waits_with"),
    [(signal.SIGTERM, "wait"), (signal.SIGHUP, "wait"), (signal.SIGTERM, "await")],
)
def test_a_script_that_is_asked_to_end_writes_its_model_first(
    start, monkeypatch, capsys, number, waits_with
):
    saved = []
    monkeypatch.setattr("sparkwright.runs.extensions.save_model", lambda _, url: saved.append(url))
    before = signal.signal(number, signal.SIG_DFL)  # `nohup` ignores SIGHUP, and that stays
    run = start(FakeEngine(7))
    interrupt_when(lambda: signal.getsignal(number) is not signal.SIG_DFL, number)

    async def cell():
        await run

    with pytest.raises(SystemExit) as ended:
        run.wait() if waits_with == "wait" else asyncio.run(cell())
    assert signal.signal(number, before) is signal.SIG_DFL
    assert ended.value.code == 128 + number
    (url,) = saved
    told = capsys.readouterr().err
    assert f"run {run.name} was ended by {number.name}; the model holds the average after" in told
    assert f"It is in {url}: `sw.load_model`." in told


def test_a_script_that_ends_before_its_run_stops_it_and_writes_the_model():
    code = """
import os, sys
from sparkwright.runs import extensions
from sparkwright.runs.record import RunRecord
from tests.runs.recorded import run_of
from tests.runs.test_interrupts import FakeEngine

extensions.save_model = lambda _model, url: print("saved", url)
for name, averagings in (("first", 7), ("second", 0), ("over", 3)):
    engine = FakeEngine(averagings)
    run = run_of(engine, RunRecord(workers=1, epochs=3, name=name), name=name)
if not os.fork():
    sys.exit()
os.wait()
run.stop()
run.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0
    second, first = done.stderr.strip().splitlines()
    ended = "was ended by the end of the process; the model"
    assert second == f"run second {ended} is unchanged: no averaging was completed."
    (url,) = re.findall(r"saved (.*first-run-1\.keras)\n", done.stdout)
    assert first == (
        f"run first {ended} holds the average after averaging 7, in epoch 1. "
        f"It is in {url}: `sw.load_model`."
    )


def test_an_interrupt_while_a_run_begins_waits_until_it_can_be_stopped(start):
    engine = FakeEngine(7)

    def fit():
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            start(engine).wait()

    with pytest.raises(RunInterrupted, match="averaging 7"):
        fit()
    assert engine.calls == ["stop"]
    assert signal.getsignal(signal.SIGINT) is pyspark_handler


def test_deferred_interrupt_is_raised_at_the_end_or_by_a_second_one():
    after = []

    def interrupt(times):
        with interrupts_held():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            after.append(times)

    for times in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            interrupt(times)
    assert after == [1]


def test_a_handler_of_the_users_own_stays_and_so_does_one_set_meanwhile(start):
    engine = FakeEngine(7)
    run = start(engine)

    def own(_number, _frame):
        run.stop()

    signal.signal(signal.SIGINT, own)
    interrupt_when(lambda: True)
    run.wait()  # ends as the user's handler has it
    assert engine.calls == ["stop"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with interrupts_raise():
        signal.signal(signal.SIGINT, pyspark_handler)
    assert signal.getsignal(signal.SIGINT) is pyspark_handler


def test_an_interrupted_await_stops_the_run_where_spark_began_in_the_same_cell(start):
    engine = FakeEngine(7)

    async def cell():
        run = start(engine)
        interrupt_when(waits)
        with pytest.raises(RunInterrupted, match="averaging 7"):
            await run

    asyncio.run(cell())
    assert (engine.calls, cancelled) == (["stop"], [])
    assert signal.getsignal(signal.SIGINT) is pyspark_handler


def test_an_await_leaves_the_kernels_handler_in_place(start):
    engine = FakeEngine(7)

    async def cell():
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def kernels(_number, _frame):
            loop.call_soon_threadsafe(task.cancel)

        kernels.__module__ = "ipykernel.ipkernel"
        signal.signal(signal.SIGINT, kernels)
        run = start(engine)
        loop.call_later(0.01, lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(RunInterrupted, match="averaging 7"):
            await run
        assert signal.getsignal(signal.SIGINT) is kernels

    asyncio.run(cell())
    assert engine.calls == ["stop"]
