import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright.data import TableSchema
from sparkwright.data._column_choice import schema_of, select_columns, sort_values
from sparkwright.data.wording import listed
from sparkwright.errors import ConfigurationError

COLUMNS = ("a", "b", "c", "d", "e")


def schema(columns=COLUMNS, values=None, shapes=None, **options):
    return schema_of(columns, lambda _: values or {}, lambda _: shapes or {}, **options)


@cases(
    "choice, expected",
    ("c", "c"),
    (0, "a"),
    (-1, "e"),
    (np.int64(1), "b"),
    (np.array([2, 0]), "ca"),
    (["e", 0, -2], "ead"),
    (slice(1, 3), "bc"),
    (slice("b", "d"), "bcd"),
    (slice("d", None), "de"),
    (slice(None, "b"), "ab"),
    (slice(0, -1), "abcd"),
    (slice(None, None, 2), "ace"),
    (range(3, 5), "de"),
    (["e", slice("a", "b"), range(2, 4)], "eabcd"),
    (("b",), "b"),
)
def test_columns_are_selected_in_the_given_order(choice, expected):
    assert "".join(select_columns(COLUMNS, choice, option="features")) == expected


@cases(
    "choice, message",
    ("z", r"`features` must select existing columns\. Received: 'z', of the columns 'a'"),
    (5, "Received: 5, of 5 columns"),
    (-6, "Received: -6, of 5 columns"),
    (["a", 0], "'a' more than once"),
    (True, "names, positions or ranges of columns. Received: features=True"),
    (1.5, "Received: features=1.5"),
    (slice("a", "z"), "'z', of the columns"),
    (slice(0, 2.5), "from a name or position to another"),
    (range(3, 7), "Received: 5, of 5 columns"),
)
def test_empty_or_duplicate_selection_raises(choice, message):
    with pytest.raises(ConfigurationError, match=message):
        select_columns(COLUMNS, choice, option="features")


def test_features_are_other_columns_and_classes_names_or_a_count():
    found = schema(labels=["b", -1], weights="c")
    assert found.features == {"features": ("a", "d")}
    assert found.labels == {"labels": ("b", "e")}
    assert found.used == ("a", "d", "b", "e", "c")
    found = schema(
        labels={"p": "d", "q": "e", "r": "c"}, classes={"p": ["no", "yes"], "q": 3, "r": None}
    )
    assert found.classes == {"p": ("no", "yes"), "q": 3}
    assert found.class_names == {"p": ("no", "yes")}
    assert found.texts == {"d"}


def test_values_are_requested_for_inferred_columns_alone():
    asked = []

    def values(names):
        asked.append(names)
        return {"d": ["10", "9"], "e": ["9", "8"], "a": ["u", "t"]}

    options = {"classes": "infer", "categories": {"a": "infer", "b": ["x"]}}
    found = schema_of(COLUMNS, values, lambda _: {}, labels=["d", "e"], **options)
    assert asked == [("d", "e", "a")]
    assert found.classes == {"labels": ("8", "9", "10")}
    assert found.categories == {"a": ("t", "u"), "b": ("x",)}


def test_numeric_values_are_sorted_as_numbers():
    assert sort_values({"2", "10", "-1.5", "1e3"}) == ("-1.5", "2", "10", "1e3")
    assert sort_values({"2", "10", ""}) == ("", "10", "2")
    assert sort_values({"1", "1.0"}) == ("1", "1.0")


def test_scalar_features_have_names_and_are_all_that_is_read_without_labels():
    shapes = {"c": (2, 2), "d": (7,)}
    found = schema(features=["b", "a", "c"], categories={"a": ["x", "y"]}, shapes=shapes)
    assert found.feature_names() == ("b", "a=x", "a=y", "c[0]", "c[1]", "c[2]", "c[3]")
    assert sum(found.width(column) for column in found.features["features"]) == 7
    assert found.shapes == {"c": (2, 2)}
    found = schema(labels="e", classes=["x"], one_hot=True, weights="a").without_labels()
    assert found.used == ("b", "c", "d")
    assert found.class_names == {}


texts = st.text(min_size=1, max_size=4)


@given(
    st.lists(texts, min_size=4, max_size=8, unique=True),
    st.lists(texts, min_size=1, max_size=5, unique=True),
    st.one_of(st.integers(1, 100), st.lists(texts, min_size=1, unique=True)),
    st.sampled_from(["error", "skip", 0.0, -1.5, math.nan]),
)
def test_schema_round_trips_through_json(columns, values, classes, missing):
    options = {"labels": 0, "classes": classes, "categories": {columns[1]: values}, "weights": 2}
    before = schema(columns, shapes={columns[3]: (2, 3)}, missing=missing, **options)
    after = TableSchema.from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False)))
    assert replace(after, missing=0) == replace(before, missing=0)
    assert repr(after.missing) == repr(before.missing)


@cases(
    "content",
    {},
    {"name": "Other"},
    {"name": "TableSchema"},
    [],
    None,
    {"name": "TableSchema", "columns": 3},
)
def test_invalid_schemas_raise(content):
    with pytest.raises(ConfigurationError, match="must be the output of `TableSchema"):
        TableSchema.from_dict(content)


@cases(
    "options, message",
    ({"features": []}, "at least one column for each input"),
    ({"labels": list(COLUMNS)}, "at least one column for each input"),
    ({"labels": []}, "at least one column for each output"),
    ({"classes": 3}, "`classes` needs `labels`"),
    ({"labels": "e", "classes": 0}, "a number of at least 1, or unique names"),
    ({"labels": "e", "classes": True}, "a number of at least 1, or unique names"),
    ({"labels": "e", "classes": ["x", "x"]}, "a number of at least 1, or unique names"),
    ({"labels": "e", "classes": "guess"}, "classes='guess'"),
    ({"labels": "e", "classes": []}, "`classes` must have at least 1"),
    ({"labels": "e", "classes": {"other": 2}}, "must name outputs of `labels`"),
    ({"labels": "e", "one_hot": True}, "`one_hot` needs one label column with `classes`"),
    ({"labels": ["d", "e"], "classes": 2, "one_hot": True}, "`one_hot` needs one label"),
    ({"one_hot": 1}, "`one_hot` must be True or False"),
    ({"categories": ["a"]}, "`categories` must be a dict"),
    ({"categories": {"z": ["x"]}}, "`categories` must select existing columns"),
    ({"categories": {"e": ["x"]}, "labels": "e"}, "must name feature columns. Received: 'e'"),
    ({"categories": {"a": []}}, "`categories` must have at least 1"),
    ({"categories": {"a": 3}}, "`categories` must be unique values"),
    ({"weights": "z"}, "`weights` must select existing columns"),
    ({"missing": "drop"}, "`missing` must be"),
    ({"missing": math.inf}, "`missing` must be"),
    ({"missing": True}, "`missing` must be"),
    ({"features": ["a", "e"], "labels": "e", "classes": ["x"]}, "either as text or as numbers"),
)
def test_incompatible_options_raise(options, message):
    with pytest.raises(ConfigurationError, match=message):
        schema(**options)


def test_duplicate_column_names_raise():
    with pytest.raises(ConfigurationError, match="'b' more than once"):
        schema(["a", "b", "b"])


def test_long_lists_are_truncated_in_messages():
    assert listed([]) == "none"
    assert listed(range(14)).endswith("11, … (2 more)")
