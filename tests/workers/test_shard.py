import itertools
import json
import re
import socket
from contextlib import ExitStack, closing

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.cases import cases

from sparkwright.data import DataSet
from sparkwright.errors import DataError, NetworkError, WorkerError
from sparkwright.mesh.port import PeerPort
from sparkwright.workers import shard as _shard
from sparkwright.workers.shard import RemoteShard, Shard, ShardServer, ShardWriter

folders = itertools.count()


def numbered(start, count):
    number = np.arange(start, start + count)
    return DataSet(
        {"image": np.tile(number[:, None, None], (1, 2, 3)).astype(np.float32)},
        number,
        weights=number / 2,
    )


def written(folder, pieces):
    with ShardWriter(folder, worker=0) as writer:
        for key, piece in pieces:
            writer.append(piece, key=key)
    return Shard(folder)


@given(sizes=st.lists(st.integers(0, 5), max_size=8), data=st.data())
def test_pieces_are_read_back_in_key_order(tmp_path_factory, sizes, data):
    edges = [0, *itertools.accumulate(sizes)]
    pieces = [((i // 3, i % 3), numbered(edges[i], n)) for i, n in enumerate(sizes)]
    arrived = data.draw(st.permutations(pieces))
    folder = tmp_path_factory.getbasetemp() / f"keys-{next(folders)}"
    shard = written(folder, arrived)
    assert shard.rows == sum(sizes)
    if shard.rows:
        found = shard.gather(np.arange(shard.rows))
        np.testing.assert_array_equal(found["labels/labels"], np.arange(shard.rows))
        np.testing.assert_array_equal(found["features/image"][:, 1, 2], np.arange(shard.rows))
        np.testing.assert_array_equal(found["weights"], np.arange(shard.rows) / 2)


def test_gathered_arrays_have_the_shape_of_the_row_indices(tmp_path):
    shard = written(tmp_path / "s", [((1,), numbered(4, 4)), ((0,), numbered(0, 4))])
    rows = np.array([[7, 0], [3, 3], [4, 1]])
    found = shard.gather(rows)
    assert found["features/image"].shape == (3, 2, 2, 3)
    np.testing.assert_array_equal(found["labels/labels"], rows)


@cases("dtype", "bool", "float16", "float64", "int8", "uint64")
def test_dtypes_are_kept(tmp_path, dtype):
    values = np.array([[0, 1], [1, 0]]).astype(dtype)
    shard = written(tmp_path / "s", [((), DataSet(values))])
    column = shard.columns["features/features"]
    assert column.dtype == dtype
    np.testing.assert_array_equal(column, values)


def test_columns_are_read_only_memory_maps(tmp_path):
    column = written(tmp_path / "s", [((), numbered(0, 3))]).columns["labels/labels"]
    assert isinstance(column, np.memmap)
    assert not column.flags.writeable
    empty = DataSet(np.zeros((0, 9)))  # may have other columns
    shard = written(tmp_path / "t", [((), empty), ((), numbered(3, 2)), ((), numbered(0, 3))])
    dataset = shard.dataset(slice(1, 3))
    assert list(dataset.columns()) == list(numbered(0, 1).columns())
    assert dataset.labels["labels"].tolist() == [4, 0]  # without keys in the order of arrival
    for number, pieces in enumerate(([], [((), empty)])):
        shard = written(tmp_path / f"empty-{number}", pieces)
        assert (shard.rows, shard.columns) == (0, {})
        assert shard.gather(np.empty(0, np.int64)) == {}


def test_strided_and_broadcast_arrays_are_written_completely(tmp_path):
    strided = np.arange(24.0).reshape(4, 6)[::2, ::-2]
    shard = written(
        tmp_path / "s",
        [((), DataSet(strided)), ((), DataSet(np.broadcast_to(np.float64(7), (1, 3))))],
    )
    np.testing.assert_array_equal(
        shard.columns["features/features"], np.concatenate([strided, [[7, 7, 7]]])
    )


@cases(
    "other, text",
    (DataSet(np.zeros((1, 3), np.float32)), "float32[3] after 2 examples with"),
    (DataSet(np.zeros((1, 4))), "float64[4] after 2 examples with"),
    (DataSet(np.zeros((1, 4), np.float32), np.zeros(1)), "labels/labels: float64[] after 2"),
    ids=["shape", "dtype", "columns"],
)
def test_inconsistent_examples_are_rejected_and_no_files_remain(tmp_path, other, text):
    pieces = [((), DataSet(np.zeros((2, 4), np.float32))), ((), other)]
    with pytest.raises(
        DataError, match=rf"same columns, dtypes and shapes.*{re.escape(text)}.*pad"
    ):
        written(tmp_path / "s", pieces)
    assert list(tmp_path.iterdir()) == []


def test_consumed_shard_is_readable_after_its_files_are_deleted(tmp_path):
    written(tmp_path / "s", [((1,), numbered(2, 2)), ((0,), numbered(0, 2))])
    shard = Shard(tmp_path / "s", consume=True)
    assert list(tmp_path.iterdir()) == []
    assert shard.gather(np.arange(4))["labels/labels"].tolist() == [0, 1, 2, 3]


def test_files_are_private_to_the_user_and_contain_no_code(tmp_path):
    written(tmp_path / "s", [((1,), numbered(2, 2)), ((0,), numbered(0, 2))])
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0
    index = json.loads((tmp_path / "s" / "shard.json").read_text())
    assert index["columns"][0] == ["features/image", "<f4", [2, 3]]
    order = np.load(tmp_path / "s" / "order.npy", allow_pickle=False)
    assert order.tolist() == [2, 3, 0, 1]


@cases("rows", 2, 200_000, ids=["while closing", "while appending"])
def test_full_disk_raises_a_worker_error_with_the_worker_number(tmp_path, rows):
    folder = tmp_path / "shard"

    def write():
        with ShardWriter(folder, worker=3) as writer:
            (folder / "0.bin").symlink_to("/dev/full")
            writer.append(numbered(0, rows))

    with pytest.raises(WorkerError) as caught:
        write()
    assert caught.value.worker == 3
    assert caught.value.reason.startswith(
        f"the examples of worker 3 could not be written to {folder} on {socket.gethostname()}: "
        "No space left on device. Free space: "
    )
    assert "`spark.local.dir`" in caught.value.reason
    assert not folder.exists()


def test_another_worker_reads_again_after_a_connection_broke(tmp_path, monkeypatch):
    monkeypatch.setattr(_shard, "_RETRY_AFTER_S", 0.0)
    shard = written(tmp_path / "shard", [((0,), numbered(0, 10))])
    with ExitStack() as stack:
        ports = [
            stack.enter_context(
                closing(
                    PeerPort(secret=bytes(32), worker=w, host="127.0.0.1", ports=range(1), name="p")
                )
            )
            for w in range(2)
        ]
        remote = RemoteShard(
            ports[1].address,
            worker=1,
            rows=10,
            port=ports[0],
            connect_timeout_s=5,
            peer_timeout_s=5,
        )
        stack.callback(remote.close)
        rows = np.array([7, 2])
        for _ in range(2):
            server = ShardServer(shard, ports[1])
            assert all(
                np.array_equal(a, shard.gather(rows)[n]) for n, a in remote.gather(rows).items()
            )
            server.close()
            with pytest.raises(NetworkError, match=r"worker 1 on 127\.0\.0\.1 did not send"):
                remote.gather(rows)
