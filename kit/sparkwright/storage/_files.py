"""Files at a URL: written under a temporary name, then renamed, so nobody sees half of one."""

import contextlib
import os
import uuid
from collections.abc import Generator, Sequence
from dataclasses import dataclass
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


# Their files appear when they are whole, so a temporary name would only cost a copy.
_WHOLE_FILE_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"}


def write_bytes(url: str, content: bytes) -> None:
    """Write the file `url`, so that nobody sees half of it; an old one is replaced.

    Parent folders are created. Several writers of the same content do not disturb one another.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    if not _protocols(system) & _WHOLE_FILE_STORES:
        with write_atomically(url) as file:
            file.write(content)
        return
    try:
        system.pipe_file(path, content)
    except OSError as error:
        raise type(error)(f"{url} could not be written: {error}") from error


def read_bytes(url: str) -> bytes:
    """The whole content of `url`.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    local = _local_path(url)
    try:
        if local is not None:  # fsspec would take twice as long for a small file
            with open(local, "rb", buffering=0) as file:
                return file.readall()
        system, path = _system(url)
        return system.cat_file(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{url} does not exist. Check the path and the host.") from None
    except OSError as error:
        raise type(error)(f"{url} could not be read: {error}") from error


def will_read(url: str) -> None:
    """Have the operating system fetch a file of this machine that is about to be read."""
    local = _local_path(url)
    if local is None or not hasattr(os, "posix_fadvise"):
        return
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(local, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(descriptor)


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


def list_entries(url: str) -> list[str]:
    """Names of what lies directly in a folder, sorted, folders with a slash at the end.

    Nothing if the folder does not exist.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    system.invalidate_cache(path)
    try:
        entries = system.ls(path, detail=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise type(error)(f"{url} could not be listed: {error}") from error
    ends = {"directory": "/"}
    named = ((e["name"].rstrip("/").rpartition("/")[2], ends.get(e["type"], "")) for e in entries)
    # Some stores keep an empty object for the folder itself, without a name.
    return sorted(f"{name}{end}" for name, end in named if name)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a store.

    Attributes:
        url: where, in the form that was asked for: with a scheme, or a path of this machine.
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
    and unfinished work there. Not so what `url` itself names.

    Args:
        url: a file, a folder, or a pattern with `*`, `?`, `[…]` or `**`.
        extensions: endings to keep, such as "csv", in any case; default None: all.
        recursive: with sub-folders (default) of a folder, or of a folder that a pattern matches.

    Raises:
        FileNotFoundError: if there is nothing, naming `url`.
        OSError: whatever the store says, naming `url`.
    """
    system, path = _system(url)
    system.invalidate_cache()
    try:
        found = _found(system, path, recursive=recursive)
    except FileNotFoundError:
        raise FileNotFoundError(f"{url} does not exist. Check the path and the host.") from None
    except OSError as error:
        raise type(error)(f"{url} could not be listed: {error}") from error
    endings = None if extensions is None else tuple(f".{e.lstrip('.').lower()}" for e in extensions)
    return [
        StoredFile(_as_asked(system, url, name), int(entry["size"] or 0), _version(entry))
        for name, entry in sorted(found.items())
        if endings is None or name.lower().endswith(endings)
    ]


def _found(system: Any, path: str, *, recursive: bool) -> dict[str, Any]:
    """Path -> entry of every file."""
    if any(sign in path for sign in "*?["):
        roots = system.glob(path, detail=True)
        if not roots:
            raise FileNotFoundError(path)
    else:
        roots = {path: system.info(path)}
    found: dict[str, Any] = {}
    for root, entry in roots.items():
        if entry["type"] == "file":
            found[root] = entry
            continue
        below = system.find(root, maxdepth=None if recursive else 1, detail=True)
        for name, inner in below.items():
            parts = name.removeprefix(root).strip("/").split("/")
            if inner["type"] == "file" and not any(part.startswith((".", "_")) for part in parts):
                found[name] = inner
    return found


def _as_asked(system: Any, url: str, name: str) -> str:
    return str(system.unstrip_protocol(name)) if "://" in url else str(name)


def _version(entry: Any) -> str:
    for key in ("ETag", "etag", "mtime", "LastModified", "last_modified", "created"):
        if entry.get(key) is not None:
            return str(entry[key])
    return ""


def join(folder_url: str, name: str) -> str:
    """The URL of `name` in a folder.

    Example:
        >>> join("memory://runs/", "a b.swc")
        'memory://runs/a b.swc'
    """
    return f"{folder_url.rstrip('/')}/{name}"


def absolute(url: str) -> str:
    """`url` as other processes of this machine understand it: a relative path made whole.

    Example:
        >>> absolute("/data/a/"), absolute("memory://runs/a")
        ('/data/a', 'memory:///runs/a')
    """
    system, path = _system(url)
    return _as_asked(system, url, path)


def move(url: str, to_url: str) -> None:
    """Move one file within a store or to another; what is at `to_url` is replaced.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    with open_to_read(url) as source, write_atomically(to_url) as target:
        while block := source.read(1 << 22):
            target.write(block)
    remove(url)


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


def remove_empty_folder(url: str) -> None:
    """Remove a folder if it is there and nothing is in it, where there are folders."""
    system, path = _system(url)
    if _protocols(system) & (_WHOLE_FILE_STORES - {"memory"}):
        return  # the only folders of such a store are buckets
    with contextlib.suppress(OSError):
        if not system.ls(path):
            system.rmdir(path)


def is_on_this_machine(url: str) -> bool:
    """Whether `url` is in this machine's file system."""
    return "://" not in url or url.startswith("file://")


def _local_path(url: str) -> str | None:
    """The path that fsspec would find for an absolute URL of this machine."""
    path = url.removeprefix("file://")
    return path if path.startswith("/") else None


def _replace(system: Any, temporary: str, path: str) -> None:
    if is_on_this_machine(system.unstrip_protocol(path)):
        os.replace(temporary, path)  # in one step, also over an old file
        return
    # Other stores refuse to rename over a file: for a moment there is none.
    if system.exists(path):
        system.rm(path)
    system.mv(temporary, path)


def _protocols(system: Any) -> set[str]:
    return {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)


def _system(url: str) -> tuple[Any, str]:
    import fsspec

    return fsspec.core.url_to_fs(url)
