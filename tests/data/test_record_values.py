import bz2
import gzip
import zlib

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases
from tests.data.record_samples import PACKAGE, encode

import sparkwright as sw
from sparkwright.data._record_values import (
    DECODERS,
    DEFAULT_CODEC,
    MAX_UNPACKED_BYTES,
    ByteStream,
    encode_text,
    encode_vint,
    unpack,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = {
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


@cases("name", *sorted(VALUES.keys() | {name.removeprefix(PACKAGE) for name in DECODERS}))
@given(data=st.data())
def test_values_of_every_class_are_decoded(name, data):
    value, decode = data.draw(VALUES[name]), DECODERS[PACKAGE + name]
    content = encode(PACKAGE + name, value)
    found = decode(content)
    assert found == value
    assert type(found) is type(value)
    for wrong in (content + b"\x00", *([content[:-1]] if content else [])):
        with pytest.raises(sw.DataError):
            decode(wrong)


# Computed by hand from WritableUtils.writeVLong.
@cases(
    "value, content",
    *((0, "00"), (127, "7f"), (-112, "90"), (128, "8f80"), (255, "8fff"), (256, "8e0100")),
    *((-113, "8770"), (-256, "87ff"), (-257, "860100")),
    ((1 << 63) - 1, "887fffffffffffffff"),
    (-(1 << 63), "807fffffffffffffff"),
)
def test_variable_length_integers_match_java(value, content):
    assert encode_vint(value).hex() == content
    assert DECODERS[PACKAGE + "VLongWritable"](bytes.fromhex(content)) == value


def test_texts_are_standard_utf8():
    # One character of each length in UTF-8; Text is standard UTF-8, unlike Java's writeUTF.
    assert encode_text("a\u00e9\u20ac\U0001f600").hex() == "0a61c3a9e282acf09f9880"
    with pytest.raises(sw.DataError, match="byte 0xff in position 1"):
        DECODERS[PACKAGE + "Text"](b"\x03a\xffb")


def test_lengths_are_checked_before_memory_is_allocated():
    for count in (4, 1 << 50, -1):
        with pytest.raises(sw.DataError, match=rf"Received: {count} of 3\."):
            ByteStream.of(b"abc").take(count)


@given(st.binary(max_size=5000), st.binary(max_size=20))
def test_multi_member_streams_of_each_codec_are_decompressed(one, other):
    package = DEFAULT_CODEC.removesuffix("DefaultCodec")
    packers = {"DefaultCodec": zlib.compress, "DeflateCodec": zlib.compress}
    packers |= {"GzipCodec": gzip.compress, "BZip2Codec": bz2.compress}
    for name, pack in packers.items():
        assert unpack(package + name, pack(one) + pack(other)) == one + other
        assert unpack(package + name, b"") == b""
        for damaged in (pack(one)[:-5], b"junk", pack(one) + b"junk"):
            with pytest.raises(sw.DataError, match="compressed bytes must be"):
                unpack(package + name, damaged)


def test_decompression_bomb_is_not_unpacked(monkeypatch):
    assert MAX_UNPACKED_BYTES == 1 << 30
    monkeypatch.setattr("sparkwright.data._record_values.MAX_UNPACKED_BYTES", 1000)
    assert len(unpack(DEFAULT_CODEC, zlib.compress(bytes(1000)))) == 1000
    with pytest.raises(sw.DataError, match=r"unpack to at most\s+1000 bytes"):
        unpack(DEFAULT_CODEC, zlib.compress(bytes(1001)))
