import os
import random

import pytest

from sparkwright.storage.files import (
    absolute,
    exists,
    is_folder,
    is_on_this_machine,
    join,
    move_files,
    open_file,
    open_to_read,
    read_bytes,
    remove,
    remove_empty_folder,
    remove_tree,
    system_of,
    write_atomically,
    write_bytes,
    write_folder,
)
from sparkwright.storage.listing import list_entries, list_files, list_folder

# The S3 server's own libraries warn.
pytestmark = pytest.mark.filterwarnings("default")


def put(url, content=b"content"):
    with write_atomically(url) as file:
        file.write(content)
    return url


def below(url, **options):
    """What follows `url` in the names of its files -> their content."""
    return {
        file.url.removeprefix(url).lstrip("/"): read_bytes(file.url)
        for file in list_files(url, **options)
    }


def test_files_round_trip(store):
    url = put(f"{store}/a/b", b"12345")
    assert read_bytes(url) == b"12345"
    write_bytes(url, b"678")
    assert read_bytes(url) == b"678"
    with open_file(url) as file:
        assert file.read() == b"678"
    assert list_entries(f"{store}/a") == ["b"]
    for empty in (put(f"{store}/empty", b""), f"{store}/nothing"):
        write_bytes(empty, b"")
        assert read_bytes(empty) == b""
    assert list_folder(store) == ["empty", "nothing"]


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failed_write_block_changes_nothing(store, error):
    put(f"{store}/file", b"old")

    def write_half(name):
        with write_atomically(f"{store}/{name}") as file:
            file.write(b"half" * 3_000_000)
            raise error

    for name in ("file", "other"):
        with pytest.raises(type(error)):
            write_half(name)
    assert list_entries(store) == ["file"]
    assert read_bytes(f"{store}/file") == b"old"


@pytest.mark.parametrize("name", ["a b", "ä€", "a[1]", "a#b", "a%20b", "a+b&c=d", "x" * 200])
def test_names_are_used_unchanged(store, name):
    put(f"{store}/{name}", b"1")
    assert list_folder(store) == [name]
    assert read_bytes(f"{store}/{name}") == b"1"
    assert [file.url for file in list_files(f"{store}/{name}")] == [f"{store}/{name}"]


def test_existing_and_missing_paths_are_distinguished(store):
    put(f"{store}/a/b")
    assert exists(f"{store}/a")
    assert exists(f"{store}/a/b")
    assert is_folder(f"{store}/a")
    assert not is_folder(f"{store}/a/b")
    assert not exists(f"{store}/a/c")
    assert not exists(f"{store}/a/b/c")
    assert not is_folder(f"{store}/a/b/c")


def test_reading_a_missing_file_raises_with_the_url(store):
    put(f"{store}/a")
    url = f"{store}/not here"
    for read in (read_bytes, open_file, lambda url: open_to_read(url).__enter__(), list_files):
        with pytest.raises(FileNotFoundError, match="not here does not exist"):
            read(url)
    with pytest.raises(FileNotFoundError, match=r"no file matches .*/\*\.csv"):
        list_files(f"{store}/*.csv")
    assert list_entries(url) == list_folder(url) == []


def test_listing_is_sorted_and_excludes_hidden_files(store):
    for name in ("b.csv", "a.CSV", "deep/er/c.csv", "d.txt", "_tmp/e.csv", ".f.csv", "_SUCCESS"):
        put(f"{store}/{name}", name.encode())
    assert list(below(store)) == ["a.CSV", "b.csv", "d.txt", "deep/er/c.csv"]
    assert all(name.encode() == content for name, content in below(store).items())
    assert list(below(store, extensions=["csv"], recursive=False)) == ["a.CSV", "b.csv"]
    sizes = {file.url.rpartition("/")[2]: file.size_bytes for file in list_files(store)}
    assert sizes["b.csv"] == 5
    assert list_entries(store) == [
        *(".f.csv", "_SUCCESS", "_tmp/", "a.CSV", "b.csv", "d.txt", "deep/")
    ]


