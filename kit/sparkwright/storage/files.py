"""Read and write files and folders at a URL, atomically through a temporary name.

Errors of a store are raised as OSErrors that name the URL.
"""

import contextlib
import os
from collections.abc import Generator, Sequence
from typing import BinaryIO

from sparkwright.errors import ConfigurationError

from ._hdfs_client import on_thread as on_thread
from ._stores import (
    absolute as absolute,
    beside,
    is_object_store,
    is_on_this_machine as is_on_this_machine,
    like,
    local_path,
    put_in_place,
    remove_leftovers,
    store_errors as store_errors,
    sync_file,
    sync_folder,
    system_of as system_of,
)


@contextlib.contextmanager
def write_atomically(url: str, *, durable: bool = False) -> Generator[BinaryIO]:
    """Open `url` for writing; the complete file appears only if the block succeeds.

    `durable` syncs a local file to disk and removes temporary files of killed writers.
    """
    system, path = system_of(url)
    folder = path.rpartition("/")[0]
    temporary = beside(path, ".tmp")
    try:
        if folder:
            system.makedirs(folder, exist_ok=True)
        with system.open(temporary, "wb") as file:
            yield file
            if is_synced := durable and is_on_this_machine(system.unstrip_protocol(path)):
                sync_file(file)
        put_in_place(system, temporary, path, folder=False)
        if is_synced:
            sync_folder(folder)
        if durable:
            remove_leftovers(system, path)
    except OSError as error:
        raise like(error, f"{url} could not be written: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            if system.exists(temporary):
                system.rm(temporary)


def write_bytes(url: str, content: bytes) -> None:
    """Write the file `url` atomically; concurrent writers of the same content are no conflict."""
    system, path = system_of(url)
    if is_object_store(system):  # a temporary name would only cost a copy
        with store_errors(url, "written"):
            system.pipe_file(path, content)
        return
    with write_atomically(url) as file:
        file.write(content)


@contextlib.contextmanager
def write_folder(url: str) -> Generator[str]:
    """Yield a new hidden folder next to `url`, which moves to `url` if the block succeeds.

    If the block fails, the folder is removed; if an object store fails to copy it, it is kept.
    """
    url = absolute(url)
    system, path = system_of(url)
    if "/" not in path.rstrip("/"):
        raise ConfigurationError(
            f"an output folder must be inside a store. Received: {url}, the whole store. Use a "
            "folder in it."
        )
    if is_on_this_machine(url) and os.path.islink(path):
        url = os.path.realpath(path)  # keep the link and replace its target
    url = url.rstrip("/")
    new = beside(url)
    try:
        yield new
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is raised
            remove_tree(new)
        raise
    try:
        with store_errors(url, "replaced"):
            put_in_place(system, system_of(new)[1], system_of(url)[1], folder=True)
    except OSError as error:
        if is_object_store(system):
            raise OSError(f"{error} The new files are in {new}.") from error
        with contextlib.suppress(OSError):
            remove_tree(new)
        raise


def read_bytes(url: str) -> bytes:
    """Return the content of `url`."""
    local = local_path(url)
    with store_errors(url, "read"):
        if local is not None:  # fsspec takes twice as long for a small file
            with open(local, "rb", buffering=0) as file:
                return file.readall()
        system, path = system_of(url)
        return system.cat_file(path)


@contextlib.contextmanager
def open_to_read(url: str) -> Generator[BinaryIO]:
    """Open `url` as a seekable file for reading."""
    system, path = system_of(url)
    with store_errors(url, "read"), system.open(path, "rb") as file:
        yield file


def open_file(url: str) -> BinaryIO:
    """Open `url` as a seekable file for reading; the caller closes it."""
    local = local_path(url)
    with store_errors(url, "read"):
        if local is not None:
            return open(local, "rb")
        system, path = system_of(url)
        return system.open(path, "rb")


def exists(url: str) -> bool:
    """Whether a file or folder exists at `url`."""
    system, path = system_of(url)
    with store_errors(url, "looked for"):
        return bool(system.exists(path))


def is_folder(url: str) -> bool:
    """Whether `url` is an existing folder."""
    system, path = system_of(url)
    with store_errors(url, "looked for"):
        return bool(system.isdir(path))


def join(folder_url: str, name: str) -> str:
    """Return the URL of `name` in a folder."""
    return f"{folder_url.rstrip('/')}/{name}"


def place_of(url: str) -> str:
    """Return an absolute URL, or a local path without links, which differs for other places."""
    local = local_path(absolute(url))
    return absolute(url).rstrip("/") if local is None else os.path.realpath(local)


def move_files(names: Sequence[str], from_url: str, to_url: str) -> None:
    """Move files from one folder of a store to another, replacing files of the same names."""
    for name in names:
        target = join(to_url, name)
        system, path = system_of(target)
        with store_errors(target, "written"):
            put_in_place(system, system_of(join(from_url, name))[1], path, folder=False)


def remove(url: str) -> None:
    """Remove one file, if it exists."""
    system, path = system_of(url)
    with contextlib.suppress(FileNotFoundError), store_errors(url, "removed"):
        system.rm_file(path)


def remove_tree(url: str) -> None:
    """Remove a folder and all of its content, if it exists."""
    system, path = system_of(url)
    with contextlib.suppress(FileNotFoundError), store_errors(url, "removed"):
        system.rm(path, recursive=True)


def remove_empty_folder(url: str) -> None:
    """Remove a folder if it is empty and the store has folders."""
    system, path = system_of(url)
    if is_object_store(system) and system.protocol != "memory":
        return  # the only folders of such a store are buckets
    with contextlib.suppress(OSError):
        if not system.ls(path):
            system.rmdir(path)
