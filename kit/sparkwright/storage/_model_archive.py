"""A saved model as one ZIP archive: Keras' files, then notes with the SHA-256 of each.

Keras can read these archives. Large members are stored uncompressed and copied in blocks, so no
model is held in memory.
"""

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError

from .archive import DAMAGE, Member, blocks_of, read_entry, write_members

NOTES = "sparkwright.json"
CONFIG = "config.json"
WEIGHTS = "model.weights.h5"
_WEIGHTS = (WEIGHTS, "model.weights.npz")
_FILES = ("metadata.json", CONFIG, *_WEIGHTS)
_ASSETS = "assets"
_LAYERS, _OPTIMIZER = "layers", "optimizer"
_MEANWHILE = "sparkwright_meanwhile"
_OF_THE_GRAPH = ("name", "inbound_nodes")
_BLOCK_BYTES = 1 << 22
_MAX_TEXT_BYTES = 256 << 20
# Keras stores members uncompressed, and no legitimate content has a higher compression ratio.
_MAX_EXPANSION, _ALWAYS_ALLOWED_BYTES = 100, 1 << 28


class _Outward:
    """A file without `seek`, so that `zipfile` writes the same bytes to every store."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, block: Any) -> int:
        self._file.write(block)
        return len(block)

    def flush(self) -> None:
        pass


def write_model_archive(
    file: BinaryIO, folder: Path, notes_of: Callable[[dict[str, str]], Mapping[str, Any]]
) -> None:
    """Write the files that Keras saved in `folder` to `file`, which need not be seekable.

    `notes_of`: SHA-256 of each member by name -> notes for JSON, which come last.
    """
    paths = [folder / name for name in _FILES if (folder / name).is_file()]
    paths += sorted(path for path in (folder / _ASSETS).rglob("*") if path.is_file())
    members = {
        path.relative_to(folder).as_posix(): Member(path.stat().st_size, partial(_blocks, path))
        for path in paths
    }

    def described(digests: dict[str, str]) -> str:
        return json.dumps(dict(notes_of(digests)), allow_nan=False)

    outward: Any = _Outward(file)
    write_members(outward, members, NOTES, described, zipfile.ZIP_DEFLATED)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as source:
        while block := source.read(_BLOCK_BYTES):
            yield block


def read_json_member(file: BinaryIO, url: str, name: str) -> dict[str, Any] | None:
    """Read a JSON object from the archive in `file`; None if the member is missing."""
    with opened(file, url) as archive:
        return _json_in(archive, url, name)


def read_text_members(file: BinaryIO, url: str) -> dict[str, dict[str, Any]]:
    """Read the notes or, without them, Keras' JSON members; return member -> JSON object."""
    with opened(file, url) as archive:
        notes = _json_in(archive, url, NOTES)
        if notes is not None and "about" in notes:
            return {NOTES: notes}
        names = (NOTES, "metadata.json", CONFIG)
        texts = {name: _json_in(archive, url, name) for name in names}
        if texts[CONFIG] is None:
            raise _no_model(url)
        return {name: text for name, text in texts.items() if text is not None}


def unpack_model(file: BinaryIO, url: str, folder: Path | None) -> dict[str, Any]:
    """Verify the archive in `file`, extract it if a folder is given, and return its notes."""
    with opened(file, url) as archive, ThreadPoolExecutor(1) as hashing:
        notes = _json_in(archive, url, NOTES) or {}
        entries = _checked(archive.infolist(), url)
        found: dict[str, str] = {}
        for entry in entries:
            target = None if folder is None else folder / PurePosixPath(entry.filename)
            try:
                found[entry.filename] = _unpack(archive, entry, target, hashing)
            except DAMAGE as error:
                raise damaged(url, f"{entry.filename}: {error}") from None
        _compare(digests_in(notes), found, url)
        return notes


