"""Folders, to look through: what is in one, and its parent; looks that take too long end."""

import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkwright.data._sequence_reader import natural_key
from sparkwright.errors import RunTimeoutError
from sparkwright.storage._files import absolute, as_asked, is_on_this_machine, system_of, told

_T = TypeVar("_T")
_here = threading.local()
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


class _NobodyWaitsError(Exception):
    """Ends work whose result nobody wants any more."""


def within(timeout_s: float, function: Callable[[], _T], url: str) -> _T:
    """What `function` gives, which runs in a thread of its own.

    If it takes longer, it ends at the next `still_wanted`. One that is called by such a `function`
    has no limit of its own: the outer one holds for both.

    Raises:
        RunTimeoutError: naming the URL.
    """
    if getattr(_here, "over", None) is not None:
        return function()
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    over = threading.Event()

    def ask() -> None:
        _here.over = over
        try:
            answers.put((True, function()))
        except BaseException as error:
            answers.put((False, error))

    threading.Thread(target=ask, name="sparkwright-browse", daemon=True).start()
    try:
        is_result, found = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise RunTimeoutError(_too_long(timeout_s, url)) from None
    finally:
        over.set()
    if is_result:
        return found
    raise found


def still_wanted() -> None:
    """To be called in every loop that may be long: ends the work if nobody waits for it.

    Nothing happens outside of `within`.
    """
    over: threading.Event | None = getattr(_here, "over", None)
    if over is not None and over.is_set():
        raise _NobodyWaitsError


def _too_long(timeout_s: float, url: str) -> str:
    if is_on_this_machine(url):
        return (
            f"a look at data must end within {timeout_s:g} s. Received: no end yet of {url}. "
            "Look at fewer bytes or columns, or raise `timeout_s`."
        )
    return (
        f"a store must answer within {timeout_s:g} s. Received: nothing yet from {url}. "
        "Check the host, and that it can be reached from here."
    )
