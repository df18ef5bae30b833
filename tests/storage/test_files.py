"""Files at URLs: in memory, on disk, with spaces in their names."""

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sparkwright.storage._files import (
    absolute,
    as_asked,
    exists,
    is_folder,
    join,
    move,
    open_to_read,
    read_bytes,
    remove,
    remove_tree,
    write_atomically,
    write_bytes,
)
from sparkwright.storage._listing import StoredFile, list_files, list_folder

_NUMBERS = itertools.count()


@pytest.fixture(params=["path", "file", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "path": str(tmp_path / "a folder"),
        "file": f"file://{tmp_path}/a folder",
        "memory": f"memory://files {next(_NUMBERS)}/a folder",
    }[request.param]


def put(url: str, content: bytes = b"content") -> str:
    with write_atomically(url) as file:
        file.write(content)
    return url


def test_what_was_written_is_read(folder: str) -> None:
    url = put(join(folder, "one file"), b"12345")
    assert read_bytes(url) == b"12345"
    with open_to_read(url) as file:
        file.seek(2)
        assert file.read(2) == b"34"


def test_writing_again_replaces_the_file(folder: str) -> None:
    put(join(folder, "file"), b"old")
    put(join(folder, "file"), b"new")
    assert read_bytes(join(folder, "file")) == b"new"
    assert list_folder(folder) == ["file"]


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("no"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_block_that_fails(folder: str, error: BaseException) -> None:
    put(join(folder, "file"), b"old")

    def write_half() -> None:
        with write_atomically(join(folder, "file")) as file:
            file.write(b"half of the ne")
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert list_folder(folder) == ["file"]
    assert read_bytes(join(folder, "file")) == b"old"


def test_a_folder_lists_its_files_by_name_and_no_folders(folder: str) -> None:
    for name in ("b", "a", "deeper/c"):
        put(join(folder, name))
    assert list_folder(folder) == ["a", "b"]
    assert is_folder(folder)
    assert not is_folder(join(folder, "a"))


def test_a_missing_folder_lists_nothing(folder: str) -> None:
    assert list_folder(join(folder, "nowhere")) == []
    assert not is_folder(join(folder, "nowhere"))


def test_removing_takes_one_file_and_does_not_mind_a_missing_one(folder: str) -> None:
    put(join(folder, "a"))
    put(join(folder, "b"))
    remove(join(folder, "a"))
    remove(join(folder, "a"))
    assert list_folder(folder) == ["b"]
    remove_tree(folder)
    assert not exists(join(folder, "b"))


@pytest.mark.parametrize("read", [read_bytes, lambda url: open_to_read(url).__enter__()])
def test_reading_what_is_missing_names_the_url(folder: str, read: Callable[[str], Any]) -> None:
    with pytest.raises(FileNotFoundError, match="nothing here does not exist"):
        read(join(folder, "nothing here"))


@pytest.mark.parametrize(("method", "call"), [("ls", list_folder), ("rm_file", remove)])
def test_what_the_store_says_names_the_url(
    monkeypatch: pytest.MonkeyPatch, method: str, call: Callable[[str], Any]
) -> None:
    url = put(f"memory://files {next(_NUMBERS)}/file")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), method, refuse)
    with pytest.raises(PermissionError, match=f"{url} could not be .*: not yours"):
        call(url)


def test_joining_does_not_double_the_slash() -> None:
    assert join("memory://a/", "b") == join("memory://a", "b") == "memory://a/b"


def below(files: list[StoredFile]) -> list[str]:
    """What follows the folder of the fixture; each URL can be read."""
    assert all(read_bytes(file.url) == b"content" for file in files)
    return [file.url.partition("/a folder")[2] for file in files]


def test_files_are_listed_sorted_with_sizes_and_without_hidden_ones(folder: str) -> None:
    for name in ("b.csv", "a.CSV", "deep/er/c.csv", "d.txt", "_tmp/e.csv", ".f.csv"):
        put(f"{folder}/{name}")
    assert below(list_files(folder)) == ["/a.CSV", "/b.csv", "/d.txt", "/deep/er/c.csv"]
    assert {file.size_bytes for file in list_files(folder)} == {7}
    assert all(file.version for file in list_files(folder))
    csv = list_files(folder, extensions=["csv"], recursive=False)
    assert below(csv) == ["/a.CSV", "/b.csv"]
    assert "/deep/er/c.csv" in below(list_files(f"{folder}/**/*.csv"))
    assert below(list_files(f"{folder}/_tmp/e.csv")) == ["/_tmp/e.csv"]
    with pytest.raises(FileNotFoundError, match="nothing"):
        list_files(f"{folder}/nothing")
    with pytest.raises(FileNotFoundError, match=r"\*\.png"):
        list_files(f"{folder}/*.png")


