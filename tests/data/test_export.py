from pathlib import Path

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.data import DataSet, DistributedDataSet, from_bytes, to_bytes
from sparkwright.data.export import write_joined, write_part
from sparkwright.data.paths import FileToRead, ask_executors, check_visible, digest_of

pytestmark = pytest.mark.spark


def numbered(rows, *, start=0):
    numbers = np.arange(start, start + rows, dtype=np.int32)
    return DataSet(numbers[:, None].astype(np.float32), numbers)


def partitioned(spark, sizes, **known):
    """Chunks of these sizes in each partition, numbered through."""
    start, parts = 0, []
    for chunks in sizes:
        parts.append([])
        for rows in chunks:
            parts[-1].append(to_bytes(numbered(rows, start=start)))
            start += rows
    rdd = spark.sparkContext.parallelize(parts, len(parts)).flatMap(lambda part: part)
    return DistributedDataSet(spark, rdd, **known)


def contents(export):
    files = [from_bytes(Path(path).read_bytes()) for path in export.paths]
    for file, listed in zip(files, export.manifest.files, strict=True):
        assert len(file) == listed.examples
    return [file.labels["labels"].tolist() for file in files]


@pytest.mark.thorough(but=["1"])
@pytest.mark.parametrize("partitions", [1, 7])
def test_uneven_partitions_give_100_files_of_5(spark, tmp_path, partitions):
    sizes = [10, *[5] * 49, *[1, 1, 3] * 49]
    mixed = [int(n) for n in np.random.default_rng(0).permutation(sizes)]
    parts = [mixed[i::partitions] for i in range(partitions)]
    export = partitioned(spark, parts).export(str(tmp_path / "e"), batch_size=5)
    found = contents(export)
    assert [len(file) for file in found] == [5] * 100
    assert sorted(n for file in found for n in file) == list(range(500))


@pytest.mark.thorough
def test_only_one_file_is_smaller_and_order_is_preserved(spark, tmp_path):
    names = {"labels": ("a", "b")}
    data = partitioned(spark, [[3, 4], [], [9], [1, 1], [0, 5]], fingerprint="f", class_names=names)
    export = data.export(str(tmp_path / "e"), batch_size=4)
    assert contents(export) == [
        [0, 1, 2, 3],
        [7, 8, 9, 10],
        [11, 12, 13, 14],
        [18, 19, 20, 21],
        # What was left of the partitions, in their order.
        [4, 5, 6, 15],
        [16, 17, 22],
    ]
    files = sorted(str(p.relative_to(tmp_path / "e")) for p in tmp_path.rglob("*") if p.is_file())
    assert len(files) == 7
    assert not [name for name in files if "leftover" in name or ".tmp" in name]
    read = sw.data.from_minibatches(spark, export, partitions=3)
    assert read.is_counted
    assert sorted(read.collect().labels["labels"].tolist()) == list(range(23))
    assert sum(read.partition_counts()) == 23
    manifest = export.manifest
    assert (manifest.examples, manifest.batch_size, manifest.fingerprint) == (23, 4, "f")
    assert manifest.columns["features/features"] == ("float32", (1,))
    assert manifest.versions["sparkwright"]
    assert read.class_names == names
    assert read.fingerprint is not None
    again = sw.data.from_minibatches(spark, str(tmp_path / "e"), partitions=3)
    assert read.fingerprint == again.fingerprint


class FailsOnce:
    """Raises in the middle of a partition, at its first attempt."""

    def __init__(self, *, attempts):
        self.attempts = attempts

    def __call__(self, index, chunks):
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, chunk in enumerate(chunks):
            if index == 1 and number == 3 and context.attemptNumber() < self.attempts:
                raise OSError("the disk is gone")
            yield chunk


def test_retried_task_writes_no_duplicates(spark, tmp_path):
    data = partitioned(spark, [[7] * 6, [7] * 6])
    failing = data.derive(data.rdd.mapPartitionsWithIndex(FailsOnce(attempts=1)), step="")
    export = failing.export(str(tmp_path / "e"), batch_size=4)
    found = contents(export)
    assert [len(file) for file in found] == [4] * 21
    assert sorted(n for file in found for n in file) == list(range(84))
    written = {str(path) for path in tmp_path.rglob("*.arrow")}
    assert written == set(export.paths)


def test_task_attempts_do_not_overwrite_each_other(tmp_path):
    chunks = [to_bytes(numbered(3, start=start)) for start in (0, 3, 6)]
    options = {
        "folder": str(tmp_path),
        "batch_size": 4,
        "leftovers_apart": True,
    }
    (one,) = write_part(2, chunks, attempt=17, **options)
    list(write_part(2, chunks[::-1], attempt=18, **options))
    files = [from_bytes((tmp_path / file.path).read_bytes()) for file in one.files]
    assert [file.labels["labels"].tolist() for file in files] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert one.left_over == 1
    left = [FileToRead(f"{tmp_path}/leftovers/{one.name}.arrow", examples=1)]
    joined = write_joined((0, left), folder=str(tmp_path))
    rest = from_bytes((tmp_path / joined.path).read_bytes())
    assert rest.labels["labels"].tolist() == [8]


