import json
import os
import subprocess
import sys

import pytest
from tests.gpu.runner import ROOT

JAX = ROOT / ".venv" / "jax"  # see `.ci/setup`


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
