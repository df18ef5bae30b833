"""Files at a URL: written under a temporary name, then renamed, so nobody sees half of one."""

import contextlib
import os
import uuid
from collections.abc import Generator
from typing import Any, BinaryIO


@contextlib.contextmanager
def write_atomically(url: str) -> Generator[BinaryIO]:
    """Open `url` for writing; it appears, whole, only if the block ends well.

    Parent folders are created. A local path counts as a URL.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    folder, _, name = path.rpartition("/")
    temporary = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}.tmp" if folder else f".{name}.tmp"
    try:
        if folder:
            system.makedirs(folder, exist_ok=True)
        with system.open(temporary, "wb") as file:
            yield file
        _replace(system, temporary, path)
    except OSError as error:
        raise type(error)(f"{url} could not be written: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            if system.exists(temporary):
                system.rm(temporary)


def read_bytes(url: str) -> bytes:
    """The whole content of `url`.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    try:
        return system.cat_file(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{url} does not exist. Check the path and the host.") from None
    except OSError as error:
        raise type(error)(f"{url} could not be read: {error}") from error


@contextlib.contextmanager
def open_to_read(url: str) -> Generator[BinaryIO]:
    """Open `url` for reading piece by piece, with `seek`.

    Raises:
        OSError: whatever the store says, naming `url`; also from reads inside the block.
    """
    system, path = _system(url)
    try:
        with system.open(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise FileNotFoundError(f"{url} does not exist. Check the path and the host.") from None
    except OSError as error:
        raise type(error)(f"{url} could not be read: {error}") from error


def exists(url: str) -> bool:
    """Whether something is there."""
    system, path = _system(url)
    return bool(system.exists(path))


def is_folder(url: str) -> bool:
    """Whether a folder is there."""
    system, path = _system(url)
    return bool(system.isdir(path))


def list_folder(url: str) -> list[str]:
    """Names of the files directly in a folder, sorted; none if it does not exist.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    system.invalidate_cache(path)  # some stores remember listings
    try:
        entries = system.ls(path, detail=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise type(error)(f"{url} could not be listed: {error}") from error
    return sorted(e["name"].rpartition("/")[2] for e in entries if e["type"] == "file")


def join(folder_url: str, name: str) -> str:
    """The URL of `name` in a folder.

    Example:
        >>> join("memory://runs/", "a b.swc")
        'memory://runs/a b.swc'
    """
    return f"{folder_url.rstrip('/')}/{name}"


def remove(url: str) -> None:
    """Remove one file, if it is there.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    try:
        system.rm_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise type(error)(f"{url} could not be removed: {error}") from error


def remove_tree(url: str) -> None:
    """Remove a folder and everything in it, if it is there."""
    system, path = _system(url)
    with contextlib.suppress(FileNotFoundError):
        system.rm(path, recursive=True)


def is_on_this_machine(url: str) -> bool:
    """Whether `url` is in this machine's file system."""
    return "://" not in url or url.startswith("file://")


def _replace(system: Any, temporary: str, path: str) -> None:
    if is_on_this_machine(system.unstrip_protocol(path)):
        os.replace(temporary, path)  # in one step, also over an old file
        return
    # Other stores refuse to rename over a file: for a moment there is none.
    if system.exists(path):
        system.rm(path)
    system.mv(temporary, path)


def _system(url: str) -> tuple[Any, str]:
    import fsspec

    return fsspec.core.url_to_fs(url)
