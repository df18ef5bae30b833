import datetime
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import sparkwright as sw
from sparkwright.data import _columnar as parquet_files
from sparkwright.data._columnar import ColumnarReader, open_arrow, open_parquet
from sparkwright.data._table_source import datasets_of
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import list_files

ROWS = 500
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=ROWS),
        "b": RNG.integers(-5, 5, ROWS),
        "flag": RNG.random(ROWS) < 0.5,
        "color": RNG.choice(["red", "green", "blue"], ROWS),
        "vector": list(RNG.normal(size=(ROWS, 3)).astype(np.float32)),
        "kind": RNG.integers(0, 4, ROWS),
    }
)


def to_parquet(table, path):
    pq.write_table(table, path, row_group_size=64)


def to_file(table, path):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=64)


def to_stream(table, path):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=64)


def to_feather(table, path):
    feather.write_feather(table, str(path), compression="zstd", chunksize=64)


FORMATS = [
    pytest.param((to_parquet, "x.parquet"), id="parquet"),
    pytest.param((to_file, "x.arrow"), id="file"),
    pytest.param((to_stream, "x.arrows"), id="stream"),
    pytest.param((to_feather, "x.feather"), id="feather"),
]


class Saver:
    """Writes tables as files of one format."""

    def __init__(self, write, name, folder):
        self.write, self.name, self.folder = write, name, folder

    def __call__(self, content, prefix=""):
        path = self.folder / f"{prefix}{self.name}"
        self.write(table(content), path)
        return str(path)


@pytest.fixture(params=FORMATS)
def save(request, tmp_path):
    return Saver(*request.param, tmp_path)


def table(content):
    if isinstance(content, pd.DataFrame):
        return pa.Table.from_pandas(content, preserve_index=False)
    return pa.table(content)


def read(url, **options):
    first = url if isinstance(url, str) else url[0]
    reader = sw.data.read_parquet if first.endswith("parquet") else sw.data.read_arrow
    return reader(url, **options)


def test_columns_match_pandas(save):
    url = save(FRAME)
    found = read(url, labels="kind", classes=4, categories={"color": "infer"})
    colors = pd.get_dummies(FRAME["color"], dtype=np.float32)
    expected = np.column_stack(
        [FRAME[["a", "b", "flag"]].astype(np.float32), colors, np.stack(list(FRAME["vector"]))]
    )
    np.testing.assert_array_equal(found.data.features["features"], expected)
    np.testing.assert_array_equal(found.data.labels["labels"], FRAME["kind"].astype(np.int32))
    assert found.schema.categories == {"color": ("blue", "green", "red")}
    assert found.schema.feature_names()[-4:] == (
        "color=red",
        *(f"vector[{index}]" for index in range(3)),
    )


def test_single_array_column_keeps_its_shape(save):
    images = RNG.normal(size=(ROWS, 2, 3)).astype(np.float32)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(images.reshape(-1)), 6)
    content = {
        "nested": pa.array([[list(row) for row in image] for image in images.tolist()]),
        "fixed": flat,
        "tensor": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), (2, 3)), flat),
        "large": pa.array(images.reshape(ROWS, 6).tolist(), pa.large_list(pa.float64())),
        "n": pa.array(range(ROWS)),
    }
    url = save(content)
    found = read(
        url,
        features={"x": "nested", "y": "tensor", "z": ["n", "fixed"]},
        labels={"sum": "n", "target": "large"},
    ).data
    np.testing.assert_array_equal(found.features["x"], images)
    np.testing.assert_array_equal(found.features["y"], images)
    np.testing.assert_array_equal(found.features["z"][:, 1:], images.reshape(ROWS, 6))
    np.testing.assert_array_equal(found.labels["target"], images.reshape(ROWS, 6))


