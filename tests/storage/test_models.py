import io
import json
import zipfile

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.networks.presets import mlp_spec
from sparkwright.storage.models import read_notes


def archive(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return str(path)


def test_metadata_is_read_and_defaults_to_empty(tmp_path):
    url = archive(tmp_path / "a.keras", {"sparkwright.json": json.dumps({"a": [1, 2.5]})})
    assert read_notes(url) == {"a": [1, 2.5]}
    assert read_notes(archive(tmp_path / "b.keras", {"config.json": "{}"})) == {}
    assert sw.load_normalizer(url) is None


@cases(
    "content, error, text",
    (None, FileNotFoundError, "does not exist"),
    (b"", sw.DataError, "must be complete and in the Keras format"),
    (b"no archive", sw.DataError, "must be complete and in the Keras format"),
    ("{", sw.DataError, "must be complete and in the Keras format"),
    ("[1]", sw.DataError, "must be a dict. Received: a list"),
    ('{"normalizer": {"name": "X"}}', sw.ConfigurationError, "name='X'"),
    ('{"normalizer": {"name": "__import__"}}', sw.ConfigurationError, "name='__import__'"),
    ids=["no file", "empty", "no archive", "not JSON", "no dict", "unknown class", "code"],
)
def test_damaged_metadata_raises(tmp_path, content, error, text):
    path = tmp_path / "model.keras"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        archive(path, {"sparkwright.json": content})
    with pytest.raises(error) as refused:
        sw.load_normalizer(str(path))
    assert text in str(refused.value)


def test_oversized_metadata_raises(tmp_path, monkeypatch):
    monkeypatch.setattr("sparkwright.storage._model_archive._MAX_TEXT_BYTES", 10)
    url = archive(tmp_path / "a.keras", {"sparkwright.json": json.dumps({"a": "x" * 20})})
    with pytest.raises(sw.DataError, match=r"must have at most 10 bytes\. Received: 29"):
        read_notes(url)


def test_models_are_saved_to_streams_and_paths(tmp_path):
    model, stream = mlp_spec().build(), io.BytesIO()
    sw.save_model(model, stream)
    sw.save_model(model, tmp_path / "model.keras")
    stream.seek(0)
    for found in (sw.load_model(stream), sw.load_model(tmp_path / "model.keras")):
        for ours, theirs in zip(model.get_weights(), found.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(sw.DataError, match=r"BytesIO"):
        sw.load_model(io.BytesIO(b"no model"))
