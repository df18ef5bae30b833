import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import DataSet, numpy_loader, to_bytes
from sparkwright.data.loaders import MinibatchReader
from sparkwright.data.paths import find_files
from sparkwright.data.pieces import SkipLog

GOOD = DataSet(np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10))


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def arrow(**columns):
    """An Arrow stream that is not one of ours."""
    import pyarrow as pa

    batch = pa.record_batch({name.replace("__", "/"): values for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def zip_of(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return file.getvalue()


def npy_that_claims(*shape):
    header = str({"descr": "<f8", "fortran_order": False, "shape": shape}).encode()
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(80)


def bomb():
    """A ZIP member that says it unpacks to a terabyte."""
    content = bytearray(npz(features=np.zeros(3)))
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 0xFFFFFFF0)
    return bytes(content)


ARROW_CASES = {
    "empty": (b"", "unreadable file"),
    "text": (b"1,2,3\n4,5,6\n", "unreadable file"),
    "cut-off-data": (to_bytes(GOOD)[:-120], "unreadable file"),
    "claims-a-huge-message": (b"\xff\xff\xff\xff\xff\xff\xff\x7f", "unreadable file"),
    "no-features": (arrow(labels__labels=[1, 2]), "no features"),
    "unknown-column": (arrow(features__a=[1.0], price=[2.0]), "unreadable file"),
    "text-column": (arrow(features__a=["one", "two"]), "unreadable file"),
    "missing-values": (arrow(features__a=[1.0, None]), "unreadable file"),
    "no-examples": (to_bytes(GOOD.take(slice(0, 0))), "no features"),
}
NUMPY_CASES = {
    "empty": (b"", "unreadable file"),
    "pickled-objects": (npz(features=np.array([{}, []], dtype=object)), "unreadable file"),
    "text-array": (npz(features=np.array(["a", "b"])), "unreadable file"),
    "unknown-name": (npz(features=np.zeros(3), speed=np.zeros(3)), "unreadable file"),
    "no-features": (npz(labels=np.zeros(3)), "no features"),
    "no-examples": (npz(features=np.zeros((0, 3))), "no features"),
    "different-counts": (npz(features=np.zeros(3), labels=np.zeros(4)), "unreadable file"),
    "no-array-in-it": (zip_of(features__npy=b"hello"), "unreadable file"),
    "claims-more-than-it-has": (zip_of(features__npy=npy_that_claims(1 << 40)), "unreadable file"),
    "negative-shape": (zip_of(features__npy=npy_that_claims(-1, 2)), "unreadable file"),
    "claims-gigabytes": (bomb(), "unreadable file"),
}


def used(paths, log, loader):
    found = find_files(paths, ours=loader is None)
    return sum(1 for _ in MinibatchReader(loader=loader).read(found.files, log))


CASES = [
    *(pytest.param(None, *case, id=f"arrow-{name}") for name, case in ARROW_CASES.items()),
    *(pytest.param(numpy_loader, *case, id=f"npz-{name}") for name, case in NUMPY_CASES.items()),
]


@cases("loader, content, reason", *CASES)
def test_bad_file_raises_with_its_name_or_is_skipped_and_counted(loader, content, reason, tmp_path):
    good = to_bytes(GOOD) if loader is None else npz(features=np.zeros((9, 200_000)))
    paths = [tmp_path / name for name in ("a", "bad file", "c")]
    for path, bytes_ in zip(paths, [good, content, good], strict=True):
        path.write_bytes(bytes_)
    log = SkipLog("skip")
    assert used(paths, log, loader) >= 2
    assert log.skipped.counts == {reason: 1}
    assert str(paths[1]) in log.skipped.first[0]
    with pytest.raises(sw.DataError, match=r'bad file.*on_error="skip"'):
        used(paths, SkipLog("raise"), loader)


@cases("name", "folder.arrow", "x" * 1_000_000, ids=["folder", "long"])
def test_paths_that_are_not_files_are_skipped(name, tmp_path):
    (tmp_path / "folder.arrow").mkdir()
    log = SkipLog("skip")
    assert used([tmp_path / name], log, None) == 0
    assert log.skipped.total == 1


def test_error_for_a_missing_file_names_the_host(tmp_path):
    import socket

    gone = tmp_path / "gone.arrow"
    with pytest.raises(sw.DataError, match=r"must exist.*gone\.arrow") as caught:
        used([gone], SkipLog("raise"), None)
    assert socket.gethostname() in str(caught.value)
    log = SkipLog("skip")
    assert used([gone], log, None) == 0
    assert log.skipped.counts == {"missing file": 1}


def wrong_type(source):
    return np.zeros(3)


def crashing(source):
    return DataSet(np.zeros(int(source.read())))


CHANGED = {
    "deleted": (None, "missing file"),
    "emptied": (b"", "unreadable file"),
    "other-count": (to_bytes(GOOD.take(slice(0, 3))), "unlike the manifest"),
    "other-shape": (to_bytes(DataSet(np.zeros((4, 3)), np.zeros(4))), "unlike the manifest"),
    "labels-gone": (to_bytes(DataSet(np.zeros((4, 2), "f4"))), "unlike the manifest"),
}


@cases("content, reason", *CHANGED.values(), ids=CHANGED)
def test_files_of_an_export_must_match_its_manifest(content, reason, tmp_path):
    export = sw.data.to_minibatch_files(GOOD, tmp_path / "export", batch_size=4)
    file = Path(export.paths[1])
    file.unlink() if content is None else file.write_bytes(content)
    files, columns = find_files(export.url, ours=True).files, export.manifest.columns
    with pytest.raises(sw.DataError, match="minibatch-000001"):
        list(MinibatchReader(columns=columns).read(files, SkipLog("raise")))
    log = SkipLog("skip")
    reader = MinibatchReader(columns=columns)
    assert len(list(reader.read(files, log))) == 2
    assert log.skipped.counts == {reason: 1}


@cases(
    "loader, why",
    (wrong_type, r"a\.csv.*or \(features, labels\), but returned ndarray"),
    (crashing, r"a\.csv.*ValueError: invalid literal"),
)
def test_failing_loader_raises_with_its_file(loader, why, tmp_path):
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(sw.DataError, match=f"(?s){why}"):
        used([tmp_path / "a.csv"], SkipLog("raise"), loader)


@cases(
    "where, content, error, why",
    ("blank.txt", b"\n\n  \n", sw.DataError, r"blank\.txt with no files"),
    ("bad.txt", b"a\xff\xfe\n", sw.DataError, r"UTF-8.*bad\.txt"),
    ("zero.txt", b"a\0b\n", sw.DataError, r"zero\.txt.*zero bytes"),
    ("nowhere", None, FileNotFoundError, "nowhere does not exist"),
    ("no*thing", None, FileNotFoundError, "no file matches"),
    ("", None, sw.DataError, "with no file"),
    ("", b"1", sw.DataError, r"1 files, starting with .*a\.csv"),
    ("ftp-no://x/y", None, ValueError, "ftp-no"),
    (7, None, sw.ConfigurationError, "a URL, a list of URLs"),
)
def test_locations_without_minibatches_raise(where, content, error, why, tmp_path):
    if content is not None:
        (tmp_path / (where or "a.csv")).write_bytes(content)
    bare = not isinstance(where, str) or "://" in where
    with pytest.raises(error, match=why):
        find_files(where if bare else str(tmp_path / where), ours=True)


@cases("option", {"on_error": "ignore"}, {"partitions": 0}, {"loader": "numpy"})
def test_invalid_reading_options_raise(option, tmp_path):
    with pytest.raises(sw.ConfigurationError, match=next(iter(option))):
        sw.data.from_minibatches(None, tmp_path, **option)


@cases(
    "data, options, error, why",
    ([], {}, sw.DataError, "at least one example"),
    ([np.zeros((4, 2))] * 2, {}, sw.DataError, "list of 2 arrays.*tuple.*iter"),
    ([GOOD, DataSet(np.zeros((2, 2)))], {}, sw.DataError, r"\.padded\(\)"),
    ([(np.zeros(3), np.zeros(4))], {}, sw.DataError, "batch 0"),
    ([(1, 2, 3, 4)], {}, sw.DataError, "4 parts in batch 0"),
    (7, {}, sw.DataError, "Received: int"),
    (GOOD, {"batch_size": 0}, sw.ConfigurationError, "batch_size=0"),
    (GOOD, {"batch_size": 2.5}, sw.ConfigurationError, r"batch_size=2\.5"),
    (GOOD, {"batch_size": True}, sw.ConfigurationError, "batch_size=True"),
    (GOOD, {"url": "file/export"}, OSError, "file"),
)
def test_incompatible_batches_leave_no_export(data, options, error, why, tmp_path):
    (tmp_path / "file").write_text("x")
    given = {"url": "e", "batch_size": 2, **options}
    with pytest.raises(error, match=why):
        sw.data.to_minibatch_files(data, tmp_path / given.pop("url"), **given)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
