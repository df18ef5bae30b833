import io
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, strategies as st
from PIL import Image
from tests.cases import cases
from tests.data.pictures import folder_of_classes, pixels, write
from tests.data.record_samples import write_tfrecord

import sparkwright as sw
from sparkwright.data import DataSource, browse, guess_source, preview
from sparkwright.data._csv_format import number_of
from sparkwright.data._data_preview import summarize_column
from sparkwright.data._previewing import parent_of, run_with_timeout
from sparkwright.data.formats import guess_format
from sparkwright.data.guessing import guess_csv, guess_label, guess_task
from sparkwright.errors import ConfigurationError, RunTimeoutError


def written(folder, text, name="data.csv"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def found(source):
    return " ".join(f"{p.severity}: {p.sentence}" for p in preview(source).problems)


@given(st.text(max_size=12) | st.floats().map(str) | st.integers().map(str))
@example("+5")
@example("1_000")
@example("infinity")
@example(" \t7\t")
@example("0x10")
@example("٣")
def test_number_of_matches_the_csv_reader(text):
    functions = pyarrow.compute
    try:
        trimmed = functions.utf8_trim(pa.array([text]), characters=" \t")
        expected = trimmed.cast(pa.float64())[0].as_py()
    except (pa.ArrowInvalid, UnicodeEncodeError):
        expected = None
    assert str(number_of(text)) == str(expected)


@given(st.lists(st.none() | st.floats(-1e6, 1e6) | st.integers(-50, 50), max_size=60))
def test_statistics_match_numpy(values):
    look = summarize_column("x", [None if value is None else str(value) for value in values])
    numbers = [value for value in values if value is not None]
    assert (look.count, look.missing) == (len(numbers), len(values) - len(numbers))
    if not numbers:
        assert look.kind == "empty"
        return
    assert look.is_number
    assert look.mean == pytest.approx(np.mean(numbers), abs=1e-6)
    assert look.std == pytest.approx(np.std(numbers), abs=1e-3)
    assert (look.minimum, look.maximum) == (min(numbers), max(numbers))
    assert sum(look.histogram) in (0, len(numbers))
    assert look.distinct == len({str(number) for number in numbers})


@cases(
    "url, names, folders, expected",
    ("a/iris.csv.gz", (), (), "csv"),
    ("s3://b/x.parquet", (), (), "parquet"),
    ("x/*.tfrecord", (), (), "tfrecord"),
    ("pets", (), ("cat", "dog"), "images"),
    ("pets", ("a.JPG", "b.jpg", "readme.txt"), (), "images"),
    ("export", ("manifest.json",), ("data-1",), "minibatches"),
    ("map", ("data", "index"), (), "map_file"),
    ("steps", tuple(f"{i}.csv" for i in range(30)), (), "csv_sequences"),
    ("spark", tuple(f"part-{i}.csv" for i in range(30)), (), "csv"),
    ("nothing", (), (), "csv"),
)
def test_format_is_inferred_from_file_names(url, names, folders, expected):
    assert guess_format(url, names, folders) == expected


BROKEN = "text,size,kind\n" + "".join(
    f'"first\nsecond, {i}",{i}.5,x\nplain,{i * i}.25,{"xy"[i % 2]}\n' for i in range(30)
)


@cases(
    "content, expected",
    (b"a,b\n1,2\n", {}),
    (b"a\tb\n1\t2\n", {"delimiter": "\t"}),
    (b"1;2,5\n3;4,5\n", {"delimiter": ";", "header": False}),
    ("größe,ort\n1,Köln\n".encode("latin-1"), {"encoding": "latin-1"}),
    (b"Ann,Oslo\nBob,Rome\nAnn,Rome\n", {"header": False}),
    (b"one column\n3\n4\n", {}),
    (b"", {}),
    (BROKEN.encode(), {"newlines_in_values": True}),
    (b'a,b\n1,x\n2,"y\nz"\n', {"newlines_in_values": True}),
    # Quotes that are not closed are no line breaks.
    (b"a,b\n" + b"1,x\n" * 40 + b'1,"2\n' + b"1,x\n" * 40, {}),
    (b"a,b\n" + b"1,x\n" * 40 + b'1,"2\n3,"4\n' + b"1,x\n" * 40, {}),
)
def test_format_of_a_csv_file_is_inferred(content, expected):
    assert guess_csv(content) == expected


def test_kind_label_and_task_are_inferred_from_names_and_values():
    assert summarize_column("x", ["1", "2", "3", "4", "n/a"]).kind == "integer"
    assert summarize_column("x", ["1", "a", "b"]).kind == "text"
    species = summarize_column("Species", ["a", "b", "a"] * 4)
    price = summarize_column("price", ["1.5", "2.5", "7.25"] * 4)
    assert guess_label([species, price]) == "Species"
    assert guess_label([price, summarize_column("x", ["1"])]) == "x"
    assert (guess_task(species), guess_task(price)) == ("classification", "regression")
    assert guess_task(summarize_column("y", ["0", "1"] * 9)) == "classification"
    assert guess_task(summarize_column("y", [str(i) for i in range(90)])) == "regression"


def test_csv_settings_are_inferred_and_the_whole_file_is_previewed(tmp_path):
    lines = ["age;town;species"] + [f"{20 + i};{'AB'[i % 2]};{'xyz'[i % 3]}" for i in range(60)]
    source = guess_source(written(tmp_path, "\n".join(lines)))
    options = {"delimiter": ";"}
    expected = DataSource(
        format="csv", url=source.url, label="species", categories=("town",), options=options
    )
    assert source == expected
    look = preview(source, rows=3)
    assert look.rows == (("20", "A", "x"), ("21", "B", "y"), ("22", "A", "z"))
    assert look.extent == "all 60 rows"
    assert (look.feature_shape, look.class_count) == ((3,), 3)
    assert dict(look.labels) == {"x": 20, "y": 20, "z": 20}
    assert [p.sentence for p in look.problems] == [
        "The column 'age' contains only row numbers. Exclude it."
    ]
    url = source.url if len(source.url) <= 60 else f"{source.url[:60]}…"
    assert repr(look) == f"<DataPreview of csv {url!r}: all 60 rows, 3 columns, 1 problems>"


def test_only_the_start_of_a_large_file_is_read(tmp_path):
    url = written(tmp_path, "a,b\n" + "1.5,2.5\n" * 50_000)
    source = DataSource(format="csv", url=url, label="b", task="regression")
    look = preview(source, sample_bytes=8_000)
    assert 900 < look.looked_at <= 1000
    assert look.extent == f"first {look.looked_at:,} of about 50,000 rows"


HEAD = "id,size,town,kind\n"
GOOD = "".join(f"{7 * i},{i}.5,A,{'xy'[i % 2]}\n" for i in range(40))


@cases(
    "text, more, words",
    (GOOD + "1,2\n", {}, "line 42: each record must have 4 fields. Received: 2 in '1,2'"),
    (GOOD + '1,"2\n', {}, "line 42: a quoted value must end on its line"),
    (GOOD + "1,many,A,x\n", {}, "line 42: column 'size' must hold numbers. Received: 'many'"),
    (GOOD + "1,,A,x\n" * 3, {}, "line 42: column 'size' must hold a value. "),
    (GOOD + "1,,A,x\n" * 3, {}, "3 rows in all."),
    (GOOD + "1,,A,x\n", {"options": {"missing": "skip"}}, "Such rows are skipped."),
    (GOOD + "1,inf,A,x\n", {}, "line 42: column 'size' must hold finite numbers"),
    (GOOD + "1,2,A,\n", {}, "line 42: column 'kind' must hold a value"),
    (GOOD, {}, "warning: The category 'town' has the constant value 'A'."),
    (GOOD, {"categories": ()}, "error: The column 'town' holds text, such as 'A'."),
    (GOOD, {"label": "color"}, "error: `labels` must select existing columns."),
    (GOOD, {"classes": ("x",)}, "line 3: column 'kind' must hold one of 'x'. Received: 'y'"),
    (GOOD, {"classes": 2}, "line 2: column 'kind' must hold numbers"),
    (GOOD, {"task": "regression"}, "error: The label 'kind' holds text"),
    (GOOD.replace("y\n", "x\n"), {}, "error: All 40 rows in the preview have the class"),
    (GOOD + "1,2,A,z\n", {}, "warning: The class 'z' occurs only once."),
    (GOOD + "1,2,A,z\n" * 2 + GOOD * 4, {}, "times as often as 'z'"),
)
def test_problems_in_a_file_name_the_line(tmp_path, text, more, words):
    settings = {"label": "kind", "categories": ("town",), **more}
    source = DataSource(format="csv", url=written(tmp_path, HEAD + text), **settings)
    assert words in found(source)


def test_columns_with_invalid_values_are_named_and_skipped_rows_warn(tmp_path):
    rows = GOOD + ",,A,x\n" * 30 + "1,2\n"
    source = DataSource(
        format="csv", url=written(tmp_path, HEAD + rows), label="kind", categories=("town",)
    )
    errors = {p.column for p in preview(source).problems if p.severity == "error"}
    assert errors == {"id", "size", ""}
    skipping = replace(source, options={"on_error": "skip"})
    assert preview(skipping).problem is None
    assert "warning: " in found(skipping)


@cases(
    "text, rows, words",
    ("1,2\n3,4\n", 2, "the first line must hold the column names"),
    ("a,a\n3,4\n", 2, "the names in the header must be unique"),
    ("a,b\n", 0, "error: The data has no rows."),
    ("", 0, "a file must have a line. Received: none."),
    ("y\n1\n2\n", 2, "error: `features` must name at least one column"),
    (b"a,b\n1,K\xf6ln\n", 0, "line 2: column 'b' must be UTF-8"),
)
def test_wrong_header_is_reported_and_rows_are_shown(tmp_path, text, rows, words):
    label = "y" if "y" in str(text) else None
    source = DataSource(format="csv", url=written(tmp_path, text), label=label, task="other")
    assert words in found(source)
    assert len(preview(source).rows) == rows


def test_duplicate_columns_and_copies_of_the_label_warn(tmp_path):
    text = "a,b,again,y\n" + "".join(f"{i * i},{i % 3},{i % 7},{i % 3}\n" for i in range(30))
    said = found(DataSource(format="csv", url=written(tmp_path, text), label="y"))
    assert "The column 'b' duplicates the label 'y'." in said
    said = found(DataSource(format="csv", url=written(tmp_path, text), label="again"))
    assert "The column 'y' duplicates the column 'b'." in said


def test_line_breaks_in_quotes_are_read_after_the_remedy(tmp_path):
    url = written(tmp_path, BROKEN)
    source = DataSource(format="csv", url=url, label="kind", categories=("text",))
    said = found(source)
    assert "line 2: a quoted value must end on its line" in said
    assert "`newlines_in_values=True`" in said
    mended = preview(replace(source, options={"newlines_in_values": True}))
    assert mended.problem is None
    assert (mended.looked_at, dict(mended.labels)) == (60, {"x": 45, "y": 15})


def test_decimal_commas_are_reported_and_not_categorical(tmp_path):
    rows = "".join(f"{i * i},5;-1.000,{i};{i % 2}\n" for i in range(40))
    url = written(tmp_path, "price;size;y\n" + rows)
    guessed = guess_source(url)
    assert (guessed.label, guessed.categories) == ("y", ())
    said = found(guessed)
    assert "error: The column 'price' holds numbers with a decimal comma, such as '0,5'" in said
    assert "decimal comma, such as '-1.000,0'" in said
    assert guess_task(summarize_column("price", ["1,5", "2,5", "n/a"])) == "regression"


@cases("settings", {"rows": -1}, {"rows": 1.5}, {"sample_bytes": 0})
def test_preview_of_no_rows_raises(settings):
    with pytest.raises(ConfigurationError, match="Received"):
        preview(DataSource(), **settings)


def test_files_with_different_columns_are_reported(tmp_path):
    written(tmp_path, "a,y\n1,2\n", "1.csv")
    written(tmp_path, "a,z\n1,2\n", "2.csv")
    source = DataSource(format="csv", url=str(tmp_path), label="y", task="regression")
    assert "Received: 'a', 'z' in " in found(source)


@pytest.mark.thorough(but=["parquet"])
@cases("format", "csv", "parquet")
def test_classes_after_the_first_rows_are_not_reported(tmp_path, format):
    table = pa.table({"x": np.arange(30_000) % 17, "y": ["a", "b"] * 7_500 + ["c"] * 15_000})
    if format == "parquet":
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=12_000)
    else:
        pyarrow.csv.write_csv(table, str(tmp_path / "t.csv"))
    source = guess_source(str(tmp_path / f"t.{format}"))
    look = preview(source)
    assert (look.problem, look.looked_at, look.in_all) == (None, 10_000, 30_000)
    assert look.class_count == 2
    known = replace(source, classes=("a", "b", "c", "d"))
    assert preview(known).class_count == 4


