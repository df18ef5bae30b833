"""Folders take the place of others when they are whole."""

from pathlib import Path

import pytest

import sparkwright as sw
from sparkwright.storage._files import join, read_bytes, remove_tree, write_bytes
from sparkwright.storage._folders import move_files, write_folder
from sparkwright.storage._listing import list_entries, list_files


def fill(url: str, **files: str) -> None:
    for name, content in files.items():
        write_bytes(join(url, name), content.encode())


def held(url: str) -> dict[str, bytes]:
    return {file.url.rpartition("/")[2]: read_bytes(file.url) for file in list_files(url)}


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path)
    remove_tree("memory://folders")
    return "memory://folders"


def test_a_folder_takes_the_place_of_another(place: str) -> None:
    url = join(place, "out")
    fill(url, a="old", b="old")
    with write_folder(url) as new:
        fill(new, b="new", c="new")
        assert held(url) == {"a": b"old", "b": b"old"}
        assert list(held(place)) == ["a", "b"]
    assert held(url) == {"b": b"new", "c": b"new"}
    assert list_entries(place) == ["out/"]


def test_a_folder_appears_where_nothing_or_nothing_but_a_folder_was(tmp_path: Path) -> None:
    tmp_path.joinpath("empty").mkdir()
    for name in ("none", "empty"):
        with write_folder(str(tmp_path / name)) as new:
            fill(new, a="new")
        assert held(str(tmp_path / name)) == {"a": b"new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "none"]


def test_the_old_folder_stays_if_the_block_fails(place: str) -> None:
    url = join(place, "out")
    fill(url, a="old")
    with pytest.raises(ValueError, match="block"), write_folder(url) as new:  # noqa: PT012
        fill(new, b="new")
        raise ValueError("block")
    assert held(url) == {"a": b"old"}
    assert list_entries(place) == ["out/"]


def test_the_old_folder_comes_back_if_the_new_one_cannot_be_moved(tmp_path: Path) -> None:
    url = str(tmp_path / "out")
    fill(url, a="old")
    with pytest.raises(FileNotFoundError, match="out"), write_folder(url):
        pass  # nothing was written that could take its place
    assert held(url) == {"a": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_link_goes_on_naming_the_folder(tmp_path: Path) -> None:
    tmp_path.joinpath("real").mkdir()
    tmp_path.joinpath("link").symlink_to(tmp_path / "real")
    with write_folder(str(tmp_path / "link")) as new:
        fill(new, a="new")
    assert tmp_path.joinpath("link").is_symlink()
    assert held(str(tmp_path / "real")) == {"a": b"new"}


def test_the_root_of_a_store_has_no_place_beside_it() -> None:
    with pytest.raises(sw.ConfigurationError, match="must lie within a store"), write_folder("/"):
        pass


def test_files_move_over_others_of_their_names(place: str) -> None:
    fill(join(place, "from"), a="new", b="new", c="new")
    fill(join(place, "to"), a="old", d="old")
    move_files(["a", "b"], join(place, "from"), join(place, "to"))
    assert held(join(place, "to")) == {"a": b"new", "b": b"new", "d": b"old"}
    assert held(join(place, "from")) == {"c": b"new"}
