import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases
from tests.support.fake_gpus import fake_gpus

import sparkwright as sw
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.workers import gpus as _gpus, pool as _pool
from sparkwright.workers.gpus import (
    CLAIM_VARIABLE,
    FAKE_VARIABLE,
    addresses_in,
    find_gpus,
    leave_gpus_to_workers,
    script_text,
)
from sparkwright.workers.pool import TrainerPool, _gpu_name

NVIDIA_SMI = """#!/bin/sh
[ "$*" = "--query-gpu=index,uuid --format=csv,noheader" ] || exit 2
printf '0, GPU-aa\\n1, GPU-bb\\n2, GPU-cc\\n'
"""


@pytest.fixture
def no_choice(monkeypatch):
    """CUDA_VISIBLE_DEVICES as on a machine where nobody has set it."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv(FAKE_VARIABLE, raising=False)
    monkeypatch.setattr(_gpus, "_users_choice", [])


@pytest.fixture
def three_gpus(tmp_path, monkeypatch, no_choice):
    """An nvidia-smi that names three."""
    program = tmp_path / "nvidia-smi"
    program.write_text(NVIDIA_SMI)
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


@pytest.mark.usefixtures("three_gpus")
def test_nvidia_smi_lists_the_available_gpus():
    assert find_gpus() == ("0", "1", "2")


@pytest.mark.usefixtures("three_gpus")
@cases(
    "choice, left", ("1,2", ("1", "2")), ("-1", ()), ("", ()), ("GPU-bb", ("GPU-bb",)), ("7", ())
)
def test_cuda_visible_devices_hides_gpus(monkeypatch, choice, left):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", choice)
    assert find_gpus() == left


@pytest.mark.usefixtures("no_choice")
def test_missing_nvidia_smi_error_includes_installation_advice():
    with pytest.raises(ConfigurationError, match=r"nvidia-smi is not on the PATH.*NVIDIA driver"):
        find_gpus()


def test_nvidia_smi_failure_is_quoted(three_gpus):
    three_gpus.write_text("#!/bin/sh\necho 'Failed to initialize NVML'; exit 9\n")
    with pytest.raises(ConfigurationError, match="Failed to initialize NVML"):
        find_gpus()


def test_custom_discovery_script_is_run(tmp_path, no_choice):
    script = tmp_path / "find"
    script.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["5"]}\'\n')
    with pytest.raises(ConfigurationError, match="Permission denied"):
        find_gpus(script)
    script.chmod(0o700)
    assert find_gpus(script) == ("5",)


@cases("text", "", "0, 1", "[]", '{"addresses": "0"}', '{"addresses": [0]}')
def test_invalid_address_list_is_rejected(text):
    assert addresses_in('{"name": "gpu", "addresses": ["0", "x"]}') == ("0", "x")
    with pytest.raises(ValueError, match="invalid JSON list of addresses"):
        addresses_in(text)


@pytest.mark.usefixtures("three_gpus")
def test_driver_hides_gpus_but_workers_still_find_them(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    leave_gpus_to_workers()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
    leave_gpus_to_workers()
    assert find_gpus() == ("0", "2")


@pytest.mark.usefixtures("no_choice")
def test_driver_whose_tensorflow_already_uses_a_gpu_warns(monkeypatch, caplog):
    class Config:
        @staticmethod
        def set_visible_devices(devices, kind):
            raise RuntimeError((devices, kind))

    class TensorFlow:
        config = Config

    monkeypatch.setitem(sys.modules, "tensorflow", TensorFlow)
    leave_gpus_to_workers()
    assert "before building the first model" in caplog.text
    assert "CUDA_VISIBLE_DEVICES" not in os.environ


def _claim(wanted, found, *, keep):
    """An executor, a shell here, that asks the script for GPUs and may live on."""
    line = 'sh -c "$SCRIPT"; echo over; ' + ("read -r _" if keep else ":")
    process = subprocess.Popen(
        ["sh", "-c", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            "PATH": os.environ["PATH"],
            "SCRIPT": script_text(),
            CLAIM_VARIABLE: str(wanted),
            FAKE_VARIABLE: found,
        },
    )
    said = ""
    while not said.endswith("over\n"):
        line = process.stdout.readline()
        assert line
        said += line
    return process, said


def test_executors_of_one_machine_claim_different_gpus_and_release_them():
    names = " ".join(f"claim{os.getpid()}-{number}" for number in range(4))
    first, second = _claim(2, names, keep=True), _claim(2, names, keep=True)
    third = _claim(1, names, keep=False)
    found = [set(re.findall(r'"(claim[^"]+)"', said)) for _, said in (first, second)]
    try:
        assert [len(addresses) for addresses in found] == [2, 2]
        assert not found[0] & found[1]
        assert "needs 1 GPUs, 0 are free of 4" in third[1]
    finally:
        for process, _ in (first, second, third):
            process.communicate("\n")
    again, said = _claim(4, names, keep=False)
    again.communicate()
    assert len(set(re.findall(r'"(claim[^"]+)"', said))) == 4
    for file in Path(f"/tmp/sparkwright-gpus-{os.getuid()}").glob(f"*claim{os.getpid()}*"):
        file.unlink()


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True))
def test_each_gpu_has_its_own_trainer_and_file(addresses):
    names = [_gpu_name(f"gpu-{address}") for address in addresses]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"gpu-[0-9a-z]{1,12}", name) for name in names)


def test_gpu_wait_timeout_names_the_holder(monkeypatch):
    monkeypatch.setattr(_pool, "_GPU_TIMEOUT_S", 0.1)
    pool = TrainerPool(owner=os.getpid(), secret=bytes(32))
    handle, name = pool._hold_one([_gpu_name("gpu-0")], timeout_s=0.0, remedy="")
    try:
        assert name == "gpu-0"
        with (
            pytest.raises(RunTimeoutError, match=f"waited 0.1 s .*gpu-0.*process {os.getpid()}"),
            pool.borrow(device="gpu-0", cores=3),
        ):
            pass
    finally:
        os.close(handle)
        pool.close()


def test_wrapper_has_a_worker_for_each_gpu():
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=4)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    with fake_gpus(3):
        wrapper = sw.ParallelWrapper(model, master, devices="gpu")
        assert wrapper.devices == ("gpu-0", "gpu-1", "gpu-2")
        wrapper = sw.ParallelWrapper(model, master, devices="gpu", workers=2)
        assert wrapper.devices == ("gpu-0", "gpu-1")
        assert sw.ParallelWrapper(model, master, devices=[4, 1]).devices == ("gpu-4", "gpu-1")
        with pytest.raises(ConfigurationError, match="workers=4, GPUs 0, 1, 2"):
            sw.ParallelWrapper(model, master, devices="gpu", workers=4)
    assert FAKE_VARIABLE not in os.environ
    assert sw.ParallelWrapper(model, master, workers=2).devices == ("cpu", "cpu")
    assert sw.ParallelWrapper(model, master, devices=[0, 0]).devices == ("gpu-0", "gpu-0")
    for devices in ("tpu", []):
        with pytest.raises(ConfigurationError, match="`devices` must"):
            sw.ParallelWrapper(model, master, devices=devices)
