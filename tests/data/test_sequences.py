import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.data._sequence_reader import natural_key
from sparkwright.data._survey import Survey

LENGTHS = (3, 5, 2, 4)


def written(folder, name, lengths=LENGTHS, columns=3, seed=0):
    """A folder with a file for each length, named from 8 up so that 10 comes after 9."""
    random = np.random.default_rng(seed)
    (folder / name).mkdir()
    frames = [pd.DataFrame(random.normal(size=(n, columns)).round(4)) for n in lengths]
    for number, frame in enumerate(frames, start=8):
        frame.to_csv(folder / name / f"{number}.csv", header=False, index=False)
    return str(folder / name), [frame.to_numpy(np.float32) for frame in frames]


def texts(folder, name, *contents):
    (folder / name).mkdir()
    for number, content in enumerate(contents):
        (folder / name / f"{number}.csv").write_text(content)
    return str(folder / name)


def read(url, **options):
    """What `from_csv_sequences` does, on this machine alone."""
    return sw.data.read_csv_sequences(url, **options).data


def padded(arrays, length, *, at_end=False):
    """By NumPy, one at a time."""

    def one(array):
        missing = length - len(array)
        widths = [(missing, 0) if at_end else (0, missing), *[(0, 0)] * (array.ndim - 1)]
        return np.pad(array, widths)

    return np.stack([one(array) for array in arrays])


def masks(arrays, length, *, at_end=False):
    return padded([np.ones(len(a), np.bool_) for a in arrays], length, at_end=at_end)


def test_sequences_of_different_length_get_masks(spark, tmp_path):
    url, arrays = written(tmp_path, "x")
    data = sw.data.from_csv_sequences(spark, url, partitions=2)
    found = data.collect()
    np.testing.assert_array_equal(found.features["features"], padded(arrays, 5))
    np.testing.assert_array_equal(found.features_masks["features"], masks(arrays, 5))
    assert found.features["features"].dtype == np.float32
    assert data.rdd.getNumPartitions() == 2
    assert not found.labels
    again = sw.data.from_csv_sequences(spark, url, partitions=3)
    assert data.fingerprint == again.fingerprint
    longer = sw.data.from_csv_sequences(spark, url, length=6)
    assert longer.fingerprint != data.fingerprint


@pytest.mark.thorough
def test_many_small_files_become_few_spark_records(spark, tmp_path):
    names = ["up", "down"] * 300
    (tmp_path / "many").mkdir()
    for number, name in enumerate(names):
        (tmp_path / "many" / f"{number}.csv").write_text(f"{number},{name}\n{number},{name}\n")
    data = sw.data.from_csv_sequences(
        spark, str(tmp_path / "many"), labels="column_1", label_per="sequence", classes="infer"
    )
    assert data.rdd.count() == 4
    found = data.collect()
    np.testing.assert_array_equal(found.features["features"][:, 1, 0], np.arange(600))
    np.testing.assert_array_equal(found.labels["labels"], np.tile([1, 0], 300))
    assert data.class_names == {"labels": ("down", "up")}
    assert not found.features_masks  # all have two steps


@pytest.mark.thorough
def test_skipped_sequences_are_counted_and_do_not_set_the_length(spark, tmp_path):
    url = texts(tmp_path, "x", "1\n2\n", "1\n2\n3\nfour\n", "5\n6\n", "")
    data = sw.data.from_csv_sequences(spark, url, on_error="skip")
    assert data.collect().features["features"][:, :, 0].tolist() == [[1, 2], [5, 6]]
    assert data.skipped().counts == {"not a number": 1, "empty file": 1}
    # Files are read side by side, so only one that is at fault is sure to be the first.
    url = texts(tmp_path, "y", "1\n2\n", "1\n2\n3\nfour\n", "5\n6\n")
    with pytest.raises(sw.DataError, match=r"1\.csv, line 4"):
        sw.data.from_csv_sequences(spark, url)


