"""Record files that cannot be used: each an error that names file and byte, or counted."""

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.record_samples import (
    SYNC,
    encode,
    read_records_of,
    read_tfrecords,
    sequence_file,
)

import sparkwright as sw
from sparkwright.data import (
    DataSet,
    MapFileReader,
    rebuild_map_index,
    write_map_file,
    write_sequence_file,
    write_tfrecord,
)
from sparkwright.data._pieces import SkipLog
from sparkwright.data._record_bytes import BYTES, LONG, TEXT, encode_text, encode_vint
from sparkwright.data._record_examples import NOTE
from sparkwright.data._record_files import RecordPiece, cut_files, read_records, sequence_records
from sparkwright.data._sequence_file import ESCAPE
from sparkwright.data._tfrecord import feature_specs, framed, masked_crc, serialized_examples
from sparkwright.data._tfrecord_files import tfrecords
from sparkwright.storage._listing import StoredFile, list_files

DATA = DataSet(np.arange(200, dtype=np.float32).reshape(50, 4), np.arange(50, dtype=np.int32))
COUNT = 50
LAYOUT = '{"format":1,"columns":[["features/features","float32",1],["labels/labels","int32",0]]}'


def example_file(
    compression: Any = None, change: Callable[[int, bytes], bytes] | None = None, **changed: Any
) -> bytes:
    """A file of 50 examples with a sync mark (or a block) every few; `change` their values."""
    pairs: list[tuple[bytes, bytes]] = []
    for key, row in enumerate(DATA.features["features"]):
        # One axis of 4 for the features, none for the label.
        value = encode(BYTES, b"\x04" + row.astype("<f4").tobytes() + struct.pack("<i", key))
        pairs.append((struct.pack(">q", key), value if change is None else change(key, value)))
    options: dict[str, Any] = {
        "key_class": LONG,
        "value_class": BYTES,
        "notes": {NOTE: LAYOUT},
    }
    return sequence_file(pairs, encoded=True, compression=compression, **options | changed)


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparkwright.data._sequence_file._SYNC_INTERVAL_BYTES", 300)
    monkeypatch.setattr("sparkwright.data._sequence_file._BLOCK_BYTES", 300)


def read(path: Path, log: SkipLog, pieces: int = 1, **options: Any) -> list[DataSet]:
    return read_records_of(path, log, pieces=pieces, joined=False, **options)


def assert_reported(path: Path, reason: str, text: str, *, examples: range, **options: Any) -> None:
    """With "raise" an error that names the file; with "skip" counts, and the other examples."""
    reader = read_tf if "specs" in options else read
    with pytest.raises(sw.DataError) as caught:
        reader(path, SkipLog("raise"), **options)
    message = str(caught.value)
    assert str(path) in message
    assert text in message
    assert "Received: " in message
    assert 'on_error="skip"' in message
    assert len(message) < 800
    log = SkipLog("skip")
    found = sum(map(len, reader(path, log, **options)))
    assert found in examples
    assert set(log.skipped.counts) == {reason}
    assert log.skipped.total == 1 or (reader is read_tf and examples == range(1))
    assert str(path) in log.skipped.first[0]


