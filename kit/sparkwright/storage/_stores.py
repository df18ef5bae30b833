"""Resolve the store of a URL, handle its paths and errors, and replace files and folders."""

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from sparkwright.errors import ConfigurationError

from ._hdfs import HDFS, hdfs_system_of

# Files in these stores appear once complete, and can be copied but not renamed.
_OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "abfs", "az", "memory"}
# Scheme -> the package of its store, or None: fsspec has none.
_PACKAGES = {
    **dict.fromkeys(("abfs", "abfss", "adl", "az"), "adlfs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("hdfs", "viewfs"), "hdfs-native"),
    **dict.fromkeys(("dbfs", "wasb", "wasbs", "s3n", "maprfs", "ofs", "o3fs")),
}
# Instead of schemes that fsspec does not have.
_INSTEAD = {"wasb": "abfs://…", "wasbs": "abfss://…", "s3n": "s3://…"}
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):(?P<slashes>/*)(?P<rest>.*)", re.DOTALL | re.I)
# Temporary files of active writers are younger than this.
_LEFT_AFTER = timedelta(days=1)
# Some file systems cannot sync a folder, and need not: they write its entries immediately.
_NO_FOLDER_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EBADF}


def system_of(url: str) -> tuple[Any, str]:
    """Return the store of a URL as an fsspec file system, and the path in it."""
    url = os.fspath(url)
    if url.startswith(f"{HDFS}://"):
        return hdfs_system_of(url)
    import fsspec

    if os.path.lexists(url):  # whatever its name looks like
        return fsspec.filesystem("file"), os.path.abspath(url)
    match = _SCHEME.match(url)
    if match is not None and (spelling := _spelling(**match.groupdict())) is not None:
        raise ConfigurationError(
            f"a URL must be that of a store or a path. Received: {url!r}. Write {spelling}."
        )
    try:
        return fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        scheme = match["scheme"].lower() if match else ""
        if isinstance(error, ValueError) and "Protocol not known" not in str(error):
            raise
        if (package := _PACKAGES.get(scheme)) is not None:
            raise ConfigurationError(
                f"a store needs its package. Received: {url!r}. Install it on the driver and the "
                f"executors: `pip install {package}`."
            ) from None
        raise ConfigurationError(
            f"a URL must have the scheme of a known store. Received: {url!r}: {error}. Copy the "
            "files to such a store, or mount theirs as a folder."
        ) from None


def _spelling(scheme: str, slashes: str, rest: str) -> str | None:
    """Return how to write the URL, if its scheme is known and it is written differently."""
    scheme = scheme.lower()
    if scheme == "dbfs":
        return f"the path of its mount, '/dbfs/{rest}', or that of a volume, '/Volumes/…'"
    if scheme in _INSTEAD:
        return f"its present form, {_INSTEAD[scheme]!r}"
    if scheme not in _PACKAGES or len(slashes) > 1:
        return None  # others are names of files that contain a colon
    root = "/" if scheme in ("hdfs", "viewfs") else ""
    return f"'{scheme}://{root}{rest}'"


@contextlib.contextmanager
def store_errors(url: str, what: str) -> Generator[None]:
    """Raise a store's errors as OSErrors that name the URL; raise other errors unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{url} does not exist{looked_in(url)}. Check the path and the host."
        ) from None
    except OSError as error:
        raise like(error, f"{url} could not be {what}: {error}") from error
    except Exception as error:
        # Amazon's client raises its own errors, for example for missing credentials.
        if type(error).__module__.partition(".")[0] not in ("botocore", "aiobotocore"):
            raise
        raise OSError(f"{url} could not be {what}: {error}") from error


def looked_in(url: str) -> str:
    """Name the folder of a relative path: working folders of notebooks differ."""
    is_relative = "://" not in url and "::" not in url and not os.path.isabs(url)
    return f" (looked in {os.getcwd()})" if is_relative else ""


def like(error: OSError, text: str) -> OSError:
    """Return an error with another text, of the same class if it can be made from a text."""
    try:
        return type(error)(text)
    except TypeError:
        return OSError(text)


def is_on_this_machine(url: str) -> bool:
    """Whether `url` is in the local file system."""
    return "://" not in url or url.startswith("file://")


def is_object_store(system: Any) -> bool:
    """Whether `system` is an object store: files appear once complete and cannot be renamed."""
    names = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    return bool(names & _OBJECT_STORES)


def local_path(url: str) -> str | None:
    """Return the path of an absolute local URL, as fsspec would; None for other URLs."""
    path = url.removeprefix("file://")
    return path if path.startswith("/") else None


def absolute(url: str) -> str:
    """Return `url` without relative paths, so that other processes on this machine can use it.

    Example:
        >>> absolute("/data/a/"), absolute("memory://runs/a")
        ('/data/a', 'memory://runs/a')
    """
    system, path = system_of(url)
    return in_requested_form(system, url, path, path)


def in_requested_form(system: Any, url: str, path: str, name: str) -> str:
    """Return a store's `name` in the form of the requested `url`, whose path is `path`."""
    if "://" not in url:
        return str(name)
    # Stores strip the scheme from URLs, and some strip the host. The rest is unchanged.
    begun = url.rstrip("/").removesuffix(path)
    if begun != url.rstrip("/") and name.startswith(path[:1]):
        return f"{begun}{name}"
    return str(system.unstrip_protocol(name))


def beside(path: str, ending: str = "") -> str:
    """Return a hidden, unused name in the same folder as a path or URL."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.{uuid.uuid4().hex[:8]}{ending}"


def put_in_place(system: Any, new: str, path: str, *, folder: bool) -> None:
    """Move a new file or folder to `path`, replacing an existing one.

    Atomic if the store can; else the old one is moved aside, and restored after a failure.
    """
    is_local = is_on_this_machine(system.unstrip_protocol(path))
    if is_local and not folder:
        os.replace(new, path)
    elif system.protocol == HDFS and not folder:
        system.mv(new, path, overwrite=True)
    elif _copies(system):
        if folder and system.exists(path):
            system.rm(path, recursive=True)
        # One file at a time: `mv`, `cp` and `rm` interpret names with brackets as patterns.
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
    """Sync the file's content to disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """Sync the folder's entries, including renames, to disk."""
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
    """Remove temporary files left by killed writers of `path`, which has just been written."""
    folder, _, name = path.rpartition("/")
    pattern = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}\.tmp(\.old)?")
    with contextlib.suppress(OSError, NotImplementedError):
        for found in system.ls(folder or ".", detail=False):
            match = pattern.fullmatch(str(found).rpartition("/")[2])
            # An old file that was moved aside is obsolete at any age.
            if match and (match[1] or _is_left(system, found)):
                system.rm_file(found)


def _is_left(system: Any, path: str) -> bool:
    changed = system.modified(path)
    changed = changed if changed.tzinfo else changed.replace(tzinfo=UTC)
    return datetime.now(UTC) - changed > _LEFT_AFTER
