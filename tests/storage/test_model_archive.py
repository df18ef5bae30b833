import io
import json
import zipfile

import pytest
from hypothesis import given, settings, strategies as st
from tests.cases import cases
from tests.storage.stores import OneWay

from sparkwright.errors import DataError
from sparkwright.storage._model_archive import (
    digest_of_all,
    digests_in,
    unpack_model,
    write_model_archive,
)

FILES = {
    "metadata.json": b"{}",
    "config.json": b'{"class_name": "Sequential"}',
    "model.weights.h5": bytes(range(256)) * 9,
    "assets/layers/text/vocabulary.txt": b"a\nb\n",
}
names = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3, unique=True).map(
    lambda parts: "assets/" + "/".join(parts) + ".txt"
)


def saved(folder, files, notes=None):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    target = OneWay()
    write_model_archive(
        target, folder, lambda digests: {**(notes or {}), "about": {"digests": digests}}
    )
    return bytes(target.content)


def zipped(members, compression=zipfile.ZIP_STORED):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def unpacked(content, folder):
    return unpack_model(io.BytesIO(content), "store://a.keras", folder)


def files_in(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@settings(max_examples=30)
@given(
    assets=st.dictionaries(names, st.binary(max_size=50), max_size=3),
    weights=st.binary(max_size=5000),
)
def test_files_round_trip(tmp_path_factory, assets, weights):
    folder = tmp_path_factory.mktemp("model")
    files = {**FILES, "model.weights.h5": weights, **assets}
    content = saved(folder / "in", files, {"mine": [1]})
    notes = unpacked(content, folder / "out")
    assert notes["mine"] == [1]
    assert files_in(folder / "out") == files
    assert set(digests_in(notes)) == set(files)


def test_large_files_are_copied_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("sparkwright.storage._model_archive._BLOCK_BYTES", 100)
    content = saved(tmp_path / "in", FILES)
    unpacked(content, tmp_path / "out")
    assert files_in(tmp_path / "out") == FILES


def test_any_tool_reads_the_archive(tmp_path):
    with zipfile.ZipFile(io.BytesIO(saved(tmp_path, FILES))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [*FILES, "sparkwright.json"]
        assert archive.getinfo("model.weights.h5").compress_type == zipfile.ZIP_STORED


def test_changed_content_with_a_valid_checksum_raises(tmp_path):
    with zipfile.ZipFile(io.BytesIO(saved(tmp_path, FILES))) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    changed = {**members, "model.weights.h5": b"other"}
    with pytest.raises(DataError, match=r"model\.weights\.h5 differs from its SHA-256"):
        unpacked(zipped(changed), None)
    with pytest.raises(DataError, match="assets/more was added later"):
        unpacked(zipped({**members, "assets/more": b""}), None)
    del members["metadata.json"]
    with pytest.raises(DataError, match=r"metadata\.json is missing"):
        unpacked(zipped(members), None)


@cases(
    "name", "../evil", "assets/../../evil", "/evil", "assets//evil", "assets/..", "assets\\..\\evil"
)
def test_no_file_is_written_outside_the_folder(tmp_path, name):
    unpacked(zipped({**FILES, name: b"x"}), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert files_in(tmp_path / "out") == FILES


def test_archive_bombs_raise(tmp_path, monkeypatch):
    monkeypatch.setattr("sparkwright.storage._model_archive._ALWAYS_ALLOWED_BYTES", 1000)
    bomb = zipped({**FILES, "model.weights.h5": bytes(1_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(DataError, match=r"times its size\. Received: store://a\.keras"):
        unpacked(bomb, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@cases(
    "content, text",
    (b"", "must be complete"),
    (b"no archive", "must be complete"),
    (zipped({"a": b""}), "must contain config.json"),
    (zipped({"config.json": b"{}"}), "must contain config.json"),
    (zipped({**FILES, "sparkwright.json": b"[" * 100_000}), "must be complete"),
    (zipped(FILES, zipfile.ZIP_BZIP2), "stored or deflated"),
    ids=["empty", "no archive", "no model", "no weights", "no end of notes", "other packing"],
)
def test_files_that_are_not_models_raise(content, text):
    with pytest.raises(DataError, match=text) as refused:
        unpacked(content, None)
    assert "store://a.keras" in str(refused.value)


def test_duplicate_member_names_raise():
    target = io.BytesIO(zipped(FILES))
    with zipfile.ZipFile(target, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("config.json", "{}")
    with pytest.raises(DataError, match="two members have the same name"):
        unpacked(target.getvalue(), None)


def test_one_digest_covers_all_files_and_plain_files_have_no_metadata(tmp_path):
    assert unpacked(zipped(FILES, zipfile.ZIP_DEFLATED), tmp_path / "out") == {}
    assert files_in(tmp_path / "out") == FILES
    first = digests_in(unpacked(saved(tmp_path / "a", FILES), None))
    second = digests_in(unpacked(saved(tmp_path / "b", {**FILES, "metadata.json": b"[]"}), None))
    assert digest_of_all(first) == digest_of_all(dict(reversed(first.items())))
    assert digest_of_all(first) != digest_of_all(second)
    assert json.loads(json.dumps(first)) == first