@pytest.mark.thorough(but=["end"])
@pytest.mark.parametrize("align", ["start", "end"])
def test_padded_gives_all_chunks_one_length(spark, align):
    lengths = [2, 4, 4, 3, 1]
    arrays = [np.full((n, 2), n, np.float32) for n in lengths]
    parts = [sw.DataSet(a[None], np.full((1, len(a)), len(a), np.int32)) for a in arrays]
    data = sw.data.from_rdd(spark, spark.sparkContext.parallelize(parts, 2))
    found = data.padded(align=align).collect()
    at_end = align == "end"
    np.testing.assert_array_equal(found.features["features"], padded(arrays, 4, at_end=at_end))
    np.testing.assert_array_equal(found.features_masks["features"], masks(arrays, 4, at_end=at_end))
    np.testing.assert_array_equal(found.labels_masks["labels"], masks(arrays, 4, at_end=at_end))
    assert data.padded(6).collect().features["features"].shape == (5, 6, 2)
    same = sw.data.from_arrays(spark, np.ones((4, 3, 2)), np.ones((4, 3)))
    assert same.padded() is same
    with pytest.raises(sw.ConfigurationError, match="Set `names`"):
        same.padded(5)
    assert same.padded(5, names=["features"]).collect().features["features"].shape == (4, 5, 2)
    with pytest.raises(sw.DataError, match=r"4 steps\. Received: length=3"):
        data.padded(3)
    with pytest.raises(sw.ConfigurationError, match=r"Received: \['z'\]"):
        data.padded(names=["z"])


@pytest.mark.parametrize("align", ["start", "end"])
def test_labels_of_different_length_are_aligned(tmp_path, align):
    url, arrays = written(tmp_path, "x")
    labels_url, labels = written(tmp_path, "y", (4, 5, 1, 2), columns=2, seed=1)
    found = read(url, labels_url=labels_url, align=align)
    at_end = align == "end"
    np.testing.assert_array_equal(found.features["features"], padded(arrays, 5, at_end=at_end))
    np.testing.assert_array_equal(found.features_masks["features"], masks(arrays, 5, at_end=at_end))
    np.testing.assert_array_equal(found.labels["labels"], padded(labels, 5, at_end=at_end))
    np.testing.assert_array_equal(found.labels_masks["labels"], masks(labels, 5, at_end=at_end))


def test_equal_lengths_have_no_masks(tmp_path):
    url, arrays = written(tmp_path, "x", (4, 4))
    labels_url, labels = written(tmp_path, "y", (4, 4), columns=1, seed=2)
    found = read(url, labels_url=labels_url)
    np.testing.assert_array_equal(found.features["features"], arrays)
    np.testing.assert_array_equal(found.labels["labels"], [a[:, 0] for a in labels][:2])
    assert not found.features_masks
    assert not found.labels_masks


def test_labels_are_read_from_the_same_file(tmp_path):
    url, arrays = written(tmp_path, "x")
    found = read(url, labels=-1)
    np.testing.assert_array_equal(found.features["features"], padded([a[:, :2] for a in arrays], 5))
    np.testing.assert_array_equal(found.labels["labels"], padded([a[:, 2] for a in arrays], 5))
    np.testing.assert_array_equal(found.labels_masks["labels"], masks(arrays, 5))
    several = read(url, labels=[1, 2], features=["column_0", "column_1"])
    np.testing.assert_array_equal(several.labels["labels"], padded([a[:, 1:] for a in arrays], 5))
    assert several.features["features"].shape == (4, 5, 2)


def test_label_per_sequence_is_the_last_of_its_file(tmp_path):
    url, arrays = written(tmp_path, "x")
    found = read(url, labels="column_0", label_per="sequence")
    np.testing.assert_array_equal(found.labels["labels"], [a[-1, 0] for a in arrays])
    both = read(url, labels=["column_0", "column_1"], label_per="sequence")
    np.testing.assert_array_equal(both.labels["labels"], [a[-1, :2] for a in arrays])
    assert not both.labels_masks
    assert "features" in both.features_masks


def test_label_per_sequence_is_the_only_line_of_its_label_file(tmp_path):
    url, _ = written(tmp_path, "x")
    labels_url = texts(tmp_path, "y", "2\n", "0\n", "1\n", "2\n")
    found = read(url, labels_url=labels_url, label_per="sequence", classes=3, pair_by="order")
    assert found.labels["labels"].tolist() == [2, 0, 1, 2]
    assert found.labels["labels"].dtype == np.int32


