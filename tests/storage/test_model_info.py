import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage import ModelInfo, ModelList
from sparkwright.storage._hdf5_models import code_in
from sparkwright.storage.model_metadata import ModelMetadata, info_from_about, read_time

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = [
    *("name", "saved_at", "saved_by", "title", "comment", "metrics", "versions", "parameters"),
    *("trainable_parameters", "inputs", "outputs", "has_updater", "training"),
]


def info(file, *, hours=None, **more):
    saved_at = None if hours is None else NOON + timedelta(hours=hours)
    return ModelInfo(url=f"/m/{file}", size_bytes=1000, saved_at=saved_at, **more)


def test_newest_model_is_first_and_undated_models_are_last():
    models = ModelList("/m", [info("b"), info("c", hours=1), info("a"), info("d", hours=2)])
    assert [found.url[-1] for found in models] == ["d", "c", "a", "b"]


def test_damaged_files_are_listed_with_their_error():
    models = ModelList("/m", [info("a"), info("b", problem="it ends\nearly")])
    assert "cannot be used: it ends early" in repr(models)


def test_html_escapes_markup():
    evil = "<script>alert(1)</script>"
    found = info(
        evil, name=evil, saved_by=evil, title=evil, comment=evil, problem=evil,
        metrics={evil: evil}, versions={evil: evil}, inputs={evil: (None, 3)}, kept=(evil,),
        training={evil: evil, "master": {"name": evil}}, sha256=evil,
    )  # fmt: skip
    for shown in (found._repr_html_(), ModelList(evil, [found])._repr_html_()):
        assert "&lt;script&gt;" in shown
        assert "<script" not in shown


def test_model_info_shows_known_fields():
    found = info(
        "a", hours=0, saved_by="me@here", parameters=1234, trainable_parameters=1000,
        inputs={"x": (None, 28)}, has_updater=True, metrics={"accuracy": 0.98765, "n": None},
        training={"run": "run-1", "epochs": 3, "master": {"name": "SharedTrainingMaster"}},
    )  # fmt: skip
    shown = repr(found)
    for text in (
        "2026-01-02 12:00:00 UTC by me@here", "1,234, 1,000 of them trainable", "x (any, 28)",
        "its state is in the file", "accuracy 0.9877", "run run-1, epochs 3, SharedTrainingMaster",
        "1.0 kB",
    ):  # fmt: skip
        assert text in shown
    assert "versions" not in shown
    assert json.loads(json.dumps(found.to_dict()))["saved_at"] == "2026-01-02T12:00:00+00:00"


@given(field=st.sampled_from(FIELDS), value=anything)
def test_metadata_of_any_type_is_shown_or_raises(field, value):
    try:
        found = info_from_about({field: value}, url="store://a", size_bytes=1)
    except DataError as error:
        refusal = str(error)
    else:
        refusal = "store://a"
        assert repr(found)
        assert ModelList("store://", [found])._repr_html_()
    assert "store://a" in refusal


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", 1), ("parameters", "7"), ("parameters", True), ("metrics", []), ("inputs", [1])],
)
def test_field_of_another_type_raises(field, value):
    with pytest.raises(DataError, match=field):
        info_from_about({field: value}, url="store://a", size_bytes=1)


def test_times_are_in_utc():
    assert read_time("2026-01-02T14:00:00+02:00") == NOON
    assert read_time("2026-01-02@12:00:00") == NOON


class Result:
    def to_dict(self):
        return {"accuracy": np.float32(0.5), "counts": np.arange(2)}


def test_metrics_are_converted_to_json_types():
    metrics = {"a": Result(), "b": np.int64(3), "c": float("inf"), "d": (1, None), 4: "x"}
    assert ModelMetadata(metrics=metrics).metrics == {
        "a": {"accuracy": 0.5, "counts": [0, 1]},
        "b": 3,
        "c": None,
        "d": [1, None],
        "4": "x",
    }
    result = Result()
    assert ModelMetadata(metrics=result).metrics == {"accuracy": 0.5, "counts": [0, 1]}


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"heading": "x"}, r"unknown options \['heading'\] of ModelMetadata"),
        ({"title": 1}, "`title` must be text, or None"),
        ({"saved_by": False}, "`saved_by` must be text, or None"),
        ({"metrics": 0.5}, "`metrics` must be a dict"),
        ({"metrics": {"a": [object()]}}, r"`metrics\['a'\]\[0\]` must be JSON-serializable"),
        ({"metrics": {(1, 2): 1}}, "must have strings as keys"),
        ({"training": {"a": {1, 2}}}, r"`training\['a'\]` must be JSON-serializable"),
        ([1], "must be a dictionary of options"),
    ],
)
def test_invalid_metadata_raises(metadata, text):
    with pytest.raises(ConfigurationError, match=text):
        ModelMetadata.from_dict(metadata)


def test_code_is_found_at_any_depth():
    code = {"class_name": "__lambda__", "config": {"value": "4wEA"}}
    deep = {"class_name": "Lambda", "config": {"name": "f", "function": code}}
    for number in range(5000):
        deep = {"class_name": "Sequential", "config": {"name": f"m{number}", "layers": [deep]}}
    assert code_in(deep) == ["f"]
    assert code_in({"compile_config": {"loss": code}}) == ["?"]
    old = {"class_name": "Lambda", "config": {"name": "g", "function": ["4wEA", None, None]}}
    assert code_in([old]) == ["g"]
    shape = {"name": "h", "function": "relu", "output_shape_type": "lambda"}
    assert code_in({"class_name": "Lambda", "config": shape}) == ["h"]
    named = {"name": "i", "function": "relu", "function_type": "function"}
    assert code_in({"class_name": "Lambda", "config": named}) == []
