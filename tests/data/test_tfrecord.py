import gzip
import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases
from tests.data.record_samples import assert_same, datasets, digits, read_tfrecords_of

import sparkwright as sw
from sparkwright.data import DataSet, from_tfrecord, write_tfrecord
from sparkwright.data._sequence_file import STRICT
from sparkwright.data._tf_example import FeatureSpec, columns_of, parse_example, serialized_examples
from sparkwright.data._tfrecord import checksum, framed, read_frames
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import list_files

X = FeatureSpec("x", "features/x")
IMAGE = FeatureSpec("image", "features/image")
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


@given(datasets())
def test_examples_of_any_dtype_round_trip(parts):
    columns = parts[0].columns()
    specs = [
        FeatureSpec(name, name, array.shape[1:], array.dtype.name)
        for name, array in columns.items()
    ]
    rows = [columns_of(parse_example(e), specs) for e in serialized_examples(columns)]
    found = {name: np.stack([row[name] for row in rows]) for name in columns}
    assert_same(DataSet.from_columns(found), parts[0])


def test_features_are_selected_by_key(tmp_path):
    data = digits(5)
    write_tfrecord(data, str(tmp_path / "out"))
    found = read_tfrecords_of(tmp_path / "out", specs=[IMAGE, FeatureSpec("digit", "labels/digit")])
    images = data.features["image"].reshape(5, 16)
    assert_same(found, DataSet({"image": images}, {"digit": data.labels["digit"]}))


def test_custom_function_receives_all_features(tmp_path):
    data = digits(5)
    write_tfrecord(data, str(tmp_path / "out"))

    def convert(example):
        assert set(example) == {"image", "digit", "weights"}
        (weight,) = example["weights"]
        return np.append(example["image"], np.frombuffer(weight, "<f8")), int(example["digit"][0])

    found = read_tfrecords_of(tmp_path / "out", convert=convert)
    assert found.features["features"].shape == (5, 17)
    np.testing.assert_array_equal(found.features["features"][:, 16], data.weights)
    np.testing.assert_array_equal(found.labels["labels"], data.labels["digit"])


@cases(
    "parts, match",
    ([np.zeros((1, 3, 2)), np.zeros((1, 4, 4))], "only one axis of a column may vary"),
    ([np.zeros((1, 3)), np.zeros((1, 3), np.int8)], "same columns, dtypes"),
    ([np.zeros((1, 3)), np.zeros((1, 3, 1))], "numbers of axes"),
    ([np.zeros((1, 3)), {"y": np.zeros((1, 3))}], "same columns"),
    ([{"labels": np.zeros((1, 3))}], "different names"),
)
def test_different_or_conflicting_layouts_raise(tmp_path, parts, match):
    with pytest.raises(sw.DataError, match=match):
        write_tfrecord([DataSet(features, [1]) for features in parts], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@cases(
    "dtype, good, bad",
    ("bool", [0, 1], [2, -1]),
    ("uint8", [0, 255], [256, -1]),
    ("int32", [-(2**31), 2**31 - 1], [2**31, -(2**31) - 1]),
    ("uint64", [0, 2**63 - 1], [-1]),
)
def test_numbers_outside_the_dtype_range_raise(dtype, good, bad):
    def read(numbers):
        (content,) = serialized_examples({"x": np.array([numbers], np.int64)})
        spec = FeatureSpec("x", "features/x", (-1,), dtype)
        return columns_of(parse_example(content), [spec])["features/x"].tolist()

    assert read(good) == good
    for number in bad:
        with pytest.raises(sw.DataError, match=f"numbers of dtype {dtype}.*other numbers"):
            read([*good, number])


REFUSED = [
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
    with pytest.raises(sw.DataError, match="`features=` and `labels=`"):
        from_tfrecord(None, str(tmp_path))


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
                "count": ("int64_list", "Int64List", [i - 25, 2**62, -(2**63)]),
                "raw": ("bytes_list", "BytesList", [image.astype("<f8").tobytes()]),
                "text": ("bytes_list", "BytesList", [b"a", "né".encode()]),
            }
            writer.write(tensorflow_example(features))
    dataset = tf.data.TFRecordDataset([str(path)], compression_type=compression or None)
    messages = list(dataset.as_numpy_iterator())
    expected = tf.io.parse_example(
        messages,
        {
            "image": tf.io.FixedLenFeature((3, 4), tf.float32),
            "count": tf.io.FixedLenFeature((3,), tf.int64),
            "raw": tf.io.FixedLenFeature((), tf.string),
        },
    )
    kinds = {"image": ((3, 4), "float32"), "count": ((3,), "int64"), "raw": ((12,), "float64")}
    specs = [FeatureSpec(key, f"features/{key}", *kind) for key, kind in kinds.items()]
    found = read_tfrecords_of(path, specs=specs)
    for name in ("image", "count"):
        np.testing.assert_array_equal(found.features[name], expected[name].numpy(), strict=True)
    raw = tf.io.decode_raw(expected["raw"], tf.float64).numpy()
    np.testing.assert_array_equal(found.features["raw"], raw, strict=True)
    assert parse_example(messages[0])["text"] == [b"a", "né".encode()]
    assert frames(path.read_bytes()) == messages


def test_tensorflow_reads_our_files(tmp_path):
    import tensorflow as tf

    data = digits(50)
    for compression in (None, "gzip", "zlib"):
        url = str(tmp_path / str(compression))
        write_tfrecord(data, url, compression=compression)
        files = [file.url for file in list_files(url)]
        kind = None if compression is None else compression.upper()
        dataset = tf.data.TFRecordDataset(files, compression_type=kind)
        found = tf.io.parse_example(
            list(dataset.as_numpy_iterator()),
            {
                "image": tf.io.FixedLenFeature((4, 4), tf.float32),
                "digit": tf.io.FixedLenFeature((), tf.int64),
                "weights": tf.io.FixedLenFeature((), tf.string),
            },
        )
        np.testing.assert_array_equal(found["image"].numpy(), data.features["image"])
        np.testing.assert_array_equal(found["digit"].numpy(), data.labels["digit"])
        weights = tf.io.decode_raw(found["weights"], tf.float64).numpy()
        np.testing.assert_array_equal(weights[:, 0], data.weights)


def test_unpacked_floats_are_read_and_bytes_require_a_dtype():
    # float_list { value: 1.5 value: -2 }, each value with a tag of its own (wire type 5).
    values = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.5, -2.0))
    feature = b"\x12" + bytes([len(values)]) + values
    entry = b"\x0a\x01x\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    message = b"\x0a" + bytes([len(features)]) + features
    found = columns_of(parse_example(message), [X])
    assert found["features/x"].tolist() == [1.5, -2.0]
    (content,) = serialized_examples({"x": np.zeros((1, 7), np.uint8)})
    with pytest.raises(sw.DataError, match=r"1 values \(bytes\)"):
        columns_of(parse_example(content), [X])
