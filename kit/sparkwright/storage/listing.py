"""List the files of a folder or pattern, with their sizes and versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._stores import in_requested_form, looked_in, store_errors, system_of

_WILD = "*?["
HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store; `version` (ETag or modification time) changes with the content."""

    url: str
    size_bytes: int
    version: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file or folder; `size_bytes` is None for folders and if unknown."""

    name: str
    url: str
    is_folder: bool
    size_bytes: int | None = None


def list_files(
    url: str, *, extensions: Sequence[str] | None = None, recursive: bool = True
) -> list[StoredFile]:
    """Return the files of a file, folder or pattern, sorted by URL, without hidden names."""
    system, path = system_of(url)
    system.invalidate_cache()
    with store_errors(url, "listed"):
        roots = _roots(system, path)
        found = _found(system, roots, recursive=recursive)
    if not roots:
        raise FileNotFoundError(
            f"no file matches {url}{looked_in(url)}. Check the pattern and the host."
        )
    endings = None if extensions is None else tuple(f".{e.lstrip('.').lower()}" for e in extensions)
    return [
        StoredFile(
            in_requested_form(system, url, path, name), int(entry["size"] or 0), _version(entry)
        )
        for name, entry in sorted(found.items())
        if endings is None or name.lower().endswith(endings)
    ]


def list_folder(url: str) -> list[str]:
    """Return the sorted names of files directly in a folder; empty if it does not exist."""
    return [name for name in list_entries(url) if not name.endswith("/")]


def list_entries(url: str) -> list[str]:
    """Return a folder's sorted names, sub-folders with a slash; empty if it does not exist."""
    try:
        return sorted(f"{entry.name}{'/' * entry.is_folder}" for entry in entries_of(url))
    except FileNotFoundError:
        return []


def entries_of(url: str) -> list[Entry]:
    """Return the direct entries of a folder, in the store's order."""
    system, path = system_of(url)
    system.invalidate_cache(path)  # some stores cache listings
    with store_errors(url, "listed"):
        found = system.ls(path, detail=True)
    entries: list[Entry] = []
    for entry in found:
        full = str(entry["name"]).rstrip("/")
        name, is_folder = full.rpartition("/")[2], entry["type"] == "directory"
        if name:  # some stores keep an empty object for the folder itself, without a name
            place = in_requested_form(system, url, path, full)
            size_bytes = None if is_folder else entry.get("size")
            entries.append(Entry(name=name, url=place, is_folder=is_folder, size_bytes=size_bytes))
    return entries


def _found(system: Any, roots: dict[str, Any], *, recursive: bool) -> dict[str, Any]:
    """Return path -> entry of every file."""
    found: dict[str, Any] = {}
    for root, entry in roots.items():
        if entry["type"] == "file":
            found[root] = entry
            continue
        below = system.find(root, maxdepth=None if recursive else 1, detail=True)
        for name, inner in below.items():
            parts = name.removeprefix(root).strip("/").split("/")
            if inner["type"] == "file" and not any(part.startswith(HIDDEN) for part in parts):
                found[name] = inner
    return found


def _roots(system: Any, path: str) -> dict[str, Any]:
    """Return the entries that `path` names or matches; empty only for a pattern."""
    if not any(sign in path for sign in _WILD) or system.exists(path):
        return {path: system.info(path)}
    parts = path.split("/")
    first = next(i for i, part in enumerate(parts) if any(sign in part for sign in _WILD))
    asked = {part[0] for part in parts[first:] if part.startswith(HIDDEN)}
    return {
        name: entry
        for name, entry in system.glob(path, detail=True).items()
        if not any(
            part.startswith(HIDDEN) and part[0] not in asked for part in name.split("/")[first:]
        )
    }


def _version(entry: Any) -> str:
    for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created"):
        if entry.get(key) is not None:
            return str(entry[key])
    return ""
