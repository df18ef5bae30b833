"""Removing or moving the files that a validation found invalid, on the driver.

Tasks may be tried twice; this happens once.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import (
    absolute,
    exists,
    is_folder,
    is_on_this_machine,
    join,
    move,
    remove,
    write_bytes,
)

from ._exported import ExportedDataSet
from ._manifest import MANIFEST_NAME
from ._paths import export_at
from ._validation_result import ValidationResult


def check_target(where: Any, move_to: str) -> None:
    """Refuse to move files to where they would be found again.

    Raises:
        ConfigurationError: if `move_to` is or lies in the folder `where`.
    """
    url = folder_of(where)
    if url is not None and _lies_in(move_to, url):
        raise ConfigurationError(
            "`move_to` must be outside the folder that is validated. Received: "
            f"move_to={move_to!r} in {url}. Choose another folder."
        )


def folder_of(where: Any) -> str | None:
    """URL of the folder or export that `where` is; None if it is something else."""
    if isinstance(where, ExportedDataSet):
        return where.url
    if isinstance(where, (str, os.PathLike)):
        url = os.fspath(where)
        return url if is_folder(url) else None
    return None


def clear(
    where: Any,
    *,
    invalid: Sequence[str],
    missing: Sequence[str],
    root: str,
    move_to: str | None,
) -> ValidationResult:
    """Remove or move files, and have an export's manifest forget them and those that are missing.

    Args:
        where: what was validated.
        invalid: URLs of the files to remove, or to move.
        missing: URLs of files that are not there.
        root: what the URLs of all files begin with; what is behind it is kept when moving.
        move_to: URL of a folder; None: remove them.

    Returns:
        How many were removed or moved.

    Raises:
        ConfigurationError: if a file would be moved over one that was validated.
        OSError: whatever the store says.
    """
    urls = list(dict.fromkeys(invalid))  # a list may name a file twice
    if move_to is None:
        for url in urls:
            remove(url)
    else:
        targets = [join(absolute(move_to), _plain(url).removeprefix(root)) for url in urls]
        _check_free(targets, root)
        for url, target in zip(urls, targets, strict=True):
            move(url, target)
    folder = folder_of(where)
    export = None if folder is None else export_at(folder)
    if export is not None:
        files = join(export.url, export.manifest.folder) + "/"
        manifest = export.manifest.without({u.removeprefix(files) for u in (*urls, *missing)})
        if manifest != export.manifest:
            write_bytes(join(export.url, MANIFEST_NAME), manifest.to_json().encode())
    done = len(urls)
    return ValidationResult(moved=done) if move_to is not None else ValidationResult(deleted=done)


def common_folder(urls: Iterable[str]) -> str:
    """What all URLs begin with, to a slash: what is behind it tells them apart.

    Example:
        >>> common_folder(["/data/one/a", "/data/one/c/d", "/data/two/a"])
        '/data/'
    """
    plain = [_plain(url) for url in urls]
    first, last = min(plain), max(plain)
    length = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[: first.rfind("/", 0, length) + 1]


def _check_free(targets: Sequence[str], root: str) -> None:
    """A pattern or a list may have files below `move_to`, good ones among them."""
    taken = [target for target in targets if _lies_in(target, root) and exists(target)]
    if taken:
        raise ConfigurationError(
            "`move_to` must be a folder where files replace none of those that are validated. "
            f"Received: {taken[0]}, which exists. Choose another folder."
        )


def _lies_in(url: str, folder: str) -> bool:
    return (_place(url) + "/").startswith(_place(folder).rstrip("/") + "/")


def _place(url: str) -> str:
    whole = _plain(absolute(url))
    return os.path.realpath(whole) if is_on_this_machine(url) else whole.rstrip("/")


def _plain(url: str) -> str:
    """A path of this machine in one form of its two."""
    return url.removeprefix("file://")
