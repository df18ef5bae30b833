"""Minibatch files that cannot be used: errors name the file, or they are skipped and counted."""

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.data import DataSet, MinibatchSource, numpy_loader, to_bytes
from sparkwright.data.loaders import MinibatchReader
from sparkwright.data.paths import find_files
from sparkwright.data.pieces import SkipLog

GOOD = DataSet(np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10))


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def arrow(**columns: Any) -> bytes:
    """An Arrow stream that is not one of ours."""
    import pyarrow as pa

    batch = pa.record_batch({name.replace("__", "/"): values for name, values in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def zip_of(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return file.getvalue()


def npy_that_claims(shape: tuple[int, ...], content: bytes) -> bytes:
    header = str({"descr": "<f8", "fortran_order": False, "shape": shape}).encode()
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def bomb() -> bytes:
    """A ZIP member that says it unpacks to a terabyte."""
    content = bytearray(npz(features=np.zeros(3)))
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 0xFFFFFFF0)
    return bytes(content)


ARROW_CASES: dict[str, tuple[bytes, str]] = {
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
NUMPY_CASES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "unreadable file"),
    "pickled-objects": (npz(features=np.array([{}, []], dtype=object)), "unreadable file"),
    "text-array": (npz(features=np.array(["a", "b"])), "unreadable file"),
    "unknown-name": (npz(features=np.zeros(3), speed=np.zeros(3)), "unreadable file"),
    "no-features": (npz(labels=np.zeros(3)), "no features"),
    "no-examples": (npz(features=np.zeros((0, 3))), "no features"),
    "different-counts": (npz(features=np.zeros(3), labels=np.zeros(4)), "unreadable file"),
    "no-array-in-it": (zip_of(features__npy=b"hello"), "unreadable file"),
    "claims-more-than-it-has": (
        zip_of(features__npy=npy_that_claims((1 << 40,), bytes(80))),
        "unreadable file",
    ),
    "negative-shape": (
        zip_of(features__npy=npy_that_claims((-1, 2), bytes(80))),
        "unreadable file",
    ),
    "claims-gigabytes": (bomb(), "unreadable file"),
}


def used(paths: list[Path], log: SkipLog, loader: Any) -> int:
    found = find_files(paths, ours=loader is None)
    return sum(1 for _ in MinibatchReader(loader=loader).read(found.files, log))


CASES = [
    *(pytest.param(None, *case, id=f"arrow-{name}") for name, case in ARROW_CASES.items()),
    *(pytest.param(numpy_loader, *case, id=f"npz-{name}") for name, case in NUMPY_CASES.items()),
]


@pytest.mark.parametrize(("loader", "content", "reason"), CASES)
def test_bad_file_raises_with_its_name_or_is_skipped_and_counted(
    loader: Any, content: bytes, reason: str, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize("name", ["folder.arrow", "x" * 1_000_000], ids=["folder", "long"])
def test_paths_that_are_not_files_are_skipped(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.arrow").mkdir()
    log = SkipLog("skip")
    assert used([tmp_path / name], log, None) == 0
    assert log.skipped.total == 1


def test_error_for_a_missing_file_names_the_host(tmp_path: Path) -> None:
    import socket

    gone = tmp_path / "gone.arrow"
    with pytest.raises(sw.DataError, match=r"must exist.*gone\.arrow") as caught:
        used([gone], SkipLog("raise"), None)
    assert socket.gethostname() in str(caught.value)
    log = SkipLog("skip")
    assert used([gone], log, None) == 0
    assert log.skipped.counts == {"missing file": 1}


def wrong_type(source: MinibatchSource) -> Any:
    return np.zeros(3)


def crashing(source: MinibatchSource) -> DataSet:
    return DataSet(np.zeros(int(source.read())))


@pytest.mark.parametrize(
    ("loader", "why"),
    [
        pytest.param(
            wrong_type,
            r"or \(features, labels\), but returned ndarray",
            id="wrong-type",
        ),
        pytest.param(crashing, "ValueError: invalid literal", id="raises"),
    ],
)
def test_failing_loader_raises_with_its_file(loader: Any, why: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(sw.DataError, match=why) as caught:
        used([tmp_path / "a.csv"], SkipLog("raise"), loader)
    assert "a.csv" in str(caught.value)


CHANGED: dict[str, tuple[bytes | None, str]] = {
    "deleted": (None, "missing file"),
    "emptied": (b"", "unreadable file"),
    "other-count": (to_bytes(GOOD.take(slice(0, 3))), "unlike the manifest"),
    "other-shape": (to_bytes(DataSet(np.zeros((4, 3)), np.zeros(4))), "unlike the manifest"),
    "labels-gone": (to_bytes(DataSet(np.zeros((4, 2), "f4"))), "unlike the manifest"),
}


@pytest.mark.parametrize(("content", "reason"), CHANGED.values(), ids=CHANGED)
def test_files_of_an_export_must_match_its_manifest(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
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


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        pytest.param("empty.txt", b"", "with no files", id="empty-list"),
        pytest.param("blank.txt", b"\n\n  \n", "with no files", id="blank-lines"),
        pytest.param("bad.txt", b"a\xff\xfe\n", "UTF-8", id="invalid-utf-8"),
        pytest.param("zero.txt", b"a\0b\n", "zero bytes", id="binary"),
    ],
)
def test_invalid_list_of_paths_raises_with_its_name(
    name: str, content: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(sw.DataError, match=why) as caught:
        find_files(str(tmp_path / name), ours=True)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("where", "error", "why"),
    [
        pytest.param("nowhere", FileNotFoundError, "nowhere does not exist", id="no-folder"),
        pytest.param("no*thing", FileNotFoundError, "no file matches", id="pattern"),
        pytest.param("empty", sw.DataError, "with no file", id="empty-folder"),
        pytest.param("foreign", sw.DataError, r"1 files, starting with a\.csv", id="other-files"),
        pytest.param("ftp-no://x/y", ValueError, "ftp-no", id="unknown-scheme"),
        pytest.param(7, sw.ConfigurationError, "a URL, a list of URLs", id="number"),
    ],
)
def test_locations_without_minibatches_raise(
    where: Any, error: type[Exception], why: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "a.csv").write_text("1")
    bare = not isinstance(where, str) or "://" in where
    place = where if bare else str(tmp_path / where)
    with pytest.raises(error, match=why):
        find_files(place, ours=True)


def test_invalid_reading_options_raise(tmp_path: Path) -> None:
    none: Any = None
    for name, value in {"on_error": "ignore", "partitions": 0, "loader": "numpy"}.items():
        options: Any = {name: value}
        with pytest.raises(sw.ConfigurationError, match=name):
            sw.data.from_minibatches(none, tmp_path, **options)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, None, "32"], ids=str)
def test_non_integer_sizes_raise(size: Any, tmp_path: Path) -> None:
    with pytest.raises(sw.ConfigurationError, match=f"batch_size={size!r}"):
        sw.data.to_minibatch_files(GOOD, tmp_path / "e", batch_size=size)
    with pytest.raises(sw.ConfigurationError, match=f"files_per_folder={size!r}"):
        sw.data.to_minibatch_files(GOOD, tmp_path / "e", batch_size=2, files_per_folder=size)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param([], "at least one example", id="nothing"),
        pytest.param(
            [np.zeros((4, 2))] * 2, "list of 2 arrays.*tuple.*iter", id="list-of-two-arrays"
        ),
        pytest.param([GOOD, DataSet(np.zeros((2, 2)))], r"\.padded\(\)", id="labels-missing"),
        pytest.param([(np.zeros(3), np.zeros(4))], "batch 0", id="different-counts"),
        pytest.param([(1, 2, 3, 4)], "4 parts in batch 0", id="four-parts"),
        pytest.param(7, "Received: int", id="a-number"),
    ],
)
def test_incompatible_batches_leave_no_export(data: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(sw.DataError, match=why):
        sw.data.to_minibatch_files(data, tmp_path / "e", batch_size=2)
    assert not (tmp_path / "e").exists()


def test_unwritable_location_raises_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="file"):
        sw.data.to_minibatch_files(GOOD, tmp_path / "file" / "export", batch_size=2)
