"""A look at data without Spark: what is guessed, what is counted, and what is found wrong."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, strategies as st
from PIL import Image
from tests.data.pictures import folder_of_classes, pixels, write

import sparkwright as sw
from sparkwright.data import DataSource, browse, guess_source, preview
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._preview import _beginning
from sparkwright.data._preview._browsing import parent_of, still_wanted, within
from sparkwright.data._preview._data_preview import look_at, number_of
from sparkwright.data._preview._guessing import guess_csv, guess_format, guess_label, guess_task
from sparkwright.errors import ConfigurationError, DataError, RunTimeoutError


def written(folder: Path, text: str | bytes, name: str = "data.csv") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def found(source: DataSource) -> str:
    return " ".join(f"{p.severity}: {p.sentence}" for p in preview(source).problems)


# --- columns


@given(st.text(max_size=12) | st.floats().map(str) | st.integers().map(str))
@example("+5")
@example("1_000")
@example("infinity")
@example(" \t7\t")
@example("0x10")
@example("٣")
def test_a_text_is_a_number_exactly_when_the_reader_of_csv_files_says_so(text: str) -> None:
    functions: Any = pyarrow.compute
    try:
        trimmed = functions.utf8_trim(pa.array([text]), characters=" \t")
        expected = trimmed.cast(pa.float64())[0].as_py()
    except (pa.ArrowInvalid, UnicodeEncodeError):
        expected = None
    assert str(number_of(text)) == str(expected)


@given(st.lists(st.none() | st.floats(-1e6, 1e6) | st.integers(-50, 50), max_size=60))
def test_statistics_are_those_of_numpy(values: list[float | None]) -> None:
    look = look_at("x", [None if value is None else str(value) for value in values])
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


def test_a_few_texts_among_numbers_are_mistakes_many_are_text() -> None:
    mistaken = look_at("x", ["1", "2", "3", "4", "n/a"])
    assert (mistaken.kind, mistaken.first_wrong) == ("integer", (4, "n/a"))
    assert look_at("x", ["1", "a", "b"]).kind == "text"


# --- guesses


@pytest.mark.parametrize(
    ("url", "names", "folders", "expected"),
    [
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
    ],
)
def test_the_format_is_told_by_names(
    url: str, names: tuple[str, ...], folders: tuple[str, ...], expected: str
) -> None:
    assert guess_format(url, names, folders) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a,b\n1,2\n", {}),
        (b"a\tb\n1\t2\n", {"delimiter": "tab"}),
        (b"1;2,5\n3;4,5\n", {"delimiter": ";", "header": False}),
        ("größe,ort\n1,Köln\n".encode("latin-1"), {"encoding": "latin-1"}),
        (b"Ann,Oslo\nBob,Rome\nAnn,Rome\n", {"header": False}),
        (b"one column\n3\n4\n", {}),
        (b"", {}),
    ],
)
def test_how_a_csv_file_is_written_is_guessed(content: bytes, expected: dict[str, Any]) -> None:
    assert guess_csv(content) == expected


def test_label_and_task_are_guessed_from_names_and_values() -> None:
    species = look_at("Species", ["a", "b", "a"] * 4)
    price = look_at("price", ["1.5", "2.5", "7.25"] * 4)
    assert guess_label([species, price]) == "Species"
    assert guess_label([price, look_at("x", ["1"])]) == "x"
    assert (guess_task(species), guess_task(price)) == ("classification", "regression")
    assert guess_task(look_at("y", ["0", "1"] * 9)) == "classification"
    assert guess_task(look_at("y", [str(i) for i in range(90)])) == "regression"


# --- tables


def test_a_csv_file_is_guessed_and_seen_whole(tmp_path: Path) -> None:
    lines = ["age;town;species"] + [f"{20 + i};{'AB'[i % 2]};{'xyz'[i % 3]}" for i in range(60)]
    source = guess_source(written(tmp_path, "\n".join(lines)))
    assert source == DataSource(
        format="csv",
        url=source.url,
        label="species",
        categories=("town",),
        options={"delimiter": ";"},
    )
    look = preview(source, rows=3)
    assert look.rows == (("20", "A", "x"), ("21", "B", "y"), ("22", "A", "z"))
    assert look.extent == "all 60 rows"
    assert (look.feature_shape, look.class_count) == ((3,), 3)
    assert dict(look.labels) == {"x": 20, "y": 20, "z": 20}
    assert [p.sentence for p in look.problems] == [
        "The column 'age' only counts the rows. Leave it out."
    ]


def test_the_text_of_a_look_is_one_short_line(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 50 + ".csv")
    names = [f"column{number}" for number in range(100)]
    rows = [",".join(f"{row}.{number}" for number in range(100)) for row in range(50)]
    path.write_text("\n".join([",".join(names), *rows]))
    seen = preview(DataSource(format="csv", url=str(path)))
    assert len(repr(seen)) < 150
    assert repr(seen).endswith(": all 50 rows, 100 columns, 1 problem>")
    assert seen == replace(seen) != replace(seen, looked_at=1)
    one = replace(seen, columns=seen.columns[:1], class_count=3, problems=())
    assert repr(one).endswith(": all 50 rows, 1 column, 3 classes, 0 problems>")


def test_of_a_large_file_only_the_beginning_is_read(tmp_path: Path) -> None:
    url = written(tmp_path, "a,b\n" + "1.5,2.5\n" * 50_000)
    source = DataSource(format="csv", url=url, label="b", task="regression")
    look = preview(source, sample_bytes=8_000)
    assert look.looked_at == 1000
    assert look.extent == "first 1,000 of about 50,000 rows"


HEAD = "id,size,town,kind\n"
GOOD = "".join(f"{7 * i},{i}.5,A,{'xy'[i % 2]}\n" for i in range(40))


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        (
            GOOD + "1,2\n",
            {},
            "error: data.csv, line 42 has 2 values, where there are 4 columns.",
        ),
        (GOOD + "1,2\n", {"options": {"on_error": "skip"}}, "warning: data.csv, line 42 has 2"),
        (GOOD + '1,"2\n', {}, "line 42 has a quote that is not closed"),
        (GOOD + "1,many,A,x\n", {}, "error: The column 'size' holds 'many' in data.csv, line 42"),
        (GOOD + "1,,A,x\n", {}, "error: The column 'size' lacks a value in data.csv, line 42"),
        (GOOD + "1,,A,x\n", {"options": {"missing": "skip"}}, "Such rows are left out."),
        (GOOD + "1,inf,A,x\n", {}, "infinite number in data.csv, line 42"),
        (GOOD + "1,2,A,\n", {}, "error: The label 'kind' is missing in data.csv, line 42"),
        (GOOD, {}, "warning: The column 'town' is always 'A'."),
        (GOOD, {"categories": ()}, "error: The column 'town' holds text, such as 'A'."),
        (GOOD, {"label": "colour"}, "error: The label 'colour' is none of the columns: id, size"),
        (GOOD, {"classes": ("x",)}, "error: The label 'kind' holds 'y', which is none of the"),
        (GOOD, {"classes": 2}, "error: The label 'kind' must hold whole numbers from 0 to 1."),
        (GOOD, {"task": "regression"}, "error: The label 'kind' holds text"),
        (GOOD.replace("y\n", "x\n"), {}, "error: All 40 rows that were looked at are of one class"),
        (GOOD + "1,2,A,z\n", {}, "warning: The class 'z' occurs only once."),
        (GOOD + "1,2,A,z\n" * 2 + GOOD * 4, {}, "times as often as 'z'"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_line(
    tmp_path: Path, text: str, more: dict[str, Any], words: str
) -> None:
    settings: dict[str, Any] = {"label": "kind", "categories": ("town",), **more}
    source = DataSource(format="csv", url=written(tmp_path, HEAD + text), **settings)
    assert words in found(source)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("1,2\n3,4\n", {}, "looks like data, not like names"),
        ("a,b\n3,4\n", {"header": False}, "looks like names of columns"),
        ("a,a\n3,4\n", {}, "names 'a' more than once"),
        ("a;b\n3;4\n", {}, "Is there another sign between values than ','?"),
        ("a,b\n", {}, "error: There is no row."),
        ("", {}, "error: there must be rows."),
        (b"a,b\n1,K\xf6ln\n", {}, "data.csv, line 2 is no UTF-8"),
    ],
)
def test_a_wrong_header_is_told(
    tmp_path: Path, text: str | bytes, options: dict[str, Any], words: str
) -> None:
    url = written(tmp_path, text)
    source = DataSource(format="csv", url=url, task="other", options=options)
    assert words in found(source)


def test_equal_columns_and_a_copy_of_the_label_are_told(tmp_path: Path) -> None:
    text = "a,b,again,y\n" + "".join(f"{i * i},{i % 3},{i % 3},{i % 3}\n" for i in range(30))
    said = found(DataSource(format="csv", url=written(tmp_path, text), label="y"))
    assert "The column 'b' is the label 'y' once more." in said
    assert "The column 'again' is the label 'y' once more." in said


def test_a_rare_label_that_is_no_class_is_told(tmp_path: Path) -> None:
    text = "".join(f"{i * i},{'abcdef'[i % 6]}\n" for i in range(60)) + "1,stranger\n5,\n6,nan\n"
    source = DataSource(
        format="csv", url=written(tmp_path, "x,y\n" + text), label="y", classes=tuple("abcdef"),
        options={"missing": "skip"},
    )  # fmt: skip
    said = found(source)
    assert "The label 'y' holds 'stranger', which is none of the classes." in said
    assert "'nan'" not in said


BROKEN = "text,size,kind\n" + "".join(
    f'"first\nsecond, {i}",{i}.5,x\nplain,{i * i}.25,{"xy"[i % 2]}\n' for i in range(30)
)


def test_line_breaks_in_quotes_are_named_with_their_remedy(tmp_path: Path) -> None:
    url = written(tmp_path, BROKEN.replace(",x\nplain", ",y\nplain").replace(".25,y", ".25,x"))
    source = DataSource(format="csv", url=url, label="kind", categories=("text",))
    problem = preview(source).problem
    assert problem is not None
    assert problem.startswith("data.csv, line 2 holds a value in quotes that goes over several")
    assert "newlines_in_values" in problem
    said = found(source)
    assert "of one class" not in said
    assert "has 1 values" not in said
    mended = preview(DataSource(**source_fields(source), options={"newlines_in_values": True}))
    assert mended.problem is None
    assert (mended.looked_at, dict(mended.labels)) == (60, {"x": 30, "y": 30})


def source_fields(source: DataSource) -> dict[str, Any]:
    return {
        name: getattr(source, name) for name in ("format", "url", "label", "categories", "task")
    }


def test_line_breaks_in_quotes_are_guessed(tmp_path: Path) -> None:
    source = guess_source(written(tmp_path, BROKEN))
    assert source.options == {"newlines_in_values": True}
    assert source.label == "kind"
    assert preview(source).problem is None
    long = guess_source(written(tmp_path, BROKEN + BROKEN.partition("\n")[2] * 100))
    assert long.options == {"newlines_in_values": True}


@pytest.mark.parametrize("stray", ['1,"2,x\n', '1,"2,x\n3,"4,y\n'])
def test_a_quote_that_is_not_closed_is_no_line_break(tmp_path: Path, stray: str) -> None:
    rows = "".join(f"{i * i},{i}.5,{'xy'[i % 2]}\n" for i in range(40))
    url = written(tmp_path, "a,b,y\n" + rows + stray + rows)
    assert guess_source(url).options == {}
    said = found(DataSource(format="csv", url=url, label="y"))
    assert "line 42 has a quote that is not closed" in said
    assert "newlines_in_values" not in said


def test_numbers_with_a_decimal_comma_are_told(tmp_path: Path) -> None:
    rows = "".join(f"{i * i},5;-1.000,{i};{i % 2}\n" for i in range(40))
    url = written(tmp_path, "price;size;y\n" + rows)
    guessed = guess_source(url)
    assert (guessed.label, guessed.categories) == ("y", ())
    for categories in ((), ("price", "size")):
        source = DataSource(
            format="csv", url=url, label="y", categories=categories, options={"delimiter": ";"}
        )
        said = found(source)
        assert "error: The column 'price' holds numbers with a decimal comma, such as '0,5'" in said
        assert "decimal comma, such as '-1.000,0'" in said
        assert "Write the file anew with decimal points" in said
    predicted = DataSource(
        format="csv", url=url, features=("y",), label="price", task="regression",
        options={"delimiter": ";"},
    )  # fmt: skip
    assert "error: The column 'price' holds numbers with a decimal comma" in found(predicted)
    assert guess_task(look_at("price", ["1,5", "2,5", "n/a"])) == "regression"


def test_a_table_of_nothing_but_the_label_is_an_error(tmp_path: Path) -> None:
    source = DataSource(format="csv", url=written(tmp_path, "y\na\nb\na\nb\n"), label="y")
    assert "error: There is no column left for the features." in found(source)


@pytest.mark.parametrize("settings", [{"rows": -1}, {"rows": 1.5}, {"sample_bytes": 0}])
def test_a_look_of_no_size_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="Received"):
        preview(DataSource(), **settings)


def test_files_with_other_columns_are_told(tmp_path: Path) -> None:
    written(tmp_path, "a,y\n1,2\n", "1.csv")
    written(tmp_path, "a,z\n1,2\n", "2.csv")
    source = DataSource(format="csv", url=str(tmp_path), label="y", task="regression")
    assert "2.csv has other columns than 1.csv: a, z." in found(source)


def test_a_parquet_file_shows_arrays_and_how_many_rows_it_has(tmp_path: Path) -> None:
    table = pa.table({"image": [[0.0, 1.0, 2.0]] * 30, "y": [0, 1] * 15})
    pq.write_table(table, tmp_path / "t.parquet")
    look = preview(guess_source(str(tmp_path / "t.parquet")))
    assert look.source.label == "y"
    assert (look.extent, look.feature_shape, look.class_count) == ("all 30 rows", (3,), 2)
    assert [column.kind for column in look.columns] == ["array", "integer"]


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_of_arrays_only_those_shown_become_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: Any
) -> None:
    arrays: list[Any] = [None, *[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]] * 2999]
    table = pa.table({"image": pa.array(arrays), "again": pa.array(arrays), "y": [0, 1] * 1500})
    url = str(tmp_path / f"t.{format}")
    if format == "parquet":
        pq.write_table(table, url)
    else:
        pyarrow.feather.write_feather(table, url)
    made: list[Any] = []
    text = _beginning._text

    def counted(value: Any) -> str | None:
        if isinstance(value, list):
            made.append(value)
        return text(value)

    monkeypatch.setattr(_beginning, "_text", counted)
    look = preview(DataSource(format=format, url=url, features=("image",), label="y"), rows=5)
    assert len(made) == 8
    assert look.looked_at == 3000
    image = look.columns[0]
    assert (image.kind, image.shape) == ("array", (2, 3))
    assert (image.count, image.missing, image.first_missing) == (2999, 1, 0)
    assert [row[0][:4] for row in look.rows] == ["", *["[[1."] * 4]
    assert look.rows[1][2] == "1"
    assert "The column 'image' lacks a value" in " ".join(p.sentence for p in look.problems)


def test_a_table_of_arrays_alone_has_its_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[0.0, 1.0]] * 300}), tmp_path / "t.parquet")
    source = DataSource(format="parquet", url=str(tmp_path / "t.parquet"), task="other")
    look = preview(source, rows=2)
    assert (look.extent, look.feature_shape, len(look.rows)) == ("all 300 rows", (2,), 2)
    assert not look.problems


def test_a_file_that_is_no_parquet_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    url = written(tmp_path, "no parquet", "t.parquet")
    assert "could not be read" in found(DataSource(format="parquet", url=url, label="y"))


def test_what_is_not_there_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    source = DataSource(format="csv", url=str(tmp_path / "none.csv"), label="y")
    assert "does not exist" in found(source)


# --- images


def test_images_are_seen_with_their_labels(tmp_path: Path) -> None:
    look = preview(guess_source(str(folder_of_classes(tmp_path / "pets"))), rows=4)
    assert dict(look.labels) == {"cat": 3, "dog": 3}
    assert (look.in_all, look.looked_at, look.feature_shape) == (6, 4, (64, 64, 3))
    assert look.extent == "4 of 6 images"
    assert [image.label for image in look.images] == ["cat", "cat", "dog", "dog"]
    assert max(Image.open(io.BytesIO(look.images[0].png)).size) == 72
    assert "different sizes" in look.problems[0].sentence


@pytest.mark.parametrize(("rows", "labels"), [(0, []), (1, ["cat"]), (2, ["cat", "dog"])])
def test_few_images_are_enough(tmp_path: Path, rows: int, labels: list[str]) -> None:
    source = DataSource(format="images", url=str(folder_of_classes(tmp_path / "pets")))
    assert [image.label for image in preview(source, rows=rows).images] == labels


def test_a_damaged_image_and_a_single_class_are_told(tmp_path: Path) -> None:
    write(tmp_path / "cat" / "1.png", pixels(1))
    written(tmp_path, b"no image", "cat/2.png")
    said = found(DataSource(format="images", url=str(tmp_path)))
    assert "error: an image must be one of" in said
    assert "All 2 images that were looked at are of one class, 'cat'." in said
    source = DataSource(format="images", url=str(tmp_path), options={"on_error": "skip"})
    assert "warning: an image must be one of" in found(source)


def test_the_bundled_digits_are_seen_without_files() -> None:
    look = preview(DataSource(), rows=5)
    assert (look.extent, look.feature_shape, look.class_count) == (
        "all 1,797 images", (28, 28, 1), 10,
    )  # fmt: skip
    assert [image.label for image in look.images] == ["0", "1", "2", "3", "4"]
    assert not look.problems


# --- folders


def test_a_folder_lists_folders_first_in_natural_order(tmp_path: Path) -> None:
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


def test_a_store_keeps_its_scheme_while_one_walks_through_it() -> None:
    import fsspec

    fsspec.filesystem("memory").pipe_file("/looking/in/a.csv", b"x,y\n1,2\n")
    top = browse("memory://looking")
    assert [entry.url for entry in top.entries] == ["memory://looking/in"]
    inner = browse(top.entries[0].url)
    assert inner.parent == "memory://looking/"
    assert preview(guess_source(inner.entries[0].url)).extent == "1 row"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        browse(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("url", "parent"),
    [
        ("/", None), ("/data", "/"), ("/data/a", "/data"), ("s3://bucket", None),
        ("s3://bucket/a", "s3://bucket/"), ("hdfs://host:8020/a/b", "hdfs://host:8020/a"),
        ("hdfs://host:8020/a", "hdfs://host:8020/"), ("hdfs://host:8020/", None),
    ],
)  # fmt: skip
def test_the_way_up_ends_at_the_top(url: str, parent: str | None) -> None:
    assert parent_of(url) == parent


def test_a_store_that_does_not_answer_is_not_waited_for() -> None:
    over = threading.Event()
    try:
        with pytest.raises(RunTimeoutError, match="hdfs://far"):
            within(0.05, lambda: over.wait(30), "hdfs://far")
    finally:
        over.set()


def test_what_goes_wrong_in_a_store_is_raised_here() -> None:
    def fail() -> None:
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        within(5, fail, "x")


def test_work_that_nobody_waits_for_ends() -> None:
    threads: list[threading.Thread] = []

    def endless() -> None:
        threads.append(threading.current_thread())
        while True:
            still_wanted()

    with pytest.raises(RunTimeoutError, match="a look at data must end within"):
        within(0.05, endless, "/data/here.csv")
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_look_within_a_look_has_the_limit_of_the_outer_one() -> None:
    def outer() -> bool:
        return within(0.0, threading.current_thread, "x") is threading.current_thread()

    assert within(30, outer, "x")


def test_a_look_at_a_file_that_takes_too_long_ends_at_the_next_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    threads: list[threading.Thread] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(name: str, values: Any) -> Any:
        seen.append(name)
        threads.append(threading.current_thread())
        begun.set()
        assert go_on.wait(30)
        return look_at(name, values)

    monkeypatch.setattr(_beginning, "look_at", slow)
    source = DataSource(format="csv", url=written(tmp_path, "a,b,c\n1,2,3\n"), task="other")
    with pytest.raises(RunTimeoutError, match=r"look at data .*data\.csv"):
        preview(source, timeout_s=0.2)
    go_on.set()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert seen in ([], ["a"])


def test_a_header_of_very_many_names_is_gone_through_once() -> None:
    names = tuple(f"n{i}" for i in range(300_000)) + ("same",) * 20_000
    problems = _beginning.header_problems("wide.csv", names, CsvFormat())
    assert [p.column for p in problems] == ["same"]
    different = _beginning._different(names)
    assert len(set(different)) == len(names)
    assert _beginning._different(["a", "a", "a (2)", "a"])[:2] == ("a", "a (2)")


# --- formats that hold arrays


@pytest.fixture
def exported(spark: Any, tmp_path: Path) -> Callable[[], str]:
    def export() -> str:
        features = np.arange(60, dtype=np.float32).reshape(20, 3)
        data = sw.data.from_arrays(spark, features, np.arange(20, dtype=np.int32) % 4)
        data.export(str(tmp_path / "export"), batch_size=8)
        sw.data.write_tfrecord(data, str(tmp_path / "records"))
        return str(tmp_path)

    return export


def test_exports_and_tfrecords_show_their_examples(exported: Callable[[], str]) -> None:
    folder = exported()
    look = preview(guess_source(f"{folder}/export"))
    assert look.source.format == "minibatches"
    assert (look.in_all, look.feature_shape, look.looked_at) == (20, (3,), 8)
    records = preview(DataSource(format="tfrecord", url=f"{folder}/records"))
    assert not records.problems
    assert records.looked_at > 0
    assert "[0, 1, 2]" in [cell for row in records.rows for cell in row]
