import json
import os
import re
import subprocess
import sys

import pytest
from tests.gpu.machine import nvidia_gpus
from tests.gpu.runner import ROOT, Check, run_all
from tests.gpu.wheels import NAMES, pinned

JAX = ROOT / ".venv" / "jax"  # see `.ci/setup`
_CHECKS = """
import os, time
from tests.gpu.runner import SkipCheck

def passes(word):
    return f"it is {word}", [{"what": "speed", "value": 2.0, "unit": "x"}]

def fails():
    raise ValueError("a < b")

def skips():
    raise SkipCheck("for a reason")

def dies():
    os._exit(3)

def hangs():
    time.sleep(60)
"""
_SMI = """#!/bin/sh
echo "0, GPU-aa, NVIDIA H100, 81559, 580.1"
"""


@pytest.mark.thorough
def test_outcomes_are_saved_after_each_check(tmp_path, capsys):
    folder = tmp_path / "tests" / "gpu"
    folder.mkdir(parents=True)
    (folder / "trial.py").write_text(_CHECKS)
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(tmp_path)])
    calls = {"passes:well": 20, "fails": 20, "skips": 20, "dies": 20, "hangs": 2}
    checks = [Check(f"trial:{call}", call, limit) for call, limit in calls.items()]
    checks.append(Check("trial:passes:later", "of Spark", tier="full"))
    kept = []
    environment = {**os.environ, "PYTHONPATH": path}
    options = {"tier": "bare", "environment": environment, "budget_s": 100}
    results = run_all(checks, keep=lambda found: kept.append(len(found)), **options)
    assert kept == [1, 2, 3, 4, 5, 6]
    outcomes = ["passed", "failed", "skipped", "failed", "failed", "skipped"]
    assert [result["status"] for result in results] == outcomes
    said = [result["said"] for result in results]
    assert said[:3] == ["it is well", "ValueError: a < b", "for a reason"]
    assert ["status 3" in said[3], "no result within 2 s" in said[4]] == [True, True]
    late = run_all(checks[:1], keep=lambda found: None, **{**options, "budget_s": 1})
    assert late[0]["said"] == "The 1 s for all checks were over."
    assert re.search(r"speed +2\.00 x +\n", capsys.readouterr().out)


def test_nvidia_smi_lists_the_available_gpus(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_gpus() == ([], "nvidia-smi is not on the PATH")
    program = tmp_path / "nvidia-smi"
    program.write_text(_SMI)
    program.chmod(0o700)
    (gpu,), problem = nvidia_gpus()
    assert (gpu["index"], gpu["name"], problem) == ("0", "NVIDIA H100", "")


def test_without_a_gpu_the_suite_prints_one_sentence(tmp_path):
    command = [sys.executable, "-m", "tests.gpu", "--reports", str(tmp_path)]
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert done.stdout.startswith("No NVIDIA GPU on this machine: nvidia-smi is not on the PATH.")
    assert list(tmp_path.iterdir()) == []


def test_each_wheel_has_a_pinned_version():
    assert [line.partition("==")[0] for line in pinned()] == list(NAMES)


@pytest.mark.cluster
@pytest.mark.skipif(not JAX.exists(), reason="`.ci/setup test` has not fetched JAX")
def test_bare_tier_checks_pass_on_cpus(tmp_path):
    only = ["own_gpu", "killed", "exchange 25", "throughput resnet50"]
    command = [sys.executable, "-m", "tests.gpu", "--cpu", "--tier", "bare", "--only", *only]
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT), str(JAX)])
    environment = {**os.environ, "PYTHONPATH": path, "KERAS_BACKEND": "jax"}
    command += ["--reports", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "gpu.json").read_text())
    found = {check["name"]: check for check in report["checks"]}
    assert {name: check["status"] for name, check in found.items()} == dict.fromkeys(only, "passed")
    goals = [
        row["target"] for check in found.values() for row in check["rows"] if row.get("target")
    ]
    assert sorted(goals) == ["<= 1.5", ">= 0.98"]
