"""Files at a URL: written under a temporary name, then renamed, so nobody sees half of one."""

import contextlib
import os
import uuid
from collections.abc import Generator, Iterator
from typing import Any, BinaryIO

from ._durability import remove_leftovers, sync_file, sync_folder
from ._hdfs import SCHEME, HdfsOperations, hdfs_system_of


@contextlib.contextmanager
def told(url: str, what: str) -> Generator[None]:
    """Errors of a store as OSErrors that name the URL; others pass."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{url} does not exist{looked_in(url)}. Check the path and the host."
        ) from None
    except OSError as error:
        raise _like(error, f"{url} could not be {what}: {error}") from error
    except Exception as error:
        # Amazon's client has errors of its own, for missing credentials among others.
        if type(error).__module__.partition(".")[0] not in ("botocore", "aiobotocore"):
            raise
        raise OSError(f"{url} could not be {what}: {error}") from error


def looked_in(url: str) -> str:
    """Where a relative path was looked for: a notebook's working folder is easily another."""
    is_relative = "://" not in url and "::" not in url and not os.path.isabs(url)
    return f" (looked in {os.getcwd()})" if is_relative else ""


def _like(error: OSError, text: str) -> OSError:
    """An error of the same kind with another text, if the kind takes just a text."""
    try:
        return type(error)(text)
    except TypeError:
        return OSError(text)


@contextlib.contextmanager
def write_atomically(url: str, *, durable: bool = False) -> Generator[BinaryIO]:
    """Open `url` for writing; it appears, whole, only if the block ends well.

    Parent folders are created. A local path counts as a URL.

    Args:
        url: where to.
        durable: after the block, a file of this machine is on its disk, and what killed writers of
            `url` left is removed; default False: the machine writes it when it likes.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = system_of(url)
    folder, _, name = path.rpartition("/")
    temporary = f"{path[: len(path) - len(name)]}.{name}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        if folder:
            system.makedirs(folder, exist_ok=True)
        with system.open(temporary, "wb") as file:
            yield file
            if is_synced := durable and is_on_this_machine(system.unstrip_protocol(path)):
                sync_file(file)
        _replace(system, temporary, path)
        if is_synced:
            sync_folder(folder)
        if durable:
            remove_leftovers(system, path)
    except OSError as error:
        raise _like(error, f"{url} could not be written: {error}") from error
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
    system, path = system_of(url)
    if not _protocols(system) & _WHOLE_FILE_STORES:
        with write_atomically(url) as file:
            file.write(content)
        return
    with told(url, "written"):
        system.pipe_file(path, content)


def read_bytes(url: str) -> bytes:
    """The whole content of `url`.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    local = _local_path(url)
    with told(url, "read"):
        if local is not None:  # fsspec would take twice as long for a small file
            with open(local, "rb", buffering=0) as file:
                return file.readall()
        system, path = system_of(url)
        return system.cat_file(path)


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
    system, path = system_of(url)
    with told(url, "read"), system.open(path, "rb") as file:
        yield file


