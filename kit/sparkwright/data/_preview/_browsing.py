"""Folders as a person looks through them: what is in one, and the way up."""

import os
from dataclasses import dataclass

from sparkwright.data._sequences._sequence_pairs import natural_key
from sparkwright.storage._files import absolute, as_asked, is_on_this_machine, system_of, told

from ._time_limit import still_wanted, within

_HIDDEN = (".", "_")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A file or folder.

    Attributes:
        name: its own.
        url: where.
        is_folder: whether it is one.
        size_bytes: of a file; None where nobody says.
    """

    name: str
    url: str
    is_folder: bool
    size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """What lies in a folder.

    Attributes:
        url: where.
        parent: the folder above; None at the top of a store.
        entries: folders, then files, in natural order, without hidden ones.
        left_out: how many more there are.
    """

    url: str
    parent: str | None
    entries: tuple[Entry, ...]
    left_out: int = 0


def browse(url: str = "", *, most: int = 500, timeout_s: float = 20.0) -> Folder:
    """What lies in a folder; of a file, what lies beside it.

    Args:
        url: a path or URL in any file system that fsspec knows; default "": this folder.
        most: entries to give at most; default 500.
        timeout_s: default 20.

    Raises:
        FileNotFoundError: if there is nothing.
        OSError: whatever the store says, naming the URL.
        RunTimeoutError: if the store does not answer in time.
    """
    place = url.strip() or os.getcwd()
    return within(timeout_s, lambda: _browse(place, most), place)


def entries_of(url: str) -> list[Entry]:
    """What lies directly in a folder, as the store gives it, without hidden names.

    Raises:
        FileNotFoundError: if there is nothing.
        OSError: whatever the store says, naming the URL.
    """
    system, path = system_of(url)
    system.invalidate_cache(path)  # some stores remember listings
    with told(url, "listed"):
        found = system.ls(path, detail=True)
    entries: list[Entry] = []
    for entry in found:
        still_wanted()
        full = str(entry["name"]).rstrip("/")
        name = full.rpartition("/")[2]
        # Some stores keep an empty object for the folder itself.
        if not name or name.startswith(_HIDDEN) or full == path.rstrip("/"):
            continue
        is_folder = entry["type"] == "directory"
        size = entry.get("size")
        entries.append(
            Entry(
                name=name,
                url=as_asked(system, url, path, full),
                is_folder=is_folder,
                size_bytes=None if is_folder or size is None else int(size),
            )
        )
    return entries


def parent_of(url: str) -> str | None:
    """The folder above, None at the top.

    Example:
        >>> parent_of("/data/iris"), parent_of("hdfs://host:8020/data"), parent_of("s3://bucket")
        ('/data', 'hdfs://host:8020/', None)
    """
    scheme, sign, rest = url.rpartition("://")
    begun = rest.rstrip("/")
    if "/" not in begun:
        return None
    above = begun.rpartition("/")[0]
    return f"{scheme}{sign}{above}" if above and (not sign or "/" in above) else (
        f"{scheme}{sign}{above}/"
    )  # fmt: skip


def _browse(url: str, most: int) -> Folder:
    system, path = system_of(url)
    with told(url, "listed"):
        is_file = system.isfile(path)
    place = absolute(url).rstrip("/") or "/"
    if is_file:
        place = parent_of(place) or place
    elif is_on_this_machine(url) and not system.exists(path):
        with told(url, "listed"):
            raise FileNotFoundError(url)
    entries = sorted(
        entries_of(place), key=lambda entry: (not entry.is_folder, natural_key(entry.name))
    )
    return Folder(
        url=place,
        parent=parent_of(place),
        entries=tuple(entries[:most]),
        left_out=max(0, len(entries) - most),
    )