def test_classes_of_each_step_are_read(tmp_path):
    url = texts(tmp_path, "x", "1,up\n2,down\n", "3,up\n", "4,level\n5,up\n")
    found = read(url, labels=1, classes=["up", "down", "level"])
    assert found.labels["labels"].tolist() == [[0, 1], [0, 0], [2, 0]]
    hot = read(url, labels="column_1", classes="infer", one_hot=True)
    assert hot.labels["labels"].shape == (3, 2, 3)
    assert hot.labels["labels"].dtype == np.float32
    names = ["down", "level", "up"]
    assert hot.labels["labels"][0].tolist() == np.eye(3)[[names.index("up"), 0]].tolist()
    assert not hot.labels["labels"][1, 1].any()  # padding belongs to no class
    listed = read(url, labels=["column_1"], classes="infer")
    assert listed.labels["labels"].shape == (3, 2, 1)


def test_header_lines_delimiter_and_quotes_are_read(tmp_path):
    url = texts(tmp_path, "x", '# a\n# b\nt;"x;y";z\n1;2;"3"\n\n4;5;6\r\n', "#\n#\nt;x;y\n")
    Path(url, "1.csv").write_text('# c\n# d\nt;"x;y";z\n7;8;9')
    found = read(url, header=True, skip_lines=2, delimiter=";", features=["x;y", "t"])
    expected = [
        pd.read_csv(Path(url, f"{i}.csv"), sep=";", skiprows=2)[["x;y", "t"]].to_numpy(np.float32)
        for i in range(2)
    ]
    np.testing.assert_array_equal(found.features["features"], padded(expected, 2))


def test_given_length_always_has_masks_and_truncates_on_request(tmp_path):
    url, arrays = written(tmp_path, "x")
    found = read(url, length=3, truncate=True)
    np.testing.assert_array_equal(found.features["features"], padded([a[:3] for a in arrays], 3))
    ends = read(url, length=3, truncate=True, align="end")
    np.testing.assert_array_equal(
        ends.features["features"], padded([a[-3:] for a in arrays], 3, at_end=True)
    )
    assert read(url, length=5).features_masks["features"].sum() == sum(LENGTHS)


def test_files_pair_by_name_in_natural_order(tmp_path):
    url, arrays = written(tmp_path, "x")
    labels_url, labels = written(tmp_path, "y", LENGTHS, columns=1, seed=3)
    for path in sorted(Path(labels_url).iterdir()):
        path.rename(path.with_suffix(".txt"))
    packed = Path(url, "8.csv")  # pairs with 8.txt, compressed or not
    packed.with_suffix(".csv.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    found = read(url, labels_url=f"{labels_url}/*.txt")
    np.testing.assert_array_equal(found.labels["labels"], padded([a[:, 0] for a in labels], 5))
    np.testing.assert_array_equal(found.features["features"], padded(arrays, 5))


def test_class_survey_stops_at_too_many_classes(monkeypatch):
    monkeypatch.setattr("sparkwright.data._survey.MOST_CLASSES", 5)
    parts = [Survey(classes={"y": frozenset(f"{i}{j}" for j in range(4))}) for i in range(9)]
    assert len((parts[0] + Survey()).classes["y"]) == 4
    assert len(sum(parts, Survey()).classes["y"]) == 8


@given(st.lists(st.integers(0, 10**12), unique=True))
def test_natural_order_sorts_numbers_by_value(numbers):
    names = [f"part{number}.csv" for number in numbers]
    assert sorted(names, key=natural_key) == [f"part{n}.csv" for n in sorted(numbers)]


@pytest.mark.thorough
@given(st.lists(st.integers(1, 7), min_size=1, max_size=9), st.integers(1, 200))
def test_chunk_size_does_not_change_the_examples(tmp_path_factory, lengths, at_once):
    url, arrays = written(tmp_path_factory.mktemp("some"), "x", lengths, columns=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sparkwright.data._sequence_reader.CHUNK_BYTES", at_once)
        found = read(url)
    np.testing.assert_array_equal(found.features["features"], padded(arrays, max(lengths)))
