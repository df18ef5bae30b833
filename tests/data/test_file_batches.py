import io
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, strategies as st
from tests.data.pictures import folder_of_classes

import sparkwright as sw
from sparkwright.data import FileBatch, ImageBatchLoader, read_file_batch, write_file_batches
from sparkwright.data._file_batches import uri_of, uris_in, url_of
from sparkwright.data.loaders import MinibatchSource

paths = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).map(
    lambda text: f"/{text}"
)


@given(paths)
@example("///")
@example("//data/1.jpg")
def test_any_path_round_trips_as_a_uri(path):
    assert url_of(uri_of(path)) == url_of(uri_of(f"file://{path}")) == with_one_slash(path)
    assert not uri_of(path).startswith("file://")
    assert url_of(uri_of(f"s3://bucket{path}")) == f"s3://bucket{path}"
    assert "\n" not in uri_of(path)


def with_one_slash(path):
    """The path as URIs keep it."""
    return "/" + path.lstrip("/")


@given(st.lists(st.tuples(paths, st.binary(max_size=50)), min_size=1, max_size=9))
@example([("//", b"")])
def test_batch_round_trips_through_its_archive(files):
    urls, contents = zip(*files, strict=True)
    batch = FileBatch(uris=tuple(map(uri_of, urls)), contents=contents)
    archive = batch.to_bytes()
    assert FileBatch.from_bytes(archive) == batch
    assert batch.urls == tuple(map(with_one_slash, urls))
    assert uris_in(io.BytesIO(archive), "x") == list(batch.uris)
    assert batch.to_bytes() == archive  # no time of day in it


def test_archive_layout_is_an_index_and_numbered_files():
    uris = ("file:/d/a%20b.jpg", "hdfs://host:9000/c.PNG", "file:/noending", "file:/d.x/e.j%20g")
    archive = FileBatch(uris=uris, contents=(b"1", b"2", b"3", b"4")).to_bytes()
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        assert found.namelist() == [
            "originalUris.txt", "file_0.jpg", "file_1.PNG", "file_2.bin", "file_3.bin",
        ]  # fmt: skip
        assert found.read("originalUris.txt").decode() == "\n".join(uris)
        assert found.read("file_1.PNG") == b"2"
        # Java's streams take stored entries; and no time of day, so that equal files are equal.
        assert {entry.compress_type for entry in found.infolist()} == {zipfile.ZIP_STORED}
        assert {entry.date_time[0] for entry in found.infolist()} == {1980}


@pytest.mark.parametrize("index", ["file:/a.png\nfile:/b.png\n", "file:/a.png\r\nfile:/b.png"])
def test_archives_from_other_writers_are_read(index):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:  # the index comes last
        archive.writestr("file_1.png", b"two")
        archive.writestr("file_0", b"one")
        archive.writestr("originalUris.txt", index)
    batch = FileBatch.from_bytes(file.getvalue())
    assert batch.uris == ("file:/a.png", "file:/b.png")
    assert batch.contents == (b"one", b"two")


def test_every_file_is_packed_once_in_batches_of_the_given_size(tmp_path):
    folder = folder_of_classes(tmp_path / "in", each=5)
    written = write_file_batches(str(folder), str(tmp_path / "out"), batch_size=4)
    assert [Path(url).name for url in written] == [f"batch-00000{n}.zip" for n in range(3)]
    batches = [read_file_batch(url) for url in written]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    found = {u: c for b in batches for u, c in zip(b.urls, b.contents, strict=True)}
    assert found == {str(path): path.read_bytes() for path in folder.rglob("*.*")}
    order = [url for batch in batches for url in batch.urls]
    assert order != sorted(order)


def test_seed_determines_the_order_and_none_sorts(tmp_path):
    folder = folder_of_classes(tmp_path / "in", each=5)

    def order(name, seed):
        written = write_file_batches(str(folder), str(tmp_path / name), batch_size=3, seed=seed)
        return [url for one in written for url in read_file_batch(one).urls]

    assert order("a", 1) == order("b", 1) != order("c", 2)
    assert order("d", None) == sorted(map(str, folder.rglob("*.*")))