def test_sequences_show_their_steps_and_reader_problems(tmp_path):
    for name in ("1.csv", "2.csv"):
        written(tmp_path, "".join(f"{i}.5,{i % 2}\n" for i in range(9)), name)
    written(tmp_path, "1.5,1\nx,0\n", "3.csv")
    source = DataSource(format="csv_sequences", url=str(tmp_path), label="column_1")
    look = preview(source, rows=2)
    assert (look.extent, look.rows) == ("first 9 steps", (("0.5", "0"), ("1.5", "1")))
    assert "one of 3 files" in look.note
    assert "3.csv, line 2: column 'column_0' must hold numbers" in str(look.problem)


@cases("format", "parquet", "arrow")
def test_arrays_in_tables_are_counted_and_shown(tmp_path, format):
    arrays = [None, *[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]] * 2999]
    table = pa.table({"image": pa.array(arrays), "y": [0, 1] * 1500})
    url = str(tmp_path / f"t.{format}")
    if format == "parquet":
        pq.write_table(table, url)
    else:
        pyarrow.feather.write_feather(table, url)
    look = preview(guess_source(url), rows=5)
    assert (look.source.label, look.class_count, look.feature_shape) == ("y", 2, (2, 3))
    assert (look.extent, len(look.rows)) == ("all 3,000 rows", 5)
    image = look.columns[0]
    assert (image.kind, image.shape, image.count, image.missing) == ("array", (2, 3), 2999, 1)
    assert [row[0][:4] for row in look.rows] == ["", *["[[1."] * 4]
    assert look.rows[1][1] == "1"
    assert "row 1: column 'image' must hold a value" in str(look.problem)


