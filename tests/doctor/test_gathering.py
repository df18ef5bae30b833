"""What the driver does with folders, by itself."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sparkwright.doctor import _gathering, _probe
from sparkwright.storage import _files


def test_a_folder_that_hangs_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = threading.Event()
    write = _files.write_bytes

    def hanging(url: str, content: bytes) -> None:
        if "stuck-" in url:
            hold.wait(60)
            raise OSError("it has been given up")
        write(url, content)

    monkeypatch.setattr(_files, "write_bytes", hanging)
    urls = [str(tmp_path / name) for name in ("stuck-1", "stuck-2", "fine")]
    try:
        found = _gathering.gather(None, urls=urls, timeout_s=4)
    finally:
        hold.set()
    problem = "no answer within 2 s"
    assert list(found.driver.files.values()) == [problem, problem, ""]
    assert not (tmp_path / "fine").exists()


def test_a_file_that_the_driver_does_not_find_is_told_with_its_writer(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    folders = {str(here): "hdfs://a", str(there): "hdfs://b"}
    answers: list[dict[str, Any]] = [
        {
            "executor": name,
            "label": f"executor {name}",
            "place": {"files": {"hdfs://a": "", "hdfs://b": "" if name == "2" else "no rights"}},
        }
        for name in ("1", "2")
    ]
    here.mkdir()
    for name in ("1", "2"):
        (here / _probe.file_of(name)).write_bytes(b"x")
    problems = {"hdfs://a": "", "hdfs://b": ""}
    _gathering._read_back(folders, answers, problems, 10.0)
    assert problems["hdfs://a"] == ""
    assert problems["hdfs://b"].startswith("the file that executor 2 wrote is not here: FileNot")
