import threading
from itertools import islice
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import (
    DataSet,
    MinibatchSource,
    _exported,
    from_bytes,
    paths as _paths,
    to_bytes,
)
from sparkwright.data._exported import NewExport, find_export
from sparkwright.data.loaders import MinibatchReader, read_ahead
from sparkwright.data.paths import equal_shares, find_files
from sparkwright.data.pieces import SkipLog


def numbered(rows, *, start=0):
    numbers = np.arange(start, start + rows, dtype=np.int32)
    return DataSet(numbers[:, None].astype(np.float32), numbers)


def read(where, **options):
    """What an executor makes of the files at `where`."""
    return list(sw.data.read_minibatches(where, **options))


def labels(parts):
    return [int(n) for part in parts for n in part.labels["labels"]]


@pytest.fixture(params=["file", "memory"])
def place(request, tmp_path):
    """A URL of a folder that is not there yet."""
    if request.param == "file":
        yield str(tmp_path / "export")
        return
    import fsspec

    yield f"memory://{tmp_path.name}/export"
    fsspec.filesystem("memory").store.clear()


def test_files_hold_exactly_a_minibatch_in_order(place, monkeypatch):
    monkeypatch.setattr("sparkwright.data.export._FILES_PER_FOLDER", 2)
    parts = numbered(23).batches(4)
    export = sw.data.to_minibatch_files(parts, place, batch_size=5)
    assert [file.examples for file in export.manifest.files] == [5, 5, 5, 5, 3]
    assert export.paths[4].endswith("part-00000/0002/minibatch-000004.arrow")
    assert sw.data.list_paths(place) == export.paths
    found = read(place)
    assert [len(part) for part in found] == [5, 5, 5, 5, 3]
    assert labels(found) == list(range(23))


def test_every_column_round_trips(place):
    random = np.random.default_rng(0)
    data = DataSet(
        {"left": random.random((7, 3, 2), dtype=np.float32), "right": random.random((7, 4)) > 0.5},
        {"kind": random.integers(0, 9, 7).astype(np.uint8), "size": random.random((7, 1))},
        features_masks={"left": np.ones((7, 3), bool)},
        labels_masks={"kind": np.ones(7, np.float32)},
        weights=random.random(7),
    )
    names = {"kind": ("a", "b")}
    export = sw.data.to_minibatch_files(data, place, batch_size=4, class_names=names)
    assert export.manifest.class_names == names
    found = DataSet.concatenate(read(export))
    assert found.layout == data.layout
    assert found.equals(data)


class Batches:
    """A length and items by number, without an IndexError behind the last one."""

    def __len__(self):
        return 3

    def __getitem__(self, number):
        return np.full((4, 2), number % 3, np.float32), np.full(4, number % 3)


@cases(
    "data, sizes, columns",
    ((np.zeros((9, 2)), np.zeros(9), np.ones(9)), [4, 4, 1], 3),
    (np.zeros((5, 2)), [4, 1], 1),
    ({"a": np.zeros((5, 2)), "b": np.zeros(5)}, [4, 1], 2),
    ([numbered(3), numbered(3)], [4, 2], 2),
    ((numbered(3), numbered(3)), [4, 2], 2),
    (iter([np.zeros((3, 2))] * 2), [4, 2], 1),
    (iter([({"a": np.zeros((2, 1))}, {"b": np.zeros(2)}, np.ones(2))] * 3), [4, 2], 3),
    (Batches(), [4, 4, 4], 2),
    ids=[
        *("weighted arrays", "features alone", "several inputs", "list of data sets"),
        *("tuple of data sets", "iterator of features", "iterator of dicts", "sequence of batches"),
    ],
)
def test_many_types_of_batches_are_accepted(data, sizes, columns, tmp_path):
    export = sw.data.to_minibatch_files(data, tmp_path / "e", batch_size=4)
    assert [file.examples for file in export.manifest.files] == sizes
    assert len(export.manifest.columns) == columns


def test_export_is_replaced_only_on_request(place):
    first = sw.data.to_minibatch_files(numbered(9), place, batch_size=5)
    with pytest.raises(sw.ConfigurationError, match="overwrite=True"):
        sw.data.to_minibatch_files(numbered(4), place, batch_size=5)
    assert labels(read(place)) == list(range(9))
    # Also by its own examples, which are read while they are written.
    own = iter(read(place))
    second = sw.data.to_minibatch_files(own, place, batch_size=2, overwrite=True)
    assert labels(read(place)) == list(range(9))
    assert first.manifest.folder != second.manifest.folder
    with pytest.raises(FileNotFoundError):
        MinibatchSource(first.paths[0]).read()