def test_unreadable_files_are_reported(tmp_path):
    url = written(tmp_path, "no parquet", "t.parquet")
    assert "could not be read" in found(DataSource(format="parquet", url=url, label="y"))
    source = DataSource(format="csv", url=str(tmp_path / "none.csv"), label="y")
    assert "does not exist" in found(source)
    url = written(tmp_path, b"no records at all", "a.seq")
    assert preview(DataSource(format="sequence_file", url=url)).problem is not None


def test_images_are_previewed_with_their_labels(tmp_path):
    look = preview(guess_source(str(folder_of_classes(tmp_path / "pets"))), rows=4)
    assert dict(look.labels) == {"cat": 3, "dog": 3}
    assert (look.in_all, look.looked_at, look.feature_shape) == (6, 4, (64, 64, 3))
    assert look.extent == "4 of 6 images"
    assert [image.label for image in look.images] == ["cat", "cat", "dog", "dog"]
    for rows, labels in ((0, []), (1, ["cat"]), (2, ["cat", "dog"])):
        assert [image.label for image in preview(look.source, rows=rows).images] == labels
    assert max(Image.open(io.BytesIO(look.images[0].png)).size) == 72
    assert "different sizes" in look.problems[0].sentence


def test_damaged_images_unknown_and_single_classes_are_reported(tmp_path):
    write(tmp_path / "cat" / "1.png", pixels(1))
    written(tmp_path, b"no image", "cat/2.png")
    source = DataSource(format="images", url=str(tmp_path))
    assert "error: an image must be one of" in found(source)
    assert "must hold at least two classes. Received: only 'cat'" in found(source)
    assert "each label must be one of" in found(replace(source, classes=("dog", "fox")))
    assert "warning: an image must be" in found(replace(source, options={"on_error": "skip"}))