@pytest.mark.parametrize("rows", [1, 3])
def test_changed_leftover_raises(rows, tmp_path):
    (tmp_path / "leftovers").mkdir()
    (tmp_path / "leftovers" / "part-00000-5.arrow").write_bytes(to_bytes(numbered(rows)))
    left = [FileToRead(f"{tmp_path}/leftovers/part-00000-5.arrow", examples=2)]
    with pytest.raises(sw.DataError, match=f"part-00000-5.arrow with {rows} examples instead of 2"):
        write_joined((0, left), folder=str(tmp_path))


@pytest.mark.thorough
def test_failed_export_leaves_no_files(spark, tmp_path):
    data = partitioned(spark, [[7] * 6, [7] * 6])
    failing = data.derive(data.rdd.mapPartitionsWithIndex(FailsOnce(attempts=99)), step="")
    with pytest.raises(sw.errors.WorkerError, match="the disk is gone"):
        failing.export(str(tmp_path / "e"), batch_size=4)
    assert not (tmp_path / "e").exists()


@pytest.mark.thorough
def test_export_of_the_same_data_is_reused(spark, tmp_path):
    url = str(tmp_path / "e")
    data = partitioned(spark, [[5], [6]], fingerprint="one")
    first = data.export(url, batch_size=4)
    assert not first.reused
    again = data.export(url, batch_size=4, overwrite=True)
    assert again.reused
    assert again.manifest == first.manifest
    assert "nothing written" in str(again)
    other = partitioned(spark, [[3]], fingerprint="two")
    refusals = [
        (other, {"batch_size": 4}),
        (data, {"batch_size": 2}),
        (data, {"batch_size": 4, "reuse": False}),
        (partitioned(spark, [[3]]), {"batch_size": 4}),
    ]
    for refused, options in refusals:
        with pytest.raises(sw.ConfigurationError, match="overwrite=True"):
            refused.export(url, **options)
    Path(first.paths[0]).unlink()
    with pytest.raises(sw.ConfigurationError, match="1 of its files are missing"):
        data.export(url, batch_size=4)
    new = other.export(url, batch_size=4, overwrite=True)
    assert not new.reused
    assert contents(new) == [[0, 1, 2]]
    assert {str(path) for path in tmp_path.rglob("*.arrow")} == set(new.paths)


@pytest.mark.thorough
def test_items_skipped_while_reading_are_counted(spark, tmp_path):
    export = partitioned(spark, [[4] * 6]).export(str(tmp_path / "e"), batch_size=4)
    Path(export.paths[2]).write_bytes(b"")
    Path(export.paths[4]).unlink()
    with pytest.raises(sw.DataError, match="minibatch-00000"):
        sw.data.from_minibatches(spark, export).collect()
    read = sw.data.from_minibatches(spark, export, on_error="skip")
    assert read.count() == 16
    assert read.skipped().counts == {"missing file": 1, "unreadable file": 1}
    again = read.export(str(tmp_path / "again"), batch_size=5)
    assert again.manifest.skipped.total == 2
    assert [len(file) for file in contents(again)] == [5, 5, 5, 1]


@pytest.mark.thorough
def test_rdd_of_paths_keeps_its_partitions(spark, tmp_path):
    partitioned(spark, [[20]]).export(str(tmp_path / "e"), batch_size=4)
    paths = spark.sparkContext.parallelize(sw.data.list_paths(str(tmp_path / "e")), 3)
    paths.saveAsTextFile(str(tmp_path / "paths"))
    read = sw.data.from_minibatches(spark, paths)
    assert read.rdd.getNumPartitions() == 3
    assert read.collect().labels["labels"].tolist() == list(range(20))
    read = sw.data.from_minibatches(spark, str(tmp_path / "paths"))
    assert read.collect().labels["labels"].tolist() == list(range(20))


def test_error_names_executors_with_a_different_file(spark, tmp_path):
    import socket

    import fsspec

    (tmp_path / "file").write_bytes(b"1")
    url = str(tmp_path / "file")
    ask_executors(spark, url, digest_of(url))
    with pytest.raises(sw.ConfigurationError, match="the content differs") as caught:
        ask_executors(spark, url, "")
    assert socket.gethostname() in str(caught.value)
    # Each process has a memory of its own.
    fsspec.filesystem("memory").pipe_file("/seen/by/the/driver", b"1")
    with pytest.raises(sw.ConfigurationError, match="does not exist"):
        ask_executors(
            spark, "memory://seen/by/the/driver", digest_of("memory://seen/by/the/driver")
        )
    check_visible(spark, "memory://seen/by/the/driver")  # a local master is not asked
