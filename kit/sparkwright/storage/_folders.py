"""Folders that appear when all of them is written: beside their place first, then in it."""

import contextlib
import os
import uuid
from collections.abc import Generator, Sequence

from sparkwright.errors import ConfigurationError

from ._files import (
    absolute,
    is_hdfs,
    is_on_this_machine,
    join,
    remove,
    remove_tree,
    system_of,
    told,
)

# Their files and folders cannot be renamed, only copied.
_COPYING_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"}


@contextlib.contextmanager
def write_folder(url: str) -> Generator[str]:
    """A new folder beside `url`, hidden, that takes its place if the block ends well.

    What is at `url` stays as it is until then. If the block fails, the new folder is removed.

    Args:
        url: where the folder will be; what is there is replaced.

    Yields:
        The URL of the new folder, which exists as soon as something is written into it.

    Raises:
        ConfigurationError: if `url` is the root of a store, which has no place beside it.
        OSError: whatever the store says, naming `url`.
    """
    url = absolute(url)
    path = system_of(url)[1].rstrip("/")
    if "/" not in path:
        raise ConfigurationError(
            f"a folder to write into must lie within a store. Received: {url}, which is all of it. "
            "Use a folder in it."
        )
    if is_on_this_machine(url) and os.path.islink(path):
        url = os.path.realpath(path)  # what the link names is replaced, not the link
    url = url.rstrip("/")
    new = _beside(url)
    try:
        yield new
    except BaseException:
        # Whatever else is wrong there, the first error is told.
        with contextlib.suppress(OSError):
            remove_tree(new)
        raise
    replace_folder(new, url)


def replace_folder(new_url: str, url: str) -> None:
    """Put a folder in the place of another, which is removed.

    Where the store can rename, this takes two renames, and the old folder comes back if the second
    one fails. Object stores copy; if that fails, what is new stays where it is.

    Args:
        new_url: the folder to move, in the same store.
        url: its new place; there may be nothing.

    Raises:
        OSError: whatever the store says, naming `url`, and where the new folder is if it was kept.
    """
    system, path = system_of(url)
    _, new = system_of(new_url)
    if _copies(url):
        try:
            with told(url, "replaced"):
                remove_tree(url)
                # Moving a folder as such copies what its name matches as a pattern, and in S3
                # asks for folders, of which there are none.
                for file in system.find(new):
                    system.cp_file(file, f"{path}{file.removeprefix(new)}")
                remove_tree(new_url)
        except OSError as error:
            raise OSError(f"{error} What should have replaced it is in {new_url}.") from error
        return
    aside = _beside(url)
    _, old = system_of(aside)
    try:
        with told(url, "replaced"):
            present = bool(system.exists(path))
            if present:
                _rename(path, old, url)
            try:
                _rename(new, path, url)
            except BaseException:
                if present:
                    with contextlib.suppress(OSError):
                        _rename(old, path, url)
                raise
    except OSError:
        with contextlib.suppress(OSError):
            remove_tree(new_url)
        raise
    remove_tree(aside)


def move_files(names: Sequence[str], from_url: str, to_url: str) -> None:
    """Move files from one folder of a store to another; those of the same names are replaced.

    Args:
        names: of the files.
        from_url: where they are.
        to_url: where they will be.

    Raises:
        OSError: whatever the store says, naming the file.
    """
    for name in names:
        target = join(to_url, name)
        system, path = system_of(target)
        _, source = system_of(join(from_url, name))
        with told(target, "written"):
            if is_on_this_machine(target):
                os.replace(source, path)  # in one step, also over an old file
                continue
            if is_hdfs(system):
                system.replace(source, path)  # likewise
                continue
            if not _copies(target):  # a copy replaces the old one; a rename would be refused
                remove(target)
            system.mv(source, path)


def _beside(url: str) -> str:
    parent, _, name = url.rpartition("/")
    return f"{parent}/.{name}.{uuid.uuid4().hex}"


def _copies(url: str) -> bool:
    system, _ = system_of(url)
    names = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    return bool(names & _COPYING_STORES)


def _rename(path: str, to_path: str, url: str) -> None:
    if is_on_this_machine(url):
        os.rename(path, to_path)
        return
    from fsspec import AbstractFileSystem

    system, _ = system_of(url)
    if type(system).mv is AbstractFileSystem.mv:  # which copies
        system.mv(path, to_path, recursive=True)
    else:
        system.mv(path, to_path)
