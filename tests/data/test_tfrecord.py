import gzip
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases
from tests.data.record_samples import (
    assert_same,
    digits,
    framed,
    read_tfrecords_of,
    serialized_example,
    write_tfrecord,
)

import sparkwright as sw
from sparkwright.data import DataSet, from_tfrecord
from sparkwright.data._sequence_file import STRICT
from sparkwright.data._tfrecord import checksum, parse_example, read_frames
from sparkwright.data.pieces import SkipLog

PACK = {None: bytes, "gzip": gzip.compress, "zlib": zlib.compress}


def frames(content, log=STRICT):
    return [content for _, content in read_frames(io.BytesIO(content), "a.tfrecord", log)]


@given(st.lists(st.binary(max_size=200), max_size=20), st.sampled_from([None, "gzip", "zlib"]))
def test_records_round_trip(records, compression):
    assert frames(PACK[compression](b"".join(map(framed, records)))) == records


def test_framing_matches_tensorflow_and_gzip_files_may_have_members():
    parts = [gzip.compress(framed(b"a") + framed(b"b")[:9]), gzip.compress(framed(b"b")[9:])]
    assert frames(b"".join(parts)) == [b"a", b"b"]
    # Computed from CRC-32C's published check value, 0xe3069283 for the digits 1 to 9.
    rotated = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF
    masked = struct.pack("<I", (rotated + 0xA282EAD8) & 0xFFFFFFFF)
    head = struct.pack("<Q", 9)
    assert framed(b"123456789") == head + checksum(head) + b"123456789" + masked


@given(st.lists(st.binary(min_size=1, max_size=60), min_size=2, max_size=12), st.data())
def test_flipped_bit_in_a_content_loses_only_its_record(records, data):
    content = bytearray(b"".join(map(framed, records)))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(sw.DataError, match=r"a\.tfrecord"):
        frames(bytes(content))
    log = SkipLog("skip")
    found = frames(bytes(content), log=log)
    ends = np.cumsum([len(record) + 16 for record in records])
    lost = int(np.searchsorted(ends, at, side="right"))
    in_length = at < ends[lost] - len(records[lost]) - 4
    assert found == records[:lost] + ([] if in_length else records[lost + 1 :])
    assert log.skipped.total == 1


def test_features_are_selected_by_key(tmp_path):
    data = digits(5)
    write_tfrecord(data, tmp_path)
    found = read_tfrecords_of(tmp_path, features=["image"], labels=["digit"])
    images = data.features["image"].reshape(5, 16)
    assert_same(found, DataSet({"image": images}, {"digit": data.labels["digit"]}))
    found = read_tfrecords_of(tmp_path, features=["digit"])
    assert found.features["digit"].dtype == np.float32


def test_custom_function_receives_all_features(tmp_path):
    message = {"image": np.ones(16, np.float32), "id": np.array([2**40]), "text": [b"a", b""]}
    (tmp_path / "a").write_bytes(framed(serialized_example(message)) * 2)

    def convert(example):
        assert example["text"] == [b"a", b""]
        assert example["id"].tolist() == [2**40]
        return example["image"], len(example)

    found = read_tfrecords_of(tmp_path, convert=convert)
    assert_same(found, DataSet(np.ones((2, 16), np.float32), np.full(2, 3, np.int32)))


REFUSED = [
    ({}, "lists of keys"),
    ({"features": 5}, "lists of keys"),
    ({"features": "x"}, "lists of keys"),
    ({"features": {"x": ((2,), "int8")}}, "lists of keys"),
    ({"labels": ["y"]}, "`features` with or without"),
    ({"features": ["x"], "convert": len}, "`convert` alone"),
    ({"convert": 5}, "`convert` must be a function"),
    ({"features": ["x"], "on_error": "ignore"}, "on_error='ignore'"),
]


@cases("options, match", *REFUSED, ids=str)
def test_invalid_options_raise(tmp_path, options, match):
    (tmp_path / "a.tfrecord").write_bytes(framed(b""))
    with pytest.raises(sw.ConfigurationError, match=match):
        from_tfrecord(None, str(tmp_path), **options)


# TensorFlow on the other side.


def tensorflow_example(features):
    import tensorflow as tf

    return tf.train.Example(
        features=tf.train.Features(
            feature={
                key: tf.train.Feature(**{kind: getattr(tf.train, name)(value=value)})
                for key, (kind, name, value) in features.items()
            }
        )
    ).SerializeToString()


@cases("compression", "", "GZIP", "ZLIB")
def test_files_of_tensorflow_are_read_as_tensorflow_reads_them(tmp_path, compression):
    import tensorflow as tf

    random = np.random.default_rng(0)
    path = tmp_path / "a.tfrecord"
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for i in range(50):
            image = random.standard_normal(12).astype(np.float32)
            features = {
                "image": ("float_list", "FloatList", image.tolist()),
                "count": ("int64_list", "Int64List", [i - 25, 2**31 - 1, -(2**31)]),
                "text": ("bytes_list", "BytesList", [b"a", "né".encode()]),
            }
            writer.write(tensorflow_example(features))
    dataset = tf.data.TFRecordDataset([str(path)], compression_type=compression or None)
    messages = list(dataset.as_numpy_iterator())
    found = read_tfrecords_of(path, features=["image"], labels=["count"])
    specs = {
        "image": tf.io.FixedLenFeature((12,), tf.float32),
        "count": tf.io.FixedLenFeature((3,), tf.int64),
    }
    expected = tf.io.parse_example(messages, specs)
    np.testing.assert_array_equal(found.features["image"], expected["image"].numpy(), strict=True)
    np.testing.assert_array_equal(found.labels["count"], expected["count"].numpy())
    assert parse_example(messages[0])["text"] == [b"a", "né".encode()]
    assert frames(path.read_bytes()) == messages


def test_unpacked_floats_are_read():
    # float_list { value: 1.5 value: -2 }, each value with a tag of its own (wire type 5).
    values = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, -2.0))
    feature = b"\x12" + bytes([len(values)]) + values
    entry = b"\x0a\x01x\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    message = b"\x0a" + bytes([len(features)]) + features
    assert parse_example(message)["x"].tolist() == [1.5, -2.0]