def test_extensions_and_depth_select_the_files(tmp_path):
    folder = folder_of_classes(tmp_path / "in")
    (folder / "notes.txt").write_text("not an image")
    cases = [*[({}, 7), ({"extensions": ["JPG"]}, 4), ({"recursive": False}, 1)]]
    for number, (options, count) in enumerate(cases):
        written = write_file_batches(str(folder), str(tmp_path / str(number)), **options)
        assert [len(read_file_batch(url)) for url in written] == [count]


def test_existing_batches_are_kept_without_overwrite(tmp_path):
    folder = folder_of_classes(tmp_path / "in")
    out = tmp_path / "out"
    write_file_batches(str(folder), str(out), batch_size=1)
    with pytest.raises(sw.ConfigurationError, match=r"with 6\. Use another folder"):
        write_file_batches(str(folder), str(out), batch_size=6)
    write_file_batches(str(folder), str(out), batch_size=6, overwrite=True)
    assert [path.name for path in out.iterdir()] == ["batch-000000.zip"]


@pytest.mark.parametrize("form", ["relative", "with a slash", "with a scheme"])
def test_batches_next_to_their_files_are_not_repacked(tmp_path, monkeypatch, form):
    folder = folder_of_classes(tmp_path / "in")
    monkeypatch.chdir(tmp_path)
    out = {"relative": "in", "with a slash": f"{folder}/", "with a scheme": f"file://{folder}"}
    for _ in range(2):
        written = write_file_batches(str(folder), out[form], overwrite=True)
        assert [len(read_file_batch(url)) for url in written] == [6]


def test_files_named_similarly_to_batches_are_packed_and_kept(tmp_path):
    folder = folder_of_classes(tmp_path)
    others = ["batch-1.jpg", "batch-holiday.zip", "batch-00001.zip"]
    for name in others:
        (folder / name).write_bytes(b"x")
    for _ in range(2):
        written = write_file_batches(str(folder), str(folder), overwrite=True)
        assert [len(read_file_batch(url)) for url in written] == [9]
    assert {path.name for path in folder.glob("batch-*")} == {*others, "batch-000000.zip"}


def test_failed_write_keeps_old_batches(tmp_path, monkeypatch):
    folder, out = folder_of_classes(tmp_path / "in"), tmp_path / "out"
    write_file_batches(str(folder), str(out), batch_size=2, seed=None)
    before = {path: path.read_bytes() for path in out.iterdir()}

    def breaks(url):
        if "dog" in url:
            raise OSError(f"{url} is lost")
        return Path(url).read_bytes()

    monkeypatch.setattr("sparkwright.data._image_batches.read_bytes", breaks)
    for target in (out, tmp_path / "new"):
        with pytest.raises(OSError, match="is lost"):
            write_file_batches(str(folder), str(target), batch_size=1, seed=None, overwrite=True)
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert not (tmp_path / "new").exists()


def test_missing_archive_raises(tmp_path, monkeypatch):
    @contextmanager
    def elsewhere(url):
        yield io.BytesIO()

    monkeypatch.setattr("sparkwright.data._image_batches.write_atomically", elsewhere)
    with pytest.raises(sw.DataError, match=r"1 of 1 missing \['batch-000000\.zip"):
        write_file_batches(str(folder_of_classes(tmp_path / "in")), str(tmp_path / "out"))


@pytest.mark.parametrize(
    "options", [{"batch_size": 0}, {"batch_size": 2.0}, {"batch_size": 10_000}, {"partitions": 0}]
)
def test_invalid_options_raise(tmp_path, options):
    folder_of_classes(tmp_path / "in")
    with pytest.raises(sw.ConfigurationError, match=next(iter(options))):
        write_file_batches(str(tmp_path / "in"), str(tmp_path / "out"), **options)


