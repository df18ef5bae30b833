"""Browse folders: list entries, find the parent, run functions with a time limit."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sparkwright.data._sequence_reader import natural_key
from sparkwright.errors import RunTimeoutError
from sparkwright.storage.files import (
    absolute,
    is_on_this_machine,
    on_thread,
    store_errors,
    system_of,
)
from sparkwright.storage.listing import HIDDEN, Entry, entries_of

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """The content of a folder.

    Attributes:
        url: URL of the folder.
        parent: URL of the parent folder; None at the root of a store.
        entries: folders, then files, in natural order, without hidden ones.
        left_out: number of entries beyond the limit.
    """

    url: str
    parent: str | None
    entries: tuple[Entry, ...]
    left_out: int = 0


def browse(url: str = "", *, most: int = 500, timeout_s: float = 20.0) -> Folder:
    """List a folder, or the folder of a file.

    Args:
        url: a path or URL in any file system that fsspec supports; default "": the working folder.
        most: largest number of entries; default 500.
        timeout_s: time limit in seconds; default 20.

    Raises:
        FileNotFoundError: if `url` does not exist.
        OSError: if the store fails, naming the URL.
        RunTimeoutError: if the store does not respond in time.
    """
    place = url.strip() or os.getcwd()
    return run_with_timeout(timeout_s, lambda: _browse(place, most), place)


def _browse(url: str, most: int) -> Folder:
    system, path = system_of(url)
    with store_errors(url, "listed"):
        is_file = system.isfile(path)
    place = absolute(url).rstrip("/") or "/"
    if is_file:
        place = parent_of(place) or place
    elif is_on_this_machine(url) and not system.exists(path):
        with store_errors(url, "listed"):
            raise FileNotFoundError(url)
    # Some stores keep an empty object for the folder itself.
    shown = (
        entry
        for entry in entries_of(place)
        if not entry.name.startswith(HIDDEN) and entry.url.rstrip("/") != place.rstrip("/")
    )
    entries = sorted(shown, key=lambda each: (not each.is_folder, natural_key(each.name)))
    return Folder(
        url=place,
        parent=parent_of(place),
        entries=tuple(entries[:most]),
        left_out=max(0, len(entries) - most),
    )


def parent_of(url: str) -> str | None:
    """Return the parent folder; None at the root."""
    scheme, sign, rest = url.rpartition("://")
    above, slash, _ = rest.rstrip("/").rpartition("/")
    if not slash:
        return None
    is_top = not above or (sign and "/" not in above)
    return f"{scheme}{sign}{above}{'/' if is_top else ''}"


def run_with_timeout(timeout_s: float, function: Callable[[], _T], url: str) -> _T:
    """Return the result of `function`, run on a thread that continues after a timeout."""
    answer = on_thread(function, timeout_s, name="sparkwright-browse")
    if answer.done():
        return answer.result()
    raise RunTimeoutError(
        f"a store or file must be read within {timeout_s:g} s. Received: no result from "
        f"{url}. Check the connection to the store, read less, or increase `timeout_s`."
    )