def test_nulls_and_nan_are_missing(save):
    content = {
        "a": pa.array([1.0, None, 3.0, float("nan"), 5.0]),
        "n": pa.array([1, 2, None, 4, 5]),
        "s": pa.array(["x", "y", "x", "y", None]),
    }
    url = save(content)
    filled = read(url, features=["a", "n"], missing=-1).data.features["features"]
    assert filled.tolist() == [[1, 1], [-1, 2], [3, -1], [-1, 4], [5, 5]]
    kept = read(url, labels="s", classes="infer", missing="skip")
    assert kept.data.features["features"].tolist() == [[1, 1]]
    assert kept.skipped.counts == {"missing value": 4}
    with pytest.raises(sw.DataError, match=rf"{save.name}, row 2: column 'a' must hold a value"):
        read(url, features=["a", "n"])


def test_number_replaces_missing_values_in_arrays(save):
    vectors = [[1, None], [3, 4], None, [float("nan"), 6]]
    kinds = {
        "list": pa.array(vectors, pa.list_(pa.float64())),
        "fixed": pa.array(vectors, pa.list_(pa.float32(), 2)),
        "nested": pa.array([v and [v] for v in vectors], pa.list_(pa.list_(pa.float64()))),
    }
    url, filled = save({**kinds, "n": [1, 2, 3, 4]}), [[1, -1], [3, 4], [-1, -1], [-1, 6]]
    for kind in kinds:
        alone = read(url, features=kind, missing=-1).data.features["features"]
        np.testing.assert_array_equal(alone.reshape(4, 2), filled)
        beside = read(url, features=["n", kind], missing=-1).data.features["features"]
        np.testing.assert_array_equal(beside[:, 1:], filled)
        kept = read(url, features=kind, missing="skip")
        assert kept.data.features["features"].tolist() in ([[3, 4]], [[[3, 4]]])
        assert kept.skipped.counts == {"missing value": 3}
        with pytest.raises(sw.DataError, match=r"row 1: column '.*' must hold a value"):
            read(url, features="n", labels=kind, missing=-1)


def test_no_number_replaces_an_array_of_another_shape(save):
    url = save({"v": [[1.0, 2.0], [3.0, None, 5.0], [6.0, None]]})
    found = read(url, missing=0, on_error="skip")
    assert found.data.features["features"].tolist() == [[1, 2], [6, 0]]
    assert found.skipped.counts == {"array of another shape": 1}


def test_shapes_come_from_the_first_arrays_of_any_file(save):
    kind = pa.list_(pa.float32())
    shapes = [
        {"u": [[1, 2]], "v": [None], "w": [[]]},
        {"u": [[3, 4, 5]], "v": [[6, 7]], "w": [[]]},
        {"u": [], "v": [], "w": []},
    ]
    urls = []
    for index, content in enumerate(shapes):
        arrays = {n: pa.array(v, kind) for n, v in content.items()}
        urls.append(save(arrays, f"{index}_"))
    found = read(urls, features=["u", "v"], missing=0, on_error="skip")
    assert found.schema.shapes == {"u": (2,), "v": (2,)}
    assert found.data.features["features"].tolist() == [[1, 2, 0, 0]]
    assert found.skipped.counts == {"array of another shape": 1}


def test_numbers_of_every_width_become_float32(save):
    kinds = ["int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64"]
    values = np.arange(5)
    content = {kind: pa.array(values.astype(kind)) for kind in kinds}
    content["decimal"] = pa.array([str(value) for value in values]).cast(pa.decimal128(5, 2))
    if save.write is to_parquet:
        content["float16"] = content["float16"].cast(pa.float32())
    url = save(content)
    found = read(url).data.features["features"]
    np.testing.assert_array_equal(found, np.repeat(values[:, None], 10, axis=1).astype(np.float32))
    assert found.dtype == np.float32


def test_classes_are_used_dictionary_values_or_integers(save):
    kinds = pd.Categorical(["u", "w", "u"], categories=["zzz", "w", "u"])
    url = save(pd.DataFrame({"x": [1, 2, 3], "kind": kinds}))
    found = read(url, labels="kind", classes="infer")
    assert found.schema.class_names == {"labels": ("u", "w")}
    assert found.data.labels["labels"].tolist() == [0, 1, 0]
    url = save({"x": [1, 2, 3], "kind": [30, 5, 30]})
    found = read(url, labels="kind", classes="infer")
    assert found.schema.class_names == {"labels": ("5", "30")}
    assert found.data.labels["labels"].tolist() == [1, 0, 1]
    named = read(url, labels="kind", classes=[30, 5]).data
    assert named.labels["labels"].tolist() == [0, 1, 0]


