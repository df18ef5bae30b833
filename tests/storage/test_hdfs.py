import os
import subprocess
import sys
import threading
from pathlib import Path

import fsspec
import psutil
import pytest
from tests.storage.stores import shared_hdfs
from tests.waiting import wait_until

from sparkwright.errors import ConfigurationError
from sparkwright.storage.files import (
    exists,
    move_files,
    read_bytes,
    remove_tree,
    system_of,
    write_atomically,
    write_bytes,
)
from sparkwright.storage.listing import list_entries, list_files

pytestmark = pytest.mark.stores


@pytest.fixture
def folder(hdfs, request):
    url = f"{hdfs.url}/{request.node.name}"
    remove_tree(url)
    return url


def test_hadoop_client_and_sparkwright_read_files_of_each_other(hdfs, folder, tmp_path):
    content = os.urandom(3_500_000)
    write_bytes(f"{folder}/a", content)
    path = folder.removeprefix(hdfs.url)
    hdfs.command("dfs", "-get", f"{path}/a", str(tmp_path / "a"))
    assert (tmp_path / "a").read_bytes() == content
    hdfs.command("dfs", "-put", str(tmp_path / "a"), f"{path}/b")
    assert read_bytes(f"{folder}/b") == content
    assert "2 3500000" in " ".join(hdfs.command("dfs", "-stat", "%r %b", f"{path}/a").split())


def test_file_is_replaced_atomically(folder):
    """Somebody who reads all the time finds the old content or the new one, always."""
    url, rounds = f"{folder}/file", 60
    write_bytes(url, b"0" * 1000)
    found = []
    ended = threading.Event()

    def read():
        while not ended.is_set():
            found.append(read_bytes(url))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(rounds):
            if number % 2:
                write_bytes(url, b"%d" % (number % 10) * 1000)
            else:
                write_bytes(f"{folder}/other/file", b"%d" % (number % 10) * 1000)
                move_files(["file"], f"{folder}/other", folder)
    finally:
        ended.set()
        reader.join()
    assert len(found) > 1
    assert all(len(set(content)) == 1 and len(content) == 1000 for content in found)


def test_entries_beyond_one_response_are_listed(folder):
    system, path = system_of(folder)
    names = [f"{number:04}" for number in range(1100)]
    for name in names:
        system.mkdir(f"{path}/{name}")
    assert list_entries(folder) == [f"{name}/" for name in names]


def test_user_of_the_environment_owns_new_files_and_is_denied_others(hdfs, folder, monkeypatch):
    write_bytes(f"{folder}/a", b"1")
    system, path = system_of(folder)
    system._ask(lambda client: client.set_permission(path, 0o777), "permit")
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    write_bytes(f"{folder}/b", b"1")
    assert system_of(folder)[0].info(f"{path}/b")["owner"] == "alice"
    system._ask(lambda client: client.set_permission(path, 0o700), "permit")
    for act in (
        lambda: read_bytes(f"{folder}/a"),
        lambda: exists(f"{folder}/a"),
        lambda: list_files(folder),
        lambda: write_bytes(f"{folder}/c", b""),
        lambda: remove_tree(folder),
    ):
        with pytest.raises(PermissionError, match=r"user=alice.*HADOOP_USER_NAME") as raised:
            act()
        assert str(raised.value).startswith(folder)
    monkeypatch.delenv("HADOOP_USER_NAME")
    assert list_entries(folder) == ["a", "b"]


def test_nameservice_of_the_configuration_skips_an_unreachable_namenode(
    hdfs, folder, tmp_path, monkeypatch
):
    write_bytes(f"{folder}/a", b"1")
    with pytest.raises(OSError, match=r"does not name a NameNode.*HADOOP_CONF_DIR"):
        exists("hdfs:///a")
    settings = {
        "fs.defaultFS": "hdfs://Away",
        "dfs.ha.namenodes.Away": "one,two",
        "dfs.namenode.rpc-address.Away.one": "127.0.0.1:1",
        "dfs.namenode.rpc-address.Away.two": hdfs.url.removeprefix("hdfs://"),
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    for name in ("core-site.xml", "hdfs-site.xml"):
        (tmp_path / name).write_text(f"<configuration>{properties}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    path = folder.removeprefix(hdfs.url)
    assert read_bytes(f"hdfs://Away{path}/a") == b"1"
    assert [file.url for file in list_files(f"hdfs://{path}")] == [f"hdfs://{path}/a"]
    assert [file.url for file in list_files(f"hdfs://Away{path}/*")] == [f"hdfs://Away{path}/a"]


FORKS = """
import os, sys
from sparkwright.errors import ConfigurationError
from sparkwright.storage.files import read_bytes, write_bytes
def in_child(act):
    child = os.fork()
    if not child:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
def refused():
    try:
        read_bytes(sys.argv[1] + "/a")
    except ConfigurationError as error:
        assert "get_context('spawn')" in str(error)
        return
    raise AssertionError("not refused")
assert in_child(lambda: write_bytes(sys.argv[1] + "/a", b"1")) == 0
assert read_bytes(sys.argv[1] + "/a") == b"1"
assert in_child(refused) == in_child(lambda: in_child(refused)) == 0
assert read_bytes(sys.argv[1] + "/a") == b"1"
"""


def test_use_after_fork_with_open_connections_raises(folder):
    subprocess.run([sys.executable, "-c", FORKS, folder], check=True, timeout=90)


def test_user_in_the_url_raises():
    with pytest.raises(ConfigurationError, match="HADOOP_USER_NAME"):
        exists("hdfs://bob@127.0.0.1:8020/a")


def test_missing_package_raises_with_its_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'sparkwright\[hdfs\]'"):
        exists("hdfs://127.0.0.1:2/a")


@pytest.mark.parametrize("limit", ["soon", "0", "nan", "inf"])
def test_invalid_timeout_raises(limit, monkeypatch):
    monkeypatch.setitem(fsspec.config.conf, "hdfs", {"timeout_s": limit})
    with pytest.raises(ConfigurationError, match="FSSPEC_HDFS_TIMEOUT_S"):
        exists("hdfs://127.0.0.1:2/a")


def test_unreachable_namenode_raises_and_leaves_no_process(monkeypatch):
    # One attempt; more of them only take longer.
    monkeypatch.setitem(fsspec.config.conf, "hdfs", {"dfs.client.failover.max.attempts": 0})
    url = "hdfs://127.0.0.1:1/folder/a"

    def write():
        with write_atomically(url) as file:
            file.write(b"1")

    for act in (write, lambda: read_bytes(url), lambda: exists(url), lambda: list_files(url)):
        with pytest.raises(ConnectionError, match=r"cannot be reached \(Connection refused") as got:
            act()
        assert str(got.value).startswith(url)


def test_hdfs_cluster_stops_with_its_owner(tmp_path):
    shared_hdfs()  # or skips
    code = (
        "import os, tests.support.hdfs as t\n"
        "h = t.HdfsCluster(datanodes=1, replication=1).start()\n"
        "print(h.folder, *(s._process.pid for s in (h._namenode, *h._datanodes)),"
        " h._keeper._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    folder, *pids = done.stdout.split()
    assert len(pids) == 3
    wait_until(lambda: not any(psutil.pid_exists(int(pid)) for pid in pids), 60)
    assert not Path(folder).exists()
