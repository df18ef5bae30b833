"""Private folders: each process that uses one holds its lock, and others remove abandoned ones."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import uuid
from pathlib import Path

from sparkwright.errors import NetworkError

_LOCK = "in-use"
# Kind of the folders for data of trainers.
SCRATCH = "scratch"
_held: dict[Path, int] = {}  # folder -> descriptor of its lock


def scratch_root() -> Path | None:
    """Return the first of Spark's local folders; None if this process has none."""
    for variable in ("LOCAL_DIRS", "SPARK_LOCAL_DIRS"):
        folder = os.environ.get(variable, "").split(",")[0]
        if folder and os.access(folder, os.W_OK):
            return Path(folder)
    return None


def own_folder(kind: str, root: Path | None = None) -> Path:
    """Make a new folder and hold it; remove those of this kind that no process holds."""
    root = root or Path(tempfile.gettempdir())
    remove_abandoned(root, kind)
    folder = root / f"sparkwright-{user_id()}-{kind}-{uuid.uuid4().hex}"
    try:
        hold(folder)
    except OSError:  # the disk is full
        remove(folder)
        raise
    return folder


def remove(folder: Path) -> None:
    """Remove a folder that this process holds, if it is still there."""
    shutil.rmtree(folder, ignore_errors=True)
    release(folder)


def hold(folder: Path) -> None:
    """Make a private folder and hold it until `release` or the end of this process."""
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not _is_private(found):
            raise NetworkError(
                f"{folder} must be a folder that only this user can access. Received: "
                f"owner {found.st_uid}, mode {stat.filemode(found.st_mode)}. Remove it."
            )
        if folder in _held and _is_lock_of(folder, _held[folder]):
            return
        release(folder)
        # Another process may remove the folder at any time before this one holds it.
        with contextlib.suppress(FileNotFoundError):
            handle = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(handle, fcntl.LOCK_SH)
            _held[folder] = handle


def release(folder: Path) -> None:
    """Stop to hold a folder."""
    if (handle := _held.pop(folder, None)) is not None:
        os.close(handle)


def remove_abandoned(root: Path, kind: str = "") -> None:
    """Remove this user's folders in `root`, of all kinds by default, that no process holds.

    The kernel releases a lock with the process that holds it, however that ended.
    """
    for folder in root.glob(f"sparkwright-{user_id()}-{kind}*"):
        with contextlib.suppress(OSError):
            if folder in _held or not _is_private(folder.lstat()):
                continue
            handle = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder)
            finally:
                os.close(handle)


def remove_abandoned_data() -> None:
    """Remove the data of killed tasks, also those of other executors beside this task's."""
    if (root := scratch_root()) is not None:
        for folder in {root, *root.parent.glob("blockmgr-*")}:
            remove_abandoned(folder, SCRATCH)


def _is_private(found: os.stat_result) -> bool:
    mode = found.st_mode
    return stat.S_ISDIR(mode) and stat.S_IMODE(mode) & 0o077 == 0 and found.st_uid == user_id()


def user_id() -> int:
    """Return the number of this user; 0 on Windows."""
    return os.getuid() if hasattr(os, "getuid") else 0


def _is_lock_of(folder: Path, handle: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), (folder / _LOCK).stat())
    return False