@cases(
    "name, content, written, deleted",
    ("thesis.txt", "x", "folder of its own.*thesis", "must be an export"),
    (".manifest.json.mine.tmp", "x", "folder of its own", "must be an export"),
    ("manifest.json", '{"name": "my-app"}', "another kind of JSON", "another kind of JSON"),
)
def test_other_files_at_the_url_are_kept(name, content, written, deleted, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(sw.ConfigurationError, match=written):
        sw.data.to_minibatch_files(numbered(4), tmp_path, batch_size=5)
    with pytest.raises(sw.ConfigurationError, match=deleted):
        sw.data.delete_export(tmp_path, unfinished=True)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def failing():
    yield numbered(12)
    raise KeyboardInterrupt


def test_interrupted_export_leaves_no_files(place):
    with pytest.raises(KeyboardInterrupt):
        sw.data.to_minibatch_files(failing(), place, batch_size=5)
    assert find_export(place) is None
    assert not sw.data.delete_export(place)
    assert sw.data.to_minibatch_files(numbered(9), place, batch_size=5).examples == 9
    with pytest.raises(KeyboardInterrupt):
        sw.data.to_minibatch_files(failing(), place, batch_size=5, overwrite=True)
    assert labels(read(place)) == list(range(9))


def test_files_of_a_killed_export_are_ignored_and_deletable(tmp_path):
    url = tmp_path / "export"
    with NewExport(str(url)) as killed:
        folder = Path(killed.folder) / "part-00000" / "0000"
        folder.mkdir(parents=True)
        (folder / "minibatch-000000.arrow").write_bytes(to_bytes(numbered(5)))
    (url / ".manifest.json.0123abcd.tmp").write_bytes(b'{"format"')
    with pytest.raises(sw.DataError, match=r"at least one file that ends in \.arrow"):
        read(url)
    assert sw.data.list_paths(url, recursive=True) == []
    with pytest.raises(sw.ConfigurationError, match="unfinished=True"):
        sw.data.delete_export(url)
    assert sw.data.delete_export(url, unfinished=True)
    assert not url.exists()


def test_unfinished_manifest_does_not_block_an_export(tmp_path):
    url = tmp_path / "export"
    sw.data.to_minibatch_files(numbered(9), url, batch_size=5)
    half = url / ".manifest.json.0123abcd.tmp"
    half.write_bytes(b'{"format"')
    sw.data.to_minibatch_files(numbered(4), url, batch_size=5, overwrite=True)
    assert labels(read(url)) == list(range(4))
    assert not half.exists()


@cases("fails", MemoryError, KeyboardInterrupt)
def test_cleanup_errors_do_not_hide_the_cause(fails, tmp_path, monkeypatch):
    monkeypatch.setattr(_exported, "remove_tree", Mock(side_effect=fails))
    with pytest.raises(KeyError, match="the cause"), NewExport(str(tmp_path / "e")):
        raise KeyError("the cause")


def test_deleting_removes_only_the_export(place):
    from sparkwright.storage.files import exists, join, write_bytes

    sw.data.to_minibatch_files(numbered(9), place, batch_size=5)
    write_bytes(join(place, "notes.txt"), b"mine")
    assert sw.data.delete_export(place)
    assert exists(join(place, "notes.txt"))
    assert find_export(place) is None
    with pytest.raises(sw.ConfigurationError, match="notes"):
        sw.data.delete_export(place)


def test_second_of_two_concurrent_exports_to_one_url_raises(place):
    def slow():
        yield numbered(3)
        sw.data.to_minibatch_files(numbered(9), place, batch_size=5)

    with pytest.raises(sw.ConfigurationError, match="finished"):
        sw.data.to_minibatch_files(slow(), place, batch_size=5)
    assert labels(read(place)) == list(range(9))


def test_minibatch_paths_are_accepted_in_every_form(tmp_path):
    for number in range(3):
        (tmp_path / f"b{number}.arrow").write_bytes(to_bytes(numbered(2, start=2 * number)))
    (tmp_path / "_hidden.arrow").write_bytes(b"")
    (tmp_path / "README").write_text("no minibatch")
    urls = [str(tmp_path / f"b{number}.arrow") for number in range(3)]
    (tmp_path / "paths.txt").write_text("\n".join(urls) + "\n\n")
    spark_text = tmp_path / "spark"
    spark_text.mkdir()
    (spark_text / "part-00000").write_text(urls[0] + "\n")
    (spark_text / "part-00001").write_text("\n".join(urls[1:]))
    (spark_text / "_SUCCESS").write_text("")
    for where in (
        tmp_path,
        str(tmp_path),
        f"file://{tmp_path}",
        str(tmp_path / "b*.arrow"),
        urls,
        tuple(map(Path, urls)),
        str(tmp_path / "paths.txt"),
        str(spark_text),
    ):
        assert labels(read(where)) == list(range(6)), where
    assert labels(read(urls[1])) == [2, 3]


def csv_loader(source):
    table = np.loadtxt(source.url, delimiter=",", ndmin=2)
    return DataSet(table[:, :1], table[:, 1])


@cases("name", "a.txt", "part-00000", "part-00000.txt")
def test_with_a_loader_text_files_are_data(name, tmp_path):
    (tmp_path / name).write_text("1,2\n3,4\n")
    for where in (tmp_path, tmp_path / name, f"{tmp_path}/*", f"{tmp_path}/{name[:2]}*[t0-9]"):
        assert labels(read(where, loader=csv_loader)) == [2, 4], where


def test_executors_check_the_first_existing_file(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("sparkwright.data.paths.is_local", lambda _: False)
    monkeypatch.setattr(_paths, "ask_executors", lambda _spark, url, _digest: asked.append(url))
    there, gone, folder = tmp_path / "a.arrow", tmp_path / "gone.arrow", tmp_path
    there.write_bytes(b"1")
    for paths in ([gone, folder, there, gone], [gone]):
        _paths.check_visible(None, *find_files(paths, ours=True).probes)
    assert asked == [str(there)]


def test_listing_filters_extensions_and_recurses_on_request(tmp_path):
    (tmp_path / "inner").mkdir()
    for name in ("b.CSV", "a.csv", "c.txt", "inner/d.csv", ".e.csv"):
        (tmp_path / name).write_text("")

    def names(**options):
        return [str(Path(p).relative_to(tmp_path)) for p in sw.data.list_paths(tmp_path, **options)]

    assert names() == ["a.csv", "b.CSV", "c.txt"]
    assert names(extensions=["csv"]) == ["a.csv", "b.CSV"]
    assert names(extensions=[".csv"], recursive=True) == ["a.csv", "b.CSV", "inner/d.csv"]
    assert sw.data.list_paths(f"{tmp_path}/*.txt") == [f"{tmp_path}/c.txt"]


def test_relative_paths_have_the_fingerprint_of_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = to_bytes(numbered(2))
    Path("a.arrow").write_bytes(content)
    found = find_files(".", ours=True)
    assert found.files[0].url == str(tmp_path / "a.arrow")
    assert found.fingerprint == find_files(tmp_path, ours=True).fingerprint
    assert list(MinibatchReader().read(found.files, SkipLog("raise"))) == [content]
    Path("a.arrow").write_bytes(to_bytes(numbered(3)))
    assert find_files(tmp_path, ours=True).fingerprint != found.fingerprint
    assert find_files(["a.arrow"], ours=True).fingerprint is None


def test_part_of_a_file_is_read(tmp_path):
    export = sw.data.to_minibatch_files(numbered(10), tmp_path / "e", batch_size=4)
    reader = MinibatchReader(columns=export.manifest.columns)
    shares = equal_shares(find_files(export, ours=True).files, 2)
    parts = [[from_bytes(c) for c in reader.read(share, SkipLog("raise"))] for share in shares]
    assert [labels(part) for part in parts] == [list(range(5)), list(range(5, 10))]


@cases("save", np.savez, np.savez_compressed, ids=["plain", "compressed"])
def test_numpy_archives_load_exactly(tmp_path, save):
    features = np.asfortranarray(np.random.default_rng(0).random((5, 3, 2)))
    arrays = {"x": features, "y": np.arange(5), "sample_weight": np.ones(5)}
    save(tmp_path / "a.npz", **arrays, features_masks=np.ones((5, 3), bool))
    found = sw.data.numpy_loader(MinibatchSource(str(tmp_path / "a.npz")))
    np.testing.assert_array_equal(found.features["features"], features)
    np.testing.assert_array_equal(found.labels["labels"], np.arange(5))
    assert found.weights is not None
    assert list(found.features_masks) == ["features"]
    save(tmp_path / "a.npz", **{"features/left": np.zeros((2, 3)), "labels/kind": [0, 1]})
    found = sw.data.numpy_loader(MinibatchSource(str(tmp_path / "a.npz")))
    assert list(found.columns()) == ["features/left", "labels/kind"]


def test_custom_loader_opens_the_file(tmp_path):
    (tmp_path / "a.txt.csv").write_text("1,2,0\n3,4,1\n")

    def load(source):
        with source.open() as file:
            table = np.loadtxt(file, delimiter=",")
        return DataSet(table[:, :2], table[:, 2])

    parts = read(tmp_path, loader=load)
    assert labels(parts) == [0, 1]


def test_files_are_prefetched():
    begun = [threading.Event() for _ in range(10)]

    def work(number):
        begun[number].set()
        return 1 / (8 - number)

    results = read_ahead(range(10), work)
    assert next(results) == 1 / 8
    for event in begun[:4]:
        assert event.wait(30)
    assert not begun[6].is_set()
    assert list(islice(results, 7)) == [1 / n for n in range(7, 0, -1)]
    with pytest.raises(ZeroDivisionError):  # at its place; then no thread is left
        next(results)
    assert not [t for t in threading.enumerate() if t.name.startswith("sparkwright-read")]
