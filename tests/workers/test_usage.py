import os
import time

import psutil
import pytest
from tests.support.in_process import fit
from tests.workers.test_callbacks import master_of, network

from sparkwright.workers._usage import UsageMeter


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def busy_for(seconds):
    ends_s = time.process_time() + seconds
    while time.process_time() < ends_s:
        pass


def test_processor_usage_is_a_share_of_the_available_cores():
    clock = Clock()
    meter = UsageMeter("CPU", clock=clock)
    meter.begin(cores=4)
    busy_for(0.2)
    clock.now_s += 2.0
    found = meter.readings()
    assert found.keys() == {"processor", "memory_bytes"}
    assert 0.2 / (2.0 * 4) <= found["processor"] < 1.0
    resident = psutil.Process().memory_info().rss
    assert 0.5 * resident < found["memory_bytes"] < 2 * resident


def test_readings_are_at_least_two_seconds_apart():
    clock = Clock()
    meter = UsageMeter(clock=clock)
    meter.begin(cores=1)
    clock.now_s += 1.9
    assert meter.readings() == {}
    clock.now_s += 0.2
    assert meter.readings()
    assert meter.readings() == {}
    clock.now_s += 3.0
    meter.begin(cores=1)
    assert meter.readings() == {}


def smi(tmp_path, monkeypatch, script):
    path = tmp_path / "nvidia-smi"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n{script}\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def measured(meter, clock, times):
    found = []
    for _ in range(times):
        clock.now_s += 2.0
        found.append(meter.readings())
        if meter._asked is not None:
            meter._asked.exception(timeout=20.0)
    return found


def test_gpu_is_queried_by_address_and_reported_with_the_next_readings(tmp_path, monkeypatch):
    smi(tmp_path, monkeypatch, "echo '37, 2048'")
    clock = Clock()
    first, second = measured(UsageMeter("GPU 3 (NVIDIA H100)", clock=clock), clock, 2)
    assert "gpu" not in first
    assert (second["gpu"], second["gpu_memory_bytes"]) == (0.37, 2**31)
    assert "--id=3 " in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("script", ["exit 9", "echo '[N/A], [N/A]'"])
def test_gpu_that_cannot_be_measured_is_not_queried_again(tmp_path, monkeypatch, script):
    smi(tmp_path, monkeypatch, script)
    clock = Clock()
    for found in measured(UsageMeter("GPU 0", clock=clock), clock, 4):
        assert found.keys() == {"processor", "memory_bytes"}
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
def test_log_has_the_usage_of_each_worker_at_the_last_minibatch_of_a_round(blobs, monkeypatch):
    monkeypatch.setattr("sparkwright.workers._usage._EVERY_S", 0.0)
    run = fit(network(), master_of("sharing", 2), blobs, epochs=2)
    rows = run.history
    for worker in (0, 1):
        mine = rows[rows.worker == worker]
        known = mine[["processor", "memory_bytes", "learning_rate"]].notna()
        assert known.processor.any()
        assert (known.processor == known.memory_bytes).all()
        assert (known.processor <= known.learning_rate).all()  # only where readings are
        assert (mine.memory_bytes.dropna() > 2**24).all()
    assert "processor" not in run.epoch_history.history
