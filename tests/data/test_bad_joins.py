import pytest
from tests.cases import cases

from sparkwright.data import ClassIndex, OneHot, join, records, sequences
from sparkwright.errors import ConfigurationError, DataError

PEOPLE = (
    "int(id) id", "double(id) age", "'a' name", "id - 1 zip", "current_date() on",
    "array(1f, 2f) vector",
)  # fmt: skip
VISITS = ("int(id div 2) id", "int(id) day", "double(id) amount", "'b' kind")
AGE = {"x": ("people", "age")}


def sources(spark, changed="", value=""):
    """Three people with two visits each; column `changed` of the person 2 has another `value`."""
    found = {}
    for name, rows, columns in (("people", (1, 4), PEOPLE), ("visits", (2, 8), VISITS)):
        frame = spark.range(*rows, 1, 1).selectExpr(*columns)
        if changed in frame.columns:
            other = f"CASE WHEN id = 2 THEN {value} ELSE {changed} END {changed}"
            frame = frame.selectExpr(*(other if c == changed else c for c in frame.columns))
        found[name] = frame
    return {
        "people": records(found["people"], key="id"),
        "visits": sequences(found["visits"], key="id", order="day"),
    }


CASES = {
    # id: features, labels, column of key 2, its value, what the error says
    "no value": (AGE, {}, "age", "null", "source 'people': column 'age' .*Received: None"),
    "missing step": (
        {"x": ("visits", "amount")}, {}, "amount", "null", "source 'visits': column 'amount' .*None"
    ),
    "class too large": (
        AGE, {"y": ("people", ClassIndex("zip", 3))}, "zip", "3", "'zip' .*from 0 to 2.*: 3"
    ),
    "unknown class of a step": (
        {"x": ("visits", OneHot("kind", ["a", "b"]))}, {}, "kind", "'c'",
        "'kind' .* one of 'a', 'b'. Received: 'c'",
    ),
    "a label beyond 32 bits": (
        AGE, {"y": ("people", "zip")}, "zip", "1L << 40", "32-bit integers.*: 1099511627776"
    ),
    "arrays of another length": (
        {"x": ("people", "vector")}, {}, "vector", "array(3f)", r"of shape \[2\]. Received: \[3.0\]"
    ),
    "too long": (
        {"x": ("visits", "amount")}, {}, "", "", r"at most 1 steps \(`length`\).*more in 'visits'"
    ),
}  # fmt: skip


@pytest.mark.thorough(but=["no value"])
@cases(
    "features, labels, column, value, says",
    *[pytest.param(*case, id=name) for name, case in CASES.items()],
)
def test_bad_row_raises_with_its_key(spark, features, labels, column, value, says):
    given = sources(spark, column, value)
    data = join(spark, given, features=features, labels=labels, length=2 if column else 1)
    with pytest.raises(DataError, match=f"key {2 if column else 1}: .*{says}"):
        data.count()


@cases(
    "features, says",
    ({"x": "age"}, r"features\['x'\]` must be \(source name, columns\).*'age'"),
    ({"x": ("people",)}, r"\('people',\)"),
    ({"x": ("persons", "age")}, r"one of the sources 'people', 'visits'\. Received: \('persons'"),
    ({"x": ("people", "ages")}, r"'ages'"),
    ({"x": ("people", 7)}, r"7, of 6 columns"),
    ({"x": ("people", [])}, r"at least one column\. Received: \[\]"),
    ({"x": ("people", slice(6, 9))}, r"at least one column"),
    ({"x": ("people", "on")}, r"'on' of type date"),
    ({"x": ("people", "name")}, r"`ClassIndex`\. Received: column 'name' of type string"),
    ({"x": ("people", [1.5])}, r"1\.5"),
    ids=str,
)
def test_missing_or_non_numeric_columns_raise(spark, features, says):
    with pytest.raises((ConfigurationError, DataError), match=says):
        join(spark, sources(spark), features=features)


@cases(
    "columns, options, says",
    ("id, 2 id", {"key": "id"}, "unique names. Received: 'id' several times in 'a'"),
    ("id, day", {"key": []}, r"sources\['a'\]\.key` must have at least one column"),
    ("id, day", {"key": "id", "order": ()}, r"\.order` must have at least one column"),
)
def test_ambiguous_and_empty_columns_raise(spark, columns, options, says):
    frame = spark.range(2).selectExpr(*columns.replace("day", "id day").split(", "))
    source = (sequences if "order" in options else records)(frame, **options)
    with pytest.raises(ConfigurationError, match=says):
        join(spark, {"a": source}, features={"x": ("a", "id")})


@cases(
    "make, says",
    (lambda: records([1], key="id"), "a list"),
    (lambda: OneHot("a", 1), "classes=1"),
    (lambda: OneHot("a", []), r"classes=\(\)"),
    (lambda: ClassIndex("a", ["x", "x"]), "classes="),
)
def test_invalid_source_or_classes_raise(make, says):
    with pytest.raises(ConfigurationError, match=says):
        make()


@cases(
    "options, says",
    ({"missing": "fill"}, "missing='fill'"),
    ({"features": {}}, "at least one input"),
    ({"sources": {}}, r"Received: none"),
    ({"sources": {"a": "a.csv"}}, r"Received: 'a'\."),
    ({"align": "left"}, "align='left'"),
    ({"length": -1}, "length=-1"),
    ({"partitions": 2.5}, r"partitions=2\.5"),
    ids=str,
)
def test_invalid_join_option_raises(options, says):
    spark = None
    given = {"sources": {"people": records("a.csv", key=0)}, "features": AGE}
    given.update(options)
    with pytest.raises(ConfigurationError, match=says):
        join(spark, given.pop("sources"), **given)
