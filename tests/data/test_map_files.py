from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.data.record_samples import PACKAGE, assert_same, encode, read_records_of

import sparkwright as sw
from sparkwright.data import MapFileReader, from_map_file, from_sequence_file, write_map_file
from sparkwright.data._map_file import read_index
from sparkwright.data._record_files import cut_files, map_folders
from sparkwright.data._record_writing import write_index
from sparkwright.data._sequence_file import write_sequence
from sparkwright.storage.listing import list_files

COMPRESSIONS = [None, "record", "block"]


def numbers(count=100, width=20):
    random = np.random.default_rng(count)
    return sw.DataSet(random.random((count, width), np.float32), np.arange(count, dtype=np.int32))


def indexes(url):
    return [read_index(*found) for found in map_folders(url).items()]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("sparkwright.data._sequence_file._SYNC_INTERVAL_BYTES", 300)
    monkeypatch.setattr("sparkwright.data._sequence_file._BLOCK_BYTES", 500)


@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any),
    part=st.integers(1, 40) | st.none(),
    compression=st.sampled_from(COMPRESSIONS),
    interval=st.sampled_from([1, 3, 1000]),
)
def test_examples_are_found_by_index(tmp_path, sizes, part, compression, interval):
    data, url = numbers(sum(sizes)), str(tmp_path / "out")
    ends = np.cumsum(sizes)
    pieces = (
        data.take(slice(end - size, end)) for size, end in zip(sizes, ends.tolist(), strict=True)
    )
    write_map_file(
        pieces,
        url,
        examples_per_part=part,
        compression=compression,
        index_interval=interval,
        overwrite=True,
    )
    order = np.random.default_rng(0).integers(-len(data), len(data), 40)  # some of them twice
    with MapFileReader(url) as reader:
        assert len(reader) == len(data)
        assert_same(reader.take(np.arange(len(data))), data)
        assert_same(reader.take(order), data.take(order))
        for index in order.tolist():
            assert_same(reader[index], data.take([index]))
        assert_same(sw.DataSet.concatenate(list(reader)), data)
        batches = list(reader.batches(32))
        assert {len(batch) for batch in batches[:-1]} <= {32}
        assert_same(sw.DataSet.concatenate(batches), data)
    wanted = [part] * (len(data) // part) if part else [len(data)]
    rest = len(data) - sum(wanted)
    counts = [len(part.keys) for part in indexes(url)]
    if interval == 1 and compression != "block":
        assert counts == [*wanted, *([rest] if rest else [])]


def test_reading_during_an_iteration_does_not_disturb_it(tmp_path):
    data = numbers(50)
    write_map_file(data, str(tmp_path), examples_per_part=20)
    with MapFileReader(str(tmp_path)) as reader:
        for index, example in enumerate(reader):
            assert_same(example, data.take([index]))
            assert_same(reader[-index], data.take([-index]))


def test_more_parts_than_the_open_file_limit_are_read(tmp_path):
    data = numbers(80)
    write_map_file(data, str(tmp_path), examples_per_part=1)
    with MapFileReader(str(tmp_path)) as reader:
        order = np.random.default_rng(0).permutation(80)
        for _ in range(2):
            assert_same(reader.take(order), data.take(order))
        assert 0 < len(reader._open) <= 32
    assert not reader._open
    assert_same(reader[3], data.take([3]))
    reader.close()


def test_only_requested_examples_are_read(tmp_path):
    data = numbers(2000, 1000)
    write_map_file(data, str(tmp_path))
    path = tmp_path / "part-r-00000" / "data"
    with MapFileReader(str(tmp_path)) as reader:
        len(reader)
        assert len(reader.take([1500, 3])) == 2
        content = bytearray(path.read_bytes())
        content[1 << 20 : 2 << 20] = bytes(1 << 20)  # of 8 MB
        path.write_bytes(content)
        assert_same(reader.take([1999, 0]), data.take(np.array([1999, 0])))


def test_interval_of_the_index_is_chosen(tmp_path):
    write_map_file(numbers(), str(tmp_path), index_interval=30)
    assert list(indexes(str(tmp_path))[0].keys) == [0, 30, 60, 90]


def test_a_map_file_without_its_index_is_written_again(spark, tmp_path):
    data, url = numbers(), str(tmp_path / "map")
    write_map_file(data, url)
    (tmp_path / "map" / "part-r-00000" / "index").unlink()
    with pytest.raises(sw.DataError, match=r"must have a file `index`.*`from_sequence_file`"):
        MapFileReader(url)
    write_map_file(from_sequence_file(spark, url), str(tmp_path / "again"), max_files=1)
    with MapFileReader(str(tmp_path / "again")) as reader:
        assert_same(reader.take(np.arange(100)), data)


def test_invalid_indices_and_options_raise(tmp_path):
    bad: Any
    for bad in (0, 1.5, True):
        with pytest.raises(sw.ConfigurationError, match="index_interval="):
            write_map_file(numbers(3), str(tmp_path / "out"), index_interval=bad)
    assert not (tmp_path / "out").exists()
    write_map_file(numbers(), str(tmp_path))
    with MapFileReader(str(tmp_path)) as reader:
        for index in (100, -101, 10**12):
            with pytest.raises(IndexError, match=rf"from -100 to 99 .*Received: {index}\."):
                reader[index]
        for bad in ([], [1.5], [[1]], [True], "1"):
            with pytest.raises(sw.ConfigurationError, match="`indices` must be"):
                reader.take(bad)


def written(folder, kind, pairs, **options):
    """A MapFile of any keys and Text values."""
    folder.mkdir(parents=True, exist_ok=True)
    key_class, text = PACKAGE + kind, PACKAGE + "Text"
    with (folder / "data").open("wb") as data, (folder / "index").open("wb") as index:
        interval = options.pop("index_interval", 1)
        encoded = ((encode(key_class, one), encode(text, value)) for one, value in pairs)
        entries = write_sequence(data, encoded, key_class=key_class, value_class=text, **options)
        write_index(index, key_class, entries, interval)
    return folder


def length(key, value):
    return [float(len(str(key)))], len(value)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("index_interval", [1, 7])
def test_texts_are_found_by_key(tmp_path, compression, index_interval):
    pairs = [(f"key{i:04d}", "x" * i) for i in range(0, 200, 2)]
    for part in range(2):
        written(
            tmp_path / f"part-r-{part:05d}",
            "Text",
            pairs[part::2],  # as Hadoop's jobs do: each part holds keys from everywhere
            compression=compression,
            index_interval=index_interval,
        )
    with MapFileReader(str(tmp_path), convert=length) as reader:
        for key, value in pairs:
            found = reader.find(key)
            assert found.labels["labels"] == [len(value)]
        for key in ("", "key0001", "key0199", "key9999", "zzz"):
            assert reader.find(key) is None
        assert sum(1 for _ in reader) == 100
        with pytest.raises(sw.DataError, match=r"integer keys.*'key0000'.*find\(key\)"):
            len(reader)
        with pytest.raises(
            sw.DataError, match=r"`key` must have the same type as 'key0000'.*Received: 5"
        ):
            reader.find(5)


def test_consecutive_keys_may_start_at_any_number(tmp_path):
    written(tmp_path / "a", "IntWritable", [(i, "x" * i) for i in range(5, 9)])
    written(tmp_path / "b", "IntWritable", [(i, "x" * i) for i in range(9, 12)])
    with MapFileReader(str(tmp_path), convert=length) as reader:
        assert len(reader) == 7
        assert reader.take([0, 6, 3, 4]).labels["labels"].tolist() == [5, 11, 8, 9]


def test_gaps_in_keys_and_overlapping_parts_raise(tmp_path):
    written(tmp_path / "a", "LongWritable", [(0, ""), (1, ""), (3, "")])
    written(tmp_path / "b", "LongWritable", [(5, "bb"), (6, "")])
    with MapFileReader(str(tmp_path), convert=length) as reader:
        assert len(reader) == 6
        assert reader[4].labels["labels"] == [2]  # the first of the second part
        assert reader.find(4) is None
        with pytest.raises(sw.DataError, match="no key 2 in"):
            reader[2]
    written(tmp_path / "c", "LongWritable", [(2, ""), (7, "")])
    with (
        MapFileReader(str(tmp_path), convert=length) as reader,
        pytest.raises(sw.DataError, match=r"ascend from part to part\. Received: 2 after 6 in"),
    ):
        len(reader)


def test_custom_classes_are_read_by_custom_functions(tmp_path):
    class_name = PACKAGE + "Text"
    written(tmp_path / "a", "LongWritable", [(0, "abc"), (1, "d")])

    def size(key, value):
        return [float(key)], value

    decoders = {class_name: len}
    with MapFileReader(str(tmp_path), convert=size, decoders=decoders) as reader:
        assert reader.take([0, 1]).labels["labels"].tolist() == [4, 2]


def test_empty_part_is_ignored(tmp_path):
    written(tmp_path / "a", "LongWritable", [])
    written(tmp_path / "b", "LongWritable", [(0, "abc")])
    with MapFileReader(str(tmp_path), convert=length) as reader:
        assert len(reader) == 1
    with MapFileReader(str(tmp_path / "a"), convert=length) as reader:
        assert len(reader) == 0
        assert list(reader) == []
        with pytest.raises(IndexError):
            reader[0]


def test_ranges_of_map_files_are_read_in_order(tmp_path):
    data = numbers(3000, 100)
    write_map_file(data, str(tmp_path), examples_per_part=2000)
    assert len(cut_files(list_files(str(tmp_path)), 5)) > 4
    assert_same(read_records_of(tmp_path, pieces=5), data)


# Hadoop on the other side.


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("index_interval", [1, 9])
def test_hadoop_finds_keys_in_our_map_files(spark, tmp_path, compression, index_interval):
    pairs = [(f"kéy{i:04d}", f"value {i}") for i in range(300)]
    written(tmp_path / "a", "Text", pairs, compression=compression, index_interval=index_interval)
    jvm = spark.sparkContext._jvm
    io, java = jvm.org.apache.hadoop.io, jvm.java.lang
    option = java.Class.forName("org.apache.hadoop.io.SequenceFile$Reader$Option")
    reader = io.MapFile.Reader(
        jvm.org.apache.hadoop.fs.Path((tmp_path / "a").as_uri()),
        spark.sparkContext._jsc.hadoopConfiguration(),
        java.reflect.Array.newInstance(option, 0),
    )
    value, last = io.Text(), io.Text()
    for key, expected in [*pairs[::29], pairs[-1]]:
        assert reader.get(io.Text(key), value).toString() == expected
    assert reader.get(io.Text("kéy0000a"), value) is None
    reader.finalKey(last)
    assert last.toString() == pairs[-1][0]
    reader.close()


@pytest.mark.thorough(but=["RECORD"])
@pytest.mark.parametrize("compression", ["NONE", "RECORD", "BLOCK"])
def test_keys_are_found_in_map_files_of_hadoop(spark, tmp_path, compression):
    pairs = [(f"k{i:03d}", "x" * i) for i in range(300)]  # more than Hadoop's interval of 128
    compress = "mapreduce.output.fileoutputformat.compress"
    spark.sparkContext.parallelize(pairs, 1).saveAsNewAPIHadoopFile(
        (tmp_path / "out").as_uri(),
        "org.apache.hadoop.mapreduce.lib.output.MapFileOutputFormat",
        PACKAGE + "Text",
        PACKAGE + "Text",
        conf={compress: str(compression != "NONE").lower(), f"{compress}.type": compression},
    )
    found = from_map_file(spark, str(tmp_path / "out"), convert=length)
    np.testing.assert_array_equal(found.collect().labels["labels"], np.arange(300))
    with MapFileReader(str(tmp_path / "out"), convert=length) as reader:
        for i in np.random.default_rng(0).permutation(300).tolist():
            example = reader.find(f"k{i:03d}")
            assert example.labels["labels"] == [i]
