"""Samples of records: keys and values as Hadoop writes them, files of them, examples."""

import io
import struct
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from sparkwright.data import DataSet
from sparkwright.data._record_files import RecordPiece, cut_files, read_sequences, sequence_files
from sparkwright.data._record_values import DTYPES, LONG, TEXT, encode_text, encode_vint
from sparkwright.data._sequence_file import write_sequence
from sparkwright.data._tfrecord import checksum, example_class, read_tfrecords
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import list_files

PACKAGE = "org.apache.hadoop.io."
SYNC = bytes(range(100, 116))
LAYOUTS = {
    **{"BooleanWritable": "?", "ByteWritable": ">b", "ShortWritable": ">h", "IntWritable": ">i"},
    **{"LongWritable": ">q", "FloatWritable": ">f", "DoubleWritable": ">d"},
}


def encode(class_name, value):
    """`value` as an object of a Java class writes it."""
    name = class_name.removeprefix(PACKAGE)
    if name in LAYOUTS:
        return struct.pack(LAYOUTS[name], value)
    if name == "NullWritable":
        return b""
    if name == "Text":
        return encode_text(value)
    return len(value).to_bytes(4, "big") + value if name == "BytesWritable" else encode_vint(value)


def sequence_file(pairs, *, key_class=LONG, value_class=TEXT, encoded=False, **options):
    """The bytes of a SequenceFile of Python values, or of values that are encoded already."""
    file = io.BytesIO()
    classes = {"key_class": key_class, "value_class": value_class}
    if not encoded:
        pairs = [(encode(key_class, key), encode(value_class, value)) for key, value in pairs]
    with mock.patch("os.urandom", lambda size: SYNC[:size]):
        for _ in write_sequence(file, pairs, **classes, **options):
            pass
    return file.getvalue()


def digits(count=100):
    """Examples of float32, int32 and float64."""
    random = np.random.default_rng(count)
    return DataSet(
        {"image": random.random((count, 4, 4), np.float32)},
        {"digit": random.integers(0, 9, count).astype(np.int32)},
        weights=random.random(count),
    )


@st.composite
def datasets(draw):
    """Several with the same columns, dtypes and numbers of axes, of different shapes."""
    kinds = st.tuples(st.sampled_from(sorted(DTYPES)), st.integers(0, 3))
    names = ["features/a", "features/b", "labels/y", "labels_masks/y", "weights"]
    columns = draw(st.dictionaries(st.sampled_from(names), kinds)) | {"features/x": draw(kinds)}
    found = []
    for seed in range(draw(st.integers(1, 4))):
        random, count = np.random.default_rng(seed), draw(st.integers(1, 5))
        arrays = {}
        for name, (dtype, axes) in sorted(columns.items()):
            shape = (count, *(draw(st.integers(1, 4)) for _ in range(axes)))
            raw = random.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8)
            array = raw[..., 0] > 127 if dtype == "bool" else raw.view(dtype).reshape(shape)
            arrays[name] = np.nan_to_num(array) if array.dtype.kind == "f" else array
        found.append(DataSet.from_columns(arrays))
    return found


def assert_same(found, expected):
    """The same columns, dtypes, shapes and numbers."""
    assert found.layout == expected.layout
    for name, array in expected.columns().items():
        np.testing.assert_array_equal(found.columns()[name], array)


def read_records_of(path, log=None, *, pieces=3, joined=True, **options):
    """The examples of SequenceFiles or of the data of MapFiles, read in ranges, without Spark."""
    log = log or SkipLog("raise")
    cut = cut_files(sequence_files(str(path)), pieces)
    found = [part for piece in cut for part in read_sequences(piece, log, **options)]
    return DataSet.concatenate(found) if joined else found


def framed(content):
    """A record of a TFRecord file."""
    length = struct.pack("<Q", len(content))
    return b"".join([length, checksum(length), content, checksum(content)])


def serialized_example(features):
    """A serialized tf.train.Example of key -> array, or list of bytes."""
    example = example_class()()
    for key, values in features.items():
        kind = "bytes_list"
        if isinstance(values, np.ndarray):
            kind = "float_list" if values.dtype.kind == "f" else "int64_list"
            values = values.ravel().tolist()
        getattr(example.features.feature[key], kind).value.extend(values)
    return example.SerializeToString(deterministic=True)


def write_tfrecord(data, folder, pack=bytes):
    """Write a file of features and labels; `pack` compresses it."""
    folder.mkdir(exist_ok=True)
    columns = data.features | data.labels
    rows = ({key: array[i : i + 1] for key, array in columns.items()} for i in range(len(data)))
    content = b"".join(framed(serialized_example(row)) for row in rows)
    (folder / "part-00000.tfrecord").write_bytes(pack(content))


def read_tfrecords_of(path, log=None, *, joined=True, **options):
    """The examples of TFRecord files, read without Spark."""
    log = log or SkipLog("raise")
    options = options or {"features": ["features"], "labels": ["labels"]}
    files = list_files(str(path))
    pieces = [RecordPiece(file=file, start=0, end=file.size_bytes) for file in files]
    found = [part for piece in pieces for part in read_tfrecords(piece, log, **options)]
    return DataSet.concatenate(found) if joined else found
