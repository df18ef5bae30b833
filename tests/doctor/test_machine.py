"""What a machine tells of itself, read from files and programs made up for it."""

import getpass
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkwright.cluster.engine_archive import engine_finder, own_engine
from sparkwright.doctor import _machine
from sparkwright.doctor._findings import GIB, Place


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def program(folder: Path, name: str, script: str) -> None:
    write(folder / name, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_current_process_can_be_inspected() -> None:
    found = _machine.examine(find_kit=engine_finder())
    place = Place.from_dict({**found, "label": "driver"})
    assert place.versions["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert place.versions["TensorFlow"]
    assert place.versions["sparkwright"] == __import__("sparkwright").__version__
    assert place.versions["sparkwright's sources"] == own_engine()["fingerprint"]
    assert place.cores
    assert place.memory.total
    assert place.memory.scratch


def test_inspection_imports_neither_tensorflow_nor_keras(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys; from sparkwright.doctor import _machine; _machine.examine();"
        "print(*{'tensorflow', 'keras', 'pandas', 'pyspark'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == []


V1 = "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        (
            "0::/kube/pod/box",
            {
                "sys/fs/cgroup/kube/pod/box/memory.max": "max",
                "sys/fs/cgroup/kube/pod/memory.max": 4 * GIB,
                "sys/fs/cgroup/kube/memory.max": 2 * GIB,
            },
            2 * GIB,
        ),
        # A container may not see its own group.
        ("0::/../../box", {"sys/fs/cgroup/memory.max": GIB}, GIB),
        (
            "5:devices:/\n4:memory:/docker/a:b",
            {
                f"{V1}/docker/a:b/memory.limit_in_bytes": GIB,
                f"{V1}/memory.limit_in_bytes": 9223372036854771712,
            },
            GIB,
        ),
        ("4:memory:/", {f"{V1}/memory.limit_in_bytes": 9223372036854771712}, None),
        ("", {}, None),
    ],
)
def test_smallest_limit_of_nested_control_groups_applies(
    tmp_path: Path, groups: str, files: dict[str, Any], limit: int | None
) -> None:
    write(tmp_path / "proc/self/cgroup", f"{groups}\n" if groups else "")
    for name, content in files.items():
        write(tmp_path / name, f"{content}\n")
    assert _machine.container_limit(tmp_path) == limit


YES, NO = "[Login]\nKillUserProcesses=yes\n", "[Login]\nKillUserProcesses=no\n"


@pytest.mark.parametrize(
    ("user", "files", "kills"),
    [
        ("ann", {"etc/logind.conf": f"#KillUserProcesses=no\n{YES}"}, True),
        # A comment is the default of the distribution.
        ("ann", {"etc/logind.conf": "[Login]\n#KillUserProcesses=no\n"}, False),
        ("ann", {"etc/logind.conf": "[Login]\n"}, None),
        # The last name counts, whatever its folder; a file in etc hides one of the same name.
        (
            "ann",
            {"etc/logind.conf.d/10.conf": NO, "run/logind.conf.d/20.conf": YES},
            True,
        ),
        ("ann", {"etc/logind.conf.d/10.conf": NO, "run/logind.conf.d/10.conf": YES}, False),
        ("ann", {"etc/logind.conf": f"{YES}KillExcludeUsers=root ann\n"}, False),
        ("root", {"etc/logind.conf": YES}, False),
    ],
)
def test_setting_that_kills_processes_after_logout_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
    files: dict[str, str],
    kills: bool | None,
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    assert _machine.logind(tmp_path) is None  # no systemd
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for name, content in files.items():
        folder, _, file = name.partition("/")
        write(tmp_path / folder / "systemd" / file, content)
    assert _machine.logind(tmp_path) == {"user": user, "kills": kills, "lingers": False}


def test_lingering_users_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    write(tmp_path / "var/lib/systemd/linger/ann", "")
    found = _machine.logind(tmp_path)
    assert found is not None
    assert found["lingers"] is True


def test_missing_preloaded_paths_are_found(tmp_path: Path) -> None:
    there = tmp_path / "a.so"
    there.touch()
    assert _machine.missing_preloads(f"{there}:/no/b.so libgomp.so.1") == ["/no/b.so"]
    assert _machine.missing_preloads("") == []


def test_gpus_match_the_nvidia_smi_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "nvidia-smi", "echo '0, NVIDIA A100, 40960 MiB, 570.1'; echo '1, …'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = _machine.examine()
    assert found["gpus"] == ["0, NVIDIA A100, 40960 MiB, 570.1", "1, …"]
    assert found["gpu_problem"] == ""


@pytest.mark.parametrize(
    ("script", "words"), [("echo broken >&2; exit 9", "broken"), ("sleep 60", "no answer")]
)
def test_nvidia_smi_failure_or_timeout_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    program(tmp_path, "nvidia-smi", f"exec {script}" if "sleep" in script else script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_machine, "_COMMAND_S", 0.5)
    found = _machine.examine()
    assert found["gpus"] == []
    assert words in found["gpu_problem"]


def test_worker_data_folder_is_sparks_local_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_DIRS", "")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/other")
    assert _machine.scratch_folder() == str(tmp_path)
