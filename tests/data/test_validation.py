"""Validation: what is counted, and what happens to files that are invalid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.data import DataSet, ValidationResult, to_bytes

GOOD = DataSet(np.zeros((4, 3), np.float32), np.zeros((4, 2), np.float32))
REASONS = (
    "missing_file",
    "unreadable",
    "missing_features",
    "missing_labels",
    "invalid_features",
    "invalid_labels",
)


def mixed(folder: Path) -> list[str]:
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


SHAPES: dict[str, Any] = {"features_shape": (3,), "labels_shape": (2,)}


def test_every_reason_is_counted_and_named(tmp_path: Path) -> None:
    paths = [*mixed(tmp_path), str(tmp_path / "gone.arrow")]
    found = sw.data.validate(paths, **SHAPES)
    assert (found.total, found.valid, found.invalid) == (8, 2, 6)
    assert [getattr(found, reason) for reason in REASONS] == [1] * 6
    assert (found.deleted, found.moved) == (0, 0)
    assert len(found.first) == 6
    for path in [p for p in paths if "good" not in p]:
        assert any(path in message for message in found.first), path
    assert all(Path(path).exists() for path in paths[:-1])


@pytest.mark.parametrize(
    ("features", "labels", "valid"),
    [
        pytest.param(None, None, 4, id="nothing-asked"),
        pytest.param((None,), None, 4, id="any-length"),
        pytest.param((-1,), (-1,), 3, id="minus-one"),
        pytest.param((3, 1), None, 0, id="another-rank"),
        pytest.param({"features": (3,)}, {"labels": (2,)}, 2, id="by-name"),
        pytest.param({"image": (3,)}, None, 0, id="another-name"),
        pytest.param(None, {"kind": (2,)}, 0, id="another-label"),
        pytest.param(None, (), 1, id="class-numbers"),
    ],
)
def test_shapes_may_leave_axes_open(features: Any, labels: Any, valid: int, tmp_path: Path) -> None:
    mixed(tmp_path)
    found = sw.data.validate(str(tmp_path), features_shape=features, labels_shape=labels)
    assert found.valid == valid
    assert found.total == 7


def test_labels_may_be_unnecessary(tmp_path: Path) -> None:
    mixed(tmp_path)
    found = sw.data.validate(tmp_path, labels_required=False)
    assert (found.valid, found.missing_labels) == (5, 0)


def test_an_export_says_itself_what_its_files_must_hold(tmp_path: Path) -> None:
    url = str(tmp_path / "e")
    export = sw.data.to_minibatch_files(GOOD.take(slice(0, 3)), url, batch_size=1)
    assert sw.data.validate(export) == ValidationResult(total=3, valid=3)
    Path(export.paths[0]).write_bytes(to_bytes(DataSet(np.zeros((1, 9)), np.zeros((1, 2)))))
    Path(export.paths[1]).write_bytes(to_bytes(GOOD))
    found = sw.data.validate(url)
    assert (found.invalid_features, found.unreadable, found.valid) == (1, 1, 1)
    assert "its manifest says 1" in found.first[1]


def test_an_export_without_labels_is_valid(tmp_path: Path) -> None:
    sw.data.to_minibatch_files(np.zeros((5, 2)), tmp_path / "e", batch_size=2)
    assert sw.data.validate(tmp_path / "e").valid == 3


def test_deleting_removes_what_is_invalid_and_counts_it(tmp_path: Path) -> None:
    paths = mixed(tmp_path)
    found = sw.data.validate(tmp_path, **SHAPES, on_invalid="delete")
    assert (found.invalid, found.deleted, found.moved) == (5, 5, 0)
    assert sorted(map(str, tmp_path.iterdir())) == [p for p in paths if "good" in p]
    again = sw.data.validate(tmp_path, **SHAPES, on_invalid="delete")
    assert again == ValidationResult(total=2, valid=2)


def test_files_that_are_missing_are_not_counted_as_deleted(tmp_path: Path) -> None:
    paths = [*mixed(tmp_path), str(tmp_path / "gone.arrow")]
    found = sw.data.validate(paths, **SHAPES, on_invalid="delete")
    assert (found.missing_file, found.deleted) == (1, 5)


def test_moving_keeps_the_files_and_their_places(tmp_path: Path) -> None:
    mixed(tmp_path / "in" / "one")
    mixed(tmp_path / "in" / "two")
    bad = (tmp_path / "in" / "one" / "b-unreadable.arrow").read_bytes()
    aside = tmp_path / "aside"
    found = sw.data.validate(str(tmp_path / "in"), **SHAPES, on_invalid="move", move_to=str(aside))
    assert (found.total, found.moved, found.deleted) == (14, 10, 0)
    assert len(list(aside.rglob("*.arrow"))) == 10
    assert (aside / "one" / "b-unreadable.arrow").read_bytes() == bad
    assert len(list((tmp_path / "in").rglob("*.arrow"))) == 4


def test_an_export_goes_on_without_the_files_that_were_deleted(tmp_path: Path) -> None:
    export = sw.data.to_minibatch_files(np.zeros((9, 2)), tmp_path / "e", batch_size=2)
    Path(export.paths[1]).write_bytes(b"")
    Path(export.paths[2]).unlink()
    found = sw.data.validate(tmp_path / "e", on_invalid="delete")
    assert (found.total, found.unreadable, found.missing_file, found.deleted) == (5, 1, 1, 1)
    assert sw.data.validate(tmp_path / "e") == ValidationResult(total=3, valid=3)
    assert len(sw.data.list_paths(tmp_path / "e")) == 3


def test_arrays_in_memory_are_validated_by_example() -> None:
    assert sw.data.validate(GOOD, **SHAPES) == ValidationResult(total=4, valid=4)
    found = sw.data.validate(GOOD, features_shape=(9,))
    assert found.invalid_features == 4
    assert "(3), not (9)" in found.first[0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param({"on_invalid": "burn"}, "on_invalid", id="another-word"),
        pytest.param({"on_invalid": "move"}, "move_to", id="move-without-place"),
        pytest.param({"move_to": "x"}, "move_to", id="place-without-move"),
        pytest.param({"on_invalid": "delete"}, "only files", id="delete-from-memory"),
        pytest.param({"features_shape": (0,)}, "features_shape", id="zero"),
        pytest.param({"labels_shape": (-2,)}, "labels_shape", id="negative"),
        pytest.param({"features_shape": 3}, "features_shape", id="a-number"),
        pytest.param({"features_shape": {"a": 3}}, "features_shape", id="a-number-by-name"),
        pytest.param({"features_shape": ("x",)}, "features_shape", id="text"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: Any, why: str) -> None:
    with pytest.raises(sw.ConfigurationError, match=why):
        sw.data.validate(GOOD, **options)


def test_a_result_is_read_as_a_table(tmp_path: Path) -> None:
    mixed(tmp_path)
    text = str(sw.data.validate(tmp_path, **SHAPES))
    assert text.splitlines()[0].split() == ["total", "7"]
    assert "cannot be read" in text
    assert "deleted" not in text
    assert str(ValidationResult(total=3, valid=3)).splitlines()[1].split() == ["valid", "3"]


results = st.builds(
    ValidationResult,
    **{name: st.integers(0, 99) for name in ("total", "valid", *REASONS, "deleted", "moved")},
    first=st.lists(st.text(max_size=3), max_size=25).map(lambda m: tuple(m[:20])),
)


@given(results, results, results)
def test_results_of_parts_add_up_in_any_grouping(
    one: ValidationResult, two: ValidationResult, three: ValidationResult
) -> None:
    assert (one + two) + three == one + (two + three)
    assert one + ValidationResult() == one
    assert ValidationResult.from_dict(one.to_dict()) == one


@pytest.mark.spark
def test_executors_find_what_one_machine_finds(spark: Any, tmp_path: Path) -> None:
    paths = [*mixed(tmp_path), str(tmp_path / "gone.arrow")]
    alone = sw.data.validate(paths, **SHAPES)
    rdd = spark.sparkContext.parallelize(paths, 3)
    assert sw.data.validate(paths, spark=spark, **SHAPES) == alone
    assert sw.data.validate(rdd, spark=spark, **SHAPES) == alone
    data = sw.data.from_rdd(
        spark, spark.sparkContext.parallelize([GOOD, DataSet(np.zeros((2, 3)))], 2)
    )
    found = sw.data.validate(data, **SHAPES)
    assert (found.total, found.valid, found.missing_labels) == (6, 4, 2)
    with pytest.raises(sw.ConfigurationError, match="spark"):
        sw.data.validate(rdd)
