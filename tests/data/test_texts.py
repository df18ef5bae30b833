import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.cases import cases
from tests.support.in_process import sent

import sparkwright as sw
from sparkwright.data import DataSet, from_bytes, row_count, to_bytes
from sparkwright.data.texts import as_texts
from sparkwright.workers.shard import Shard, ShardWriter

HARD = ["", "a\0\0", "\0", "two\nlines", "Straße", "語", "😀", "x" * 100_000, "e\u0301"]


def hard():
    """Texts that fixed widths, C strings or lines would damage, beside numbers."""
    texts = np.array(HARD, object)
    return DataSet(
        {"one": texts, "pairs": np.stack([texts, texts[::-1]], axis=1), "n": np.arange(9.0)},
        np.arange(9),
    )


any_text = st.text(st.characters(codec="utf-8"), max_size=5)
arrays_of_text = st.integers(1, 3).flatmap(
    lambda axes: npst.arrays(object, st.tuples(*[st.integers(1, 3)] * axes), elements=any_text)
)


@given(array=arrays_of_text)
def test_texts_round_trip_through_every_transport(array):
    data = DataSet({"t": array})
    assert from_bytes(to_bytes(data)).equals(data)
    assert row_count(to_bytes(data)) == len(data)
    assert DataSet.from_arrow(data.to_arrow()).equals(data)
    assert DataSet({"t": sent(array, own_code=False)}).equals(data)


def test_empty_text_data_round_trips():
    for empty in (hard().take(slice(0, 0)), DataSet(np.empty((0, 2), object))):
        found = from_bytes(to_bytes(empty))
        assert found.layout == empty.layout
        assert len(found) == 0


def test_text_is_sliced_and_joined_like_numbers():
    data = hard()
    assert DataSet.concatenate(list(data.batches(2))).equals(data)
    assert DataSet.merge([data, data]).shapes["features/pairs"] == (18, 2)
    shuffled = data.shuffle(3)
    assert sorted(shuffled.features["one"].tolist()) == sorted(HARD)
    assert not data.equals(shuffled)


@cases(
    "given",
    ["a", "é"],
    np.array(["a", "é"]),
    np.array([b"a", "é".encode()]),
    np.array([b"a", "é"], object),
)
def test_texts_of_any_kind_become_str(given):
    found = DataSet(given).features["features"]
    assert found.dtype == object
    assert [type(text) for text in found] == [str, str]
    assert found.tolist() == ["a", "é"]


@cases(
    "given, message",
    ({"features": ["a", None]}, r"without missing values .* Received: NoneType, str in 'features'"),
    ({"features": np.array(["a", float("nan")], object)}, "Received: float, str"),
    ({"features": np.array(["a", 3], object)}, "convert numbers to a numeric array"),
    ({"features": [b"\xff"]}, "must be UTF-8"),
    ({"features": ["\ud800"]}, "valid Unicode"),
    ({"features": ["a"], "labels": ["a"]}, "must be numeric"),
    ({"features": ["a"], "features_masks": ["a"]}, "must be numeric"),
    ({"features": ["a"], "weights": ["a"]}, "must be numeric"),
)
def test_text_that_cannot_be_sent_or_belongs_elsewhere_raises(given, message):
    with pytest.raises(sw.DataError, match=message):
        to_bytes(DataSet(**given))


def test_size_counts_utf8_bytes():
    assert DataSet(["", "語", "abc"]).size_bytes == 3 * 8 + 3 + 3
    data = hard()
    files = sum(len(text.encode()) + 8 for text in HARD)
    assert data.size_bytes == 3 * files + 2 * 9 * 8


def test_shard_files_store_texts(tmp_path):
    data = hard()
    with ShardWriter(tmp_path / "s", worker=0) as writer:
        writer.append(data.take(slice(4, 9)), key=(1,))
        writer.append(data.take(slice(0, 4)), key=(0,))
    shard = Shard(tmp_path / "s", consume=True)
    rows = np.array([[8, 0], [3, 3]])
    found = shard.gather(rows)
    for name, array in data.columns().items():
        assert found[name].shape == array[rows].shape
        expected = array[rows]
        if array.dtype == object:
            expected = np.vectorize(str.encode, otypes=[object])(expected)
        assert found[name].tolist() == expected.tolist()
    assert shard.dataset(slice(0, 5)).equals(data.take(slice(4, 9)))
    assert shard.columns["features/pairs"][2:4].shape == (2, 2)


