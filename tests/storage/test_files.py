import errno
import itertools
import os
import re
import sys
from functools import partial
from pathlib import Path

import fsspec
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.storage.files import (
    join,
    open_to_read,
    read_bytes,
    remove,
    write_atomically,
    write_folder,
)
from sparkwright.storage.listing import list_folder

_NUMBERS = itertools.count()


def put(url, content=b"content"):
    with write_atomically(url) as file:
        file.write(content)
    return url


@pytest.mark.parametrize(("method", "call"), [("ls", list_folder), ("rm_file", remove)])
def test_errors_of_the_store_name_the_url(monkeypatch, method, call):
    url = put(f"memory://files {next(_NUMBERS)}/file")

    def refuse(*_, **__):
        raise PermissionError("not yours")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), method, refuse)
    with pytest.raises(PermissionError, match=f"{url} could not be .*: not yours"):
        call(url)


def test_failed_write_or_read_names_the_file(tmp_path):
    put(str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"file/b could not be written"):
        put(str(tmp_path / "file" / "b"))
    with pytest.raises(FileNotFoundError, match=r"missing does not exist"):
        read_bytes(str(tmp_path / "missing"))


def test_store_without_atomic_rename_keeps_the_old_file_until_the_new_one_exists(monkeypatch):
    url = put(f"memory://files {next(_NUMBERS)}/file", b"old")
    copied = fsspec.filesystem("memory").cp_file

    def refuse_new(path1, path2, **options):
        if path1.endswith(".tmp"):
            raise PermissionError("full")
        copied(path1, path2, **options)

    monkeypatch.setattr(fsspec.filesystem("memory"), "cp_file", refuse_new)
    with pytest.raises(PermissionError, match="full"):
        put(url, b"new")
    assert read_bytes(url) == b"old"


def test_durable_write_syncs_content_before_rename_and_folder_after(monkeypatch, tmp_path):
    done = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        content = path.read_bytes().decode() if path.is_file() else path.name
        done.append(("sync", content))
        fsync(descriptor)

    def recording_replace(path, to_path):
        done.append(("rename to", Path(to_path).name))
        replace(path, to_path)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    url = str(tmp_path / "models" / "file")
    with write_atomically(url, durable=True) as file:
        file.write(b"new")
    assert done == [("sync", "new"), ("rename to", "file"), ("sync", "models")]


def test_failed_sync_keeps_the_old_file(monkeypatch, tmp_path):
    url = put(str(tmp_path / "file"), b"old")

    def refuse(_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with (
        pytest.raises(OSError, match=r"file could not be written.*Input/output"),
        write_atomically(url, durable=True) as file,
    ):
        file.write(b"new")
    assert read_bytes(url) == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_only_leftovers_of_killed_writers_are_removed(tmp_path):
    left = [".file.0a1b2c3d.tmp", ".file.0a1b2c3e.tmp.old"]
    stay = [".file.0a1b2c3f.tmp", ".file2.0a1b2c3d.tmp", ".file.tmp", "file.0a1b2c3d.tmp"]
    for name in (*left, *stay):
        put(str(tmp_path / name))
    for name in (left[0], *stay[1:]):
        os.utime(tmp_path / name, (0, 0))
    with write_atomically(str(tmp_path / "file"), durable=True) as file:
        file.write(b"new")
    assert sorted(os.listdir(tmp_path)) == sorted(["file", *stay])


def test_folder_is_written_to_a_new_an_empty_and_a_linked_place(tmp_path):
    tmp_path.joinpath("empty").mkdir()
    tmp_path.joinpath("link").symlink_to(tmp_path / "empty")
    for name in ("none", "empty", "link"):
        with write_folder(str(tmp_path / name)) as new:
            put(join(new, name), b"new")
        assert read_bytes(join(str(tmp_path / name), name)) == b"new"
    assert tmp_path.joinpath("link").is_symlink()
    assert os.listdir(tmp_path / "empty") == ["link"]  # what was written there by this name
    assert sorted(os.listdir(tmp_path)) == ["empty", "link", "none"]


def test_old_folder_is_restored_if_the_new_one_cannot_be_moved(tmp_path):
    url = str(tmp_path / "out")
    put(join(url, "a"), b"old")
    with pytest.raises(FileNotFoundError, match="out"), write_folder(url):
        pass  # nothing was written that could take its place
    assert read_bytes(join(url, "a")) == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_writing_to_the_root_of_a_store_raises():
    with pytest.raises(sw.ConfigurationError, match="must be inside a store"), write_folder("/"):
        pass


def test_models_in_a_relative_folder_are_listed_with_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put("models/best/a.keras", b"no model")
    (model,) = sw.list_models("./models/", recursive=True)
    assert model.url == "./models/best/a.keras"


MISSING = {name: None for name in ("s3fs", "adlfs", "gcsfs", "hdfs_native")}


@cases(
    "url, remedy",
    ("dbfs:/tmp/m.keras", "Write the path of its mount, '/dbfs/tmp/m.keras', or that of a volume"),
    ("dbfs:///tmp/m", "'/dbfs/tmp/m'"),
    ("hdfs:/models/m.keras", "Write 'hdfs:///models/m.keras'."),
    ("s3:/bucket/m.keras", "Write 's3://bucket/m.keras'."),
    ("S3A:bucket/m", "Write 's3a://bucket/m'."),
    ("wasbs://box@account.blob.core.windows.net/m", "Write its present form, 'abfss://…'."),
    ("gs://bucket/m", "Install it on the driver and the executors: `pip install gcsfs`."),
    ("abfss://box@account/m", "`pip install adlfs`."),
    ("maprfs://m", "Received: 'maprfs://m': Protocol not known: maprfs. Copy the files to such"),
)
@cases("act", sw.load_model, partial(sw.data.read_csv, labels="y"), ids=["load", "read"])
def test_url_of_no_store_raises_with_its_remedy(url, remedy, act, monkeypatch):
    for name, module in MISSING.items():
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(sw.ConfigurationError, match=re.escape(remedy)):
        act(url)


@cases("name", "a: b.bin", "s3:old/a.bin", "2026-11-30T10:00.bin", "a::b[1]*?.bin", "file.x:1")
def test_existing_path_is_that_path(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"content")
    with open_to_read(name) as file:
        assert file.read() == b"content"
