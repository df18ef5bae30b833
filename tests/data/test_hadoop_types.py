"""Hadoop's encodings: bytes as Java writes them, and back."""

import struct
from typing import Any

import pytest
from hypothesis import example, given, strategies as st

import sparkwright as sw
from sparkwright.data._records._hadoop_codecs import DEFAULT_CODEC, MAX_UNPACKED_BYTES, pack, unpack
from sparkwright.data._records._hadoop_types import (
    TYPES,
    decode_bytes,
    decode_lengths,
    decode_text,
    decode_vint,
    encode_text,
    encode_vint,
    hadoop_type,
    vint_size,
)

PACKAGE = "org.apache.hadoop.io."
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "Text": st.text(),
    "BytesWritable": st.binary(),
    "BooleanWritable": st.booleans(),
    "NullWritable": st.none(),
    "ByteWritable": st.integers(-128, 127),
    "ShortWritable": st.integers(-(1 << 15), (1 << 15) - 1),
    "IntWritable": st.integers(-(1 << 31), (1 << 31) - 1),
    "LongWritable": INT64,
    "FloatWritable": st.floats(width=32, allow_nan=False),
    "DoubleWritable": st.floats(allow_nan=False),
    "VIntWritable": st.integers(-(1 << 31), (1 << 31) - 1),
    "VLongWritable": INT64,
}


def test_every_type_has_values_to_try() -> None:
    assert {name.removeprefix(PACKAGE) for name in TYPES} == set(VALUES)