def digests_in(notes: Mapping[str, Any]) -> dict[str, str]:
    """Return the SHA-256 of each member from the notes; empty if there are none."""
    about = notes.get("about")
    digests = about.get("digests") if isinstance(about, dict) else None
    return digests if isinstance(digests, dict) else {}


def digest_of_all(digests: Mapping[str, str]) -> str:
    """Return one SHA-256 for all members: the digest of `sha256sum` output sorted by name."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def opened(file: BinaryIO, url: str) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGE as error:
        raise damaged(url, str(error)) from None
    if any(entry.header_offset < 0 for entry in archive.infolist()):
        raise damaged(url, "a member begins before the file")
    return archive


def damaged(url: str, reason: str) -> DataError:
    return DataError(
        f"a model file must be complete and in the Keras format. Received: {url} ({reason}). "
        "Save the model again."
    )


def _no_model(url: str) -> DataError:
    return DataError(
        f"a model file must contain {CONFIG} and one of {', '.join(_WEIGHTS)}. Received: {url}, "
        "which does not. Use a file written by `save_model` or Keras."
    )


def _json_in(archive: zipfile.ZipFile, url: str, name: str) -> dict[str, Any] | None:
    try:
        if name not in archive.namelist():
            return None
        entry = archive.getinfo(name)
        if entry.file_size > _MAX_TEXT_BYTES:
            raise DataError(
                f"{name} in a model file must have at most {_MAX_TEXT_BYTES} bytes. Received: "
                f"{entry.file_size} in {url}. Check the path."
            )
        found: Any = strict_json(read_entry(archive, entry))
    except DataError:
        raise
    except DAMAGE as error:
        raise damaged(url, str(error)) from None
    if not isinstance(found, dict):
        raise DataError(
            f"{name} in a model file must be a dict. Received: a {type(found).__name__} in "
            f"{url}. Save the model again."
        )
    return found


def _checked(infos: list[zipfile.ZipInfo], url: str) -> list[zipfile.ZipInfo]:
    """Return the entries of Keras' files, in archive order; raise if they are invalid."""
    entries = [info for info in infos if _is_keras(info.filename) and not info.is_dir()]
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names):
        raise damaged(url, "two members have the same name")
    if CONFIG not in names or not any(name in names for name in _WEIGHTS):
        raise _no_model(url)
    packed = sum(entry.compress_size for entry in entries)
    allowed_bytes = max(_ALWAYS_ALLOWED_BYTES, _MAX_EXPANSION * packed)
    unpacked_bytes = sum(entry.file_size for entry in entries)
    if unpacked_bytes > allowed_bytes:
        raise DataError(
            f"a model file must unpack to at most {_MAX_EXPANSION} times its size. Received: "
            f"{url}, whose {packed} bytes would become {unpacked_bytes}. Check the path."
        )
    return sorted(entries, key=lambda entry: entry.header_offset)


def _is_keras(name: str) -> bool:
    parts = name.split("/")
    safe = all(part not in ("", ".", "..") for part in parts) and not set(name) & set("\\:\0")
    return name in _FILES or (parts[0] == _ASSETS and len(parts) > 1 and safe)


def _unpack(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path | None, hashing: Any
) -> str:
    """Write one member to `target`, if given; return its SHA-256."""
    digest = hashlib.sha256()
    hashed: Future[None] | None = None
    with contextlib.ExitStack() as files:
        file = None
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            file = files.enter_context(target.open("xb"))
        for block in blocks_of(archive, entry, _BLOCK_BYTES):
            if hashed is not None:
                hashed.result()  # holds at most two blocks in memory
            hashed = hashing.submit(digest.update, block)
            if file is not None:
                file.write(block)
    if hashed is not None:
        hashed.result()
    return digest.hexdigest()


