import re
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from ipywidgets.widgets.widget import _instances

from sparkwright.data import DataSource, DataSplit, _previewing
from sparkwright.errors import ConfigurationError
from sparkwright_widgets._data_picker import DataPicker
from sparkwright_widgets._data_picker._looks import fixes

pytestmark = pytest.mark.usefixtures("comms")


@pytest.fixture
def table(tmp_path):
    """The URL of a small table without faults."""
    lines = ["size,town,<b>kind</b>"]
    lines += [f"{i * i}.5,{('Rome', 'Oslo')[i % 2]},{'xyz'[i % 3]}" for i in range(60)]
    path = tmp_path / "plants.csv"
    path.write_text("\n".join(lines))
    return str(path)


@pytest.fixture
def picker():
    """A picker that has looked at what it shows."""
    made = DataPicker()
    assert made.settle()
    yield made
    made.settle()


@pytest.fixture
def slow_looks(monkeypatch):
    """Looks that tell when they began, and end when they may: two events."""
    begun, go_on = threading.Event(), threading.Event()
    look = _previewing._checked_preview

    def slow(*arguments):
        begun.set()
        assert go_on.wait(30)
        return look(*arguments)

    monkeypatch.setattr(_previewing, "_checked_preview", slow)
    yield begun, go_on
    go_on.set()


def choose(picker, control, value):
    """Set the control, and wait until the picker shows what follows."""
    control.value = value
    assert picker.settle()


def press(picker, button):
    button.click()
    assert picker.settle()


def type_url(picker, url):
    choose(picker, picker.place.url, url)
    assert picker.error.value == ""


def test_picker_starts_with_the_bundled_digits(picker):
    assert picker.source == DataSource()
    assert picker.problem is None
    assert picker.beginning.value.count("<img") == 20
    assert 'alt="example 1, 28 x 28 pixels, label 0"' in picker.beginning.value
    assert "all 1,797 images" in picker.figures.value
    assert picker.place.layout.display == "none"


def test_typing_a_path_infers_the_other_options(picker, table):
    told = []
    picker.on_change(lambda part: told.append(part.source))
    picker.split.field("test").control.value = "0.5"
    type_url(picker, table)
    assert picker.source == DataSource(
        format="csv",
        url=table,
        label="<b>kind</b>",
        categories=("town",),
        split=DataSplit(test=0.5),
    )
    assert picker.problem is None
    assert told[-1] == picker.source == picker.preview.source
    assert picker.format.value == "csv"
    assert "&lt;b&gt;kind&lt;/b&gt; (label)" in picker.beginning.value
    assert "<b>kind" not in picker.beginning.value + picker.statistics.value + picker.code.value
    heads, *rows = re.findall("<tr>(.*?)</tr>", picker.statistics.value)
    assert {len(re.findall("<t[hd]", row)) for row in rows} == {heads.count("<th")}
    still = picker._repr_mimebundle_()
    for words in ("plants.csv", "First rows", "sw.data.from_csv", ".sparkwright-pictures {"):
        assert words in still["text/html"]
    assert "all 60 rows" in still["text/plain"]
    choose(picker, picker.options.fields["header"].control, False)
    assert [column.name for column in picker.preview.columns][:2] == ["column_0", "column_1"]
    assert picker.source.label == "column_2"


def test_columns_are_selected_with_checkboxes(picker, table):
    type_url(picker, table)
    columns = picker.columns
    assert [(name, box.value, box.disabled) for name, box in columns.boxes.items()] == [
        ("size", True, False),
        ("town", True, False),
        ("<b>kind</b>", False, True),
    ]
    choose(picker, columns.boxes["town"], False)
    assert (picker.source.features, picker.source.categories) == (("size",), ())
    press(picker, columns.every)
    assert (picker.source.features, picker.source.categories) == ((), ("town",))
    columns.label.value = "size"
    choose(picker, columns.task, "regression")
    assert picker.source.label == "size"
    assert "classes" not in picker.source.arguments
    assert columns.boxes["size"].disabled


def test_invalid_options_stay_visible_and_block_loading_until_corrected(picker, table):
    picker.spark = SimpleNamespace()
    type_url(picker, table)
    told = []
    picker.on_change(lambda part: told.append(part.problem))
    skip, share = picker.options.fields["skip_lines"], picker.split.field("validation")
    for field, wrong, said, right in (
        (skip, "-3", "at least 0", "0"),
        (share, "abc", "validation", "0.2"),
    ):
        field.control.value = wrong
        assert said in picker.problem
        assert told[-1] == picker.problem
        choose(picker, picker.columns.boxes["town"], not picker.columns.boxes["town"].value)
        assert field.control.value == wrong
        assert picker.load_button.disabled
        with pytest.raises(ConfigurationError, match=said):
            picker.load()
        choose(picker, field.control, right)
        assert told[-1] is picker.problem is None
    assert not picker.load_button.disabled