@pytest.mark.parametrize("name", VALUES)
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    kind = TYPES[PACKAGE + name]
    value = data.draw(VALUES[name])
    found = kind.decode(kind.encode(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("name", sorted(set(VALUES) - {"NullWritable"}))
@given(data=st.data())
def test_a_value_that_lost_or_won_a_byte_is_refused(name: str, data: st.DataObject) -> None:
    kind = TYPES[PACKAGE + name]
    content = kind.encode(data.draw(VALUES[name]))
    with pytest.raises(sw.DataError):
        kind.decode(content[:-1])
    with pytest.raises(sw.DataError):
        kind.decode(content + b"\x00")


# Computed by hand from WritableUtils.writeVLong.
@pytest.mark.parametrize(
    ("value", "content"),
    [
        (0, "00"),
        (127, "7f"),
        (-112, "90"),
        (128, "8f80"),
        (255, "8fff"),
        (256, "8e0100"),
        (-113, "8770"),
        (-256, "87ff"),
        (-257, "860100"),
        ((1 << 63) - 1, "887fffffffffffffff"),
        (-(1 << 63), "807fffffffffffffff"),
    ],
)
def test_whole_numbers_of_variable_length_are_javas(value: int, content: str) -> None:
    assert encode_vint(value).hex() == content
    assert decode_vint(bytes.fromhex(content)) == (value, len(content) // 2)


@given(INT64, st.binary(max_size=4), st.binary(max_size=4))
def test_a_vint_is_found_between_other_bytes(value: int, before: bytes, behind: bytes) -> None:
    content = encode_vint(value)
    assert vint_size(content[0]) == len(content)
    assert decode_vint(before + content + behind, len(before)) == (value, len(before + content))


@given(st.integers())
@example(1 << 63)
@example(-(1 << 63) - 1)
def test_a_vint_has_64_bits_at_most(value: int) -> None:
    if -(1 << 63) <= value < 1 << 63:
        assert decode_vint(encode_vint(value))[0] == value
    else:
        with pytest.raises(sw.DataError, match="64 bits"):
            encode_vint(value)


@given(st.lists(st.integers(0, 1 << 40), max_size=30))
@example([8] * 5)
@example([200] * 5)
@example([200] * 4 + [201])
def test_lengths_of_a_block_are_read_back(lengths: list[int]) -> None:
    content = b"".join(map(encode_vint, lengths))
    assert decode_lengths(content, len(lengths)) == lengths
    for wrong in (len(lengths) + 1, len(lengths) - 1):
        with pytest.raises(sw.DataError, match="lengths"):
            decode_lengths(content, wrong)


@pytest.mark.parametrize(
    ("content", "count"),
    [(b"\x81", 1), (b"\x90\x90", 2), (encode_vint(-300) * 3, 3), (b"\x8f", 1), (b"", 5)],
    ids=["cut", "negative", "negative, all alike", "one byte of two", "none"],
)
def test_lengths_that_are_none_are_refused(content: bytes, count: int) -> None:
    with pytest.raises(sw.DataError):
        decode_lengths(content, count)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Text", b"bytes"),
        ("Text", "\ud800"),
        ("BytesWritable", "text"),
        ("BooleanWritable", 1),
        ("NullWritable", 0),
        ("ByteWritable", 128),
        ("IntWritable", 1 << 31),
        ("IntWritable", 1.5),
        ("IntWritable", True),
        ("LongWritable", 1 << 63),
        ("FloatWritable", 1e40),
        ("DoubleWritable", "1"),
        ("VIntWritable", 1 << 31),
        ("VLongWritable", None),
    ],
    ids=str,
)
def test_values_that_do_not_fit_are_refused(name: str, value: Any) -> None:
    with pytest.raises(sw.DataError, match=rf"a {name} must be .*Received: "):
        TYPES[PACKAGE + name].encode(value)


def test_texts_that_are_no_utf8_name_the_byte() -> None:
    with pytest.raises(sw.DataError, match=r"byte 0xff at 1"):
        decode_text(b"\x03a\xffb")


@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_lengths_are_compared_before_they_are_believed(length: int) -> None:
    with pytest.raises(sw.DataError, match=f"{length} announced, 3 there"):
        decode_bytes(struct.pack(">i", length) + b"abc")
    with pytest.raises(sw.DataError, match=f"{length} announced, 3 there"):
        decode_text(encode_vint(length) + b"abc")


def test_javas_utf8_is_ours() -> None:
    # One character of each length in UTF-8; Text is standard UTF-8, unlike Java's writeUTF.
    assert encode_text("a\u00e9\u20ac\U0001f600").hex() == "0a61c3a9e282acf09f9880"


def test_an_unknown_class_is_named_with_the_remedy() -> None:
    with pytest.raises(sw.DataError, match=r"'com\.example\.Point' in a\.seq.*decoders=\{'com"):
        hadoop_type("com.example.Point", role="value", source="a.seq")


@given(st.binary(max_size=5000))
def test_what_is_packed_is_unpacked(content: bytes) -> None:
    assert unpack(DEFAULT_CODEC, pack(content)) == content


def test_other_codecs_are_read_also_in_several_members() -> None:
    import bz2
    import gzip

    gzip_codec, bzip2_codec = (
        f"org.apache.hadoop.io.compress.{name}" for name in ("GzipCodec", "BZip2Codec")
    )
    assert unpack(gzip_codec, gzip.compress(b"ab") + gzip.compress(b"c")) == b"abc"
    assert unpack(bzip2_codec, bz2.compress(b"ab") + bz2.compress(b"c")) == b"abc"
    assert unpack(gzip_codec, b"") == b""


@pytest.mark.parametrize(
    "content", [pack(bytes(1000))[:-5], b"junk", pack(b"a") + b"junk", pack(b"abc")[:-1]]
)
def test_compressed_bytes_that_are_damaged_are_refused(content: bytes) -> None:
    with pytest.raises(sw.DataError, match="compressed bytes must be"):
        unpack(DEFAULT_CODEC, content)


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_UNPACKED_BYTES == 1 << 30
    monkeypatch.setattr("sparkwright.data._records._hadoop_codecs.MAX_UNPACKED_BYTES", 1000)
    assert len(unpack(DEFAULT_CODEC, pack(bytes(1000)))) == 1000
    with pytest.raises(sw.DataError, match="1000 bytes at most"):
        unpack(DEFAULT_CODEC, pack(bytes(1001)))
