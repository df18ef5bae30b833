from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.data.record_samples import assert_same, digits, read_records_of

import sparkwright as sw
from sparkwright.storage.listing import list_entries


class Format(NamedTuple):
    """A format of records: how its files are written and read by Spark."""

    write: Callable[..., int]
    from_files: Callable[..., Any]


FORMATS = {
    "SequenceFile": Format(sw.data.write_sequence_file, sw.data.from_sequence_file),
    "MapFile": Format(sw.data.write_map_file, sw.data.from_map_file),
}
each_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)


def parts(folder):
    return [name.rstrip("/") for name in list_entries(str(folder)) if not name.startswith("_")]


@each_format
@pytest.mark.parametrize("size", [None, 1, 30, 1000])
def test_examples_are_written_in_part_files(tmp_path, form, size):
    data = digits()
    for compression in (None, "record", "block"):
        folder = tmp_path / str(compression)
        options = {"examples_per_part": size, "compression": compression}
        assert form.write(data.batches(7), str(folder), **options) == 100
        numbers = [""] if size is None else [f"-{i:05d}" for i in range(-(-100 // size))]
        expected = [f"part-r-00000{number}" for number in numbers]
        assert parts(folder) == expected
        assert_same(read_records_of(folder), data)
        if size == 30:  # each part by itself
            ends = [*range(0, 100, 30), 100]
            for name, start, end in zip(expected, ends, ends[1:], strict=False):
                assert_same(read_records_of(folder / name), data.take(slice(start, end)))


@each_format
def test_sequences_of_different_lengths_stay_separate(tmp_path, form):
    sequences = [sw.DataSet(np.ones((2, steps, 3), np.float32), [0, 1]) for steps in (4, 4, 9)]
    form.write(sequences, str(tmp_path / "out"))
    found = read_records_of(tmp_path / "out", joined=False)
    assert [part.features["features"].shape for part in found] == [(4, 4, 3), (2, 9, 3)]


@each_format
def test_nonempty_folder_is_not_overwritten(tmp_path, form):
    url = str(tmp_path / "out")
    form.write(digits(3), url)
    with pytest.raises(sw.ConfigurationError, match=r"part-r-00000.*overwrite=True"):
        form.write(digits(5), url)
    assert form.write(digits(5), url, overwrite=True) == 5
    assert_same(read_records_of(tmp_path / "out"), digits(5))


@each_format
def test_invalid_examples_leave_nothing_behind(tmp_path, form):
    url = str(tmp_path / "out")
    with pytest.raises(sw.DataError, match="the same columns"):
        form.write([digits(5), sw.DataSet(np.zeros((2, 3)))], url, examples_per_part=7)
    with pytest.raises(sw.DataError, match="must have at least one example"):
        form.write([], url)
    assert list(tmp_path.iterdir()) == []


@each_format
def test_folder_can_be_rewritten_from_its_own_data(tmp_path, form):
    data, folder = digits(), tmp_path / "out"
    form.write(data.batches(7), str(folder), examples_per_part=30)
    found = (part for part in read_records_of(folder, joined=False))
    form.write(found, str(folder), compression="block", overwrite=True)
    assert len(parts(folder)) == 1
    assert_same(read_records_of(folder), data)
    assert list(tmp_path.iterdir()) == [folder]


@each_format
def test_folder_is_kept_if_writing_its_replacement_fails(tmp_path, form):
    folder, data = tmp_path / "out", digits()
    form.write(data, str(folder))

    def broken():
        yield digits(5)
        assert_same(read_records_of(folder), data)  # meanwhile
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        form.write(broken(), str(folder), examples_per_part=1, overwrite=True)
    assert_same(read_records_of(folder), data)
    assert list(tmp_path.iterdir()) == [folder]


@each_format
def test_missing_part_raises(tmp_path, form, monkeypatch):
    monkeypatch.setattr("sparkwright.data.paths.list_entries", lambda url: [])
    with pytest.raises(sw.DataError, match=r"1 of 1 missing \['part-r-00000"):
        form.write(digits(5), str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


@each_format
@pytest.mark.parametrize(
    "options",
    [{"examples_per_part": 0}, {"examples_per_part": 1.5}, {"max_files": 2}, {"compression": "x"}],
    ids=str,
)
def test_invalid_options_raise(tmp_path, form, options):
    with pytest.raises(sw.ConfigurationError, match=f"`{next(iter(options))}`"):
        form.write(digits(3), str(tmp_path / "out"), **options)


@pytest.mark.thorough(but=["MapFile"])
@each_format
def test_distributed_data_is_written_and_read_in_order(spark, tmp_path, form):
    local = digits(500)
    data = sw.data.from_arrays(
        spark, local.features, local.labels, weights=local.weights, partitions=3
    )
    cases = [
        ({}, 3),
        ({"max_files": 2, "compression": "block"}, 2),
        ({"examples_per_part": 90}, 6),  # two for each partition
    ]
    for options, count in cases:
        folder = tmp_path / str(count)
        assert form.write(data, str(folder), **options) == 500
        assert len(parts(folder)) == count
        again = form.from_files(spark, str(folder))
        assert_same(again.collect(), local)
        assert again.fingerprint is not None
        if form.write is sw.data.write_map_file:
            with sw.data.MapFileReader(str(folder)) as reader:
                assert_same(reader.take(np.arange(500)), local)
