"""The store that a URL names: its paths, its errors, and putting a new file or folder in place."""

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from ._hdfs import HDFS, hdfs_system_of

# Files there appear when they are complete, and can be copied but not renamed.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"}
# The temporary files of active writers are younger.
_LEFT_AFTER = timedelta(days=1)
# Some file systems cannot sync a folder, and need not: they write its entries at once.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}


def system_of(url: str) -> tuple[Any, str]:
    """Return the store of a URL, as a file system of fsspec, and the path in it."""
    url = os.fspath(url)
    if url.startswith(f"{HDFS}://"):
        return hdfs_system_of(url)
    import fsspec

    return fsspec.core.url_to_fs(url)


@contextlib.contextmanager
def told(url: str, what: str) -> Generator[None]:
    """Raise errors of a store as OSErrors that name the URL; pass others on."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{url} does not exist{looked_in(url)}. Check the path and the host."
        ) from None
    except OSError as error:
        raise like(error, f"{url} could not be {what}: {error}") from error
    except Exception as error:
        # Amazon's client has errors of its own, for missing credentials among others.
        if type(error).__module__.partition(".")[0] not in ("botocore", "aiobotocore"):
            raise
        raise OSError(f"{url} could not be {what}: {error}") from error


def looked_in(url: str) -> str:
    """Return the folder that a relative path was resolved against: notebooks differ in theirs."""
    is_relative = "://" not in url and "::" not in url and not os.path.isabs(url)
    return f" (looked in {os.getcwd()})" if is_relative else ""


def like(error: OSError, text: str) -> OSError:
    """Return an error of the same class with another text, if the class takes just a text."""
    try:
        return type(error)(text)
    except TypeError:
        return OSError(text)


def is_on_this_machine(url: str) -> bool:
    """Whether `url` is in this machine's file system."""
    return "://" not in url or url.startswith("file://")


def is_object_store(system: Any) -> bool:
    """Whether files appear there only when they are complete, and cannot be renamed."""
    names = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    return bool(names & _OBJECT_STORES)


def local_path(url: str) -> str | None:
    """Return the path of an absolute URL of this machine, as fsspec would; None of others."""
    path = url.removeprefix("file://")
    return path if path.startswith("/") else None


def absolute(url: str) -> str:
    """Return `url` as other processes of this machine understand it: without relative paths.

    Example:
        >>> absolute("/data/a/"), absolute("memory://runs/a")
        ('/data/a', 'memory://runs/a')
    """
    system, path = system_of(url)
    return as_asked(system, url, path, path)


def as_asked(system: Any, url: str, path: str, name: str) -> str:
    """Return `name`, of a store, in the form of the URL asked for, whose path is `path`."""
    if "://" not in url:
        return str(name)
    # Stores cut off the scheme, some also a host; what is left of `path` follows unchanged.
    begun = url.rstrip("/").removesuffix(path)
    if begun != url.rstrip("/") and name.startswith(path[:1]):
        return f"{begun}{name}"
    return str(system.unstrip_protocol(name))


def beside(path: str, ending: str = "") -> str:
    """Return a hidden and unused name next to a path or URL."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex[:8]}{ending}"


def put_in_place(system: Any, new: str, path: str, *, folder: bool) -> None:
    """Move a new file or folder to `path`, over what is there.

    A file is replaced in one step, where the store can. Otherwise the old file or folder is moved
    aside and comes back if the new one cannot be moved.
    """
    is_local = is_on_this_machine(system.unstrip_protocol(path))
    if is_local and not folder:
        os.replace(new, path)
    elif system.protocol == HDFS and not folder:
        system.mv(new, path, overwrite=True)
    elif _copies(system):
        if folder and system.exists(path):
            system.rm(path, recursive=True)
        # One by one: `mv`, `cp` and `rm` take names with brackets for patterns.
        for file in system.find(new) if folder else [new]:
            system.cp_file(file, f"{path}{file.removeprefix(new)}")
        if folder:
            system.rm(new, recursive=True)
        else:
            system.rm_file(new)
    else:
        rename = os.rename if is_local else system.mv
        aside = beside(path, ".tmp.old")
        if present := bool(system.exists(path)):
            rename(path, aside)
        try:
            rename(new, path)
        except BaseException:
            if present:
                with contextlib.suppress(OSError):
                    rename(aside, path)
            raise
        if present:
            with contextlib.suppress(OSError):
                system.rm(aside, recursive=True)


def _copies(system: Any) -> bool:
    from fsspec import AbstractFileSystem

    return is_object_store(system) or type(system).mv is AbstractFileSystem.mv


def sync_file(file: BinaryIO) -> None:
    """Write the file's content to the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Write the folder's entries, a rename among them, to the disk."""
    try:
        descriptor = os.open(path or ".", os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


def remove_leftovers(system: Any, path: str) -> None:
    """Remove the temporary files of killed writers of `path`, which has just been written."""
    folder, _, name = path.rpartition("/")
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}\.tmp(\.old)?")
    with contextlib.suppress(OSError, NotImplementedError):
        for found in system.ls(folder or ".", detail=False):
            match = pattern.fullmatch(str(found).rpartition("/")[2])
            # The former file, moved aside, is superseded by the new one at any age.
            if match and (match[1] or _is_left(system, found)):
                system.rm_file(found)


def _is_left(system: Any, path: str) -> bool:
    changed = system.modified(path)
    changed = changed if changed.tzinfo else changed.replace(tzinfo=UTC)
    return datetime.now(UTC) - changed > _LEFT_AFTER