def test_empty_feature_selection_is_rejected_and_boxes_stay_empty(picker, table):
    type_url(picker, table)
    columns = picker.columns
    columns.nothing.click()
    picker.look()
    assert picker.settle()
    assert not any(box.value for box in columns.boxes.values())
    assert picker.problem == columns.problem
    assert "At least one column" in columns.alert.value
    choose(picker, columns.boxes["size"], True)
    assert picker.source.features == ("size",)
    assert picker.problem is None
    assert columns.alert.value == ""


def test_classes_are_detected_counted_or_named_and_stay_as_typed(picker, table):
    type_url(picker, table)
    typed = (("z,y , x", ("z", "y", "x")), ("3", 3), ("0", 3), ("", "infer"))
    for text, classes in typed:
        choose(picker, picker.columns.classes, text)
        assert picker.columns.classes.value == text
        assert picker.source.classes == classes
        assert ("classes" in (picker.problem or "")) == (text in ("0", "3"))
    choose(picker, picker.place.url, f" {table} ")
    assert (picker.place.url.value, picker.source.url) == (f" {table} ", table)


def test_numeric_categories_stay_categories_as_features(picker, tmp_path, slow_looks):
    begun, go_on = slow_looks
    path = tmp_path / "places.csv"
    path.write_text("zip,size,town,y\n1,2.5,Rome,a\n2,3.5,Oslo,b\n1,1.5,Rome,a\n")
    picker.source = DataSource(format="csv", url=str(path), label="y", categories=("zip",))
    assert begun.wait(30)
    picker.columns.task.value = "other"  # before the columns were seen
    assert picker.source.categories == ("zip",)
    go_on.set()
    assert picker.settle()
    choose(picker, picker.columns.task, "classification")
    assert picker.source.categories == ("zip", "town")
    assert "categorical" in picker.columns.boxes["zip"].description
    assert "categorical" not in picker.columns.boxes["size"].description
    choose(picker, picker.columns.boxes["zip"], False)
    assert picker.source.categories == ("town",)


def test_switching_the_format_clears_the_source_and_restores_the_path(picker, table):
    type_url(picker, table)
    choose(picker, picker.format, "digits")
    assert picker.source == DataSource()
    assert picker.statistics_fold.layout.display == "none"
    choose(picker, picker.format, "csv")
    assert (picker.source.url, picker.place.url.value) == (table, table)


