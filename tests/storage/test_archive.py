import hashlib
import io
import json
import pickle
import zipfile

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given
from tests.cases import cases
from tests.storage.stores import OneWay

from sparkwright.storage.archive import ArchiveError, read_archive, write_archive

ARRAYS = hnp.arrays(
    st.one_of(
        hnp.floating_dtypes(endianness="="),
        hnp.integer_dtypes(endianness="="),
        hnp.unsigned_integer_dtypes(endianness="="),
        hnp.boolean_dtypes(),
    ),
    st.integers(0, 50),
)
NAMES = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=9).map(
    "m/{}".format
)
DIGEST = hashlib.sha256(b"x").hexdigest()


def written(meta, members):
    file = io.BytesIO()
    write_archive(file, meta, members)
    return file.getvalue()


def made_by_hand(members, *, compression=zipfile.ZIP_STORED, meta=None):
    """An archive of any members, with digests that are right."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        archive.writestr("meta.json", json.dumps({"sha256": digests} if meta is None else meta))
    return file


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@given(
    meta=st.dictionaries(st.text(), st.integers() | st.text() | st.none()).filter(
        lambda meta: "sha256" not in meta
    ),
    arrays=st.dictionaries(NAMES.map("{}.npy".format), ARRAYS, max_size=4),
    blobs=st.dictionaries(NAMES.map("{}.bin".format), st.binary(), max_size=4),
)
def test_archive_round_trips(meta, arrays, blobs):
    found, members = read_archive(io.BytesIO(written(meta, arrays | blobs)))
    assert found == meta
    assert list(members) == [*arrays, *blobs]
    for name, array in arrays.items():
        read = members[name]
        assert isinstance(read, np.ndarray)
        assert read.dtype == array.dtype
        assert read.tobytes() == array.tobytes()
    assert all(members[name] == content for name, content in blobs.items())


def test_archive_is_written_to_a_non_seekable_stream():
    pipe = OneWay()
    write_archive(pipe, {"x": 1}, {"b.bin": b"some bytes"})
    found = read_archive(io.BytesIO(pipe.content))
    assert found == ({"x": 1}, {"b.bin": b"some bytes"})


def test_numpy_and_zip_tools_read_the_archive():
    every_second = np.arange(10.0)[::2]  # not what lies between
    file = io.BytesIO(written({"x": np.float32(1.5)}, {"a.npy": every_second}))
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert json.loads(archive.read("meta.json"))["x"] == 1.5
        loaded = np.load(io.BytesIO(archive.read("a.npy")), allow_pickle=False)
    np.testing.assert_array_equal(loaded, every_second)


def test_writing_non_numeric_arrays_raises():
    for array in (np.array([{}]), np.zeros((2, 2)), np.array(["text"]), np.zeros(3, ">f4")):
        with pytest.raises(TypeError, match="1-D arrays of numbers"):
            written({}, {"a.npy": array})


def test_flipped_bit_in_the_data_raises():
    whole = written({}, {"b.bin": b"some bytes"})
    with pytest.raises(ArchiveError):
        read_archive(io.BytesIO(whole.replace(b"some bytes", b"same bytes")))


@given(st.binary(max_size=300))
@example(b"PK\x05\x06" + bytes(18))
def test_garbage_raises(content):
    with pytest.raises(ArchiveError):
        read_archive(io.BytesIO(content))


class Bomb:
    """Pickles to a call."""

    def __reduce__(self):
        return pytest.fail, ("a pickle was executed",)


@cases(
    "content, reason",
    (npy(np.array([Bomb()], dtype=object), allow_pickle=True), "not numeric"),
    (pickle.dumps(Bomb()), "not an array"),
    (npy(np.zeros((2, 2))), "not a 1-D"),
    (npy(np.array(["text"])), "not numeric"),
    (npy(np.zeros(3, [("x", "f4")])), "not numeric"),
    (npy(np.zeros(3, np.dtype(float).newbyteorder())), "array of numbers"),
    (npy(np.zeros(4))[:-1], "size differs from that in its header"),
    (npy(np.zeros(4)).replace(b"(4,)", b"(9,)"), "size differs from that in its header"),
    (npy(np.zeros(4)).replace(b"(4,), }     ", b"(999999999,)"), "not an array"),
    (npy(np.zeros(4)).replace(b"(4,)", b"(4L"), "not an array"),
    (b"", "not an array"),
)
def test_invalid_array_with_a_valid_digest_raises(content, reason):
    with pytest.raises(ArchiveError, match=reason):
        read_archive(made_by_hand({"a.npy": content}))


def test_compressed_archives_and_too_large_sizes_raise_before_allocation():
    bomb = made_by_hand({"a.bin": bytes(1 << 24)}, compression=zipfile.ZIP_DEFLATED)
    assert len(bomb.getvalue()) < 1 << 16
    with pytest.raises(ArchiveError, match="is compressed"):
        read_archive(bomb)
    whole = made_by_hand({"a.bin": b"x" * 1000}).getvalue()
    at = whole.index(b"PK\x01\x02")  # the directory's first entry
    size = (3 << 30).to_bytes(4, "little")
    lying = whole[: at + 20] + size * 2 + whole[at + 28 :]
    with pytest.raises(ArchiveError, match="exceeds the file"):
        read_archive(io.BytesIO(lying))


def test_overlapping_members_raise():
    whole = made_by_hand({"a.bin": b"x" * 5000, "b.bin": b"x" * 5000}).getvalue()
    first = whole.index(b"PK\x01\x02")  # the directory's entries
    second = whole.index(b"PK\x01\x02", first + 1)
    size = (9000).to_bytes(4, "little")
    lying = bytearray(whole)
    for at in (first, second):
        lying[at + 20 : at + 28] = size * 2
        lying[at + 42 : at + 46] = bytes(4)  # both begin with the file
    with pytest.raises(ArchiveError, match="larger than the file"):
        read_archive(io.BytesIO(bytes(lying)))


@cases(
    "meta",
    *([], 3, {}, {"sha256": []}, {"sha256": {"c.bin": ""}}),
    {"sha256": {"a.bin": DIGEST, "gone.bin": DIGEST}},
    ids=str,
)
def test_malformed_metadata_and_missing_members_raise(meta):
    with pytest.raises(ArchiveError):
        read_archive(made_by_hand({"a.bin": b"x"}, meta=meta))


def test_duplicate_member_names_raise():
    file = made_by_hand({"a.bin": b"x"})
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a.bin", b"y")
    with pytest.raises(ArchiveError, match="the same name"):
        read_archive(file)


def test_wrong_digest_raises_even_with_a_valid_checksum():
    meta = {"sha256": {"a.bin": hashlib.sha256(b"another").hexdigest()}}
    with pytest.raises(ArchiveError, match="differs from its SHA-256"):
        read_archive(made_by_hand({"a.bin": b"this"}, meta=meta))