def _compare(expected: Mapping[str, str], found: Mapping[str, str], url: str) -> None:
    if not expected:
        return
    for name in sorted({*expected, *found}):
        if name not in found:
            raise damaged(url, f"{name} is missing")
        if name not in expected:
            raise damaged(url, f"{name} was added later")
        if expected[name] != found[name]:
            raise damaged(url, f"{name} differs from its SHA-256")


# -- the normalizer as layers around the model: only the config and the names in the weights file
# change, and no weights are read or written


def put_normalizer_inside(folder: Path, outer: dict[str, Any], name: str) -> None:
    """Wrap the saved model in the one with the config `outer`, which has its variables."""
    config = json.loads((folder / CONFIG).read_text())
    if "compile_config" in config:
        outer["compile_config"] = config.pop("compile_config")
    entry = _entry(outer, name)
    kept = {key: entry[key] for key in _OF_THE_GRAPH}
    entry.clear()
    entry.update(config, **kept)
    (folder / CONFIG).write_text(json.dumps(outer))
    group = _group_of(entry)
    _move_weights(folder / WEIGHTS, group, inward=True)
    if any((folder / _ASSETS).glob("*")):
        (folder / _ASSETS).rename(folder / _MEANWHILE)
        (folder / _ASSETS / _LAYERS).mkdir(parents=True)
        (folder / _MEANWHILE).rename(folder / _ASSETS / _LAYERS / group)


def take_normalizer_out(folder: Path, name: str, url: str) -> None:
    """Restore exactly the files that `put_normalizer_inside` changed."""
    # Invalid content can raise many kinds of errors. None of the content is executed here.
    try:
        outer = json.loads((folder / CONFIG).read_text())
        entry = _entry(outer, name)
        config = {key: value for key, value in entry.items() if key not in _OF_THE_GRAPH}
        if "compile_config" in outer:
            config["compile_config"] = outer["compile_config"]
        group = _group_of(entry)
        _move_weights(folder / WEIGHTS, group, inward=False)
        assets = folder / _ASSETS / _LAYERS / group
        if assets.is_dir():
            assets.rename(folder / _MEANWHILE)
            (folder / _ASSETS).rename(folder / f"{_MEANWHILE}_too")
            (folder / _MEANWHILE).rename(folder / _ASSETS)
        (folder / CONFIG).write_text(json.dumps(config))
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, OSError) as error:
        reason = f"its normalizer cannot be extracted: {type(error).__name__}: {error}"
        raise damaged(url, reason) from error


def _entry(outer: Mapping[str, Any], name: str) -> dict[str, Any]:
    (entry,) = (layer for layer in outer["config"]["layers"] if layer["name"] == name)
    return entry


def _group_of(entry: Mapping[str, Any]) -> str:
    """Return Keras' name of a layer in the weights file, which derives from its class."""
    from keras.src.utils.naming import to_snake_case

    group = to_snake_case(str(entry["class_name"]))
    if not group.isidentifier():
        raise ValueError(f"invalid class name {group!r:.80}")
    return group


def _move_weights(path: Path, group: str, *, inward: bool) -> None:
    """Move all weights but the optimizer's variables into the layer's group, or out of it."""
    import h5py

    with h5py.File(path, "r+") as opened:
        file: Any = opened
        if inward:
            inner = [name for name in file if name != _OPTIMIZER]
            file.create_group(_MEANWHILE)
            for name in inner:
                file.move(name, f"{_MEANWHILE}/{name}")
            file.create_group(_LAYERS)
            file.move(_MEANWHILE, f"{_LAYERS}/{group}")
            return
        for parent, name in ((file, _LAYERS), (file[_LAYERS], group)):
            if type(parent.get(name, getlink=True)) is not h5py.HardLink:
                raise LookupError(f"{name!r} is not in {WEIGHTS}")
        file.move(f"{_LAYERS}/{group}", _MEANWHILE)
        del file[_LAYERS]
        for name in list(file[_MEANWHILE]):
            file.move(f"{_MEANWHILE}/{name}", name)
        del file[_MEANWHILE]