def test_error_is_shown_and_is_the_problem(picker, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b,y\n1,2,x\n1,2\n3,,y\n")
    type_url(picker, str(tmp_path / "bad.csv"))
    assert "bad.csv, line 3: each record must have 3 fields" in picker.problem
    assert len(picker.problems.children) == len(picker.preview.problems)
    # No label can be chosen of a file that is not there: the place is the problem.
    type_url(picker, str(tmp_path / "none.csv"))
    assert picker.problem == picker.preview.problem
    assert "does not exist" in picker.problem


def fixes_of(picker):
    return {button.description: button for button in picker._fixes}


@pytest.mark.thorough
def test_problems_have_buttons_that_solve_them(picker, tmp_path):
    path = tmp_path / "rows.csv"
    ages = ["" if n % 9 == 0 else n % 7 for n in range(90)]
    rooms = ["many" if n % 9 == 4 else n % 6 for n in range(90)]
    rows = [f"{n}.5,{ages[n]},{rooms[n]},,{'xy'[n % 2]}" for n in range(90)]
    path.write_text("\n".join(["size,age,rooms,empty,kind", *rows]))
    type_url(picker, str(path))
    found = fixes_of(picker)
    assert {"Fill with 0", "Exclude 'empty'"} <= set(found)
    assert {"Treat 'many' as missing", "Skip 10 rows"} <= set(found)
    skipped = fixes(picker.preview.problems[-1], replace(picker.preview, is_estimate=True))
    assert "Skip such rows" in [fix.label for fix in skipped]
    for problem in picker.preview.problems:  # whatever their sentences are
        assert fixes(replace(problem, sentence="?"), picker.preview) == fixes(
            problem, picker.preview
        )
    for label in ("Exclude 'empty'", "Treat 'many' as missing", "Fill with 0"):
        fixes_of(picker)[label].click()
        assert picker.settle()
    assert fixes_of(picker) == {}
    assert picker.problem is None
    assert picker.source.options["missing"] == 0.0
    assert picker.source.options["missing_values"][-1] == "many"
    assert "empty" not in picker.source.features


def test_failed_preview_removes_the_previous_data(picker, table):
    type_url(picker, table)
    assert picker.statistics.value
    type_url(picker, "foo://bar")
    assert "Protocol not known: foo" in picker.problems.children[0].children[0].value
    views = (picker.figures, picker.beginning, picker.classes, picker.statistics)
    assert [view.value for view in views] == [""] * 4
    assert picker.statistics_fold.layout.display == picker.classes_fold.layout.display == "none"


def test_folders_are_browsed_and_a_file_is_selected(picker, table, tmp_path):
    # A folder of few entries: long lists are cut.
    folder = tmp_path / "garden" / "plants"
    folder.mkdir(parents=True)
    table = str(Path(table).rename(folder / "plants.csv"))
    choose(picker, picker.format, "csv")
    place = picker.place
    place.go(str(folder.parent))
    assert picker.settle()
    assert "▸ plants/" in [line for line, _ in place.list.options]
    for url, does in ((str(folder), "Open folder"), (table, "Use this file")):
        place.list.value = url
        assert place.open_button.description == does
        press(picker, place.open_button)
    assert (picker.source.url, picker.source.label) == (table, "<b>kind</b>")
    for button in (place.up_button, place.take_button):
        press(picker, button)
    assert picker.source.url == str(folder.parent)


def test_folders_are_listed_and_a_split_selected_during_a_preview(picker, table, slow_looks):
    begun, go_on = slow_looks
    picker.place.url.value = table
    assert begun.wait(30)
    picker.split.field("test").control.value = "0.4"
    picker.place.fold.button.click()
    assert picker.place.settle()
    assert Path(table).name in picker.place.list.options[0][0]
    assert "Reading the preview" in picker.doing.value
    go_on.set()
    assert picker.settle()
    assert (picker.source.label, picker.source.split.test) == ("<b>kind</b>", 0.4)
    assert picker.preview.source == picker.source


def test_last_requested_folder_is_listed(picker, tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
        picker.place.go(str(tmp_path / name))
    assert picker.settle()
    assert f"{tmp_path}/c" in picker.place.where.value
    assert picker.place.doing.value == picker.place.error.value == ""


def test_picker_closed_during_a_preview_leaves_no_widgets(comms, table, slow_looks):
    before = set(_instances)
    begun, go_on = slow_looks
    picker = DataPicker(source=DataSource(format="csv", url=table))
    assert begun.wait(30)
    picker.close()
    go_on.set()
    assert picker.settle()
    assert set(_instances) == before


def test_setting_a_source_shows_it_and_replaces_invalid_text(picker, table):
    type_url(picker, table)
    picker.options.fields["skip_lines"].control.value = "-3"
    picker.split.field("test").control.value = "abc"
    picker.columns.nothing.click()
    picker.source = picker.source
    assert picker.settle()
    assert picker.problem is None
    assert picker.split.field("test").control.value == "0.1"
    assert picker.options.fields["skip_lines"].control.value == "0"
    assert [name for name, box in picker.columns.boxes.items() if box.value] == ["size", "town"]
    source = DataSource(
        format="csv", url=table, features=("size",), label="town", options={"missing": "skip"}
    )
    picker.source = source
    assert picker.settle()
    assert picker.source == source
    assert picker.options.values["missing"] == "skip"
    assert picker.columns.label.value == "town"
    with pytest.raises(ConfigurationError, match="DataSource"):
        picker.source = "plants.csv"


class FakeData:
    rdd = SimpleNamespace(getNumPartitions=lambda: 3)

    def count(self):
        return 1797


def test_load_requires_a_session_and_shows_errors(picker, monkeypatch):
    assert picker.load_button.disabled
    assert "needs a Spark session" in picker.loaded.value
    assert "picker.spark" in picker.loaded.value
    with pytest.raises(ConfigurationError, match="needs a Spark session"):
        picker.load()
    picker.spark = SimpleNamespace()
    press(picker, picker.load_button)
    assert "That did not work." in picker.error.value
    assert not picker.load_button.disabled
    loads = []
    monkeypatch.setattr(DataSource, "load", lambda self, spark: loads.append(spark) or FakeData())
    picker.spark = "session"
    assert not picker.load_button.disabled
    press(picker, picker.load_button)
    assert loads == ["session"]
    assert "1,797 examples in 3 partitions" in picker.loaded.value
    assert isinstance(picker.data, FakeData)
    assert not picker.load_button.disabled


def test_many_columns_are_typed_instead_of_checked(picker, tmp_path):
    names = [f"pixel{index}" for index in range(100)]
    rows = [",".join([*(str(i * j % 7) for j in range(100)), "ab"[i % 2]]) for i in range(30)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join([*names, "y"]), *rows]))
    type_url(picker, str(path))
    assert picker.columns.fold.layout.display == "none"
    choose(picker, picker.columns.names, "pixel3, pixel5")
    assert picker.source.features == ("pixel3", "pixel5")
    assert picker.beginning.value.count('scope="col"') == 40
    assert "61 more columns are not shown" in picker.beginning.value


def test_picker_works_without_its_load_button():
    picker = DataPicker(with_load=False)
    assert picker.settle()
    assert picker.loaded.value == ""
    inside = list(picker.children)
    for widget in inside:
        inside += getattr(widget, "children", ())
    assert picker.load_button not in inside