def test_a_pattern_leaves_hidden_files_out_unless_it_asks_for_them(folder: str) -> None:
    for name in ("part-0.csv", "_SUCCESS", ".part-0.csv.crc", "_old/a.csv"):
        put(f"{folder}/{name}")
    assert below(list_files(f"{folder}/*")) == ["/part-0.csv"]
    assert below(list_files(f"{folder}/_S*")) == ["/_SUCCESS"]
    assert below(list_files(f"{folder}/**/*.csv")) == ["/part-0.csv"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(folder: str) -> None:
    write_bytes(f"{folder}/data[1].csv", b"content")
    assert below(list_files(f"{folder}/data[1].csv")) == ["/data[1].csv"]


def test_files_are_named_in_the_form_of_the_url(folder: str) -> None:
    put(f"{folder}/a.csv")
    assert [file.url for file in list_files(folder)] == [f"{folder}/a.csv"]
    assert absolute(f"{folder}/") == folder


@pytest.mark.parametrize("url", ["hdfs://namenode:8020/data/a", "webhdfs://namenode:9870/data/a"])
def test_a_host_stays_in_the_url(url: str) -> None:
    class Cut:
        """What Hadoop's file systems do: paths without scheme and host."""

        protocol = "hdfs"

        def unstrip_protocol(self, name: str) -> str:
            return f"hdfs://{name}"

    system: Any = Cut()
    assert as_asked(system, url, "/data/a", "/data/a/b.csv") == f"{url}/b.csv"
    assert as_asked(system, f"{url}/", "/data/a", "/data/a/b.csv") == f"{url}/b.csv"


def test_a_file_moved_onto_itself_is_refused_and_stays(folder: str) -> None:
    url = put(f"{folder}/a")
    with pytest.raises(FileExistsError, match="another place"):
        move(url, f"{folder}/../a folder/a" if "://" not in url else url)
    assert read_bytes(url) == b"content"
    move(url, f"{folder}/b")
    assert not exists(url)
    assert read_bytes(f"{folder}/b") == b"content"


def test_a_move_names_the_file_that_is_at_fault(tmp_path: Path) -> None:
    url = put(str(tmp_path / "a"))
    put(str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"file/b could not be written"):
        move(url, str(tmp_path / "file" / "b"))
    with pytest.raises(FileNotFoundError, match=r"missing does not exist"):
        move(str(tmp_path / "missing"), str(tmp_path / "c"))
    assert not (tmp_path / "c").exists()


def test_a_store_that_cannot_rename_over_a_file_keeps_the_old_one_until_the_new_one_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = put(f"memory://files {next(_NUMBERS)}/file", b"old")
    copied = fsspec.filesystem("memory").cp_file

    def refuse_new(path1: str, path2: str, **options: Any) -> None:
        if path1.endswith(".tmp"):
            raise PermissionError("full")
        copied(path1, path2, **options)

    monkeypatch.setattr(fsspec.filesystem("memory"), "cp_file", refuse_new)
    with pytest.raises(PermissionError, match="full"):
        put(url, b"new")
    assert read_bytes(url) == b"old"


def test_durable_file_is_on_disk_before_its_name_and_its_name_before_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        content = path.read_bytes().decode() if path.is_file() else path.name
        done.append(("sync", content))
        fsync(descriptor)

    def recording_replace(path: str, to_path: str) -> None:
        done.append(("rename to", Path(to_path).name))
        replace(path, to_path)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    url = str(tmp_path / "models" / "file")
    with write_atomically(url, durable=True) as file:
        file.write(b"new")
    expected = [("sync", "new"), ("rename to", "file"), ("sync", "models")]
    assert done == expected
    done.clear()
    move(url, str(tmp_path / "models" / "other"))
    assert done == [expected[0], ("rename to", "other"), expected[2]]


def test_file_that_cannot_be_synced_leaves_the_old_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = put(str(tmp_path / "file"), b"old")

    def refuse(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with (
        pytest.raises(OSError, match=r"file could not be written.*Input/output"),
        write_atomically(url, durable=True) as file,
    ):
        file.write(b"new")
    assert read_bytes(url) == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_leftovers_of_killed_writers_are_removed_and_other_writers_files_stay(
    tmp_path: Path,
) -> None:
    left = [".file.0a1b2c3d.tmp", ".file.0a1b2c3e.tmp.old"]
    stay = [".file.0a1b2c3f.tmp", ".file2.0a1b2c3d.tmp", ".file.tmp", "file.0a1b2c3d.tmp"]
    for name in (*left, *stay):
        put(str(tmp_path / name))
    for name in (left[0], *stay[1:]):
        os.utime(tmp_path / name, (0, 0))
    with write_atomically(str(tmp_path / "file"), durable=True) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == sorted(["file", *stay])
