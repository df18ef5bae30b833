import io
import re
import struct
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from tests.cases import cases
from tests.data.record_samples import (
    PACKAGE,
    SYNC,
    assert_same,
    datasets,
    digits,
    encode,
    read_records_of,
    sequence_file,
)

import sparkwright as sw
from sparkwright.data import DataSet, from_sequence_file, write_sequence_file
from sparkwright.data._record_values import (
    BYTES,
    DECODERS,
    TEXT,
    encode_examples,
    example_decoder,
    from_rows,
    layout_of,
)
from sparkwright.data._sequence_file import ESCAPE, SequenceFileReader

COMPRESSIONS = [None, "record", "block"]


def written(pairs, compression=None, notes=None):
    return sequence_file(
        pairs, key_class=TEXT, value_class=BYTES, encoded=True, compression=compression, notes=notes
    )


def reader_of(content):
    return SequenceFileReader(io.BytesIO(content), size_bytes=len(content), source="a.seq")


def read(content, start=0, end=None):
    return [(key, value) for _, key, value in reader_of(content).records(start, end)]


PAIRS = st.lists(st.tuples(st.binary(max_size=30), st.binary(max_size=300)), max_size=30)


@given(PAIRS, st.sampled_from(COMPRESSIONS), st.dictionaries(st.text(), st.text(), max_size=3))
def test_records_and_metadata_round_trip(pairs, compression, notes):
    content = written(pairs, compression, notes)
    assert read(content) == pairs
    header = reader_of(content).header
    assert header.notes == notes
    assert (header.key_class, header.value_class) == (TEXT, BYTES)
    assert (header.in_blocks, header.sync) == (compression == "block", SYNC)
    assert (header.codec is None) == (compression is None)


@pytest.fixture
def short_intervals(monkeypatch):
    """Sync marks and blocks so often that small files have many."""
    monkeypatch.setattr("sparkwright.data._sequence_file._SYNC_INTERVAL_BYTES", 100)
    monkeypatch.setattr("sparkwright.data._sequence_file._BLOCK_BYTES", 200)
    monkeypatch.setattr("sparkwright.data._sequence_file._SEARCHED_BYTES", 50)


