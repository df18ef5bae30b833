from collections import defaultdict
from pathlib import Path

import pytest
from tests.scripts import json_printed_by
from tests.spark.helpers import dense
from tests.support.fake_gpus import fake_gpus

import sparkwright as sw

pytestmark = pytest.mark.cluster


def run_script(folder):
    """Twelve runs, two at a time, on two executors with two GPUs each."""
    return json_printed_by(Path(__file__).with_name("gpu_trial.py"), folder)


@pytest.fixture
def trial(script_result):
    return script_result


def test_each_worker_computes_on_the_gpu_of_its_task(trial):
    assert len(trial["runs"]) == 12
    processes, gpus, given = defaultdict(set), defaultdict(set), defaultdict(set)
    for run in trial["runs"]:
        for worker in run["workers"]:
            assert worker["given"] == [[worker["visible"]]], run
            assert worker["device"] == f"GPU {worker['visible']} (fake)", run
            processes[worker["visible"]].add(worker["pid"])
            gpus[worker["pid"]].add(worker["visible"])
            given[worker["python"][0]].add(worker["visible"])
        assert run["computed"] == sorted(worker["pid"] for worker in run["workers"])
    # Each process uses one GPU, and each GPU one process.
    assert set(processes) == {"0", "1", "2", "3"}
    assert all(len(found) == 1 for found in (*processes.values(), *gpus.values()))
    # Spark assigns different ones to a Python worker over time.
    assert max(map(len, given.values())) > 1


def test_concurrent_runs_use_different_gpus(trial):
    together = 0
    for first, second in zip(trial["runs"][::2], trial["runs"][1::2], strict=True):
        for run in (first, second):
            assert len({worker["visible"] for worker in run["workers"]}) == 2
        workers = [worker for run in (first, second) for worker in run["workers"]]
        if max(worker["began_s"] for worker in workers) < min(w["ended_s"] for w in workers):
            together += 1
            assert len({worker["visible"] for worker in workers}) == 4
    assert together > 0


def test_more_workers_than_gpus_raise_and_other_tasks_need_none(trial):
    assert "a GPU if executors have GPUs. Received: workers=6" in trial["too_many"]
    assert [task["addresses"] for task in trial["etl"]] == [[]] * 8


def test_wrapper_trains_on_the_gpus_of_the_machine(blobs):
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10)
    with fake_gpus(2), sw.ParallelWrapper(dense(), master, devices="gpu") as wrapper:
        run = wrapper.start(blobs)
        run.wait(120.0)
        assert [worker.device for worker in run.status.workers] == ["GPU 0 (fake)", "GPU 1 (fake)"]


def test_gpu_invisible_to_tensorflow_raises_unless_cpus_are_allowed(blobs, monkeypatch):
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=10)
    with (
        sw.ParallelWrapper(dense(), master, devices=[7]) as wrapper,
        pytest.raises(
            sw.ConfigurationError, match=r"GPU 7, and a TensorFlow .* sees no GPU.*and-cuda"
        ),
    ):
        wrapper.fit(blobs)
    monkeypatch.setenv("SPARKWRIGHT_CPU_FALLBACK", "1")
    with sw.ParallelWrapper(dense(), master, devices=[7]) as wrapper:
        run = wrapper.start(blobs)
        run.wait(120.0)
        assert run.status.workers[0].device == "CPU (GPU 7 cannot be used)"
