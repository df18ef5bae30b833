"""What a machine tells of itself, read from files and programs made up for it."""

import getpass
import os
import sys
from pathlib import Path

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


def test_this_process_can_be_looked_at() -> None:
    found = _machine.examine(find_kit=engine_finder())
    place = Place.from_dict({**found, "label": "driver"})
    assert place.versions["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert place.versions["TensorFlow"]
    assert place.versions["sparkwright"] == __import__("sparkwright").__version__
    assert place.versions["sparkwright's sources"] == own_engine()["fingerprint"]
    assert place.cores
    assert place.memory.total
    assert place.memory.scratch


def test_looking_starts_neither_tensorflow_nor_keras(tmp_path: Path) -> None:
    import subprocess

    code = (
        "import sys; from sparkwright.doctor import _machine; _machine.examine();"
        "print(*{'tensorflow', 'keras', 'pandas', 'pyspark'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == []


def test_the_least_limit_of_nested_control_groups_counts(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/kube/pod/box\n")
    groups = tmp_path / "sys/fs/cgroup"
    write(groups / "kube/pod/box/memory.max", "max\n")
    write(groups / "kube/pod/memory.max", f"{4 * GIB}\n")
    write(groups / "kube/memory.max", f"{2 * GIB}\n")
    assert _machine.container_limit(tmp_path) == 2 * GIB


def test_a_container_that_does_not_see_its_own_group_looks_at_the_top(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/../../box\n")
    write(tmp_path / "sys/fs/cgroup/memory.max", f"{GIB}\n")
    assert _machine.container_limit(tmp_path) == GIB


def test_control_groups_of_version_1_are_read(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "5:devices:/\n4:memory:/docker/a:b\n")
    groups = tmp_path / "sys/fs/cgroup/memory"
    write(groups / "docker/a:b/memory.limit_in_bytes", f"{GIB}\n")
    write(groups / "memory.limit_in_bytes", "9223372036854771712\n")
    assert _machine.container_limit(tmp_path) == GIB


def test_without_limits_there_is_none(tmp_path: Path) -> None:
    assert _machine.container_limit(tmp_path) is None
    write(tmp_path / "proc/self/cgroup", "4:memory:/\n")
    write(tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert _machine.container_limit(tmp_path) is None


def logind(root: Path, text: str, **extra: str) -> bool | None:
    (root / "run/systemd/system").mkdir(parents=True)
    write(root / "etc/systemd/logind.conf", text)
    for name, content in extra.items():
        folder, _, file = name.partition("__")
        write(root / folder / f"systemd/logind.conf.d/{file}.conf", content)
    found = _machine.logind(root)
    assert found is not None
    assert found["user"] == getpass.getuser()
    return found["kills"]


@pytest.fixture
def _somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")


@pytest.mark.usefixtures("_somebody")
class TestLogind:
    def test_without_systemd_nothing_is_killed(self, tmp_path: Path) -> None:
        assert _machine.logind(tmp_path) is None

    def test_the_setting_is_read(self, tmp_path: Path) -> None:
        assert logind(tmp_path, "[Login]\n#KillUserProcesses=no\nKillUserProcesses=yes\n") is True

    def test_a_comment_tells_the_default_of_the_distribution(self, tmp_path: Path) -> None:
        assert logind(tmp_path, "[Login]\n#KillUserProcesses=no\n") is False

    def test_a_silent_file_leaves_it_open(self, tmp_path: Path) -> None:
        assert logind(tmp_path, "[Login]\n") is None

    def test_later_files_win_whatever_their_folder(self, tmp_path: Path) -> None:
        yes, no = "[Login]\nKillUserProcesses=yes\n", "[Login]\nKillUserProcesses=no\n"
        assert logind(tmp_path, no, etc__10=no, run__20=yes) is True

    def test_a_file_in_etc_hides_one_of_the_same_name(self, tmp_path: Path) -> None:
        yes, no = "[Login]\nKillUserProcesses=yes\n", "[Login]\nKillUserProcesses=no\n"
        kills = logind(tmp_path, "", etc__10=no, run__10=yes)
        assert kills is False

    def test_users_may_be_excluded(self, tmp_path: Path) -> None:
        text = "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=root ann\n"
        assert logind(tmp_path, text) is False

    def test_those_who_linger_are_noticed(self, tmp_path: Path) -> None:
        write(tmp_path / "var/lib/systemd/linger/ann", "")
        logind(tmp_path, "[Login]\nKillUserProcesses=yes\n")
        found = _machine.logind(tmp_path)
        assert found is not None
        assert found["lingers"] is True


def test_root_is_excluded_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    assert logind(tmp_path, "[Login]\nKillUserProcesses=yes\n") is False


def test_preloaded_paths_that_are_missing_are_found(tmp_path: Path) -> None:
    there = tmp_path / "a.so"
    there.touch()
    assert _machine.missing_preloads(f"{there}:/no/b.so libgomp.so.1") == ["/no/b.so"]
    assert _machine.missing_preloads("") == []


def test_gpus_are_those_that_nvidia_smi_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "nvidia-smi", "echo '0, NVIDIA A100, 40960 MiB, 570.1'; echo '1, …'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = _machine.examine()
    assert found["gpus"] == ["0, NVIDIA A100, 40960 MiB, 570.1", "1, …"]
    assert found["gpu_problem"] == ""


@pytest.mark.parametrize(
    ("script", "words"), [("echo broken >&2; exit 9", "broken"), ("sleep 60", "no answer")]
)
def test_an_nvidia_smi_that_fails_or_hangs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    program(tmp_path, "nvidia-smi", f"exec {script}" if "sleep" in script else script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(_machine, "_COMMAND_S", 0.5)
    found = _machine.examine()
    assert found["gpus"] == []
    assert words in found["gpu_problem"]


def test_the_folder_of_the_workers_data_is_sparks_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_DIRS", "")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/other")
    assert _machine.scratch_folder() == str(tmp_path)