def test_loader_returns_one_data_set_per_archive(tmp_path):
    folder = folder_of_classes(tmp_path / "in")
    (url,) = write_file_batches(str(folder), str(tmp_path / "out"), seed=None)
    loader = ImageBatchLoader(size=(6, 7), classes=["cat", "dog"], scale=False)
    for source in (url, MinibatchSource(url)):
        found = loader(source)
        assert found.features["features"].shape == (6, 6, 7, 3)
        assert found.labels["labels"].tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(sw.ConfigurationError, match="`classes` must be given"):
        ImageBatchLoader(size=(6, 7))


def test_images_of_batches_equal_those_of_the_folder(spark, tmp_path):
    folder = folder_of_classes(tmp_path / "in", each=5, classes=("a cat", "dög"))
    written = write_file_batches(str(folder), str(tmp_path / "out"), batch_size=3, spark=spark)
    here = write_file_batches(str(folder), str(tmp_path / "here"), batch_size=3)
    for one, other in zip(written, here, strict=True):
        assert Path(one).read_bytes() == Path(other).read_bytes()
    options = {"size": (9, 9), "resize": "box"}
    data = sw.data.from_image_batches(spark, str(tmp_path / "out"), **options)
    assert data.class_names == {"labels": ("a cat", "dög")}
    found = data.collect()
    # The same seed has shuffled both.
    expected = sw.data.from_images(spark, str(folder), **options).collect()
    np.testing.assert_array_equal(found.features["features"], expected.features["features"])
    np.testing.assert_array_equal(found.labels["labels"], expected.labels["labels"])


def test_archives_are_minibatches_with_a_loader(spark, tmp_path):
    folder = folder_of_classes(tmp_path / "in", each=5)
    (folder / "cat/bad.png").write_bytes(b"hello")
    written = write_file_batches(str(folder), str(tmp_path / "out"), batch_size=4)
    classes = ["cat", "dog"]
    loader = ImageBatchLoader(size=(6, 7), classes=classes, on_error="skip")
    found = sw.data.from_minibatches(spark, written, loader=loader).collect()
    expected = sw.data.from_image_batches(
        spark, str(tmp_path / "out"), size=(6, 7), classes=classes, on_error="skip"
    ).collect()
    assert len(found) == 10
    np.testing.assert_array_equal(found.features["features"], expected.features["features"])
    np.testing.assert_array_equal(found.labels["labels"], expected.labels["labels"])


def test_java_reads_our_files_and_we_read_those_of_java(spark, tmp_path):
    jvm = spark.sparkContext._jvm
    paths = [str(tmp_path / name) for name in ("a b.png", "100%.png", "dög+;,=@&.png")]
    contents = [bytes(range(n, 256)) for n in range(3)]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)
    archive = tmp_path / "ours.zip"
    archive.write_bytes(
        FileBatch(uris=tuple(map(uri_of, paths)), contents=tuple(contents)).to_bytes()
    )
    stream = jvm.java.util.zip.ZipInputStream(jvm.java.io.FileInputStream(str(archive)))
    entries = {}
    while (entry := stream.getNextEntry()) is not None:
        entries[entry.getName()] = bytes(stream.readAllBytes())
    stream.close()
    uris = entries.pop("originalUris.txt").decode().split("\n")
    assert list(entries.items()) == [(f"file_{n}.png", c) for n, c in enumerate(contents)]
    for uri, path in zip(uris, paths, strict=True):
        assert jvm.java.io.File(jvm.java.net.URI(uri)).getPath() == path
    # What Java's streams write has its lengths behind the bytes, and é as it is in URIs.
    out = jvm.java.util.zip.ZipOutputStream(jvm.java.io.FileOutputStream(str(tmp_path / "j.zip")))
    theirs = [jvm.java.io.File(path).toURI().toString() for path in paths]
    for name, content in [("originalUris.txt", "\n".join(theirs).encode()), *entries.items()]:
        out.putNextEntry(jvm.java.util.zip.ZipEntry(name))
        out.write(bytearray(content))
    out.close()
    batch = read_file_batch(str(tmp_path / "j.zip"))
    assert batch.urls == tuple(paths)
    assert batch.contents == tuple(contents)