def open_file(url: str) -> BinaryIO:
    """Open `url` for reading piece by piece, with `seek`; who asks closes it.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    local = _local_path(url)
    with told(url, "read"):
        if local is not None:
            return open(local, "rb")
        system, path = system_of(url)
        return system.open(path, "rb")


def exists(url: str) -> bool:
    """Whether something is there.

    Raises:
        OSError: if the store cannot say, naming `url`.
    """
    system, path = system_of(url)
    with told(url, "looked for"):
        return bool(system.exists(path))


def is_folder(url: str) -> bool:
    """Whether a folder is there.

    Raises:
        OSError: if the store cannot say, naming `url`.
    """
    system, path = system_of(url)
    with told(url, "looked for"):
        return bool(system.isdir(path))


def join(folder_url: str, name: str) -> str:
    """The URL of `name` in a folder.

    Example:
        >>> join("memory://runs/", "a b.swc")
        'memory://runs/a b.swc'
    """
    return f"{folder_url.rstrip('/')}/{name}"


def move(url: str, to_url: str) -> None:
    """Move one file within a store or to another; what is at `to_url` is replaced.

    Raises:
        OSError: whatever the stores say, naming the URL; if both are the same file.
    """
    if _place(url) == _place(to_url):
        raise FileExistsError(f"a file must move to another place. Received: {url} for both.")
    with write_atomically(to_url, durable=True) as target:  # before the original is removed
        for block in _blocks(url):
            target.write(block)
    remove(url)


def _place(url: str) -> str:
    local = _local_path(absolute(url))
    return absolute(url) if local is None else os.path.realpath(local)


def _blocks(url: str) -> Iterator[bytes]:
    with open_to_read(url) as file:
        while block := file.read(1 << 22):
            yield block


def remove(url: str) -> None:
    """Remove one file, if it is there.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = system_of(url)
    with contextlib.suppress(FileNotFoundError), told(url, "removed"):
        system.rm_file(path)


def remove_tree(url: str) -> None:
    """Remove a folder and everything in it, if it is there.

    Raises:
        OSError: whatever the store says, naming `url`.
    """
    system, path = system_of(url)
    with contextlib.suppress(FileNotFoundError), told(url, "removed"):
        system.rm(path, recursive=True)


def remove_empty_folder(url: str) -> None:
    """Remove a folder if it is there and nothing is in it, where there are folders."""
    system, path = system_of(url)
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
    if is_hdfs(system):
        system.replace(temporary, path)  # likewise
        return
    # Other stores refuse to rename over a file. The old one keeps a name until the new one has it.
    if not system.exists(path):
        _rename(system, temporary, path)
        return
    aside = f"{temporary}.old"
    _rename(system, path, aside)
    try:
        _rename(system, temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            _rename(system, aside, path)
        raise
    with contextlib.suppress(OSError):
        system.rm_file(aside)


def _rename(system: Any, path: str, to_path: str) -> None:
    from fsspec import AbstractFileSystem

    if type(system).mv is AbstractFileSystem.mv:
        # It copies what the path matches as a pattern; names may hold brackets.
        system.cp_file(path, to_path)
        system.rm_file(path)
    else:
        system.mv(path, to_path)


def _protocols(system: Any) -> set[str]:
    return {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)


def absolute(url: str) -> str:
    """`url` as other processes of this machine understand it: a relative path made whole.

    Example:
        >>> absolute("/data/a/"), absolute("memory://runs/a")
        ('/data/a', 'memory://runs/a')
    """
    system, path = system_of(url)
    return as_asked(system, url, path, path)


def as_asked(system: Any, url: str, path: str, name: str) -> str:
    """`name`, a path that a store gave for `url`, in the form of `url`, with its host.

    Args:
        system: the store.
        url: what was asked for.
        path: what the store calls it.
        name: a path of the store.
    """
    if "://" not in url:
        return str(name)
    # Stores cut off the scheme, some also a host; what is left of `path` follows unchanged.
    begun = url.rstrip("/").removesuffix(path)
    if begun != url.rstrip("/") and name.startswith(path[:1]):
        return f"{begun}{name}"
    return str(system.unstrip_protocol(name))


def is_hdfs(system: Any) -> bool:
    """Whether a store, as `system_of` gives it, is HDFS, which replaces a file in one step."""
    return isinstance(system, HdfsOperations)


def system_of(url: str) -> tuple[Any, str]:
    """The store of a URL, as a file system of fsspec, and the path in it.

    Raises:
        ConfigurationError: if the URL is of HDFS, and hdfs-native is missing.
        OSError: if the URL is of HDFS, and names no NameNode.
    """
    url = os.fspath(url)
    if url.startswith(SCHEME):
        return hdfs_system_of(url)
    import fsspec

    return fsspec.core.url_to_fs(url)
