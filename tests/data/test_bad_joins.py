"""Rows and options that no joined example can be made of: each error says what and where."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkwright.data import ClassIndex, DataSet, OneHot, join, records, sequences
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import CsvReader
from sparkwright.data._join_frames import tables_of
from sparkwright.data._join_plan import Plan, make_plan
from sparkwright.data._join_reader import JoinReader
from sparkwright.data._survey import Survey
from sparkwright.data.pieces import SkipLog
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.listing import list_files


class Frame:
    """Stands for a DataFrame where nobody looks into it."""

    mapInArrow = None


TYPES = {
    "people": {"id": "bigint", "age": "double", "name": "string", "zip": "int", "on": "date"},
    "visits": {"person": "bigint", "day": "int", "amount": "double", "kind": "string",
               "path": "array<float>"},
}  # fmt: skip
SOURCES = {
    "people": records(Frame(), key="id"),
    "visits": sequences(Frame(), key="person", order="day"),
}
ARRAYS = {
    "people": {"id": "bigint", "vector": "array<double>"},
    "visits": {"person": "bigint", "day": "int", "path": "array<float>"},
}


def plan_of(features: Mapping[str, Any], labels: Mapping[str, Any] | None = None) -> Plan:
    return make_plan(SOURCES, TYPES, features, labels or {})


def rows(**columns: Any) -> bytes:
    """Three joined rows, keys 1, 2, 3, of a person each with two visits; `columns` differ."""
    table = pa.table(
        {
            "k0": [1, 2, 3],
            **{f"n{i}": pa.array(n, pa.int64()) for i, n in enumerate([[1, 1, 1], [2, 2, 2]])},
            **{f"x{i}": pa.nulls(3, pa.string()) for i in range(2)},
            **{f"f{i}": pa.array([0, 0, 0], pa.int64()) for i in range(2)},
            **columns,
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def reader_of(plan: Plan, **options: Any) -> JoinReader:
    given: dict[str, Any] = {"lengths": {1: 2}, **options}
    for option, value in (("missing", "error"), ("duplicates", "error"), ("align", "equal_length")):
        given.setdefault(option, value)
    return JoinReader(plan=plan, **given)


NOTE = "wrong number of columns: a.csv, line 3: received '2,7'. It is in source 'people'."
AGE = {"x": ("people", "age")}
AMOUNT = {"x": ("visits", "amount")}
STEPS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def floats(*values: Any) -> Any:
    return pa.array(values, pa.float32())


def lists(*values: Any, kind: Any = None) -> Any:
    return pa.array(values, pa.list_(kind or pa.float32()))


CASES: dict[str, tuple[Any, Any, dict[str, Any], str, str]] = {
    # id: features, labels, columns (those of key 2 are bad), reason, what the error says
    "no value": (
        AGE, None, {"c0_0": floats(1, None, 3)}, "missing value",
        r"key 2: source 'people': column 'age' must hold a value\. Received: None",
    ),
    "text for a number": (
        {"x": ("people", "name")}, None, {"c0_0": ["1.5", "tall", "3"]}, "not a number",
        r"key 2: source 'people': column 'name' must hold numbers\. Received: 'tall'",
    ),
    "long text": (
        {"x": ("people", "name")}, None, {"c0_0": ["1", "y" * 10**6, "3"]}, "not a number",
        "'y{79}[.] ",
    ),
    "missing step": (
        AMOUNT, None, {"c1_0": lists([1, 2], [3, None], [5, 6])}, "missing value",
        r"key 2: source 'visits': column 'amount' .*None",
    ),
    "class too large": (
        AGE, {"y": ("people", ClassIndex("zip", 2))},
        {"c0_0": floats(1, 2, 3), "c0_1": [0.0, 2.0, 1.0]}, "class out of range",
        r"key 2: .*'zip' .*from 0 to 1\. Received: 2\.0",
    ),
    "unknown class of a step": (
        {"x": ("visits", OneHot("kind", ["a", "b"]))}, None,
        {"c1_0": lists(["a", "b"], ["a", "c"], ["b", "b"], kind=pa.string())}, "unknown class",
        r"key 2: source 'visits': column 'kind' .* one of 'a', 'b'\. Received: 'c'",
    ),
    "no class": (
        {"x": ("people", OneHot("name", ["a", "b"]))}, None, {"c0_0": ["a", None, "b"]},
        "missing value", r"key 2: .*Received: None",
    ),
    "a label beyond 32 bits": (
        AGE, {"y": ("people", "zip")},
        {"c0_0": floats(1, 2, 3), "c0_1": [0, 2**40, 1]}, "integer out of range",
        r"key 2: .*32-bit integers\. Received: 1099511627776",
    ),
    "no key": (
        AGE, None, {"c0_0": floats(1, 2, 3), "k0": [1, None, 3], "n1": [2, None, 2]}, "no key",
        r"Received: 1 without one in source 'people'",
    ),
    "a short line": (
        AGE, None, {"c0_0": floats(1, 2, 3), "x0": [None, NOTE, None]}, "wrong number of columns",
        r"key 2: a\.csv, line 3: received '2,7'\. It is in source 'people'",
    ),
    "too long": (
        AMOUNT, None, {"c1_0": lists([1, 2], [3, 4, 5], [5, 6]), "n1": [2, 3, 2]}, "too long",
        r"at most 2 steps.*Received: 3 of source 'visits'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("features", "labels", "columns", "reason", "says"),
    [pytest.param(*case, id=name) for name, case in CASES.items()],
)
def test_bad_row_raises_with_its_key_or_is_skipped_and_counted(
    features: Any, labels: Any, columns: Any, reason: str, says: str
) -> None:
    reader = reader_of(plan_of(features, labels))
    with pytest.raises(DataError, match=says):
        list(reader([rows(**columns)], SkipLog("raise")))
    log = SkipLog("skip")
    assert sum(map(len, reader([rows(**columns)], log))) == 2
    assert log.skipped.counts == {reason: 1}


def test_arrays_of_another_length_are_reported() -> None:
    plan = make_plan(SOURCES, ARRAYS, {"x": ("people", "vector")}, {})
    log = SkipLog("skip")
    good = list(reader_of(plan)([rows(c0_0=lists([1, 2], [3], [5, 6]))], log))
    assert DataSet.concatenate(good).features["x"].tolist() == [[1, 2], [5, 6]]
    assert "must hold arrays of shape [2]. Received: [3.0]" in log.skipped.first[0]


def test_labels_and_features_of_different_length_are_reported() -> None:
    sources = {**SOURCES, "moods": sequences(Frame(), key="person", order="day")}
    types = {**TYPES, "moods": {"person": "bigint", "day": "int", "mood": "double"}}
    plan = make_plan(sources, types, AMOUNT, {"y": ("moods", "mood")})
    more = {
        "n2": pa.array([2, 1, 2], pa.int64()), "x2": pa.nulls(3, pa.string()), "f2": [0, 0, 0],
    }  # fmt: skip
    content = rows(c1_0=lists(*STEPS), c2_0=lists([1, 2], [3], [4, 5]), **more)
    with pytest.raises(DataError, match=r"key 2: .*Received: 1 of 'moods', 2 of 'visits'\. Use"):
        list(reader_of(plan, lengths={1: 2, 2: 2})([content], SkipLog("raise")))
    for align, at in (("start", 0), ("end", 1)):
        reader = reader_of(plan, lengths={1: 2, 2: 2}, align=align, masked=frozenset({1, 2}))
        found = DataSet.concatenate(list(reader([content], SkipLog("raise"))))
        assert np.flatnonzero(found.labels_masks["y"][1]).tolist() == [at]
        assert found.labels["y"][1, at] == 3
        assert found.features_masks["x"].all()
    reader = reader_of(plan, lengths={})
    long = rows(**{**more, "n1": [2, 9, 2]}, c1_0=lists(*STEPS), c2_0=lists(*STEPS))
    with pytest.raises(DataError, match=r"key 2: .*1 of 'moods', 9 of 'visits'"):
        list(reader.survey([long], SkipLog("raise")))
    (survey,) = reader.survey([long], SkipLog("skip"))
    assert survey.examples == 2
    assert [survey.lengths[i].longest for i in "12"] == [2, 2]


def test_missing_keys_are_dropped_and_counted_or_listed() -> None:
    plan = plan_of({"x": ("people", "age"), "z": ("visits", "amount")})
    content = rows(
        c0_0=floats(None, 2, 3), c1_0=lists(None, [3, 4], [5, 6]), n0=[None, 1, 1], n1=[None, 2, 2]
    )
    log = SkipLog("raise")
    reader = reader_of(plan, missing="drop")
    found = DataSet.concatenate(list(reader([content], log)))
    assert found.features["x"].tolist() == [[2], [3]]
    assert found.features["z"][:, :, 0].tolist() == [[3, 4], [5, 6]]
    assert log.skipped.counts == {"missing key": 1}
    assert log.skipped.first == ("key 1: not in 'people' and 'visits'",)
    with pytest.raises(DataError, match=r"1 not in 'people' and 'visits'; the first: 1"):
        list(reader_of(plan)([content], SkipLog("skip")))


def test_all_missing_keys_are_counted() -> None:
    plan = plan_of(AGE)
    keys = list(range(1000))
    content = rows(
        k0=keys, n0=pa.nulls(1000, pa.int64()), n1=[2] * 1000,
        x0=pa.nulls(1000, pa.string()), x1=pa.nulls(1000, pa.string()), c0_0=floats(*[None] * 1000),
        f0=[0] * 1000, f1=[0] * 1000,
    )  # fmt: skip
    log = SkipLog("raise")
    assert not list(reader_of(plan, missing="drop")([content], log))
    assert log.skipped.counts == {"missing key": 1000}
    assert len(log.skipped.first) == 20


def test_rows_without_a_key_are_counted_separately() -> None:
    content = rows(
        k0=[None, 2, 3], n0=[3, 1, 1], n1=[5, 2, 2], f0=[1, 0, 0],
        x0=[NOTE, None, None], c0_0=floats(1, 2, 3),
    )  # fmt: skip
    log = SkipLog("skip")
    assert sum(map(len, reader_of(plan_of(AGE))([content], log))) == 2
    assert log.skipped.counts == {"wrong number of columns": 1, "no key": 2 + 5}


def test_invalid_rows_are_neither_duplicate_nor_missing_keys() -> None:
    reader = reader_of(plan_of({**AGE, "z": ("visits", "amount")}), lengths={})
    for counts in ({"n0": [1, 2, 1]}, {"n0": [1, None, 1]}):
        content = rows(**counts, x0=[None, NOTE, None])
        with pytest.raises(DataError, match="'2,7'"):
            list(reader.survey([content], SkipLog("raise")))
        (found,) = reader.survey([content], SkipLog("skip"))
        assert (found.examples, found.lacking.total, found.repeated.total) == (2, 0, 0)


def test_survey_lists_the_first_keys_of_all_partitions() -> None:
    plan = plan_of({"x": ("people", "age"), "y": ("visits", "amount")})
    reader = reader_of(plan, lengths={})
    first = rows(n0=[2, None, 1], n1=[None, 2, 4])
    second = rows(k0=[7, 8, 9], n0=[1, None, 3], n1=[1, 2, 6])
    parts = [next(reader.survey([part], SkipLog("raise"))) for part in (first, second)]
    found = sum(parts, Survey())
    assert found.examples == 3
    with pytest.raises(DataError) as caught:
        reader.completed(found)
    assert str(caught.value) == (
        "every key must be in every source. Received: 2 not in 'people', 1 not in 'visits'; the "
        "first: 1 (not in 'visits'), 2 (not in 'people'), 8 (not in 'people'). "
        'Use `missing="drop"` to drop such keys.'
    )
    with pytest.raises(DataError, match=r"2 more than once in 'people'; the first: 1 .*, 9 "):
        replace(reader, missing="drop").completed(found)
    done = replace(reader, missing="drop", duplicates="last").completed(found)
    assert (done.lengths, done.masked) == ({1: 6}, {1})


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ({"x": "age"}, r"features\['x'\]='age'"),
        ({"x": ("people",)}, r"\('people',\)"),
        ({"x": ("persons", "age")}, r"one of the sources people, visits\. Received: 'persons'"),
        ({"x": ("people", "ages")}, r"'ages'"),
        ({"x": ("people", 7)}, r"7, of 5 columns"),
        ({"x": ("people", [])}, r"at least one column\. Received: \[\]"),
        ({"x": ("people", slice(5, 9))}, r"at least one column"),
        ({"x": ("people", "on")}, r"'on' of type date"),
        ({"x": ("people", [1.5])}, r"1\.5"),
        ({"x": ("visits", "path")}, "a column of arrays of 'visits'"),
    ],
    ids=str,
)
def test_missing_or_non_numeric_columns_raise(features: Any, says: str) -> None:
    with pytest.raises((ConfigurationError, DataError), match=says):
        plan_of(features)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: records([1], key="id"), "a list"),
        (lambda: records("a.csv", key=[]), r"key=\[\]"),
        (lambda: records("a.csv", key="id", delimiter="3"), "delimiter='3'"),
        (lambda: records("a.csv", key="id", header="no"), "header='no'"),  # pyright: ignore
        (lambda: sequences("a.csv", key="id", order=()), r"order=\(\)"),
        (lambda: OneHot("a", 1), "classes=1"),
        (lambda: OneHot("a", []), r"classes=\[\]"),
        (lambda: ClassIndex("a", ["x", "x"]), "classes="),
        (lambda: ClassIndex(["a"]), r"column=\['a'\]"),  # pyright: ignore
    ],
)
def test_invalid_source_or_classes_raise(make: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"missing": "fill"}, "missing='fill'"),
        ({"duplicates": "all"}, "duplicates='all'"),
        ({"features": {}}, "at least one input"),
        ({"sources": {}}, r"Received: none"),
        ({"sources": {"a": "a.csv"}}, r"Received: a\."),
        ({"align": "left"}, "align='left'"),
        ({"length": -1}, "length=-1"),
        ({"on_error": "ignore"}, "on_error='ignore'"),
        ({"partitions": 0}, "partitions=0"),
        ({"partitions": 2.5}, r"partitions=2\.5"),
    ],
    ids=str,
)
def test_invalid_join_option_raises(options: dict[str, Any], says: str) -> None:
    spark: Any = None
    given: dict[str, Any] = {"sources": SOURCES, "features": AGE, **options}
    with pytest.raises(ConfigurationError, match=says):
        join(spark, given.pop("sources"), **given)


def test_bad_lines_of_csv_files_keep_their_key(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('k,x\n1,1.5\n2,\n3\n5,"6\n')
    files = list_files(str(path))
    reader = CsvReader.of(files, CsvFormat())
    (piece,) = reader.pieces(files, 1 << 20)
    rows = [row for table in tables_of(piece, reader) for row in table.to_pylist()]
    assert [(row["k"], row["x"]) for row in rows[:3]] == [("1", "1.5"), ("2", None), ("5", "6")]
    assert [row["sparkwright_fault"] for row in rows[:2]] == [None, None]
    assert f"{path}, line 5: a quoted value must end" in rows[2]["sparkwright_fault"]
    assert f"{path}, line 4: each record must have 2 fields" in rows[3]["sparkwright_fault"]