def test_bundled_digits_are_previewed_without_files():
    look = preview(DataSource(), rows=10)
    assert (look.extent, look.feature_shape) == ("all 1,797 images", (28, 28, 1))
    assert (look.class_count, len(look.images), look.problems) == (10, 10, ())
    assert [image.label for image in look.images] == list("0123456789")


EXAMPLES = sw.DataSet(
    np.arange(60, dtype=np.float32).reshape(20, 3), np.arange(20, dtype=np.int32) % 4
)


@cases("format", "tfrecord", "sequence_file", "map_file")
def test_records_show_their_first_examples(tmp_path, format):
    url = str(tmp_path / "records")
    if format == "tfrecord":
        write_tfrecord(EXAMPLES, tmp_path / "records")
    else:
        getattr(sw.data, f"write_{format}")(EXAMPLES, url)
    records = preview(DataSource(format=format, url=url))
    assert (records.problems, records.looked_at, records.unit) == ((), 20, "example")
    assert records.rows[0] == ("[0, 1, 2]", "0")


def test_a_folder_lists_folders_first_in_natural_order(tmp_path):
    for name in ("b10.csv", "b9.csv", ".hidden", "sub/x.csv"):
        written(tmp_path, "12345", name)
    here = browse(str(tmp_path))
    assert [entry.name for entry in here.entries] == ["sub", "b9.csv", "b10.csv"]
    assert [entry.size_bytes for entry in here.entries] == [None, 5, 5]
    assert here.parent == str(tmp_path.parent)
    assert browse(here.entries[0].url).entries[0].url == str(tmp_path / "sub" / "x.csv")
    assert browse(str(tmp_path / "b9.csv")) == here
    few = browse(str(tmp_path), most=1)
    assert (len(few.entries), few.left_out) == (1, 2)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        browse(str(tmp_path / "nowhere"))


