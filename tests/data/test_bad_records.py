import gzip
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.cases import cases
from tests.data.record_samples import (
    SYNC,
    encode,
    framed,
    read_records_of,
    read_tfrecords_of,
    sequence_file,
    serialized_example,
    write_tfrecord,
)

import sparkwright as sw
from sparkwright.data import MapFileReader, write_map_file, write_sequence_file
from sparkwright.data._record_files import RecordPiece, cut_files, read_sequences
from sparkwright.data._record_values import BYTES, LONG, NOTE, TEXT, encode_text, encode_vint
from sparkwright.data._sequence_file import ESCAPE
from sparkwright.data._tfrecord import checksum, read_tfrecords
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import StoredFile, list_files

DATA = sw.DataSet(np.arange(200, dtype=np.float32).reshape(50, 4), np.arange(50, dtype=np.int32))
COUNT = 50
LAYOUT = '{"format":1,"columns":[["features/features","float32",1],["labels/labels","int32",0]]}'
Change = Callable[[bytes], bytes]


def example_file(compression=None, change=None, **changed):
    """A file of 50 examples with a sync mark (or a block) every few; `change` their values."""
    pairs = []
    for key, row in enumerate(DATA.features["features"]):
        # One axis of 4 for the features, none for the label.
        value = encode(BYTES, b"\x04" + row.astype("<f4").tobytes() + struct.pack("<i", key))
        pairs.append((struct.pack(">q", key), value if change is None else change(key, value)))
    options = {"key_class": LONG, "value_class": BYTES, "notes": {NOTE: LAYOUT}}
    return sequence_file(pairs, encoded=True, compression=compression, **options | changed)


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch):
    monkeypatch.setattr("sparkwright.data._sequence_file._SYNC_INTERVAL_BYTES", 300)
    monkeypatch.setattr("sparkwright.data._sequence_file._BLOCK_BYTES", 300)


@dataclass(frozen=True)
class Bad:
    """A file that cannot be used: how it is made, and what the error says.

    Attributes:
        make: the bytes, of the intact file of examples of a kind.
        text: in the message.
        reason: under which it is counted.
        examples: how many are read with `on_error="skip"`.
        kind: compression of a SequenceFile; "tf", or a TFRecord file's compression.
        options: of reading.
    """

    make: Change
    text: str
    reason: str = "damaged part of a file"
    examples: range = range(30, COUNT)
    kind: Any = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])


def replaced(content, at, new):
    return content[:at] + new + content[at + len(new) :]


def record_start(content, key):
    """Where the record with this key begins, without compression."""
    return content.index(struct.pack(">iiq", 33, 8, key))


def block_start(content, number):
    at = -1
    for _ in range(number):
        at = content.index(ESCAPE + SYNC, at + 1)
    return at + 20


def in_record(offset, new):
    return lambda c: replaced(c, record_start(c, 20) + offset, new)


def in_block(offset, new):
    return lambda c: replaced(c, block_start(c, 3) + offset, new)


