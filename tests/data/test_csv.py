import bz2
import csv
import gzip
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import DataSet, TableSchema, _csv_blocks as csv_blocks, guess_source
from sparkwright.data._column_choice import schema_of
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import CsvReader
from sparkwright.data._table_source import datasets_of
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import list_files

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
RNG = np.random.default_rng(5)


def written(folder, text, name="data.csv"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def as_float32(frame):
    return frame.to_numpy(np.float64).astype(np.float32)


@cases(
    "text",
    "a,b,c\n1,2,3\n4,5,6\n",
    "a,b,c\n1,2,3\n4,5,6",
    "a,b,c\r\n1,2,3\r\n4,5,6\r\n",
    "a,b,c\r1,2,3\r4,5,6\r",
    "\ufeffa,b,c\n1,2,3\n4,5,6\n",
    "\n\na,b,c\n\n1,2,3\n\n\n4,5,6\n\n",
    "a,b,c\n1,2,3\n   \n4,5,6\n \t \n",
    '"a","b","c"\n"1","2","3"\n4,"5",6\n',
    "a,b,c\n 1,2 ,\t3\n4,5,6\n",
    "a,b,c\n+1,-2.5,.5\n1e3,1E-3,3.\n",
    "a,b,c\n0.1,16777217,123456789012345678\n1e-40,3.4e38,-0.0\n",
    '"a ""x""","b,c",c\n1,2,3\n',
)
def test_numeric_file_matches_pandas(tmp_path, text):
    path = written(tmp_path, text)
    frame = pd.read_csv(path, float_precision="round_trip")
    found = sw.data.read_csv(path)
    np.testing.assert_array_equal(found.data.features["features"], as_float32(frame))
    assert found.schema.columns == tuple(frame.columns)


names = st.text(st.sampled_from("ab ,\"'\né€x"), min_size=1, max_size=5).filter(
    lambda text: text.strip() != ""
)


@pytest.mark.thorough
@in_one_folder
@given(
    st.lists(st.tuples(st.integers(-99, 99), names), min_size=1, max_size=30),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(8, 60),
)
def test_quoted_texts_match_pandas_for_any_block_size(tmp_path, rows, end, block):
    out = io.StringIO()
    csv.writer(out, lineterminator=end).writerows([("n", "s"), *rows])
    path = written(tmp_path, out.getvalue())
    frame = pd.read_csv(path, keep_default_na=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", block)
        found = sw.data.read_csv(path, labels="s", classes="infer", newlines_in_values=True)
    classes = found.schema.class_names["labels"]
    # Python's universal newlines are not what is asked here: values keep theirs.
    assert [classes[code] for code in found.data.labels["labels"]] == frame["s"].tolist()
    assert found.data.features["features"][:, 0].tolist() == frame["n"].tolist()


@pytest.mark.thorough
@in_one_folder
@given(st.integers(1, 60), st.integers(1, 12), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_pieces_hold_each_line_once_in_order_for_any_boundaries(
    tmp_path, rows, piece_bytes, end, closed
):
    lines = [f"{n},{'x' * (n % 7)}" for n in range(rows)]
    path = written(tmp_path, end.join(["n,s", *lines]) + (end if closed else ""))
    files = list_files(path)
    reader = CsvReader.of(files, CsvFormat())
    schema = schema_of(reader.names, lambda _: {}, lambda _: {}, features="n")
    reader = reader.taking(schema.used, schema.texts)
    log = SkipLog("raise")
    pieces = reader.pieces(files, piece_bytes)
    parts = [d for piece in pieces for d in datasets_of(piece, log, reader, schema)]
    found = DataSet.concatenate(parts).features["features"][:, 0]
    assert found.tolist() == list(range(rows))
    assert sum(piece.size_bytes for piece in pieces) == Path(path).stat().st_size


@given(st.text(st.sampled_from('ab,"\n\r'), max_size=40))
def test_blocks_end_where_the_csv_module_ends_a_record(text):
    form, block = CsvFormat(newlines_in_values=True), f"{text}\n".encode()
    lines = block.splitlines(keepends=True)
    found = list(form.records(lines))
    if all(record.is_closed and record.ends_at_quotes for record in found):
        reader = csv.reader(io.StringIO(f"{text}\n", newline=""), strict=True)
        assert [record.fields for record in found] == [row for row in reader if row]
    is_closed = [record.is_closed for record in found]
    assert False not in is_closed[:-1]
    end = len(lines) if all(is_closed) else found[-1].begin
    assert form.complete_end(block) == sum(map(len, lines[:end]))


@given(st.text(st.sampled_from('ab,"\n\r'), max_size=40))
def test_lines_are_records_without_line_breaks_in_values(text):
    lines = text.encode().splitlines(keepends=True)
    found = list(CsvFormat().records(lines))
    assert [lines[record.begin] for record in found] == [line for line in lines if line.strip()]
    for record in found:
        reader = csv.reader([lines[record.begin].decode()], strict=True)
        if record.is_closed and record.ends_at_quotes:
            assert record.fields == next(reader)
        else:
            with pytest.raises(csv.Error):
                next(reader)
        assert record.end == record.begin + 1


@given(st.lists(st.text(st.sampled_from('ab\\", '), max_size=6), min_size=2, max_size=9))
def test_escaped_quotes_are_read_as_spark_reads_them(values):
    """As Spark's writer does: backslashes are doubled only before a quote."""

    def written_by_spark(value):
        doubled = re.sub(r'(\\+)(?="|$)', r"\1\1", value)
        return '"' + doubled.replace('"', '\\"') + '"'

    block = "".join(f"{number},{written_by_spark(v)}\n" for number, v in enumerate(values)).encode()
    form = CsvFormat(escape="\\", header=False)
    rows = [[str(number), value] for number, value in enumerate(values)]
    assert [each.fields for each in form.records(block.splitlines(keepends=True))] == rows


@cases(
    "text, features",
    ("a,y,\n1,0,\n3,1,\n", ("a",)),  # a delimiter at the end of each line
    (",a,y\n0,1,0\n1,3,1\n", ["a"]),  # as pandas writes its index
    ids=["delimiter", "index"],
)
def test_column_without_a_name_must_be_selected(tmp_path, text, features):
    path = written(tmp_path, text)
    with pytest.raises(sw.ConfigurationError, match=r"Received: '' beside 'a'. Select columns:"):
        sw.data.read_csv(path, labels="y")
    found = sw.data.read_csv(path, labels="y", features=features).data
    assert found.features["features"].tolist() == [[1], [3]]
    source = guess_source(path)
    assert source.features == ("a",)


@pytest.mark.spark
def test_file_that_spark_wrote_is_read_with_its_escapes(spark, tmp_path):
    values = ['say "hi" ok', "C:\\dir", 'a "q" \\', 'both \\" and, comma', "plain", '"', "it's"]
    frame = spark.createDataFrame([(value, n) for n, value in enumerate(values)], ["text", "y"])
    url = str(tmp_path / "written")
    frame.coalesce(1).write.option("header", True).csv(url)
    options = {"features": {"text": "text"}, "text": ["text"], "labels": "y"}
    found = sw.data.read_csv(url, escape="\\", **options).data.features["text"]
    assert found[:, 0].tolist() == values
    with pytest.raises(sw.DataError, match=r"line 2: a quote must end its value.*`escape="):
        sw.data.read_csv(url, **options)


# -- columns to arrays ----------------------------------------------------------------------

FRUIT = "weight,color,price,kind,share\n1,red,2.5,apple,1\n2,green,3.5,pear,2\n3,red,1.5,apple,1\n"


def test_columns_become_inputs_outputs_and_weights(tmp_path):
    path = written(tmp_path, FRUIT)
    found = sw.data.read_csv(
        path,
        features={"plain": ["weight"], "look": ["color", 0]},
        labels={"kind": "kind", "price": 2, "both": [2, "share"]},
        classes={"kind": ["pear", "apple"]},
        categories={"color": ["green", "red", "blue"]},
        weights="share",
    )
    data = found.data
    np.testing.assert_array_equal(data.features["plain"], np.array([[1], [2], [3]], np.float32))
    np.testing.assert_array_equal(
        data.features["look"], np.array([[0, 1, 0, 1], [1, 0, 0, 2], [0, 1, 0, 3]], np.float32)
    )
    np.testing.assert_array_equal(data.labels["kind"], np.array([1, 0, 1], np.int32))
    np.testing.assert_array_equal(data.labels["price"], np.array([2.5, 3.5, 1.5], np.float32))
    np.testing.assert_array_equal(
        data.labels["both"], np.array([[2.5, 1], [3.5, 2], [1.5, 1]], np.float32)
    )
    assert data.weights.tolist() == [1, 2, 1]
    assert {a.dtype.name for a in data.features.values()} == {"float32"}
    assert data.labels["kind"].dtype == np.int32
    assert data.weights.dtype == np.float32


def test_classes_are_integers_names_or_inferred(tmp_path):
    path = written(tmp_path, FRUIT)
    options = {"features": "weight", "labels": "kind"}
    inferred = sw.data.read_csv(path, classes="infer", **options)
    assert inferred.schema.class_names == {"labels": ("apple", "pear")}
    assert inferred.data.labels["labels"].tolist() == [0, 1, 0]
    hot = sw.data.read_csv(path, classes=["pear", "apple"], one_hot=True, **options).data
    np.testing.assert_array_equal(
        hot.labels["labels"], np.array([[0, 1], [1, 0], [0, 1]], np.float32)
    )
    path = written(tmp_path, FRUIT.replace("apple,1", "apple,1.0"))  # written as a float
    numbered = sw.data.read_csv(path, features="weight", labels="share", classes=4, one_hot=True)
    np.testing.assert_array_equal(
        numbered.data.labels["labels"], np.eye(4, dtype=np.float32)[[1, 2, 1]]
    )
    assert numbered.schema.class_names == {}


def test_inferred_categories_match_pandas_one_hot(tmp_path):
    path = written(tmp_path, FRUIT)
    found = sw.data.read_csv(
        path,
        features=["weight", "color", "kind"],
        categories=dict.fromkeys(["color", "kind"], "infer"),
    )
    frame = pd.get_dummies(
        pd.read_csv(path)[["weight", "color", "kind"]], prefix_sep="=", dtype=np.float32
    )
    assert found.schema.feature_names() == tuple(frame.columns)
    np.testing.assert_array_equal(found.data.features["features"], as_float32(frame))


def test_schema_reads_other_files_the_same_way(tmp_path):
    train = sw.data.read_csv(
        written(tmp_path, FRUIT, "train.csv"),
        labels="kind",
        classes="infer",
        categories={"color": "infer"},
    )
    # Other columns, another order; and no label.
    test = written(tmp_path, "new,kind,color,share,price,weight\n9,pear,red,4,5,6\n", "test.csv")
    schema = TableSchema.from_dict(json.loads(json.dumps(train.schema.to_dict())))
    found = sw.data.read_csv(test, schema=schema)
    assert found.data.features["features"].tolist() == [[6, 0, 1, 5, 4]]
    assert found.data.labels["labels"].tolist() == [1]
    bare = written(tmp_path, "color,share,price,weight\nred,4,5,6\n", "bare.csv")
    assert not sw.data.read_csv(bare, schema=schema.without_labels()).data.labels


# -- missing values -------------------------------------------------------------------------

GAPS = "a,b,y\n1,NA,0\n,2,1\n3,nan,0\n4,5,\n6,7,1\n"


@cases("missing", -1, float("nan"), "skip")
def test_missing_numbers_are_replaced_or_skipped_as_pandas_does(tmp_path, missing):
    skips = missing == "skip"
    path = written(tmp_path, GAPS if skips else GAPS.replace("4,5,\n", ""))
    found = sw.data.read_csv(path, labels="y", missing=missing)
    frame = pd.read_csv(path)
    expected = as_float32((frame.dropna() if skips else frame.fillna(missing))[["a", "b"]])
    np.testing.assert_array_equal(found.data.features["features"], expected)
    if skips:
        assert found.skipped.counts == {"missing value": 4}
        assert "csv, line 2: column 'b' must hold a value. Received: " in found.skipped.first[0]


@cases(
    "text, options, expected",
    ("a,s,unused\n1,NA,?\n?,x,y\n", {"features": "a", "missing_values": ["?"]}, [[1], [-1]]),
    ("a\tb\n1\t2\n\t\n4\t5\n", {"delimiter": "\t"}, [[1, 2], [-1, -1], [4, 5]]),
    ("a b\n1 2\n \n4 5\n", {"delimiter": " "}, [[1, 2], [-1, -1], [4, 5]]),
    ids=["given texts alone are missing", "a line of tabs", "a line of spaces"],
)
def test_missing_values_depend_on_the_options(tmp_path, text, options, expected):
    path = written(tmp_path, text)
    if "missing_values" in options:
        options = {**options, "labels": "s", "classes": ["NA", "x"]}
    found = sw.data.read_csv(path, missing=-1, **options).data
    assert found.features["features"].tolist() == expected
    kept = sw.data.read_csv(path, missing="skip", **options)
    assert (len(kept.data), kept.skipped.counts) == (len(expected) - 1, {"missing value": 1})


@cases(
    "options, text",
    ({"delimiter": ";"}, "a;b\n1;2\n3;4\n"),
    ({"delimiter": "\t"}, "a\tb\n1\t2\n3\t4\n"),
    ({"delimiter": "|", "quote": "'"}, "'a'|b\n'1'|2\n3|'4'\n"),
    ({"quote": None}, "a,b\n1,2\n3,4\n"),
    ({"skip_lines": 2}, "# by us\n\na,b\n1,2\n3,4\n"),
    ({"header": False}, "1,2\n3,4\n"),
    ({"header": False, "skip_lines": 1}, "# by us\r\n1,2\r\n3,4\r\n"),
    ({"header": False, "column_names": ["a", "b"]}, "1,2\n3,4\n"),
    ({"column_names": ["a", "b"]}, "x,x\n1,2\n3,4\n"),
)
def test_csv_dialects_are_read(tmp_path, options, text):
    found = sw.data.read_csv(written(tmp_path, text), **options)
    assert found.data.features["features"].tolist() == [[1, 2], [3, 4]]
    expected = ("column_0", "column_1") if options == {"header": False} else ("a", "b")
    assert found.schema.columns == expected or "skip_lines" in options


@cases("end", "\n", "\r\n", "\r")
@cases("head_bytes", 1, 1 << 16)
def test_lines_are_skipped_with_any_line_ending(tmp_path, end, head_bytes):
    path = written(tmp_path, end.join(["made", "by x", "a,b", "1,2", "3,x"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "HEAD_BYTES", head_bytes)
        found = sw.data.read_csv(path, skip_lines=2, on_error="skip")
    assert found.schema.columns == ("a", "b")
    assert found.data.features["features"].tolist() == [[1, 2]]
    assert "line 5: " in found.skipped.first[0]


def zstd(content):
    import pyarrow as pa

    return pa.Codec("zstd").compress(content).to_pybytes()


@cases(
    "encoding, ending, pack",
    ("latin-1", "", bytes),
    ("utf-16", ".gz", gzip.compress),
    ("utf-16-le", ".bz2", bz2.compress),
    ("cp1252", ".zst", zstd),
    ("utf-8-sig", "", bytes),
)
def test_other_encodings_and_compressed_files_match_pandas(tmp_path, encoding, ending, pack):
    text = "größe,art\n" + "".join(f"{n},{'äöü'[n % 3]}\n" for n in range(500))
    path = written(tmp_path, pack(text.encode(encoding)), f"data.csv{ending}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", 999)
        found = sw.data.read_csv(path, labels="art", classes="infer", encoding=encoding)
    frame = pd.read_csv(written(tmp_path, text.encode(encoding), "plain"), encoding=encoding)
    np.testing.assert_array_equal(
        found.data.labels["labels"], pd.Categorical(frame["art"]).codes.astype(np.int32)
    )
    np.testing.assert_array_equal(
        found.data.features["features"], as_float32(frame[[frame.columns[0]]])
    )


def test_folders_patterns_and_lists_name_files(tmp_path):
    for name, value in (("b.csv", 2), ("a.CSV", 1), ("sub/c.tsv", 3), (".d.csv", 4), ("e.md", 5)):
        written(tmp_path, f"x\n{value}\n", name)

    written(tmp_path, "x\n", "only-a-header.csv")

    def values(urls):
        return sw.data.read_csv(urls).data.features["features"][:, 0].tolist()

    assert values(str(tmp_path)) == [1, 2, 3]
    assert values(tmp_path) == [1, 2, 3]
    assert values(f"{tmp_path}/?.csv") == [2]
    assert values([tmp_path / "b.csv"]) == [2]
    assert values([f"{tmp_path}/e.md", f"file://{tmp_path}/b.csv"]) == [5, 2]


def test_spark_reads_the_same_rows_in_the_same_order_as_one_process(spark, tmp_path):
    frame = pd.DataFrame(RNG.normal(size=(6000, 4)), columns=list("abcd"))
    frame["kind"] = RNG.choice(["x", "y", "z"], 6000)
    for part in range(3):
        frame[part::3].to_csv(tmp_path / f"{part}.csv", index=False)
    options = {"labels": "kind", "classes": "infer"}
    data = sw.data.from_csv(spark, str(tmp_path), partitions=7, **options)
    local = sw.data.read_csv(str(tmp_path), **options)
    found = data.collect()
    for name, array in local.data.columns().items():
        np.testing.assert_array_equal(found.columns()[name], array)
    expected = pd.concat([pd.read_csv(tmp_path / f"{part}.csv") for part in range(3)])
    np.testing.assert_array_equal(found.features["features"], as_float32(expected[list("abcd")]))
    assert data.schema == local.schema
    assert data.class_names == {"labels": ("x", "y", "z")}
    assert data.rdd.getNumPartitions() == 7
    assert data.random_split([1, 1])[0].schema == local.schema
    assert data.skipped().total == 0


def test_fingerprint_depends_on_files_and_options(spark, tmp_path):
    path = written(tmp_path, "a,b\n1,2\n")

    def fingerprint(**options):
        return sw.data.from_csv(spark, path, **options).fingerprint

    first = fingerprint()
    assert first is not None
    assert fingerprint() == first
    assert fingerprint(partitions=7) == first
    assert len({first, fingerprint(labels="b"), fingerprint(missing="skip")}) == 3
    written(tmp_path, "a,b\n1,33\n")
    assert fingerprint() != first


@pytest.mark.thorough
def test_invalid_lines_on_spark_are_named_or_counted(spark, tmp_path):
    lines = [f"{n},{n % 3}" for n in range(20_000)]
    lines[19_999] = "1,3"
    path = written(tmp_path, "\n".join(["a,y", *lines]))
    options = {"labels": "y", "classes": 3, "partitions": 4}
    with pytest.raises(sw.DataError, match=r"data\.csv, line 20001: column 'y' must hold integer"):
        sw.data.from_csv(spark, path, **options).partition_counts()
    lines[12_345] = "oops,1"
    path = written(tmp_path, "\n".join(["a,y", *lines]))
    data = sw.data.from_csv(spark, path, on_error="skip", **options)
    assert data.count() == 19_998
    assert data.skipped().counts == {"not a number": 1, "class out of range": 1}
    assert "line 12347: column 'a' must hold numbers" in data.skipped().first[0]
    assert "line 20001: column 'y' must hold integer" in data.skipped().first[1]


def test_schema_replaces_the_other_options(tmp_path):
    path = written(tmp_path, "a,b\n1,2\n")
    schema = sw.data.read_csv(path).schema
    with pytest.raises(sw.ConfigurationError, match="`schema` replaces `labels`, `missing`"):
        sw.data.read_csv(path, schema=schema, labels="b", missing="skip")
    computed = "".join(["err", "or"])
    assert len(sw.data.read_csv(path, schema=schema, missing=computed, one_hot=False).data) == 1
    with pytest.raises(sw.ConfigurationError, match="`schema` replaces `features`"):
        sw.data.read_csv(path, schema=schema, features=np.array([0]))
    with pytest.raises(sw.ConfigurationError, match="must be a TableSchema"):
        sw.data.read_csv(path, schema=schema.to_dict())
    assert sw.data.read_csv(path, schema=replace(schema, features={"x": ("b",)})).data.features[
        "x"
    ].tolist() == [[2]]


def test_unknown_options_raise(tmp_path):
    with pytest.raises(TypeError, match=r"read_csv\(\) got an unexpected .* 'label_column'"):
        sw.data.read_csv(written(tmp_path, FRUIT), label_column="a")
