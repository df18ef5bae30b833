from pathlib import Path

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import MinibatchSource
from sparkwright.data.loaders import load
from sparkwright.local import _examples as taken
from sparkwright.storage.listing import list_files


def file(folder, text):
    (folder / "table.csv").write_text(text)
    return str(folder / "table.csv")


@cases("text", "5.1,3.5,0\n4.9,3.0,1\n", "1\n2\n", "-1e3, 2 \n3,4\n")
def test_first_line_of_numbers_is_not_a_header(tmp_path, text):
    url = file(tmp_path, text)
    with pytest.raises(sw.DataError, match=r"table\.csv.*`header=False`"):
        sw.data.read_csv(url)
    assert len(sw.data.read_csv(url, header=False).data) == 2
    names = [f"c{i}" for i in range(text.split("\n")[0].count(",") + 1)]
    assert len(sw.data.read_csv(url, column_names=names).data) == 1


def test_first_line_with_one_word_is_a_header(tmp_path):
    for header in ("2023,2024,kind", "nan,inf"):
        url = file(tmp_path, f"{header}\n{','.join('1' for _ in header.split(','))}\n")
        assert sw.data.read_csv(url).schema.columns == tuple(header.split(","))


def test_integers_and_texts_but_no_fractions_are_inferred_as_classes(tmp_path):
    url = file(tmp_path, "a,price\n1,2.5\n3,4\n5,6\n")
    with pytest.raises(sw.DataError, match=r"2\.5 in 'price'.*regression.*omit `classes`"):
        sw.data.read_csv(url, labels="price", classes="infer")
    listed = sw.data.read_csv(url, labels="price", classes=["2.5", "4", "6"])
    assert listed.data.labels["labels"].tolist() == [0, 1, 2]
    for values in (["1.0", "2.0"], ["1", "2"], ["1.5", "x"]):
        url = file(tmp_path, f"a,kind\n1,{values[0]}\n3,{values[1]}\n")
        found = sw.data.read_csv(url, labels="kind", classes="infer")
        assert found.schema.class_names == {"labels": tuple(values)}


@cases("scheme", "", "file://", "memory:/")
def test_source_opens_as_a_file_or_context_manager(tmp_path, scheme):
    import fsspec

    url = f"{scheme}{tmp_path / 'a.npy'}"
    writing = fsspec.open(url, "wb")
    with writing as file:
        np.save(file, np.arange(3))
    opened = MinibatchSource(url).open()
    np.testing.assert_array_equal(np.load(opened), np.arange(3))
    opened.close()
    with MinibatchSource(url).open() as opened:
        np.testing.assert_array_equal(np.load(opened), np.arange(3))
    assert opened.closed or scheme == "memory:/"  # whose files have nothing to close
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        MinibatchSource(f"{scheme}/nowhere").open()


def test_a_loader_may_return_features_and_labels():
    found = load(lambda source: ([[1.0, 2.0], [3.0, 4.0]], [0, 1]), MinibatchSource("x"))
    assert found.shapes == {"features/features": (2, 2), "labels/labels": (2,)}
    with pytest.raises(sw.DataError, match=r"or \(features, labels\), but returned tuple"):
        load(lambda source: ([1.0],), MinibatchSource("x"))


def test_the_numpy_loader_takes_a_path(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.ones((2, 3)), labels=np.zeros(2))
    assert len(sw.data.numpy_loader(tmp_path / "a.npz")) == 2
    assert len(sw.data.numpy_loader(str(tmp_path / "a.npz"))) == 2


def test_missing_relative_path_raises_with_the_absolute_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"^a\.csv does not .*\(looked in {tmp_path}\)"):
        list_files("a.csv")
    with pytest.raises(FileNotFoundError, match=rf"^no file matches .*\(looked in {tmp_path}"):
        list_files("*.csv")
    for url in ("/nowhere/a.csv", "memory://nowhere"):
        with pytest.raises(FileNotFoundError, match=rf"^{url} does not exist\. Check"):
            list_files(url)
    with pytest.raises(FileNotFoundError, match=r"^no file matches /nowhere/\*\.csv\. Check"):
        list_files("/nowhere/*.csv")


@cases(
    "call",
    lambda: sw.data.from_csv("a.csv", labels="kind"),
    lambda: sw.data.from_parquet(Path("a.parquet")),
    lambda: sw.data.from_minibatches("exports"),
    lambda: sw.data.from_arrays(np.ones((2, 3)), np.ones(2)),
    lambda: sw.data.from_arrays(None, np.ones((2, 3))),
    lambda: sw.data.from_tfrecord(spark="train.tfrecord"),
)
def test_missing_session_argument_raises(call):
    with pytest.raises(
        sw.ConfigurationError, match=r"`spark`.* must be the first argument of `from"
    ):
        call()


@cases("write", sw.data.write_sequence_file, sw.data.write_map_file)
def test_records_are_written_from_a_pair_of_arrays(tmp_path, write):
    features, labels = np.ones((4, 3), np.float32), np.arange(4)
    assert write((features, labels), str(tmp_path / "pair")) == 4
    assert write((features, labels, np.ones(4)), str(tmp_path / "weighted")) == 4
    assert (
        write((sw.DataSet(features, labels), sw.DataSet(features, labels)), str(tmp_path / "two"))
        == 8
    )
    table = sw.data.read_csv(file(tmp_path, "a,b\n1,2\n"))
    for bad in (7, [features, labels], (1, 2, 3, 4), table):
        with pytest.raises(sw.DataError, match=r"must (be|hold) .*Received: "):
            write(bad, str(tmp_path / "bad"))


def test_normalizer_raises_with_the_accepted_types(tmp_path):
    features, labels = np.arange(6.0).reshape(3, 2), np.zeros(3)
    normalizer = sw.data.Standardize.fit(sw.DataSet(features, labels))
    with pytest.raises(sw.ConfigurationError, match=r"tuple.*DataSet\(features, labels\)"):
        normalizer.transform((features, labels))
    table = sw.data.read_csv(file(tmp_path, "a,b\n1,2\n"))
    with pytest.raises(sw.ConfigurationError, match=r"LocalTable.*`\.data`"):
        normalizer.transform(table)
    with pytest.raises(sw.DataError, match=r"LocalTable.*`table\.data`"):
        sw.data.Standardize.fit(table)


def test_local_training_takes_a_table_and_names_other_accepted_types(tmp_path):
    table = sw.data.read_csv(file(tmp_path, "a,b\n1,2\n"), labels="b")
    assert taken(table, "data") is table
    assert len(taken(([[1.0]], [1]), "data").data) == 1
    with pytest.raises(sw.ConfigurationError, match=r"`validation` must be .* Received: int"):
        taken(7, "validation")


def test_text_columns_raise_at_the_call(spark):
    frame = spark.createDataFrame(
        [(0.1, "cat", ["x"])], "width double, kind string, tags array<string>"
    )
    for name in ("kind", "tags"):
        with pytest.raises(sw.DataError, match=rf"'{name}' of type .*string.*StringIndexer"):
            sw.data.from_dataframe(frame, features="width", labels=name)
    dated = frame.selectExpr("width", "cast(width as decimal(4, 2)) as price")
    with pytest.raises(sw.DataError, match=r"'price' of type decimal.*cast\(\"double\"\)"):
        sw.data.from_dataframe(dated, features="width", labels="price")


def test_the_same_digits_are_exported_once(spark, tmp_path):
    url = str(tmp_path / "digits")
    assert not sw.data.digits(spark).export(url, batch_size=500).reused
    assert sw.data.digits(spark).export(url, batch_size=500).reused