def reader_of(save, url):
    opener = open_parquet if save.write is to_parquet else open_arrow
    return ColumnarReader.of(list_files(url), opener)


BAD = [
    ("class out of range", {"labels": "kind", "classes": 3}, "row 3: .* from 0 to 2. Received: 7"),
    ("unknown class", {"labels": "s", "classes": ["x"]}, "row 3: .* one of 'x'. Received: 'y'"),
    ("not a finite number", {"features": "a"}, "row 3: column 'a' must hold finite .* inf"),
    ("array of another shape", {"features": "v"}, r"row 3: .* shape \[2\]. Received: \[5.0\]"),
]


@pytest.mark.parametrize(("reason", "options", "message"), BAD, ids=[case[0] for case in BAD])
def test_invalid_rows_are_named_or_counted(reason, options, message, save):
    content = {
        "a": [1.0, 2.0, float("inf"), 4.0],
        "kind": [0, 1, 7, 2],
        "s": ["x", "x", "y", "x"],
        "v": [[1.0, 2.0], [3.0, 4.0], [5.0], [6.0, 7.0]],
    }
    url = save(content)
    options = {"features": "kind", **options}
    with pytest.raises(sw.DataError, match=f"{save.name}, {message}"):
        read(url, **options)
    found = read(url, on_error="skip", **options)
    assert len(found.data) == 3
    assert found.skipped.counts == {reason: 1}


