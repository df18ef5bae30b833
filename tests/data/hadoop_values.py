"""Keys and values as Hadoop writes them, made with `struct` alone, and files of them."""

import io
import struct
from typing import Any
from unittest import mock

from sparkwright.data._record_bytes import LONG, TEXT, encode_text, encode_vint
from sparkwright.data._record_writing import SequenceFileWriter

PACKAGE = "org.apache.hadoop.io."
SYNC = bytes(range(100, 116))
LAYOUTS = {
    **{"BooleanWritable": "?", "ByteWritable": ">b", "ShortWritable": ">h", "IntWritable": ">i"},
    **{"LongWritable": ">q", "FloatWritable": ">f", "DoubleWritable": ">d"},
}


def encode(class_name: str, value: Any) -> bytes:
    """`value` as an object of a Java class writes it."""
    name = class_name.removeprefix(PACKAGE)
    if name in LAYOUTS:
        return struct.pack(LAYOUTS[name], value)
    if name == "NullWritable":
        return b""
    if name == "Text":
        return encode_text(value)
    return len(value).to_bytes(4, "big") + value if name == "BytesWritable" else encode_vint(value)


def sequence_file(
    pairs: Any,
    *,
    key_class: str = LONG,
    value_class: str = TEXT,
    encoded: bool = False,
    **options: Any,
) -> bytes:
    """The bytes of a SequenceFile of Python values, or of values that are encoded already."""
    file = io.BytesIO()
    with mock.patch("os.urandom", lambda size: SYNC[:size]):
        writer = SequenceFileWriter(file, key_class=key_class, value_class=value_class, **options)
    for key, value in pairs:
        if not encoded:
            key, value = encode(key_class, key), encode(value_class, value)
        writer.append(key, value)
    writer.finish()
    return file.getvalue()
