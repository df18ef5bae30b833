"""What is easily done wrong at first: told at once, with the remedy, or simply taken."""

from pathlib import Path
from typing import Any

import pytest

import sparkwright as sw


def file(folder: Path, text: str) -> str:
    (folder / "table.csv").write_text(text)
    return str(folder / "table.csv")


@pytest.mark.parametrize("text", ["5.1,3.5,0\n4.9,3.0,1\n", "1\n2\n", "-1e3, 2 \n3,4\n"])
def test_a_first_line_of_numbers_is_no_header(tmp_path: Path, text: str) -> None:
    url = file(tmp_path, text)
    with pytest.raises(sw.DataError, match=r"table\.csv.*`header=False`"):
        sw.data.read_csv(url)
    assert len(sw.data.read_csv(url, header=False).data) == 2
    names = [f"c{i}" for i in range(text.split("\n")[0].count(",") + 1)]
    assert len(sw.data.read_csv(url, column_names=names).data) == 1


def test_a_header_with_one_word_is_a_header(tmp_path: Path) -> None:
    url = file(tmp_path, "2023,2024,kind\n1,2,3\n")
    assert sw.data.read_csv(url).schema.columns == ("2023", "2024", "kind")
    assert sw.data.read_csv(file(tmp_path, "nan,inf\n1,2\n")).schema.columns == ("nan", "inf")


def test_numbers_with_fractions_are_no_classes_to_be_inferred(tmp_path: Path) -> None:
    url = file(tmp_path, "a,price\n1,2.5\n3,4\n5,6\n")
    with pytest.raises(sw.DataError, match=r"2\.5 in 'price'.*regression.*leave `classes` out"):
        sw.data.read_csv(url, labels="price", classes="infer")
    listed = sw.data.read_csv(url, labels="price", classes=["2.5", "4", "6"])
    assert listed.data.labels["labels"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("values", [["1.0", "2.0"], ["1", "2"], ["1.5", "x"]])
def test_whole_numbers_and_texts_are_classes(tmp_path: Path, values: list[Any]) -> None:
    url = file(tmp_path, f"a,kind\n1,{values[0]}\n3,{values[1]}\n")
    found = sw.data.read_csv(url, labels="kind", classes="infer")
    assert found.schema.class_names == {"labels": tuple(values)}