def test_browsed_urls_keep_the_scheme_of_the_store():
    import fsspec

    fsspec.filesystem("memory").pipe_file("/looking/in/a.csv", b"x,y\n1,2\n")
    top = browse("memory://looking")
    assert [entry.url for entry in top.entries] == ["memory://looking/in"]
    inner = browse(top.entries[0].url)
    assert inner.parent == "memory://looking/"
    assert preview(guess_source(inner.entries[0].url)).extent == "1 row"


@cases(
    "url, parent",
    ("/", None), ("/data", "/"), ("/data/a", "/data"), ("s3://bucket", None),
    ("s3://bucket/a", "s3://bucket/"), ("hdfs://host:8020/a/b", "hdfs://host:8020/a"),
    ("hdfs://host:8020/a", "hdfs://host:8020/"), ("hdfs://host:8020/", None),
)  # fmt: skip
def test_parent_of_paths_and_urls(url, parent):
    assert parent_of(url) == parent


def test_unresponsive_store_times_out_and_its_errors_reach_the_caller():
    over = threading.Event()
    try:
        with pytest.raises(RunTimeoutError, match="hdfs://far"):
            run_with_timeout(0.05, lambda: over.wait(30), "hdfs://far")
    finally:
        over.set()

    def fail():
        raise TimeoutError("no")

    with pytest.raises(TimeoutError, match="no"):
        run_with_timeout(5, fail, "x")