def replaced(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def record_start(content: bytes, key: int) -> int:
    """Where the record with this key begins, without compression."""
    return content.index(struct.pack(">iiq", 33, 8, key))


PLAIN = {
    "a length of 2 GB": lambda c: replaced(c, record_start(c, 20), b"\x7f\xff\xff\xff"),
    "a length below -1": lambda c: replaced(c, record_start(c, 20), b"\xff\xff\xff\xfe"),
    "a key longer than its record": lambda c: replaced(
        c, record_start(c, 20) + 4, b"\x00\x00\x01\x00"
    ),
    "a key of 2 GB": lambda c: replaced(c, record_start(c, 20) + 4, b"\x7f\xff\xff\xff"),
    "a key of negative length": lambda c: replaced(c, record_start(c, 20) + 4, ESCAPE),
    "a sync mark of another file": lambda c: replaced(
        c, c.index(ESCAPE + SYNC, 400) + 4, b"another sync mark"[:16]
    ),
    "an escape where there is a record": lambda c: replaced(c, record_start(c, 20), ESCAPE),
    "cut in the middle of a value": lambda c: c[: record_start(c, 49) + 20],
    "cut in the middle of a key": lambda c: c[: record_start(c, 49) + 10],
    "cut in the middle of a length": lambda c: c[: record_start(c, 49) + 3],
    "cut in the middle of a sync mark": lambda c: c[: c.rindex(ESCAPE + SYNC) + 9],
}  # fmt: skip
Change = Callable[[bytes], bytes]


def test_reading_goes_on_at_the_very_next_mark(tmp_path: Path) -> None:
    content = example_file()
    path = tmp_path / "bad file"
    mark = content.index(ESCAPE + SYNC, 800)
    at = content.rindex(struct.pack(">ii", 33, 8), 0, mark)
    path.write_bytes(replaced(content, at, b"\x7f\xff\xff\xff"))
    assert_reported(
        path, "damaged part of a file", f"at byte {at + 16}", examples=range(COUNT - 1, COUNT)
    )


def block_start(content: bytes, number: int) -> int:
    at = -1
    for _ in range(number):
        at = content.index(ESCAPE + SYNC, at + 1)
    return at + 20


BLOCK = {
    "a count of 2 billion": lambda c: c[: block_start(c, 3)]
    + encode_vint(2**31 - 1)
    + c[block_start(c, 3) + 1 :],
    "a negative count": lambda c: replaced(c, block_start(c, 3), b"\xfe"),
    "one record too many": lambda c: replaced(
        c, block_start(c, 3), bytes([c[block_start(c, 3)] + 1])
    ),
    "one record too few": lambda c: replaced(
        c, block_start(c, 3), bytes([c[block_start(c, 3)] - 1])
    ),
    "a buffer of 2 GB": lambda c: c[: block_start(c, 3) + 1]
    + encode_vint(2**31 - 1)
    + c[block_start(c, 3) + 2 :],
    "a buffer of negative length": lambda c: replaced(c, block_start(c, 3) + 1, b"\xfe"),
    "bytes that are not compressed": lambda c: replaced(c, block_start(c, 3) + 4, b"junk!"),
    "another sync mark": lambda c: replaced(c, block_start(c, 3) - 10, b"xx"),
    "no sync mark": lambda c: replaced(c, block_start(c, 3) - 20, bytes(20)),
    "cut within a block": lambda c: c[:-9],
    "cut at the count": lambda c: c[: block_start(c, 3)],
}  # fmt: skip


DAMAGE = [(None, change, 30) for change in PLAIN.values()]
DAMAGE += [("block", change, 10) for change in BLOCK.values()]


@pytest.mark.parametrize(("compression", "change", "least"), DAMAGE, ids=[*PLAIN, *BLOCK])
def test_damage_is_named_or_passed_over_to_the_next_mark(
    tmp_path: Path, compression: Any, change: Change, least: int
) -> None:
    path = tmp_path / "bad file"
    path.write_bytes(change(example_file(compression)))
    for ordered in (False, True):
        assert_reported(
            path, "damaged part of a file", "at byte", examples=range(least, COUNT), ordered=ordered
        )


def test_a_value_that_cannot_be_unpacked_is_named(tmp_path: Path) -> None:
    content = example_file("record")
    at = content.index(zlib.compress(bytes(3))[:2], len(content) // 2)
    (tmp_path / "bad file").write_bytes(replaced(content, at, b"junk"))
    assert_reported(
        tmp_path / "bad file", "damaged part of a file", "DefaultCodec", examples=range(30, COUNT)
    )


def with_codec(name: str) -> bytes:
    return example_file("block").replace(
        encode_text("org.apache.hadoop.io.compress.DefaultCodec"), encode_text(name)
    )


def noted_count(count: bytes) -> bytes:
    content = example_file(notes={})
    return replaced(content, content.index(SYNC) - 4, count)


def noted(text: str) -> bytes:
    return example_file(notes={NOTE: text})


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "The file is empty"),
    "three bytes": (b"SEQ", "must start with b'SEQ"),
    "text": (b"hello world\n" * 50, "Received: b'hell'"),
    "an older version": (b"SEQ\x04" + example_file()[4:], "of an older version"),
    "a later version": (b"SEQ\x07" + example_file()[4:], "SEQ\\x07"),
    "cut in the header": (example_file()[:40], "must lie within the file"),
    "a class name of 2 GB": (b"SEQ\x06" + encode_vint(2**31 - 1) + bytes(100), "bytes left"),
    "a class name of negative length": (b"SEQ\x06\xff" + bytes(100), "-1 bytes announced"),
    "a class name that is no UTF-8": (
        b"SEQ\x06\x04\xff\xfe\xfd\xfc" + bytes(100), "valid UTF-8",
    ),
    "an unknown class of keys": (example_file(key_class="com.example.Key"), "com.example.Key"),
    "an unknown class of values": (example_file(value_class="com.example.Row"), "com.example.Row"),
    "a class that would run code": (
        example_file(value_class="javax.script.ScriptEngineManager"), "javax.script",
    ),
    "an unknown compression": (with_codec("com.example.Codec"), "com.example.Codec"),
    "a billion notes": (
        noted_count(b"\x3f\xff\xff\xff"), "0 to 10000 notes",
    ),
    "a negative number of notes": (
        noted_count(ESCAPE), "Received: -1 notes",
    ),
    "in blocks but not compressed": (
        example_file().replace(b"BytesWritable\x00\x00", b"BytesWritable\x00\x01"), "in_blocks",
    ),
    "no examples of ours": (example_file(notes={}), "`convert`, a function"),
    "ours, but texts": (example_file(value_class=TEXT), "values of org.apache.hadoop.io.Text"),
    "a layout that is no JSON": (noted("{"), "layout of format 1"),
    "a layout of a later format": (noted('{"format": 2, "columns": [["a", "int8", 0]]}'), "format"),
    "a layout without columns": (noted('{"format": 1, "columns": []}'), "layout of format 1"),
    "a layout with objects": (
        noted('{"format": 1, "columns": [["features/a", "object", 0]]}'), "layout of format 1",
    ),
    "a layout with a million axes": (
        noted('{"format": 1, "columns": [["features/a", "int8", 1000000]]}'), "layout of format 1",
    ),
    "a layout that names a column twice": (
        noted('{"format": 1, "columns": [["features/a", "int8", 0], ["features/a", "int8", 0]]}'),
        "layout of format 1",
    ),
    "a layout nested a million times": (noted("[" * 1_000_000), "layout of format 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_cannot_be_used_is_counted_once(tmp_path: Path, case: str) -> None:
    content, text = FILES[case]
    (tmp_path / "bad file").write_bytes(content)
    assert_reported(tmp_path / "bad file", "unusable file", text, examples=range(1))


def test_a_file_in_several_pieces_is_counted_once(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(bytes(1 << 20))
    log = SkipLog("skip")
    assert len(cut_files(list_files(str(tmp_path)), 4)) == 4
    assert read(tmp_path, log, pieces=4) == []
    assert log.skipped.total == 1


def test_other_files_are_read_past_a_bad_one(tmp_path: Path) -> None:
    for name, content in (("a", example_file()), ("b", b"junk"), ("c", example_file("block"))):
        (tmp_path / name).write_bytes(content)
    log = SkipLog("skip")
    assert sum(map(len, read(tmp_path, log))) == 2 * COUNT
    assert log.skipped.total == 1


VALUES: dict[str, tuple[bytes, str]] = {
    "an empty value": (b"", "4 bytes of length"),
    "a length of 2 GB": (b"\x7f\xff\xff\xff" + b"\x04" + bytes(20), "2147483647 announced"),
    "a negative length": (ESCAPE + b"\x04" + bytes(20), "-1 announced"),
    "too short for its axes": (encode(BYTES, b"\x04" + bytes(19)), "not 21"),
    "too long for its axes": (encode(BYTES, b"\x04" + bytes(21)), "not 21"),
    "no axes at all": (encode(BYTES, b""), "a VInt must have at least one byte"),
    "an axis of 0": (encode(BYTES, b"\x00" + bytes(4)), "at least 1"),
    "a negative axis": (encode(BYTES, b"\xff" + bytes(20)), "at least 1"),
    "an axis of 10^18": (encode(BYTES, encode_vint(10**18) + bytes(20)), "as long as"),
}


@pytest.mark.parametrize("case", VALUES)
def test_a_value_that_is_no_example_is_named_by_its_key(tmp_path: Path, case: str) -> None:
    value, text = VALUES[case]
    path = tmp_path / "bad file"
    path.write_bytes(example_file(change=lambda key, good: value if key == 7 else good))
    assert_reported(path, "unusable record", text, examples=range(COUNT - 1, COUNT))
    with pytest.raises(sw.DataError, match="the record with key 7 at byte"):
        read(path, SkipLog("raise"))


def fails(error: Exception) -> Callable[[Any, Any], Any]:
    def convert(key: int, value: bytes) -> Any:
        if key == 7:
            raise error
        return [1.0], 0

    return convert


def returns(made: Any) -> Callable[[Any, Any], Any]:
    return lambda key, value: made if key == 7 else ([1.0], 0)


CONVERSIONS: dict[str, tuple[Any, str]] = {
    "a wrong value": (fails(ValueError("seven")), "ValueError: seven"),
    "a missing class": (fails(KeyError("cat")), "KeyError: 'cat'"),
    "an error of ours": (fails(sw.DataError("rule. Received: 7.")), "rule. Received: 7."),
    "an error with a megabyte of text": (fails(ValueError("x" * 1_000_000)), "ValueError: xxx"),
    "None": (returns(None), "must return a DataSet, or (features, label)"),
    "three things": (returns((1, 2, 3)), "must return"),
    "a text": (returns("text"), "must return"),
    "ten million characters": (returns("x" * 10_000_000), "must return"),
}


@pytest.mark.parametrize("case", CONVERSIONS)
def test_what_a_function_cannot_convert_is_named_by_its_key(tmp_path: Path, case: str) -> None:
    convert, text = CONVERSIONS[case]
    path = tmp_path / "bad file"
    path.write_bytes(example_file())
    assert_reported(
        path, "unusable record", text, examples=range(COUNT - 1, COUNT), convert=convert
    )


def test_texts_that_are_no_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "bad file"
    pairs = [
        (encode_text("a good one"), encode_text("good")),
        (encode_text("bad"), b"\x02\xc3\x28"),
        (b"\x01\xff", encode_text("bad key")),
    ]
    path.write_bytes(sequence_file(pairs, key_class=TEXT, encoded=True))
    log = SkipLog("skip")
    found = read(path, log, convert=lambda key, value: ([1.0], None), ordered=True)
    assert sum(map(len, found)) == 1
    assert log.skipped.total == 2
    assert "key 'bad' at byte" in log.skipped.first[0]
    assert "key of bytes 01ff at byte" in log.skipped.first[1]


def test_keys_out_of_order_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data"
    content = example_file()
    at = record_start(content, 20) + 8
    path.write_bytes(replaced(content, at, struct.pack(">q", 5)))
    assert_reported(
        path, "key out of order", "Received: 5 after 19", examples=range(49, 50), ordered=True
    )
    with pytest.raises(sw.DataError, match="Received: 5 after 19"):
        rebuild_map_index(str(tmp_path))
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("kind", ["SequenceFile", "TFRecord"])
def test_a_file_that_is_gone_is_named(tmp_path: Path, kind: str) -> None:
    file = StoredFile(url=str(tmp_path / "gone"), size_bytes=10, version="")
    piece = RecordPiece(file=file, start=0, end=10)

    def found(log: SkipLog) -> list[DataSet]:
        prepare = sequence_records if kind == "SequenceFile" else tfrecords
        return list(read_records(piece, log, prepare=prepare))

    with pytest.raises(sw.DataError, match="gone does not exist"):
        found(SkipLog("raise"))
    log = SkipLog("skip")
    assert found(log) == []
    assert dict(log.skipped.counts) == {"unreadable file": 1}


def test_a_file_that_became_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad file"
    path.write_bytes(example_file())
    pieces = cut_files(list_files(str(path)), 1)
    path.write_bytes(example_file()[:1000])
    with pytest.raises(sw.DataError, match=r"bad file ends at byte 1000, not at \d+"):
        list(read_records(pieces[0], SkipLog("raise"), prepare=sequence_records))


LENGTHS = [
    ("record", lambda c: replaced(c, record_start(c, 20), b"\x7f\xff\xff\xff")),
    ("header", lambda c: b"SEQ\x06" + encode_vint(2**31 - 1) + c[5:]),
]


@pytest.mark.parametrize(("name", "change"), LENGTHS, ids=[name for name, _ in LENGTHS])
def test_a_corrupt_length_allocates_nothing(tmp_path: Path, name: str, change: Change) -> None:
    path = tmp_path / "bad file"
    path.write_bytes(change(example_file()))
    (piece,) = cut_files(list_files(str(path)), 1)
    tracemalloc.start()
    try:
        list(read_records(piece, SkipLog("skip"), prepare=sequence_records))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


# MapFiles.


def map_folder(tmp_path: Path, **options: Any) -> Path:
    write_map_file(DATA, str(tmp_path / "map"), **options)
    return tmp_path / "map" / "part-r-00000"


def without_index(folder: Path) -> None:
    (folder / "index").unlink()


def of_other_data(folder: Path) -> None:
    other = DataSet(np.zeros((50, 7)), np.zeros(50))
    write_map_file(other, str(folder.parent / "other"), compression="block")
    (folder.parent / "other" / "part-r-00000" / "data").replace(folder / "data")


def empty_index(folder: Path) -> None:
    (folder / "index").write_bytes(b"")


def rewrite_index(folder: Path, entries: list[tuple[int, int]], value_class: str = LONG) -> None:
    pairs = [(struct.pack(">q", key), struct.pack(">q", position)) for key, position in entries]
    (folder / "index").write_bytes(sequence_file(pairs, value_class=value_class, encoded=True))


def cut_index(folder: Path) -> None:
    content = (folder / "index").read_bytes()
    (folder / "index").write_bytes(content[:-5])


def rewritten(*entries: tuple[int, int], value_class: str = LONG) -> Callable[[Path], None]:
    return lambda folder: rewrite_index(folder, list(entries), value_class)


MAPS: dict[str, tuple[Callable[[Path], None], str]] = {
    "no index": (without_index, "must have a file `index`"),
    "an index of zero bytes": (empty_index, "must start with b'SEQ"),
    "an index that is cut": (cut_index, "must lie within the file"),
    "an index without entries": (rewritten(), "at least one entry"),
    "keys that fall": (rewritten((5, 200), (3, 300)), "rise"),
    "positions that fall": (rewritten((3, 300), (5, 200)), "rise"),
    "positions twice": (rewritten((3, 300), (5, 300)), "rise"),
    "a negative position": (rewritten((0, -1)), "within the data"),
    "a position behind the data": (rewritten((0, 10**15)), "within the data"),
    "a position in the header": (rewritten((0, 5)), "behind the header"),
    "a position within a record": (rewritten((0, 310)), ""),
    "values of another class": (rewritten((0, 300), value_class=TEXT), "It is no index"),
    "an index of other data": (of_other_data, ""),
}


@pytest.mark.parametrize("case", MAPS)
def test_an_index_that_does_not_fit_is_told(tmp_path: Path, case: str) -> None:
    damage, text = MAPS[case]
    folder = map_folder(tmp_path)
    damage(folder)
    with pytest.raises(sw.DataError) as caught, MapFileReader(str(folder)) as reader:
        reader.take(np.arange(len(reader)))
    assert text in str(caught.value)
    assert str(folder) in str(caught.value)


def test_damaged_data_is_named_where_it_is_met(tmp_path: Path) -> None:
    folder = map_folder(tmp_path)
    content = (folder / "data").read_bytes()
    at = record_start(content, 20)
    (folder / "data").write_bytes(replaced(content, at, b"\x7f\xff\xff\xff"))
    with MapFileReader(str(folder)) as reader:
        assert reader[19].labels["labels"] == [19]
        assert reader[21].labels["labels"] == [21]
        with pytest.raises(sw.DataError, match=rf"announced at byte {at + 16} of .*data") as caught:
            reader[20]
        assert "on_error" not in str(caught.value)  # there is no such option here


@pytest.mark.parametrize("function", [MapFileReader, rebuild_map_index])
def test_what_is_no_map_file_is_told(tmp_path: Path, function: Any) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        function(str(tmp_path / "nowhere"))
    write_sequence_file(DATA, str(tmp_path / "out"))
    with pytest.raises(sw.DataError, match=r"folder with a file `data`.*from_sequence_file"):
        function(str(tmp_path / "out"))


@pytest.mark.parametrize(
    "options", [{"convert": 5}, {"decoders": [1]}, {"decoders": {"a": 1}}], ids=str
)
def test_functions_must_be_some(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(sw.ConfigurationError, match=f"`{next(iter(options))}` must be"):
        MapFileReader(str(map_folder(tmp_path)), **options)


# TFRecord files.

SPECS = feature_specs("features", {"features": ((4,), "float32")}) + feature_specs(
    "labels", {"labels": ((), "int32")}
)


def tfrecord(tmp_path: Path, compression: Any = None) -> Path:
    write_tfrecord(DATA, str(tmp_path / "tf"), compression=compression)
    return next((tmp_path / "tf").glob("part*"))


def read_tf(path: Path, log: SkipLog, **options: Any) -> list[DataSet]:
    return read_tfrecords(path, log, joined=False, **options)


def tf_size(content: bytes) -> int:
    return len(content) // COUNT


TF_FILES: dict[str, tuple[Change, str, range]] = {
    "a wrong length": (
        lambda c: replaced(c, 20 * tf_size(c), b"\xff"), "the length of a TFRecord", range(49, 50),
    ),
    "a length of 2^63": (
        lambda c: replaced(c, 20 * tf_size(c), b"\xff" * 8), "the length of a TFRecord",
        range(49, 50),
    ),
    "a wrong checksum of the length": (
        lambda c: replaced(c, 20 * tf_size(c) + 8, b"\x00\x01"), "the length of a TFRecord",
        range(49, 50),
    ),
    "a length of 2^60 with its checksum": (
        lambda c: c[: 20 * tf_size(c)] + head_of(1 << 60) + c[20 * tf_size(c) :],
        "cut off, or too long", range(50, 51),
    ),
    "a wrong content": (
        lambda c: replaced(c, 20 * tf_size(c) + 30, b"\x55"), "the content of a TFRecord",
        range(49, 50),
    ),
    "a wrong checksum of the content": (
        lambda c: replaced(c, 21 * tf_size(c) - 4, b"\x00\x01"), "the content of a TFRecord",
        range(49, 50),
    ),
    "cut in a content": (lambda c: c[:-9], "cut off", range(49, 50)),
    "cut in a length": (lambda c: c[: 49 * tf_size(c) + 5], "cut off", range(49, 50)),
    "cut in the last checksum": (lambda c: c[:-1], "cut off", range(49, 50)),
    "junk in front": (lambda c: b"junk" * 100 + c, "the length of a TFRecord", range(50, 51)),
    "zeros in front": (lambda c: bytes(3000) + c, "the length of a TFRecord", range(50, 51)),
    "junk behind": (lambda c: c + b"junk" * 100, "the length of a TFRecord", range(50, 51)),
    "a text file": (lambda c: b"hello world\n" * 1000, "of another kind", range(1)),
    "a compressed file without its ending": (
        zlib.compress, "compressed in another way", range(1),
    ),
}  # fmt: skip


def head_of(length: int) -> bytes:
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", masked_crc(head))


@pytest.mark.parametrize("case", TF_FILES)
def test_damaged_tfrecord_files_are_named_or_passed_over(tmp_path: Path, case: str) -> None:
    change, text, examples = TF_FILES[case]
    path = tfrecord(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    assert_reported(path, "damaged record", text, examples=examples, specs=SPECS)


TF_PACKED: dict[str, tuple[Any, Change, str]] = {
    "gzip cut": ("gzip", lambda c: c[:-20], "and complete"),
    "zlib cut": ("zlib", lambda c: c[:-20], "and complete"),
    "gzip damaged": ("gzip", lambda c: replaced(c, len(c) // 2, b"\xff\x00\xff"), "intact"),
    "gzip that is none": ("gzip", lambda c: b"hello world", "intact"),
    "zlib that is gzip": ("gzip", zlib.compress, "the length of a TFRecord"),
}


@pytest.mark.parametrize("case", TF_PACKED)
def test_damaged_compressed_files_are_named(tmp_path: Path, case: str) -> None:
    compression, change, text = TF_PACKED[case]
    path = tfrecord(tmp_path, compression)
    path.write_bytes(change(path.read_bytes()))
    assert_reported(path, "damaged record", text, examples=range(COUNT), specs=SPECS)


def with_features(**features: Any) -> bytes:
    (content,) = serialized_examples({k: np.asarray(v)[None] for k, v in features.items()})
    return content


GOOD = {"features": np.zeros(4, np.float32), "labels": np.int32(0)}
TF_RECORDS: dict[str, tuple[bytes, str]] = {
    "no message": (b"\xff\xff\xff", "serialized tf.train.Example"),
    "an empty message": (b"", "feature 'features'"),
    "a missing feature": (with_features(labels=np.int32(0)), "must have the feature 'features'"),
    "too few numbers": (with_features(**GOOD | {"features": np.zeros(3, np.float32)}), "(4,)"),
    "too many numbers": (with_features(**GOOD | {"features": np.zeros(8, np.float32)}), "(4,)"),
    "floats for whole numbers": (
        with_features(**GOOD | {"labels": np.float32(1)}), "Received: floats",
    ),
    "bytes of another length": (
        with_features(**GOOD | {"features": np.zeros(7, np.uint8)}), "the first of 7 bytes",
    ),
    "a label that does not fit": (
        with_features(**GOOD | {"labels": np.int64(2**40)}), "fit into int32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TF_RECORDS)
def test_messages_that_do_not_fit_are_named(tmp_path: Path, case: str) -> None:
    message, text = TF_RECORDS[case]
    path = tmp_path / "bad.tfrecord"
    good = framed(with_features(**GOOD))
    path.write_bytes(good + framed(message) + good)
    assert_reported(path, "unusable record", text, examples=range(2, 3), specs=SPECS)


def test_a_function_that_fails_is_named(tmp_path: Path) -> None:
    def convert(example: dict[str, Any]) -> Any:
        if example["labels"][0] == 7:
            raise KeyError("cat")
        return example["features"], None

    assert_reported(
        tfrecord(tmp_path), "unusable record", "KeyError: 'cat'", examples=range(49, 50), specs=(),
        convert=convert,
    )  # fmt: skip


@pytest.mark.spark
def test_what_is_left_out_is_in_the_result(spark: Any, tmp_path: Path) -> None:
    content = example_file()
    bad = replaced(content, record_start(content, 20), b"\x7f\xff\xff\xff")
    (tmp_path / "a").write_bytes(bad)
    (tmp_path / "b").write_bytes(content)
    data = sw.data.from_sequence_file(spark, str(tmp_path), on_error="skip")
    assert 80 <= data.count() < 100
    assert dict(data.skipped().counts) == {"damaged part of a file": 1}
    with pytest.raises(sw.DataError, match=r"at byte \d+ of .*a, .*on_error"):
        sw.data.from_sequence_file(spark, str(tmp_path)).count()
