"""Files that outlast a failure of the machine, and what killed writers leave beside them."""

import contextlib
import errno
import os
import re
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

# A writer that is at work has written to its file since.
_LEFT_AFTER = timedelta(days=1)
# Some file systems cannot sync a folder, and need not: they write its entries at once.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}


def sync_file(file: BinaryIO) -> None:
    """Have the file's content on disk before this returns.

    Raises:
        OSError: if the disk fails or is full.
    """
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Have the folder's entries on disk, a rename among them, before this returns.

    Raises:
        OSError: if the disk fails.
    """
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
    """Remove what killed writers of `path`, which has just been written, have left beside it.

    Args:
        system: the store.
        path: the file's path in it.
    """
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
