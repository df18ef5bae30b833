from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import DataSet, ValidationResult, loaders as _loaders, to_bytes
from sparkwright.data._exported import reusable_export

GOOD = DataSet(np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32))
REASONS = (
    *("missing_file", "unreadable", "missing_features"),
    *("missing_labels", "invalid_features", "invalid_labels"),
)


def mixed(folder):
    """Two good files, and one for each way to be bad."""
    import pyarrow as pa

    labels = pa.record_batch({"labels/labels": [1.0]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, labels.schema) as writer:
        writer.write_batch(labels)
    contents = {
        "a-good": to_bytes(GOOD),
        "b-unreadable": b"no Arrow",
        "c-no-features": sink.getvalue().to_pybytes(),
        "d-no-labels": to_bytes(DataSet(np.zeros((4, 3)))),
        "e-features": to_bytes(DataSet(np.zeros((4, 5)), np.zeros((4, 2)))),
        "f-labels": to_bytes(DataSet(np.zeros((4, 3)), np.zeros(4))),
        "g-good": to_bytes(GOOD),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.arrow").write_bytes(content)
    return [str(folder / f"{name}.arrow") for name in contents]


SHAPES = {"features_shape": (3,), "labels_shape": (2,)}


def test_every_reason_is_counted_and_reported(tmp_path):
    paths = [*mixed(tmp_path), str(tmp_path / "gone.arrow")]
    found = sw.data.validate(paths, **SHAPES)
    assert (found.total, found.valid, found.invalid) == (8, 2, 6)
    assert [getattr(found, reason) for reason in REASONS] == [1] * 6
    assert found.deleted == 0
    assert len(found.first) == 6
    for path in [p for p in paths if "good" not in p]:
        assert any(path in message for message in found.first), path
    assert all(Path(path).exists() for path in paths[:-1])


@cases(
    "features, labels, required, valid",
    pytest.param(None, None, True, 4, id="nothing-asked"),
    pytest.param(None, None, False, 5, id="labels-unnecessary"),
    pytest.param((-1,), (-1,), True, 3, id="minus-one"),
    pytest.param((3, 1), None, True, 0, id="another-rank"),
    pytest.param({"features": (3,)}, {"labels": (2,)}, True, 2, id="by-name"),
    pytest.param({"image": (3,)}, None, True, 0, id="another-name"),
    pytest.param(None, (), True, 1, id="class-numbers"),
)
def test_shapes_may_have_unspecified_axes(features, labels, required, valid, tmp_path):
    mixed(tmp_path)
    found = sw.data.validate(
        str(tmp_path), features_shape=features, labels_shape=labels, labels_required=required
    )
    assert (found.total, found.valid) == (7, valid)
    # In memory, examples are counted.
    found = sw.data.validate(GOOD, features_shape=(9,))
    assert (found.total, found.invalid_features) == (4, 4)
    assert "(3), not (9)" in found.first[0]


def test_manifest_of_an_export_defines_its_valid_files(tmp_path):
    url = str(tmp_path / "e")
    export = sw.data.to_minibatch_files(GOOD.take(slice(0, 4)), url, batch_size=1)
    assert sw.data.validate(export) == ValidationResult(total=4, valid=4)
    other = DataSet(np.ones((1, 3), np.float32), np.ones((1, 2), np.float32))
    Path(export.paths[2]).write_bytes(to_bytes(other))
    Path(export.paths[0]).write_bytes(to_bytes(DataSet(np.zeros((1, 9)), np.zeros((1, 2)))))
    Path(export.paths[1]).write_bytes(to_bytes(GOOD))
    found = sw.data.validate(url)
    assert (found.invalid_features, found.unreadable, found.valid) == (1, 2, 1)
    assert "its manifest says 1" in found.first[1]
    assert "not those of its checksum" in found.first[2]
    sw.data.to_minibatch_files(np.zeros((5, 2)), tmp_path / "no labels", batch_size=2)
    assert sw.data.validate(tmp_path / "no labels").valid == 3


def test_delete_removes_and_counts_invalid_files(tmp_path):
    paths = mixed(tmp_path / "in")
    other = tmp_path / "in" / "manifest.json"
    other.write_text('{"name": "my-app"}')
    found = sw.data.validate([*paths, str(other.with_name("gone"))], **SHAPES, on_invalid="delete")
    assert (found.invalid, found.missing_file, found.deleted) == (6, 1, 5)
    mixed(tmp_path / "in")
    found = sw.data.validate(tmp_path / "in", **SHAPES, on_invalid="delete")
    assert (found.invalid, found.deleted) == (5, 5)
    left = [*(p for p in paths if "good" in p), str(other)]
    assert sorted(map(str, other.parent.iterdir())) == left
    again = sw.data.validate(tmp_path / "in", **SHAPES, on_invalid="delete")
    assert again == ValidationResult(total=2, valid=2)


def store_fails(source):
    raise ConnectionError("the store is away")


def has_a_mistake(source):
    return DataSet(undefined_name)  # noqa: F821


def needs_another_file(source):
    with open(f"{source.url}.labels") as file:
        return DataSet(np.array(file.read()))


def refuses(source):
    raise sw.DataError("not one of mine")


FOREIGN = [
    pytest.param(store_fails, OSError, "ConnectionError: the store", id="store"),
    pytest.param(has_a_mistake, sw.DataError, "NameError", id="mistake"),
    pytest.param(needs_another_file, OSError, "FileNotFoundError", id="another-file"),
]


@cases("loader, kind, why", *FOREIGN)
def test_files_are_kept_on_unrelated_errors(loader, kind, why, tmp_path):
    paths = mixed(tmp_path / "in")
    with pytest.raises(kind, match=why) as caught:
        sw.data.validate(paths, loader=loader, on_invalid="delete")
    assert paths[0] in str(caught.value)
    assert "No file was touched" in str(caught.value)
    assert all(Path(path).exists() for path in paths)
    assert sw.data.validate(paths, loader=loader).unreadable == 7
    found = sw.data.validate(f"{tmp_path}/in/[ab]*", loader=refuses, on_invalid="delete")
    assert (found.unreadable, found.deleted) == (2, 2)
    assert [Path(path).exists() for path in paths] == [False, False, *[True] * 5]


def test_failing_store_deletes_no_files_of_an_export(tmp_path, monkeypatch):
    export = sw.data.to_minibatch_files(GOOD, tmp_path / "e", batch_size=2)

    def read_bytes(url):
        raise ConnectionError(f"{url} could not be read")

    with monkeypatch.context() as patch:
        patch.setattr(_loaders, "read_bytes", read_bytes)
        with pytest.raises(OSError, match=r"minibatch-000000.*No file was touched"):
            sw.data.validate(export, on_invalid="delete")
    assert sw.data.validate(export).valid == 2


def test_validating_a_folder_with_a_loader_requires_a_pattern(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    np.savez(folder / "a.npz", features=np.zeros((2, 3)), labels=np.zeros(2))
    (folder / "b.npz").write_bytes(b"damaged")
    (folder / "README.md").write_text("about")
    options = {"loader": sw.data.numpy_loader, "on_invalid": "delete"}
    for where in (folder, str(folder)):
        with pytest.raises(sw.ConfigurationError, match=r"Give a pattern, such as `folder/\*.npz`"):
            sw.data.validate(where, **options)
    found = sw.data.validate(f"{folder}/*.npz", **options)
    assert (found.total, found.valid, found.deleted) == (2, 1, 1)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "a.npz"]


def test_export_with_lost_files_is_incomplete(tmp_path):
    url = str(tmp_path / "e")
    export = sw.data.to_minibatch_files(GOOD, url, batch_size=2)
    whole = replace(export.manifest, fingerprint="f")
    (tmp_path / "e" / "manifest.json").write_text(whole.to_json())
    wanted = {"fingerprint": "f", "batch_size": 2, "reuse": True, "overwrite": False}
    assert reusable_export(url, **wanted) is not None
    Path(export.paths[0]).write_bytes(b"")
    sw.data.validate(url, on_invalid="delete")
    with pytest.raises(sw.ConfigurationError, match="files have been removed"):
        reusable_export(url, **wanted)


def test_export_remains_usable_without_deleted_files(tmp_path):
    export = sw.data.to_minibatch_files(np.zeros((9, 2)), tmp_path / "e", batch_size=2)
    Path(export.paths[1]).write_bytes(b"")
    Path(export.paths[2]).unlink()
    found = sw.data.validate(tmp_path / "e", on_invalid="delete")
    assert (found.total, found.unreadable, found.missing_file, found.deleted) == (5, 1, 1, 1)
    assert sw.data.validate(tmp_path / "e") == ValidationResult(total=3, valid=3)
    assert len(sw.data.list_paths(tmp_path / "e")) == 3


@cases(
    "options, why",
    pytest.param({"on_invalid": "burn"}, "on_invalid", id="another-word"),
    pytest.param({"on_invalid": "delete"}, "only files", id="delete-from-memory"),
    pytest.param({"features_shape": (0,)}, "features_shape", id="zero"),
    pytest.param({"features_shape": 3}, "features_shape", id="a-number"),
)
def test_invalid_options_raise(options, why):
    with pytest.raises(sw.ConfigurationError, match=why):
        sw.data.validate(GOOD, **options)


results = st.builds(
    ValidationResult,
    **{name: st.integers(0, 99) for name in ("total", "valid", *REASONS, "deleted")},
    first=st.lists(st.text(max_size=3), max_size=25).map(lambda m: tuple(m[:20])),
)


@given(results, results, results)
def test_validation_results_merge_in_any_grouping(one, two, three):
    assert (one + two) + three == one + (two + three)
    assert one + ValidationResult() == one


def test_executors_find_the_same_problems_as_one_machine(spark, tmp_path):
    paths = [*mixed(tmp_path), str(tmp_path / "gone.arrow")]
    alone = sw.data.validate(paths, **SHAPES)
    rdd = spark.sparkContext.parallelize(paths, 3)
    assert sw.data.validate(paths, spark=spark, **SHAPES) == alone
    assert sw.data.validate(rdd, spark=spark, **SHAPES) == alone
    with pytest.raises(sw.errors.WorkerError, match=r"\.arrow: ConnectionError: the store is away"):
        sw.data.validate(paths, spark=spark, loader=store_fails, on_invalid="delete")
    with pytest.raises(sw.DataError, match=r"\.arrow: NameError"):
        sw.data.validate(rdd, spark=spark, loader=has_a_mistake, on_invalid="delete")
    assert all(Path(path).exists() for path in paths[:-1])
    data = sw.data.from_rdd(
        spark, spark.sparkContext.parallelize([GOOD, DataSet(np.zeros((2, 3)))], 2)
    )
    found = sw.data.validate(data, **SHAPES)
    assert (found.total, found.valid, found.missing_labels) == (6, 4, 2)
    cleared = sw.data.validate(rdd, spark=spark, **SHAPES, on_invalid="delete")
    assert (cleared.invalid, cleared.deleted, cleared.first) == (6, 5, alone.first)
    left = [path.name for path in sorted(tmp_path.glob("*.arrow"))]
    assert left == ["a-good.arrow", "g-good.arrow"]
    with pytest.raises(sw.ConfigurationError, match="spark"):
        sw.data.validate(rdd)
