import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases import cases

import sparkwright as sw


def write(folder, rows, kind="parquet"):
    """A file of column `x` in each folder."""
    for name, x in rows.items():
        (folder / name).mkdir(parents=True)
        if kind == "csv":
            lines = "".join(f"{value}\n" for value in x)
            (folder / name / "part.csv").write_text(f"x\n{lines}")
        else:
            pq.write_table(pa.table({"x": x}), folder / name / "part.parquet")
    return str(folder)


READ = {"parquet": sw.data.read_parquet, "csv": sw.data.read_csv}


@cases("kind", "parquet", "csv")
def test_folders_are_columns(tmp_path, kind):
    folder = write(tmp_path, {"y=0/day=2.5": [1.0, 2.0], "y=1/day=3": [3.0]}, kind)
    found = READ[kind](folder, features=["x", "day"], labels="y", classes=2).data
    assert found.features["features"].tolist() == [[1, 2.5], [2, 2.5], [3, 3]]
    assert found.labels["labels"].tolist() == [0, 0, 1]
    alone = READ[kind](folder, features="day", labels="y", classes="infer")
    assert alone.data.features["features"].tolist() == [[2.5], [2.5], [3]]
    assert alone.class_names == {"labels": ("0", "1")}


@cases("kind", "parquet", "csv")
def test_text_of_folders_is_unescaped(tmp_path, kind):
    folder = write(tmp_path, {"k=a%2Fb": [1.0], "k=é": [2.0], "k=x y": [3.0]}, kind)
    table = READ[kind](folder, features="x", labels="k", classes="infer")
    assert table.class_names == {"labels": ("a/b", "x y", "é")}
    again = READ[kind](folder, schema=table.schema)
    np.testing.assert_array_equal(again.data.labels["labels"], table.data.labels["labels"])


def test_folders_above_the_given_one_are_no_columns(tmp_path):
    folder = write(tmp_path / "year=2024", {"y=0": [1.0], "y=1": [2.0]})
    assert READ["parquet"](folder, labels="y").schema.used == ("x", "y")
    one = READ["parquet"](f"{folder}/y=1")
    assert one.schema.used == ("x",)


@cases(
    "names, values",
    (["1_0", "2"], ["1_0", "2"]),
    (["-1", "07"], [-1, 7]),
    (["1e1", ".5"], [10.0, 0.5]),
    (["x", "1"], ["x", "1"]),
    (["1" * 20, "2" * 20], [1e20 / 9, 2e20 / 9]),
    ids=str,
)
def test_kind_of_folders_fits_all_names(tmp_path, names, values):
    folder = write(tmp_path, {f"k={name}": [1.0] for name in names})
    if isinstance(values[0], str):
        table = READ["parquet"](folder, features="x", labels="k", classes="infer")
        assert sorted(table.class_names["labels"]) == sorted(values)
    else:
        found = READ["parquet"](folder, features="k").data.features["features"][:, 0]
        np.testing.assert_allclose(sorted(found), sorted(values))


def test_null_folder_is_missing(tmp_path):
    folder = write(tmp_path, {"y=__HIVE_DEFAULT_PARTITION__": [1.0], "y=3": [2.0]})
    with pytest.raises(sw.DataError, match="'y'"):
        READ["parquet"](folder, labels="y")
    found = READ["parquet"](folder, labels="y", missing="skip").data
    assert found.labels["labels"].tolist() == [3]


def test_folders_of_other_columns_raise(tmp_path):
    folder = write(tmp_path, {"y=0": [1.0], "z=1": [2.0]})
    with pytest.raises(sw.DataError, match=r"Received: 'y' for .* and 'z' for .*one by one"):
        READ["parquet"](folder)


@pytest.mark.thorough
@cases("kind", "parquet", "csv")
def test_spark_reads_the_same(spark, tmp_path, kind):
    rows = [(float(n), n % 3, "ab c/"[n % 5], n / 4 if n % 4 else None) for n in range(30)]
    frame = spark.createDataFrame(rows, "x double, y int, text string, part double")
    url = str(tmp_path / "written")
    frame.write.partitionBy("y", "text").option("header", True).format(kind).save(url)
    options = {"features": "x", "labels": {"y": "y", "text": "text"}, "classes": "infer"}
    data = getattr(sw.data, f"from_{kind}")(spark, url, **options)
    found, names = data.collect(), data.class_names
    x, y, text = found.features["features"][:, 0], found.labels["y"], found.labels["text"]
    ours = {(a, int(names["y"][b]), names["text"][c]) for a, b, c in zip(x, y, text, strict=True)}
    reader = spark.read.option("header", True).option("inferSchema", True).format(kind)
    assert ours == {(row.x, row.y, row.text) for row in reader.load(url).collect()}
    assert len(x) == len(rows)