PLAIN = {
    "a length of 2 GB": in_record(0, b"\x7f\xff\xff\xff"),
    "a length below -1": in_record(0, b"\xff\xff\xff\xfe"),
    "a key longer than its record": in_record(4, b"\x00\x00\x01\x00"),
    "a key of negative length": in_record(4, ESCAPE),
    "a sync mark of another file": lambda c: replaced(
        c, c.index(ESCAPE + SYNC, 400) + 4, b"another sync mark"[:16]
    ),
    "an escape where there is a record": in_record(0, ESCAPE),
    "cut in the middle of a value": lambda c: c[: record_start(c, 49) + 20],
    "cut in the middle of a length": lambda c: c[: record_start(c, 49) + 3],
    "cut in the middle of a sync mark": lambda c: c[: c.rindex(ESCAPE + SYNC) + 9],
}
BLOCK = {
    "a count of 2 billion": in_block(0, encode_vint(2**31 - 1)),
    "a negative count": in_block(0, b"\xfe"),
    "one record too many": lambda c: in_block(0, bytes([c[block_start(c, 3)] + 1]))(c),
    "one record too few": lambda c: in_block(0, bytes([c[block_start(c, 3)] - 1]))(c),
    "a buffer of 2 GB": in_block(1, encode_vint(2**31 - 1)),
    "a buffer of negative length": in_block(1, b"\xfe"),
    "bytes that are not compressed": in_block(4, b"junk!"),
    "another sync mark": in_block(-10, b"xx"),
    "no sync mark": in_block(-20, bytes(20)),
    "cut within a block": lambda c: c[:-9],
}
DAMAGE = {name: Bad(change, "at byte") for name, change in PLAIN.items()} | {
    f"{name} (block)": Bad(change, "at byte", kind="block", examples=range(10, COUNT))
    for name, change in BLOCK.items()
}
DAMAGE["a value that cannot be unpacked"] = Bad(
    lambda c: replaced(c, c.index(zlib.compress(bytes(3))[:2], len(c) // 2), b"junk"),
    "compressed bytes must be valid", kind="record",
)  # fmt: skip


def unusable(text, content=b"", **changed):
    return Bad(
        lambda c: content or example_file(**changed) if content or changed else b"",
        text,
        "unusable file",
        range(1),
    )


def noted(text):
    return unusable("described in format 1", notes={NOTE: text})


def noted_count(count):
    content = example_file(notes={})
    return replaced(content, content.index(SYNC) - 4, count)


UNUSABLE = {
    "empty": unusable("The file is empty"),
    "text": unusable("Received: b'hell'", b"hello world\n" * 50),
    "an older version": unusable("an older version", b"SEQ\x04" + example_file()[4:]),
    "cut in the header": unusable("must lie within the remaining bytes", example_file()[:40]),
    "a class name of 2 GB": unusable(
        "Received: 2147483647 of", b"SEQ\x06" + encode_vint(2**31 - 1) + bytes(100)
    ),
    "a class name of negative length": unusable("Received: -1 of", b"SEQ\x06\xff" + bytes(100)),
    "a class name that is no UTF-8": unusable(
        "valid UTF-8", b"SEQ\x06\x04\xff\xfe\xfd\xfc" + bytes(100)
    ),
    "an unknown class of keys": unusable(
        "decoders={'com.example.Key': function}", key_class="com.example.Key"
    ),
    "a class that would run code": unusable("javax.script", value_class="javax.script.Manager"),
    "an unknown compression": unusable(
        "sequenceFile(url)",
        example_file("block").replace(
            encode_text("org.apache.hadoop.io.compress.DefaultCodec"), encode_text("com.a.Codec")
        ),
    ),
    "a billion notes": unusable("notes of a header", noted_count(b"\x3f\xff\xff\xff")),
    "a negative number of notes": unusable("notes of a header", noted_count(ESCAPE)),
    "in blocks but not compressed": unusable(
        "Received: None", example_file().replace(b"BytesWritable\x00\x00", b"BytesWritable\x00\x01")
    ),
    "no examples of ours": unusable("`convert`, a function", notes={}),
    "ours, but texts": unusable("values of org.apache.hadoop.io.Text", value_class=TEXT),
    "a layout that is no JSON": noted("{"),
    "a layout of a later format": noted('{"format": 2, "columns": [["a", "int8", 0]]}'),
    "a layout without columns": noted('{"format": 1, "columns": []}'),
    "a layout with objects": noted('{"format": 1, "columns": [["features/a", "object", 0]]}'),
    "a layout with a million axes": noted(
        '{"format": 1, "columns": [["features/a", "int8", 1000000]]}'
    ),
    "a layout that names a column twice": noted(
        '{"format": 1, "columns": [["features/a", "int8", 0], ["features/a", "int8", 0]]}'
    ),
    "a layout nested a million times": noted("[" * 1_000_000),
}


def one_of(value, text):
    """A file whose record 7 has another value."""
    return Bad(
        lambda c: example_file(change=lambda key, good: value if key == 7 else good),
        text,
        "unusable record",
        range(COUNT - 1, COUNT),
    )


def converted(made, text):
    """A function that returns or raises `made` for record 7."""

    def convert(key, value):
        if key == 7 and isinstance(made, Exception):
            raise made
        return made if key == 7 else ([1.0], 0)

    options = {"convert": convert}
    return Bad(bytes, text, "unusable record", range(COUNT - 1, COUNT), options=options)


VALUES = {
    "an empty value": one_of(b"", "Received: 4 of 0"),
    "a length of 2 GB": one_of(
        b"\x7f\xff\xff\xff" + b"\x04" + bytes(20), "Received: 2147483647 of 21"
    ),
    "too short for its axes": one_of(encode(BYTES, b"\x04" + bytes(19)), "and 19 bytes"),
    "too long for its axes": one_of(encode(BYTES, b"\x04" + bytes(21)), "size of its axes"),
    "no axes at all": one_of(encode(BYTES, b""), "Received: 1 of 0"),
    "an axis of 0": one_of(encode(BYTES, b"\x00" + bytes(4)), "at least 1"),
    "an axis of 10^18": one_of(encode(BYTES, encode_vint(10**18) + bytes(20)), "size of its axes"),
    "an exception": converted(KeyError("cat"), "KeyError('cat')"),
    "an error of ours": converted(sw.DataError("rule. Received: 7."), "rule. Received: 7."),
    "a megabyte of text": converted(ValueError("x" * 1_000_000), "ValueError('xxx"),
    "None": converted(None, "must return a DataSet, or (features, label)"),
    "three things": converted((1, 2, 3), "must return"),
    "ten million characters": converted("x" * 10_000_000, "must return"),
}


def head_of(length):
    head = struct.pack("<Q", length)
    return head + checksum(head)


def size(content):
    return len(content) // COUNT


def tf_damage(make, text, count):
    return Bad(make, text, "damaged record", range(count, count + 1), "tf")


LENGTH, CONTENT = "another length", "another checksum"
TF = {
    "a wrong length": tf_damage(lambda c: replaced(c, 20 * size(c), b"\xff" * 8), LENGTH, 20),
    "a wrong checksum of the length": tf_damage(
        lambda c: replaced(c, 20 * size(c) + 8, b"\x00\x01"), LENGTH, 20
    ),
    "a length of 2^60 with its checksum": tf_damage(
        lambda c: c[: 20 * size(c)] + head_of(1 << 60) + c[20 * size(c) :], LENGTH, 20
    ),
    "a wrong content": tf_damage(lambda c: replaced(c, 20 * size(c) + 30, b"\x55"), CONTENT, 49),
    "a wrong checksum": tf_damage(
        lambda c: replaced(c, 21 * size(c) - 4, b"\x00\x01"), CONTENT, 49
    ),
    "cut in a content": tf_damage(lambda c: c[:-9], LENGTH, 49),
    "cut in a length": tf_damage(lambda c: c[: 49 * size(c) + 5], LENGTH, 49),
    "cut in the last checksum": tf_damage(lambda c: c[:-1], LENGTH, 49),
    "junk behind": tf_damage(lambda c: c + b"junk" * 100, LENGTH, 50),
    "a text file": tf_damage(lambda c: b"hello world\n" * 1000, "of another kind", 0),
}
PACKED = {
    name: Bad(change, "must be readable", "unreadable file", range(COUNT), "gzip")
    for name, change in {
        "gzip cut": lambda c: c[:-20],
        "gzip damaged": lambda c: replaced(c, len(c) // 2, b"\xff\x00\xff"),
    }.items()
}


def tf_record(text, content=None, **changed):
    """A message among good ones."""
    good = {"features": np.zeros(4, np.float32), "labels": np.int32([0])}
    message = serialized_example(good | changed) if content is None else content
    others = [framed(serialized_example(good))] * (COUNT - 1)
    whole = b"".join([*others, framed(message)])
    return Bad(lambda c: whole, text, "unusable record", range(49, 50), "tf")


def fails_at_7(example):
    if example["labels"][0] == 7:
        raise KeyError("cat")
    return example["features"], None


TF_RECORDS = {
    "no message": tf_record("serialized tf.train.Example", b"\xff\xff\xff"),
    "an empty message": tf_record("feature 'features'", b""),
    "a missing feature": tf_record(
        "'features' must have numbers", serialized_example({"labels": np.int32([0])})
    ),
    "no numbers": tf_record("Received: 0 values", features=np.zeros(0, np.float32)),
    "bytes": tf_record("or bytes", features=[b"a"]),
    "a label that does not fit": tf_record("larger numbers", labels=np.array([2**40])),
    "a function that fails": Bad(
        bytes, "KeyError('cat')", "unusable record", range(49, 50), "tf", {"convert": fails_at_7}
    ),
}
CASES = DAMAGE | UNUSABLE | VALUES | TF | PACKED | TF_RECORDS


@cases("case", *CASES)
def test_unusable_records_are_named_or_counted_and_skipped(tmp_path, case):
    bad = CASES[case]
    path, read, content = tmp_path / "bad file", read_records_of, b""
    if bad.kind in (None, "record", "block"):
        content = example_file(bad.kind)
    else:
        read = read_tfrecords_of
        write_tfrecord(DATA, tmp_path / "tf", bytes if bad.kind == "tf" else gzip.compress)
        path = next((tmp_path / "tf").glob("part*"))
        content = path.read_bytes()
    path.write_bytes(bad.make(content))
    with pytest.raises(sw.DataError) as caught:
        read(path, joined=False, **bad.options)
    message = str(caught.value)
    assert str(path) in message
    assert bad.text in message
    assert "Received: " in message
    assert 'on_error="skip"' in message
    assert len(message) < 800
    log = SkipLog("skip")
    assert sum(map(len, read(path, log, joined=False, **bad.options))) in bad.examples
    assert log.skipped.counts == {bad.reason: 1}
    assert str(path) in log.skipped.first[0]
    if bad.reason == "unusable record":
        assert "the record at byte" in message


def test_reading_continues_at_the_next_sync_mark(tmp_path):
    content = example_file()
    mark = content.index(ESCAPE + SYNC, 800)
    at = content.rindex(struct.pack(">ii", 33, 8), 0, mark)
    (tmp_path / "bad").write_bytes(replaced(content, at, b"\x7f\xff\xff\xff"))
    log = SkipLog("skip")
    assert len(read_records_of(tmp_path, log)) == COUNT - 1
    assert f"at byte {at} of" in log.skipped.first[0]


def test_one_bad_file_is_counted_once_and_others_are_read(tmp_path):
    for name, content in (("a", example_file()), ("b", bytes(1 << 20)), ("c", example_file())):
        (tmp_path / name).write_bytes(content)
    log = SkipLog("skip")
    assert len(cut_files(list_files(str(tmp_path / "b")), 4)) == 4
    assert len(read_records_of(tmp_path, log, pieces=4)) == 2 * COUNT
    assert log.skipped.total == 1


def test_texts_that_are_not_utf8_are_reported(tmp_path):
    pairs = [
        (encode_text("a good one"), encode_text("good")),
        (encode_text("bad"), b"\x02\xc3\x28"),
        (b"\x01\xff", encode_text("bad key")),
    ]
    (tmp_path / "bad").write_bytes(sequence_file(pairs, key_class=TEXT, encoded=True))
    log = SkipLog("skip")
    found = read_records_of(tmp_path, log, convert=lambda key, value: ([1.0], None))
    assert len(found) == 1
    assert log.skipped.total == 2
    assert all("at byte" in message for message in log.skipped.first)


@cases("read", read_sequences, read_tfrecords)
def test_deleted_file_raises_with_its_name(tmp_path, read):
    file = StoredFile(url=str(tmp_path / "gone"), size_bytes=10, version="")
    piece = RecordPiece(file=file, start=0, end=10)
    with pytest.raises(sw.DataError, match="gone does not exist"):
        list(read(piece, SkipLog("raise")))
    log = SkipLog("skip")
    assert list(read(piece, log)) == []
    assert dict(log.skipped.counts) == {"unreadable file": 1}


def test_truncated_file_raises_with_its_name(tmp_path):
    path = tmp_path / "bad file"
    path.write_bytes(example_file())
    pieces = cut_files(list_files(str(path)), 1)
    path.write_bytes(example_file()[:1000])
    with pytest.raises(sw.DataError, match=r"at byte \d+ of .*bad file, which is damaged or cut"):
        list(read_sequences(pieces[0], SkipLog("raise")))


@cases("change", PLAIN["a length of 2 GB"], lambda c: b"SEQ\x06" + encode_vint(2**31 - 1) + c[5:])
def test_corrupt_length_allocates_no_memory(tmp_path, change):
    (tmp_path / "bad").write_bytes(change(example_file()))
    tracemalloc.start()
    try:
        read_records_of(tmp_path, SkipLog("skip"), joined=False)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


# MapFiles.


def of_other_data(folder):
    other = sw.DataSet(np.zeros((50, 7)), np.zeros(50))
    write_map_file(other, str(folder.parent / "other"), compression="block")
    (folder.parent / "other" / "part-r-00000" / "data").replace(folder / "data")


def rewritten(*entries, value_class=LONG):
    pairs = [(struct.pack(">q", key), struct.pack(">q", position)) for key, position in entries]
    content = sequence_file(pairs, value_class=value_class, encoded=True)
    return lambda folder: (folder / "index").write_bytes(content)


MAPS = {
    "no index": (lambda folder: (folder / "index").unlink(), "must have a file `index`"),
    "an index that is cut": (
        lambda folder: (folder / "index").write_bytes((folder / "index").read_bytes()[:-5]),
        "must lie within the remaining bytes",
    ),
    "an index without entries": (rewritten(), "at least one for data"),
    "keys that fall": (rewritten((5, 200), (3, 300)), "ascending keys and positions"),
    "positions that fall": (rewritten((3, 300), (5, 200)), "ascending keys and positions"),
    "positions twice": (rewritten((3, 300), (5, 300)), "ascending keys and positions"),
    "a negative position": (rewritten((0, -1)), "within the file"),
    "a position behind the data": (rewritten((0, 10**15)), "within the file"),
    "a position in the header": (rewritten((0, 5)), "after the header"),
    "a position within a record": (rewritten((0, 310)), ""),
    "values of another class": (rewritten((0, 300), value_class=TEXT), ""),
    "an index of other data": (of_other_data, ""),
}


@cases("case", *MAPS)
def test_index_of_other_data_raises(tmp_path, case):
    damage, text = MAPS[case]
    write_map_file(DATA, str(tmp_path / "map"))
    folder = tmp_path / "map" / "part-r-00000"
    damage(folder)
    with pytest.raises(sw.DataError) as caught, MapFileReader(str(folder)) as reader:
        reader.take(np.arange(len(reader)))
    assert text in str(caught.value)
    assert str(folder) in str(caught.value)


def test_damaged_data_raises_with_its_byte_position(tmp_path):
    write_map_file(DATA, str(tmp_path))
    path = tmp_path / "part-r-00000" / "data"
    content = path.read_bytes()
    at = record_start(content, 20)
    path.write_bytes(replaced(content, at, b"\x7f\xff\xff\xff"))
    with MapFileReader(str(tmp_path)) as reader:
        assert reader[19].labels["labels"] == [19]
        assert reader[21].labels["labels"] == [21]
        with pytest.raises(sw.DataError, match=rf"at byte {at} of .*data") as caught:
            reader[20]
        assert "on_error" not in str(caught.value)  # there is no such option here


def test_folders_that_are_not_map_files_raise(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        MapFileReader(str(tmp_path / "nowhere"))
    write_sequence_file(DATA, str(tmp_path / "out"))
    with pytest.raises(sw.DataError, match=r"folder with a file `data`.*from_sequence_file"):
        MapFileReader(str(tmp_path / "out"))