@pytest.mark.parametrize("damage", ["cut short", "empty", "text"])
def test_a_damaged_file_is_named_or_counted(damage, save):
    good, bad = Path(save(FRAME)), Path(save(FRAME, "bad_"))
    whole = good.read_bytes()
    contents = {"cut short": whole[: len(whole) // 2], "empty": b"", "text": b"a,b\n1,2\n" * 99}
    bad.write_bytes(contents[damage])
    options = {"features": ["a", "vector"]}
    with pytest.raises(sw.DataError, match=f"bad_{save.name}"):
        read([str(good), str(bad)], **options)
    for urls in ([str(good), str(bad)], [str(bad), str(good)]):
        found = read(urls, on_error="skip", **options)
        assert found.skipped.counts == {"unreadable file": 1}
        assert len(found.data) >= ROWS
    with pytest.raises(sw.DataError, match=f"bad_{save.name}"):
        read(str(bad), **options)


def test_a_damaged_part_of_a_large_file_is_counted(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(table({"a": np.arange(400.0)}), path, row_group_size=100, use_dictionary=False)
    offset = pq.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[offset : offset + 40] = b"\xff" * 40
    path.write_bytes(content)
    files = list_files(str(path))
    schema = read(str(path), on_error="skip").schema
    reader = ColumnarReader.of(files, open_parquet).taking(schema.used, schema.texts)
    pieces = reader.pieces(files, 100)
    assert len(pieces) == 4
    log = SkipLog("skip")
    found = [d for piece in pieces for d in datasets_of(piece, log, reader, schema)]
    kept = np.concatenate([part.features["features"][:, 0] for part in found])
    np.testing.assert_array_equal(kept, [*range(200), *range(300, 400)])
    assert log.skipped.counts == {"unreadable part of a file": 1}
    with pytest.raises(sw.DataError, match=r"x\.parquet"):
        list(datasets_of(pieces[2], SkipLog("raise"), reader, schema))


def test_memory_does_not_grow_with_row_groups(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    pq.write_table(table({"a": RNG.normal(size=500_000)}), path, use_dictionary=False)
    sizes = []

    class Recorded(io.FileIO):
        def read(self, size=-1, /):
            found = super().read(-1 if size is None else size)
            sizes.append(len(found or b""))
            return found or b""

    monkeypatch.setattr(parquet_files, "open_to_read", lambda url: Recorded(url))
    with open_parquet(str(path)) as opened:
        assert sum(t.num_rows for _, _, t in opened.tables(["a"], None)) == 500_000
    assert sum(sizes) > 4_000_000
    assert max(sizes) <= 1 << 20


def test_columns_of_another_type_raise_with_the_file(save):
    url = save(FRAME)
    with pytest.raises(sw.DataError, match=f"{save.name}: column 'color' must hold numbers"):
        read(url, features=["a", "color"])
    with pytest.raises(sw.DataError, match=f"{save.name}: column 'a' must hold text, integers"):
        read(url, features="b", labels="a", classes=["x"])


def test_files_with_different_columns_raise(save):
    first, second = save({"a": [1], "b": [2]}), save({"a": [3], "c": [4]}, "other_")
    with pytest.raises(sw.DataError, match=f"other_{save.name}: all files must have the columns"):
        read([first, second])
    found = read([first, second], on_error="skip")
    assert found.skipped.counts == {"unfit file": 1}
    schema = read(first, features="a").schema
    again = read([first, second], schema=schema).data
    assert again.features["features"].tolist() == [[1], [3]]


def test_error_in_part_of_a_large_file_names_the_row(save):
    kinds = np.zeros(ROWS, np.int64)
    kinds[330] = 9  # the eleventh row of the sixth part
    path = save({"x": np.arange(ROWS), "kind": kinds})
    schema = read(path, on_error="skip", labels="kind", classes=2).schema
    reader = reader_of(save, path).taking(schema.used, schema.texts)
    log = SkipLog("skip")
    pieces = reader.pieces(list_files(path), 2000)
    assert (len(pieces) > 1) == (save.write is not to_stream)
    parts = [d for piece in pieces for d in datasets_of(piece, log, reader, schema)]
    assert sum(len(part) for part in parts) == ROWS - 1
    batches = save.write in (to_file, to_feather)
    place = "record batch 6, row 11" if batches else "row 331"
    assert log.skipped.first[0].startswith(f"{path}, {place}: column 'kind'")


@pytest.mark.thorough
def test_remedies_for_vectors_and_times_work(spark, tmp_path):
    from pyspark.ml.linalg import Vectors
    from pyspark.sql import functions as F

    row = (Vectors.dense([1.0, 2.0]), datetime.datetime(2000, 1, 3, 12), datetime.date(2000, 1, 4))
    url, from_dataframe = str(tmp_path / "written"), sw.data.from_dataframe
    spark.createDataFrame([row], ["v", "t", "d"]).write.parquet(url)
    for name, expected in (("v", [[1, 2]]), ("t", [[2]]), ("d", [[3]])):
        with pytest.raises(sw.DataError) as caught:
            sw.data.read_parquet(url, features=name)
        remedy = re.search(r"`(from_dataframe.*…\))`", str(caught.value))[1]
        if "features" not in remedy:
            remedy = remedy.replace("…", f"features={name!r}")
        names = {"from_dataframe": from_dataframe, "spark": spark, "url": url, "F": F}
        found = eval(remedy.replace(", …", ""), names).collect()
        assert found.features["features"].tolist() == expected


@pytest.mark.thorough
def test_spark_reads_the_same_data_as_one_process(spark, tmp_path):
    for part in range(2):
        to_parquet(table(FRAME[part::2]), tmp_path / f"{part}.parquet")
    to_stream(table(FRAME), tmp_path / "x.arrows")
    options = {"labels": "kind", "classes": "infer", "categories": {"color": "infer"}}
    folder = str(tmp_path)
    parquet = sw.data.from_parquet(spark, folder, partitions=3, **options)
    arrow = sw.data.from_arrow(spark, folder, **options)
    for data, local in (
        (parquet, sw.data.read_parquet(folder, **options).data),
        (arrow, sw.data.read_arrow(folder, **options).data),
    ):
        found = data.collect().columns()
        for name, array in local.columns().items():
            np.testing.assert_array_equal(found[name], array)
        assert data.class_names == {"labels": ("0", "1", "2", "3")}
    assert parquet.schema == arrow.schema
