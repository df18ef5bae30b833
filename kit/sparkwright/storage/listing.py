"""What lies at a URL: files of a folder or of a pattern, with their sizes and versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._stores import as_asked, looked_in, system_of, told

_WILD = "*?["
_HIDDEN = (".", "_")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store.

    Attributes:
        url: where, in the form that was asked for: with scheme and host, or a path of this machine.
        size_bytes: its length.
        version: changes when the content does: time of change, ETag or checksum of the store.
    """

    url: str
    size_bytes: int
    version: str


def list_files(
    url: str, *, extensions: Sequence[str] | None = None, recursive: bool = True
) -> list[StoredFile]:
    """The files that `url` names, sorted by URL.

    Files and folders whose names begin with "." or "_" are left out: stores and Spark keep notes
    and unfinished work there. Not so what `url` itself names, or a pattern with such a beginning.

    Args:
        url: a file, a folder, or a pattern with `*`, `?`, `[…]` or `**`. If there is a file of
            just that name, it is no pattern.
        extensions: endings to keep, such as "csv", in any case; default None: all.
        recursive: with sub-folders (default) of a folder, or of a folder that a pattern matches.

    Raises:
        FileNotFoundError: if there is nothing, naming `url`.
        OSError: of the store, naming `url`.
    """
    system, path = system_of(url)
    system.invalidate_cache()
    with told(url, "listed"):
        roots = _roots(system, path)
        found = _found(system, roots, recursive=recursive)
    if not roots:
        raise FileNotFoundError(
            f"no file matches {url}{looked_in(url)}. Check the pattern and the host."
        )
    endings = None if extensions is None else tuple(f".{e.lstrip('.').lower()}" for e in extensions)
    return [
        StoredFile(as_asked(system, url, path, name), int(entry["size"] or 0), _version(entry))
        for name, entry in sorted(found.items())
        if endings is None or name.lower().endswith(endings)
    ]


def list_folder(url: str) -> list[str]:
    """Names of the files directly in a folder, sorted; none if it does not exist."""
    return [name for name in list_entries(url) if not name.endswith("/")]


def list_entries(url: str) -> list[str]:
    """Names of what lies directly in a folder, sorted, folders with a slash at the end.

    Nothing if the folder does not exist.
    """
    system, path = system_of(url)
    system.invalidate_cache(path)  # some stores remember listings
    try:
        with told(url, "listed"):
            entries = system.ls(path, detail=True)
    except FileNotFoundError:
        return []
    ends = {"directory": "/"}
    named = ((e["name"].rstrip("/").rpartition("/")[2], ends.get(e["type"], "")) for e in entries)
    # Some stores keep an empty object for the folder itself, without a name.
    return sorted(f"{name}{end}" for name, end in named if name)


def _found(system: Any, roots: dict[str, Any], *, recursive: bool) -> dict[str, Any]:
    """Path -> entry of every file."""
    found: dict[str, Any] = {}
    for root, entry in roots.items():
        if entry["type"] == "file":
            found[root] = entry
            continue
        below = system.find(root, maxdepth=None if recursive else 1, detail=True)
        for name, inner in below.items():
            parts = name.removeprefix(root).strip("/").split("/")
            if inner["type"] == "file" and not any(part.startswith(_HIDDEN) for part in parts):
                found[name] = inner
    return found


def _roots(system: Any, path: str) -> dict[str, Any]:
    """What `path` names, or matches; nothing only if it is a pattern."""
    if not any(sign in path for sign in _WILD) or system.exists(path):
        return {path: system.info(path)}
    parts = path.split("/")
    first = next(i for i, part in enumerate(parts) if any(sign in part for sign in _WILD))
    asked = {part[0] for part in parts[first:] if part.startswith(_HIDDEN)}
    return {
        name: entry
        for name, entry in system.glob(path, detail=True).items()
        if not any(
            part.startswith(_HIDDEN) and part[0] not in asked for part in name.split("/")[first:]
        )
    }


def _version(entry: Any) -> str:
    for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created"):
        if entry.get(key) is not None:
            return str(entry[key])
    return ""