@pytest.mark.thorough(but=["None"])
@pytest.mark.usefixtures("short_intervals")
@cases("compression", *COMPRESSIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_byte_ranges_yield_each_record_once(compression, data):
    pairs = [(b"%d" % i, bytes([i]) * data.draw(st.integers(0, 80))) for i in range(60)]
    content = written(pairs, compression)
    marks = [found.start() for found in re.finditer(re.escape(ESCAPE + SYNC), content)]
    places = st.sampled_from(marks) | st.integers(1, len(content) - 1)
    cuts = sorted(data.draw(st.sets(places, max_size=8)))
    edges = [0, *cuts, len(content)]
    found = [record for start, end in pairwise(edges) for record in read(content, start, end)]
    assert found == pairs


@cases("compression", *COMPRESSIONS)
def test_oversized_records_are_not_written(compression, monkeypatch):
    for module in ("_sequence_file", "_record_values"):
        monkeypatch.setattr(f"sparkwright.data.{module}.MAX_UNPACKED_BYTES", 1000)
    monkeypatch.setattr("sparkwright.data._sequence_file._BLOCK_BYTES", 800)
    pairs = [(b"", b"")] * 25 + [(b"key", bytes(size)) for size in (600, 600, 997)]
    assert read(written(pairs, compression)) == pairs
    with pytest.raises(sw.DataError, match=r"at most 1000 bytes.*Received: 1001"):
        written([(b"", bytes(1001))], compression)


@pytest.mark.usefixtures("short_intervals")
def test_damage_at_the_end_of_a_range_is_detected(tmp_path):
    """A false sync mark behind the end of a range must not end the range before it."""
    content = bytearray(written([(b"%d" % i, bytes(50)) for i in range(40)]))
    mark = content.index(ESCAPE + SYNC, len(content) // 2)
    at = content.index(struct.pack(">ii", 52, 2), mark)
    content[at : at + 4] = ESCAPE
    with pytest.raises(sw.DataError, match=f"at byte {at} of"):
        read(bytes(content), 0, at)


@pytest.mark.thorough
@given(datasets())
@example([DataSet(np.arange(6.0).reshape(1, *shape)) for shape in ((2, 3), (3, 2), (3, 2))])
def test_examples_of_any_layout_round_trip(expected):
    values = [value for dataset in expected for value in encode_examples(dataset)]
    examples = [one for dataset in expected for one in dataset.batches(1)]
    decode = example_decoder(layout_of(expected[0]))
    for value, one in zip(values, examples, strict=True):
        kind, content = decode((value,))
        assert_same(from_rows(content, kind), one)


RESULTS = {
    "lists": lambda k, v: ([float(v), len(k)], 1),
    "arrays": lambda k, v: (np.frombuffer(v, np.uint8), np.array([1, 0], np.float32)),
    "no label": lambda k, v: (np.zeros(2), None),
    "texts": lambda k, v: (k, 1),
    "named": lambda k, v: ({"a": [1.0], "b": [[2.0]]}, {"y": 1}),
    "a data set": lambda k, v: DataSet(np.zeros((1, 2)), np.zeros(1)),
    "a data set of several": lambda k, v: DataSet(np.zeros((3, 2))),
}


@cases("name", *RESULTS)
def test_foreign_files_are_read_with_a_conversion_function(tmp_path, name):
    pairs = [(encode(TEXT, f"key{i}"), encode(BYTES, b"%d" % i)) for i in range(9)]
    (tmp_path / "foreign").write_bytes(written(pairs))
    convert = RESULTS[name]
    found = read_records_of(tmp_path, convert=convert)
    one = convert("key8", b"8")
    if isinstance(one, DataSet):
        assert len(found) == 9 * len(one)
        assert found.layout == one.layout
        return
    features, labels = one
    expected = features if isinstance(features, dict) else {"features": features}
    for group, values in ((found.features, expected), (found.labels, labels)):
        named = values if isinstance(values, dict) else {"labels": values}
        for key, value in {} if values is None else named.items():
            np.testing.assert_array_equal(group[key][8], value)
    if name in ("lists", "named"):
        assert {array.dtype.name for array in found.features.values()} == {"float32"}
        assert {array.dtype.name for array in found.labels.values()} == {"int32"}


# Hadoop on the other side, through Spark.

OUTPUT = "org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat"
OPTION = "mapreduce.output.fileoutputformat.compress"


def hadoop_writes(spark, pairs, folder, kind, codec):
    """Write Text keys and DoubleWritable values; returns the URL."""
    spark.sparkContext.parallelize(pairs, 1).saveAsNewAPIHadoopFile(
        folder.as_uri(),
        OUTPUT,
        TEXT,
        PACKAGE + "DoubleWritable",
        conf={
            OPTION: "false" if kind == "NONE" else "true",
            f"{OPTION}.type": kind,
            f"{OPTION}.codec": f"{PACKAGE}compress.{codec}",
        },
    )
    return folder.as_uri()


@cases(
    "kind, codec",
    ("NONE", "DefaultCodec"),
    *product(["RECORD", "BLOCK"], ["DefaultCodec", "GzipCodec", "BZip2Codec"]),
)
def test_files_of_hadoop_are_read(spark, tmp_path, kind, codec):
    if codec == "GzipCodec" and spark.version < "4":
        pytest.skip("Hadoop 3.3 cannot write this without its native library")
    pairs = [(text, float(i)) for i, text in enumerate(["", "a", "né€😀", "x" * 300])]
    hadoop_writes(spark, pairs, tmp_path / "out", kind, codec)
    found = reader_of((tmp_path / "out" / "part-r-00000").read_bytes())
    decoders = DECODERS[found.header.key_class], DECODERS[found.header.value_class]
    assert [(decoders[0](k), decoders[1](v)) for _, k, v in found.records()] == pairs


@pytest.mark.thorough
def test_other_codecs_are_read_with_hadoop(spark, tmp_path):
    url = hadoop_writes(spark, [("a", 1.0), ("bc", 2.0)], tmp_path / "out", "BLOCK", "SnappyCodec")
    with pytest.raises(sw.DataError, match=r"SnappyCodec.*from_rdd\(spark, .*sequenceFile\(url\)"):
        from_sequence_file(spark, url, convert=lambda k, v: ([v], len(k))).collect()
    pairs = spark.sparkContext.sequenceFile(url)
    found = sw.data.from_rdd(spark, pairs.map(lambda pair: ([pair[1]], len(pair[0])))).collect()
    assert found.features["features"].tolist() == [[1.0], [2.0]]
    assert found.labels["labels"].tolist() == [1, 2]


def test_every_value_type_matches_hadoop(spark):
    jvm = spark.sparkContext._jvm
    values = {
        **{"IntWritable": -(2**31), "LongWritable": -(2**63), "VIntWritable": -113},
        **{"VLongWritable": 2**40, "FloatWritable": -1.25, "DoubleWritable": -1.5},
        **{"ByteWritable": -128, "ShortWritable": -300, "Text": "né€😀", "BooleanWritable": True},
    }
    for name, value in values.items():
        theirs = getattr(jvm.org.apache.hadoop.io, name)()
        stream = jvm.java.io.ByteArrayInputStream(bytearray(encode(PACKAGE + name, value)))
        theirs.readFields(jvm.java.io.DataInputStream(stream))
        assert stream.available() == 0
        expected = str(value).lower() if value is True else str(value)
        assert theirs.toString() == expected


@pytest.mark.thorough(but=["block"])
@cases("compression", *COMPRESSIONS)
def test_hadoop_reads_our_files(spark, tmp_path, compression):
    pairs = [("kéy" + str(i), b"\x00\xff" * (i % 5)) for i in range(3000)]
    encoded = [(encode(TEXT, key), encode(BYTES, value)) for key, value in pairs]
    (tmp_path / "a").write_bytes(written(encoded, compression, {"note": "né"}))
    assert spark.sparkContext.sequenceFile((tmp_path / "a").as_uri()).collect() == pairs
    data = sw.data.from_arrays(spark, np.arange(50.0).reshape(25, 2), partitions=4)
    write_sequence_file(data, str(tmp_path / "out"), compression=compression)
    found = spark.sparkContext.sequenceFile((tmp_path / "out").as_uri()).collect()
    assert len({key for key, _ in found}) == 25
    assert {len(value) for _, value in found} == {1 + 2 * 8}


def test_a_map_file_is_read_without_its_index(spark, tmp_path):
    sw.data.write_map_file(digits(5), str(tmp_path / "map"))
    assert_same(from_sequence_file(spark, str(tmp_path / "map")).collect(), digits(5))
