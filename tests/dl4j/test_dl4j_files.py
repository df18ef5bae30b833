import contextlib
import io
import json
import struct
import zipfile
from pathlib import Path

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sparkwright.dl4j._files import Reader, Unmapped, read_file, read_normalizer
from sparkwright.errors import DataError

NETWORKS = Path(__file__).with_name("networks")
TYPES = {"DOUBLE": ("d", ">f8"), "FLOAT": ("f", ">f4"), "LONG": ("q", ">i8"), "INT": ("i", ">i4")}
ARRAYS = st.sampled_from([dtype for _, dtype in TYPES.values()]).flatmap(
    lambda dtype: hnp.arrays(np.dtype(dtype).newbyteorder("="), hnp.array_shapes(max_dims=4))
)


def text(value):
    return struct.pack(">H", len(value)) + value.encode()


def buffer(values, kind, mode):
    """As `BaseDataBuffer.write` writes it, number by number."""
    length = struct.pack(">q" if mode in ("MIXED_DATA_TYPES", "LONG_SHAPE") else ">i", len(values))
    numbers = b"".join(struct.pack(f">{TYPES[kind][0]}", value) for value in values)
    return text(mode) + length + text(kind) + numbers


def written(array, order="c", mode="MIXED_DATA_TYPES"):
    """As `Nd4j.write` writes it: rank, shape, strides, extras, stride, order; then the numbers."""
    steps = np.empty(array.shape, np.int8, order=order.upper()).strides
    about = [array.ndim, *array.shape, *steps, 0, 1, ord(order)]
    shape_kind = "LONG" if mode in ("MIXED_DATA_TYPES", "LONG_SHAPE") else "INT"
    kind = next(k for k, (_, t) in TYPES.items() if np.dtype(t).newbyteorder("=") == array.dtype)
    values = array.ravel(order=order.upper()).tolist()
    return buffer(about, shape_kind, mode) + buffer(values, kind, mode)


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    file.seek(0)
    return file


@given(ARRAYS, st.sampled_from("cf"), st.sampled_from(["MIXED_DATA_TYPES", "LONG_SHAPE", "DIRECT"]))
def test_array_from_another_writer_is_read(array, order, mode):
    found = Reader(written(array, order, mode)).array()
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@given(ARRAYS, st.data())
def test_truncated_array_raises_value_error(array, data):
    content = written(array)
    with pytest.raises(ValueError, match=r"bytes expected|numbers|described"):
        Reader(content[: data.draw(st.integers(0, len(content) - 1))]).array()


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_array_or_raise_value_error(content):
    with contextlib.suppress(ValueError):
        Reader(content).array()


@pytest.mark.parametrize("name", ["lenet", "graph", "regression"])
def test_truncated_file_raises_with_its_url(name):
    content = (NETWORKS / f"{name}.zip").read_bytes()
    for end in {*range(0, len(content) - 1, 97), len(content) - 1}:
        with pytest.raises(DataError, match=r"complete ZIP .* Received: /x\.zip \(.+\)\. Save"):
            read_file(io.BytesIO(content[:end]), "/x.zip")


@given(st.data())
def test_truncated_member_raises_with_the_url(data):
    with zipfile.ZipFile(NETWORKS / "dense.zip") as archive:
        members = {n.replace(".", "_"): archive.read(n) for n in archive.namelist()}
    name = data.draw(st.sampled_from(["coefficients_bin", "configuration_json"]))
    end = data.draw(st.integers(1, len(members[name]) - 1))
    with pytest.raises(DataError, match=r"Received: /x\.zip \(.+\)\. Save"):
        read_file(zipped(**{**members, name: members[name][:end]}), "/x.zip")


@pytest.mark.thorough
def test_decompression_bomb_raises():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("configuration.json", json.dumps({}))
        with archive.open("coefficients.bin", "w") as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    with pytest.raises(DataError, match=r"its \d+ bytes would become 3\d{8}"):
        read_file(file, "/x.zip")


def normalizer(kind, rest):
    return text("NORMALIZER") + struct.pack(">i", 1) + text(kind) + rest


def test_serialized_java_objects_and_other_normalizers_are_reported():
    with pytest.raises(Unmapped, match="serialized Java object"):
        read_normalizer(b"\xac\xed\x00\x05sr", ["input"], ["out"])
    with pytest.raises(Unmapped, match="unsupported normalizer MULTI_HYBRID"):
        read_normalizer(normalizer("MULTI_HYBRID", b""), ["input"], ["out"])
    found = read_file(
        zipped(configuration_json=b"{}", coefficients_bin=b"", preprocessor_bin=b"?"), ""
    )
    assert found.left_out == ["preprocessor.bin, a serialized Java object"]


def test_normalizer_for_other_inputs_raises():
    content = normalizer("MULTI_STANDARDIZE", struct.pack(">?ii", False, 2, -1))
    with pytest.raises(ValueError, match="for 2 inputs"):
        read_normalizer(content, ["input"], ["out"])
