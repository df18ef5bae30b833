import contextlib
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.waiting import wait_until
from tests.workers.test_wire import Evil

from sparkwright.errors import NetworkError, RunTimeoutError, WorkerError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.mesh.connection import Connection
from sparkwright.networks import ModelDefinition
from sparkwright.runs.launching import settings_of
from sparkwright.workers import pool as _pool
from sparkwright.workers._wire import pack
from sparkwright.workers.failure import failure_of
from sparkwright.workers.pool import BorrowedTrainer, TrainerPool
from sparkwright.workers.requests import RoundRequest

PYTHON = sys.executable  # which `stub` replaces
SECRET = secrets.token_bytes(32)  # not the secret of other tests of this process


@pytest.fixture
def pool():
    pool = TrainerPool(owner=os.getpid(), secret=SECRET)
    yield pool
    pool.close()


@pytest.fixture
def stub(monkeypatch, tmp_path):
    """Trainers start at once: they have no TensorFlow."""
    python = tmp_path / "python"
    script = Path(__file__).with_name("stub_trainer.py")
    command = shlex.join([sys.executable, str(script)])
    python.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))


def request(run):
    settings = settings_of(ParameterAveragingTrainingMaster(seed=1), epochs=1)
    return RoundRequest(
        definition=ModelDefinition(name="m", config="{}", custom_objects=b"", parameters=0),
        run=run,
        shard="",
        settings=replace(settings, worker=1),
        epoch=0,
        share=None,
        first=True,
        iterations=0,
        vector=b"",
        extras=b"",
    )


def process_of(pool):
    (file,) = pool.folder.glob("*.pid")
    return psutil.Process(int(file.read_text()))


@pytest.mark.usefixtures("stub")
def test_workers_sharing_a_gpu_are_two_processes(pool, monkeypatch):
    monkeypatch.setattr(_pool, "_GPU_TIMEOUT_S", 0.1)
    share = {"device": "gpu-5", "cores": 1, "at_most": 2}
    with pool.borrow(**share) as first, pool.borrow(**share) as second:
        answers = [trainer.ask(request("a run")).fields for trainer in (first, second)]
        pids = {file.read_text() for file in pool.folder.glob("*.pid")}
        with (
            pytest.raises(RunTimeoutError, match="one of 2 trainers of gpu-5"),
            pool.borrow(**share),
        ):
            pass
    assert answers == [{"run": "a run"}] * 2
    assert len(pids) == 2
    environments = [psutil.Process(int(pid)).environ() for pid in pids]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in environments] == ["5", "5"]
    assert {each["XLA_PYTHON_CLIENT_PREALLOCATE"] for each in environments} == {"false"}


def test_folder_is_private_to_its_owner_and_application(pool):
    assert pool.folder.stat().st_mode & 0o777 == 0o700
    assert TrainerPool(owner=os.getpid(), secret=SECRET).folder == pool.folder
    other = TrainerPool(owner=os.getpid(), secret=bytes(32))
    assert other.folder != pool.folder
    other.close()
    assert not other.folder.exists()
    pool.folder.chmod(0o755)
    with pytest.raises(NetworkError, match="only this user can access"):
        TrainerPool(owner=os.getpid(), secret=SECRET)
    pool.folder.chmod(0o700)


def test_link_in_place_of_the_folder_is_rejected(pool, tmp_path):
    shutil.rmtree(pool.folder)
    tmp_path.chmod(0o700)
    pool.folder.symlink_to(tmp_path)
    try:
        with pytest.raises(NetworkError, match=r"must be a folder .* mode l"):
            TrainerPool(owner=os.getpid(), secret=SECRET)
    finally:
        pool.folder.unlink()


def test_the_next_pool_removes_folders_whose_processes_have_ended(pool, stub):
    """However they ended; the folder of an idle trainer stays although its task is over."""
    script = """
import os, signal
from sparkwright.workers.pool import TrainerPool
pool = TrainerPool(owner=os.getppid(), secret=bytes([{number}] * 32))
print(pool.folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [PYTHON, "-c", script.format(number=1)], capture_output=True, text=True, timeout=60
    )
    killed = Path(done.stdout.strip())
    assert killed.exists()
    with pool.borrow(device="cpu", cores=1):
        pass
    subprocess.run([PYTHON, "-c", script.format(number=2)], timeout=60)
    assert not killed.exists()
    assert process_of(pool).is_running()


def test_scratch_files_are_in_sparks_local_folder(pool, monkeypatch, tmp_path):
    monkeypatch.setenv("LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert pool.scratch().parent == tmp_path
    monkeypatch.delenv("LOCAL_DIRS")
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert pool.scratch().parent == pool.folder


KILLED_WITH_DATA = """
import os, signal
from sparkwright.workers.folders import SCRATCH, own_folder
from pathlib import Path
(own_folder(SCRATCH, Path({folder!r})) / "data").write_bytes(bytes(10))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("by", ["the next task", "another executor's task", "an idle trainer"])
def test_data_of_killed_tasks_is_removed(pool, monkeypatch, tmp_path, by):
    folders = [tmp_path / "blockmgr-1", tmp_path / "blockmgr-2"]
    for folder in folders:
        folder.mkdir()
    folder = folders[by == "another executor's task"]
    monkeypatch.setenv("LOCAL_DIRS", str(folders[0]))
    used = pool.scratch()
    if by == "an idle trainer":
        with pool.borrow(device="cpu", cores=1):
            pass
    killed = KILLED_WITH_DATA.format(folder=str(folder))
    subprocess.run([PYTHON, "-c", killed], timeout=60)
    if by != "an idle trainer":
        assert len(list(tmp_path.glob("*/*"))) == 2
        TrainerPool(owner=os.getpid(), secret=SECRET)
    wait_until(lambda: list(tmp_path.glob("*/*")) == [used], 30)


