import os
import re
import subprocess
import sys

from tests.cases import cases

from sparkwright.cluster.engine_archive import own_engine
from sparkwright.doctor import _probe
from sparkwright.doctor._findings import Place


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def program(folder, name, script):
    write(folder / name, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_current_process_can_be_inspected():
    found = _probe.examine(_probe.java_above())
    place = Place(**found, label="driver")
    assert place.versions["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert place.versions["TensorFlow"]
    assert place.versions["sparkwright"] == __import__("sparkwright").__version__
    assert place.versions["sparkwright's sources"] == own_engine()["fingerprint"]


def test_inspection_imports_no_package_that_executors_may_lack(tmp_path):
    code = (
        "import sys; from sparkwright.doctor import _probe; _probe.examine({});"
        "print(*{'tensorflow', 'keras', 'numpy', 'pyspark', 'cryptography'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == []


@cases(
    "script, gpus, problem",
    ("echo '0, NVIDIA A100, 40960 MiB, 570.1'; echo '1, …'", 2, "^$"),
    ("echo broken >&2; exit 9", 0, "broken"),
    ("exec sleep 60", 0, "no answer"),
    ids=["two", "failure", "timeout"],
)
def test_gpus_are_those_that_nvidia_smi_lists(tmp_path, monkeypatch, script, gpus, problem):
    program(tmp_path, "nvidia-smi", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_probe, "_COMMAND_S", 0.5)
    found = _probe.examine({})
    assert found["gpus"] == ["0, NVIDIA A100, 40960 MiB, 570.1", "1, …"][:gpus]
    assert re.search(problem, found["gpu_problem"])