def test_patterns_find_matching_files(store):
    for name in ("part-0.csv", "part-1.csv", "part-10.csv", "_SUCCESS", "x/y/part-2.csv"):
        put(f"{store}/{name}")

    def found(pattern):
        return [file.url.removeprefix(f"{store}/") for file in list_files(f"{store}/{pattern}")]

    assert found("*.csv") == ["part-0.csv", "part-1.csv", "part-10.csv"]
    assert found("part-?.csv") == ["part-0.csv", "part-1.csv"]
    assert found("part-[1-9]*.csv") == ["part-1.csv", "part-10.csv"]
    assert found("**/*.csv") == ["part-0.csv", "part-1.csv", "part-10.csv", "x/y/part-2.csv"]
    assert found("x/*/part-*") == ["x/y/part-2.csv"]
    assert found("_S*") == ["_SUCCESS"]


def test_file_version_changes_with_its_content(store):
    put(f"{store}/a", b"1")
    (before,) = list_files(store)
    assert before.version
    assert list_files(store) == [before]
    put(f"{store}/a", b"22")
    (after,) = list_files(store)
    assert after != before
    assert after.size_bytes == 2


def test_files_and_folders_are_removed_and_missing_ones_ignored(store):
    for name in ("a", "b", "c/d/e"):
        put(f"{store}/{name}")
    for _ in range(2):
        remove(f"{store}/a")
        remove_tree(f"{store}/c")
        assert list_entries(store) == ["b"]
    for _ in range(2):
        remove_empty_folder(store)  # which it is not
        assert read_bytes(f"{store}/b") == b"content"
    for _ in range(2):
        remove_tree(store)
        assert not exists(store)
    put(f"{store}/a/b")
    remove(f"{store}/a/b")
    for _ in range(2):
        remove_empty_folder(f"{store}/a")
        assert list_entries(store) == []


def test_folder_replaces_another(store):
    for name in ("a", "b"):
        put(f"{store}/out/{name}", b"old")
    with write_folder(f"{store}/out") as new:
        put(join(new, "b"), b"new")
        put(join(new, "deep/c"), b"new")
        assert below(f"{store}/out") == {"a": b"old", "b": b"old"}
        assert list(below(store)) == ["out/a", "out/b"]
    assert below(f"{store}/out") == {"b": b"new", "deep/c": b"new"}
    assert list_entries(store) == ["out/"]
    with write_folder(f"{store}/second") as new:
        put(join(new, "a"))
    assert list_entries(store) == ["out/", "second/"]


def test_old_folder_is_kept_if_the_block_fails(store):
    put(f"{store}/out/a", b"old")
    with pytest.raises(ValueError, match="block"), write_folder(f"{store}/out") as new:  # noqa: PT012
        put(join(new, "b"))
        raise ValueError("block")
    assert list_entries(store) == ["out/"]
    assert below(store) == {"out/a": b"old"}


def test_files_are_moved_over_existing_files(store):
    for name in ("from/a", "from/b", "to/b", "to/c"):
        put(f"{store}/{name}", name.encode())
    move_files(["a", "b"], f"{store}/from", f"{store}/to")
    assert below(store) == {"to/a": b"from/a", "to/b": b"from/b", "to/c": b"to/c"}


def test_large_file_is_read_from_any_position(store):
    content = random.Random(0).randbytes(11 << 20)
    url = f"{store}/large"
    with write_atomically(url) as file:
        for start in range(0, len(content), 3_000_000):
            file.write(content[start : start + 3_000_000])
    assert read_bytes(url) == content
    chance = random.Random(1)
    with open_to_read(url) as file:
        assert file.seekable()
        for _ in range(20):
            start, size = chance.randrange(len(content)), chance.choice([1, 100, 70_000, 5_000_000])
            assert file.seek(start) == start
            assert file.read(size) == content[start : start + size]
            assert file.tell() == min(start + size, len(content))
        assert file.seek(-7, os.SEEK_END) == len(content) - 7
        assert file.read() == content[-7:]
        assert file.read(1) == b""


def test_urls_keep_their_form(store):
    put(f"{store}/a")
    assert absolute(f"{store}/") == store
    assert [file.url for file in list_files(f"{store}/")] == [f"{store}/a"]
    assert is_on_this_machine(store) == (store[0] == "/" or store.startswith("file:"))
    system, path = system_of(f"{store}/a")
    assert system.cat_file(path, start=1, end=3) == b"on"
