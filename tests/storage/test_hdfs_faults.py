import random

import fsspec
import pytest
from tests.cases import cases
from tests.storage.stores import started_or_skipped

from sparkwright.errors import RunTimeoutError
from sparkwright.storage.files import (
    exists,
    open_to_read,
    read_bytes,
    remove,
    remove_tree,
    write_atomically,
    write_bytes,
    write_folder,
)
from sparkwright.storage.listing import list_entries, list_files

pytestmark = pytest.mark.stores

CONTENT = random.Random(0).randbytes(40 << 20)


@pytest.fixture(scope="module")
def cluster():
    """Two DataNodes, two copies, blocks of 16 MB."""
    hdfs = started_or_skipped(block_size_bytes=16 << 20)
    yield hdfs
    hdfs.close()


@pytest.fixture
def folder(cluster, request):
    url = f"{cluster.url}/{request.node.name}"
    write_bytes(f"{url}/old", b"old")
    return url


def write_pieces(url, between, content=CONTENT):
    half = len(content) // 2
    with write_atomically(url) as file:
        file.write(content[:half])
        between()
        file.write(content[half:])


@cases("content", CONTENT[: 15 << 20], CONTENT, ids=["within a block", "between blocks"])
def test_datanode_lost_during_a_write_loses_no_data_or_raises(
    cluster, folder, monkeypatch, content
):
    """An error, because of the client, which may hang while it removes a DataNode from a block.

    Between blocks it does not look for another place if the NameNode names a DataNode that is lost.
    """
    monkeypatch.setitem(fsspec.config.conf, "hdfs", {"timeout_s": 10})
    said = ""
    try:
        try:
            write_pieces(f"{folder}/new", lambda: cluster.kill_datanode(0), content)
        except OSError as error:
            said = str(error)
        assert list_entries(folder) == (["old"] if said else ["new", "old"])
        assert said.startswith(f"{folder}/new could not be written" if said else "")
        if not said:
            assert read_bytes(f"{folder}/new") == content
    finally:
        cluster.restart_datanode(0)
    write_bytes(f"{folder}/new", content)
    assert read_bytes(f"{folder}/new") == content


def test_datanode_lost_during_a_read_loses_no_data(cluster, folder):
    write_bytes(f"{folder}/new", CONTENT)
    try:
        with open_to_read(f"{folder}/new") as file:
            start = file.read(100_000)
            cluster.kill_datanode(1)
            assert start + file.read() == CONTENT
        assert read_bytes(f"{folder}/new") == CONTENT
    finally:
        cluster.restart_datanode(1)


def test_writing_and_reading_without_datanodes_raise(cluster, folder, monkeypatch):
    monkeypatch.setitem(fsspec.config.conf, "hdfs", {"timeout_s": 10})

    def both():
        cluster.kill_datanode(0)
        cluster.kill_datanode(1)

    try:
        for name in ("old", "new"):
            with pytest.raises(OSError, match=f"{folder}/{name} could not be written"):
                write_pieces(f"{folder}/{name}", both)
        with pytest.raises(OSError, match=f"{folder}/old could not be read"):
            read_bytes(f"{folder}/old")
        assert list_entries(folder) == ["old"]
    finally:
        cluster.restart_datanode(0)
        cluster.restart_datanode(1)
    assert read_bytes(f"{folder}/old") == b"old"


def test_exceeded_quota_keeps_the_old_file(cluster, folder):
    path = folder.removeprefix(cluster.url)
    cluster.set_space_quota(path, 70 << 20)
    for name in ("old", "new"):
        with pytest.raises(OSError, match=r"quota.*Remove files there") as raised:
            write_bytes(f"{folder}/{name}", CONTENT)
        assert str(raised.value).startswith(f"{folder}/{name} could not be written: ")
    assert list_entries(folder) == ["old"]
    assert read_bytes(f"{folder}/old") == b"old"
    cluster.set_space_quota(path, None)
    write_bytes(f"{folder}/new", CONTENT)


def test_safe_mode_rejects_writes_and_allows_reads(cluster, folder):
    def replace():
        with write_folder(folder) as new:
            write_bytes(f"{new}/a", b"1")

    cluster.safe_mode(True)
    try:
        for act in (
            lambda: write_bytes(f"{folder}/new", b"1"),
            lambda: remove(f"{folder}/old"),
            lambda: remove_tree(folder),
            replace,
        ):
            with pytest.raises(OSError, match="-safemode leave") as raised:
                act()
            assert cluster.url in str(raised.value)
        assert read_bytes(f"{folder}/old") == b"old"
        assert list_entries(folder) == ["old"]
    finally:
        cluster.safe_mode(False)
    write_bytes(f"{folder}/new", b"1")


def test_hanging_namenode_times_out_and_is_found_again(cluster, folder, monkeypatch):
    monkeypatch.setitem(fsspec.config.conf, "hdfs", {"timeout_s": 0.5})
    acts = [
        lambda: exists(f"{folder}/old"),
        lambda: read_bytes(f"{folder}/old"),
        lambda: write_bytes(f"{folder}/new", b"1"),
    ]
    cluster.pause_namenode()
    try:
        for act in acts:
            with pytest.raises(RunTimeoutError, match=r"FSSPEC_HDFS_TIMEOUT_S") as raised:
                act()
            assert str(raised.value).startswith(folder)
    finally:
        cluster.resume_namenode()
    monkeypatch.setitem(fsspec.config.conf, "hdfs", {})
    assert read_bytes(f"{folder}/old") == b"old"


def test_restarted_namenode_has_the_written_files(cluster, folder, monkeypatch):
    write_bytes(f"{folder}/new", CONTENT)
    settings = {"dfs.client.failover.max.attempts": 0}
    monkeypatch.setitem(fsspec.config.conf, "hdfs", settings)
    with pytest.raises(ConnectionError, match=f"{folder}/other could not be written"):
        write_pieces(f"{folder}/other", cluster.stop_namenode)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        exists(folder)
    cluster.start_namenode()
    # The same process, with the connections that it had.
    assert read_bytes(f"{folder}/new") == CONTENT
    assert not exists(f"{folder}/other")
    assert [file.url for file in list_files(folder)] == [f"{folder}/new", f"{folder}/old"]