@pytest.mark.thorough
def test_wait_for_a_limited_trainer_times_out(pool, stub, monkeypatch):
    monkeypatch.setattr(_pool, "_TRAINER_TIMEOUT_S", 0.1)
    with (
        pool.borrow(device="cpu", cores=1, at_most=1),
        pytest.raises(
            RunTimeoutError,
            match=f"{os.getpid()} on .* waited 0.1 s for the trainer of cpu-1-0, .*{os.getpid()} h",
        ),
        pool.borrow(device="cpu", cores=1, at_most=1),
    ):
        pass


def test_later_task_of_the_application_uses_the_same_trainer(pool, stub):
    with pool.borrow(device="cpu", cores=1) as trainer:
        assert trainer.ask(request("a")).fields == {"run": "a"}
    first = process_of(pool)
    later = TrainerPool(owner=os.getpid(), secret=SECRET)
    with later.borrow(device="cpu", cores=1) as trainer:
        assert trainer.ask(request("b")).fields == {"run": "b"}
    assert process_of(later) == first


def test_secret_reaches_the_trainer_through_its_input_only(pool, stub):
    with pool.borrow(device="cpu", cores=1):
        proc = Path(f"/proc/{process_of(pool).pid}")
        for shown in ("cmdline", "environ"):
            content = (proc / shown).read_bytes()
            assert SECRET not in content
            assert SECRET.hex().encode() not in content
    for file in pool.folder.glob("*"):
        if file.is_file():
            assert SECRET not in file.read_bytes()


def test_trainer_reads_nothing_from_a_peer_without_the_secret(pool, stub, tmp_path):
    made = tmp_path / "made"
    with pool.borrow(device="cpu", cores=1) as trainer:
        trainer.ask(request("a"))
    (path,) = pool.folder.glob("*.sock")
    fields, payload = pack(Evil(made), own_code=True)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(path))
        stranger.settimeout(60.0)
        with contextlib.suppress(NetworkError, ConnectionError):
            Connection(stranger).send("request", {"path": [], **fields}, payload)
            assert stranger.recv(1) == b""
    assert not made.exists()
    with pool.borrow(device="cpu", cores=1) as trainer:  # others are served as before
        assert trainer.ask(request("b")).fields == {"run": "b"}


def test_killed_trainer_is_reported_with_its_signal(pool, stub):
    with pool.borrow(device="cpu", cores=1) as trainer:
        process_of(pool).kill()
        with pytest.raises(WorkerError) as caught:
            trainer.ask(request("a"))
    assert caught.value.worker == 1
    reason = f"worker 1 on {socket.gethostname()} ended (signal 9, SIGKILL). The usual cause is"
    assert reason in caught.value.reason
    assert failure_of(caught.value, worker=1, host="node7").traceback == ""  # not of the task


def test_killed_trainer_is_reported_with_the_minibatches_that_it_was_training(pool, stub):
    for run, at in (("dies training", (2, 1, 5, 9)), ("dies after training", None)):
        with pool.borrow(device="cpu", cores=1) as trainer, pytest.raises(WorkerError) as caught:
            trainer.ask(request(run))
        assert failure_of(caught.value, worker=1, host="node7").at == at


def test_exited_trainer_is_reported_with_its_traceback(pool, stub):
    with pool.borrow(device="cpu", cores=1) as trainer, pytest.raises(WorkerError) as caught:
        trainer.ask(request("ends"))
    reason = caught.value.reason
    ended = f"ended (signal {signal.SIGINT.value}, SIGINT). The end of its log:\nTraceback"
    assert ended in reason or "ended (exit status 1). The end of its log:\nTraceback" in reason
    assert reason.endswith("KeyboardInterrupt: of the stub")
    assert "oneDNN" not in reason


def test_exit_of_another_processs_trainer_is_reported_without_a_status(pool, stub, monkeypatch):
    with pool.borrow(device="cpu", cores=1):
        process = process_of(pool)
    (child,) = (p for p in _pool._started if p.pid == process.pid)
    monkeypatch.setattr(_pool, "_started", [])
    with pool.borrow(device="cpu", cores=1) as trainer:
        assert isinstance(trainer, BorrowedTrainer)
        process.kill()
        child.wait(60.0)
        with pytest.raises(WorkerError, match=r"of worker 1 on \S+ ended\. The usual cause"):
            trainer.ask(request("a"))