def test_texts_of_shards_are_read_and_sent_to_other_workers(tmp_path):
    with ShardWriter(tmp_path / "s", worker=0) as writer:
        writer.append(DataSet(["", ""]))
    assert Shard(tmp_path / "s").gather(np.arange(2))["features/features"].tolist() == [b"", b""]
    data = hard().take(slice(1, 4))
    with ShardWriter(tmp_path / "t", worker=0) as writer:
        writer.append(data)
    rows = Shard(tmp_path / "t").gather(np.arange(3))
    assert DataSet.from_columns(sent(rows, own_code=False)).equals(DataSet.from_columns(rows))


def test_sending_arrays_of_other_objects_raises():
    with pytest.raises(TypeError, match="numbers, text or times"):
        sent(np.array([object()]), own_code=True)


def test_normalizers_do_not_change_texts():
    data = DataSet({"t": ["a", "b"], "n": [[1.0], [3.0]]})
    for normalizer in (sw.data.Standardize.fit(data), sw.data.ImageScale()):
        seen = normalizer.transform(data)
        assert seen.features["t"].tolist() == ["a", "b"]
        assert seen.features["n"].tolist() != [[1.0], [3.0]]
    with pytest.raises(sw.DataError, match=r"numeric inputs of the data, \['n'\]"):
        sw.data.Standardize.fit(data, columns={"t": None})
    fitted = sw.data.Standardize.fit(DataSet({"t": [[1.0], [3.0]]}))
    with pytest.raises(sw.DataError, match="requires numbers\\. Received: features 't' of text"):
        fitted.transform(DataSet({"t": ["a", "b"]}))


CSV = "review,age,stars\ngood film,3,1\nbad,4,0\n,5,1\n"
OPTIONS = {
    "features": {"review": "review", "age": "age"},
    "labels": "stars",
    "classes": 2,
    "text": ["review"],
    "missing": "skip",
}


@cases("ending", "csv", "parquet")
def test_text_columns_of_tables_stay_text(tmp_path, ending):
    path = tmp_path / f"reviews.{ending}"
    if ending == "csv":
        path.write_text(CSV)
        table = sw.data.read_csv(path, **OPTIONS)
    else:
        import pyarrow.parquet as pq

        columns = {"review": ["good film", "bad", None], "age": [3, 4, 5], "stars": [1, 0, 1]}
        pq.write_table(pa.table(columns), path)
        table = sw.data.read_parquet(path, **OPTIONS)
    assert table.data.features["review"].tolist() == [["good film"], ["bad"]]
    assert table.data.features["age"].tolist() == [[3.0], [4.0]]
    assert table.skipped.total == 1
    assert table.schema.text == ("review",)
    assert table.schema.feature_names("review") == ("review",)
    assert sw.data.TableSchema.from_dict(table.schema.to_dict()) == table.schema
    again = getattr(sw.data, f"read_{ending}")(path, schema=table.schema)
    assert again.data.equals(table.data)


@cases(
    "options, error, message",
    ({"features": None}, sw.ConfigurationError, "either text or numbers. Received: both"),
    ({"text": ["stars"]}, sw.ConfigurationError, "`text` must name feature columns"),
    ({"text": ["none"]}, sw.ConfigurationError, "`text` must select existing columns"),
    ({"missing": "error"}, sw.DataError, "line 4: column 'review' must hold a value"),
    ({"text": ()}, sw.DataError, "must hold numbers. Received: 'good film'.*`text`"),
)
def test_columns_not_convertible_to_text_raise(tmp_path, options, error, message):
    (tmp_path / "reviews.csv").write_text(CSV)
    with pytest.raises(error, match=message):
        sw.data.read_csv(tmp_path / "reviews.csv", **OPTIONS | options)


def test_text_arrays_are_not_copied():
    array = np.array(["a"], object)
    assert as_texts("t", array) is array
