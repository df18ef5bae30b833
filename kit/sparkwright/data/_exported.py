"""Exports: find, publish atomically, delete.

    URL/manifest.json                                          written last
    URL/_minibatches-5f0c…/part-00003/0000/minibatch-000017.arrow

Each export uses a new folder name. It begins with "_", so folder readers ignore it; its files are
visible only once a manifest names them.
"""

import contextlib
import os
import re
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sparkwright._version import __version__
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage.files import (
    absolute,
    join,
    read_bytes,
    remove,
    remove_empty_folder,
    remove_tree,
    write_bytes,
)
from sparkwright.storage.listing import list_entries, list_files

from ._manifest import MANIFEST_NAME, Manifest, MinibatchFile

_FOLDER = re.compile(r"_minibatches-[0-9a-f]{12}/?")
# Includes the temporary manifest of a driver killed while writing it.
_UNFINISHED = re.compile(rf"{_FOLDER.pattern}|\.{re.escape(MANIFEST_NAME)}\.[0-9a-f]{{8}}\.tmp")
_CLEANING_S = 10.0
_TRY_S = 0.2
# Spark gives a killed task's Python process two seconds: 12 tries of 0.2 s.
_QUIET_TRIES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedDataSet:
    """An export: minibatches in files.

    Attributes:
        url: the export's folder.
        manifest: the content of the manifest.
        reused: whether an existing export of the same data was kept and nothing was written.
    """

    url: str
    manifest: Manifest
    reused: bool = False

    @property
    def examples(self) -> int:
        """Number of examples in all files."""
        return self.manifest.examples

    @property
    def paths(self) -> list[str]:
        """URLs of the files, in order."""
        folder = join(self.url, self.manifest.folder)
        return [join(folder, file.path) for file in self.manifest.files]

    def __str__(self) -> str:
        manifest = self.manifest
        what = "present already, nothing written" if self.reused else "written"
        skipped = f"; {manifest.skipped}" if manifest.skipped.total else ""
        return (
            f"{self.url}: {manifest.examples:,} examples in {len(manifest.files):,} files of "
            f"{manifest.batch_size}, {manifest.size_bytes / 2**20:.1f} MiB, {what}{skipped}"
        )


class NewExport:
    """Context manager for writing an export; on an error it removes the written files."""

    def __init__(self, url: str, *, by_tasks: bool = False) -> None:
        """Choose a folder name; tasks (`by_tasks`) may still write after their job failed."""
        self.url = url
        self.name = f"_minibatches-{uuid.uuid4().hex[:12]}"
        self.folder = join(url, self.name)
        self._replaces = _manifest_bytes(url)
        self._quiet_tries = _QUIET_TRIES if by_tasks else 1

    def __enter__(self) -> "NewExport":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            # A cleanup error must not replace the original error.
            with contextlib.suppress(Exception, KeyboardInterrupt):
                if not self.is_published():
                    remove_until_empty(self.folder, quiet_tries=self._quiet_tries)
                    remove_empty_folder(self.url)

    def is_published(self) -> bool:
        """Whether the manifest names this export's files."""
        try:
            present = find_export(self.url)
        except DataError:
            return False
        return present is not None and present.manifest.folder == self.name

    def publish(self, *, files: Iterable[MinibatchFile], **content: Any) -> ExportedDataSet:
        """Write the manifest, replacing the export that existed when this one began."""
        import pyarrow as pa

        if _manifest_bytes(self.url) != self._replaces:
            raise ConfigurationError(
                "an export must be the only one at its URL. Received: another export was finished "
                f"at {self.url} while this one was being written. Use a URL of its own."
            )
        manifest = Manifest(
            **content,
            files=tuple(files),
            folder=self.name,
            created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            versions={"sparkwright": __version__, "pyarrow": pa.__version__},
        )
        write_bytes(join(self.url, MANIFEST_NAME), manifest.to_json().encode())
        with contextlib.suppress(OSError):  # the export is published already
            _remove_half_manifests(self.url)
        if self._replaces is not None:
            # If the old manifest is damaged, its folder is unknown and stays.
            with contextlib.suppress(DataError):
                old = Manifest.from_json(self._replaces, url=self.url).folder
                if _FOLDER.fullmatch(old):
                    remove_tree(join(self.url, old))
        return ExportedDataSet(url=self.url, manifest=manifest)


def find_export(url: str) -> ExportedDataSet | None:
    """Return the export at `url`, or None if there is no manifest."""
    content = _manifest_bytes(url)
    if content is None:
        return None
    manifest = Manifest.from_json(content, url=join(url, MANIFEST_NAME))
    return ExportedDataSet(url=absolute(url).rstrip("/"), manifest=manifest)


def reusable_export(
    url: str, *, fingerprint: str | None, batch_size: int, reuse: bool, overwrite: bool
) -> ExportedDataSet | None:
    """Return the export at `url` if it can be reused; None if a new one may be written."""
    entries = list_entries(url)
    others = [e for e in entries if e != MANIFEST_NAME and not _UNFINISHED.fullmatch(e)]
    if others:
        raise ConfigurationError(
            "an export needs a folder of its own, empty or new. Received: "
            f"url={url!r}, which contains {others[:3]}. Choose another URL."
        )
    if MANIFEST_NAME not in entries:
        return None
    try:
        present = find_export(url)
        assert present is not None
        different = _difference(present, fingerprint=fingerprint, batch_size=batch_size)
        if reuse and different is None:
            return replace(present, reused=True)
    except DataError as error:
        different = str(error).rstrip(".")
    if overwrite:
        return None
    raise ConfigurationError(
        "an export is replaced only on request. Received: "
        f"url={url!r}, an existing export: {different or 'reuse=False'}. Use `overwrite=True` or "
        "another URL."
    )


def _difference(
    present: ExportedDataSet, *, fingerprint: str | None, batch_size: int
) -> str | None:
    """Return why the export cannot be reused for this data; None if it can."""
    manifest = present.manifest
    if manifest.batch_size != batch_size:
        return f"it has batch_size={manifest.batch_size}, but batch_size={batch_size} was requested"
    if fingerprint is None:
        return "the data has no fingerprint to compare"
    if manifest.fingerprint is None:
        return "it has no fingerprint, or files have been removed from it"
    if manifest.fingerprint != fingerprint:
        return "it holds other data, or the same data prepared differently"
    folder = join(present.url, manifest.folder)
    stored = list_files(folder) if list_entries(folder) else []
    found = {file.url: file.size_bytes for file in stored}
    sizes = zip(present.paths, manifest.files, strict=True)
    damaged = sum(found.get(path) != file.size_bytes for path, file in sizes)
    return f"{damaged} of its files are missing or changed" if damaged else None


def delete_export(url: str | os.PathLike[str], *, unfinished: bool = False) -> bool:
    """Delete an export: its manifest, its files and the files of interrupted exports.

    Other files in the folder stay.

    Args:
        url: the export's folder.
        unfinished: delete an unfinished export, too; default False.

    Returns:
        Whether anything was deleted.

    Raises:
        ConfigurationError: if the folder holds no export.
        OSError: if the store fails.
    """
    url = os.fspath(url)
    entries = list_entries(url)
    if not entries:
        return False
    folders = [entry.rstrip("/") for entry in entries if _FOLDER.fullmatch(entry)]
    left = [entry for entry in entries if _UNFINISHED.fullmatch(entry)]
    if MANIFEST_NAME in entries:
        try:
            find_export(url)
        except DataError as error:
            if not folders:  # a manifest.json of another program
                raise ConfigurationError(f"`url` must be an export. Received: {error}") from None
        remove(join(url, MANIFEST_NAME))
    elif not left:
        raise ConfigurationError(
            "`url` must be an export, a folder with a manifest. Received: "
            f"url={url!r}, which contains {entries[:3]}."
        )
    elif not unfinished:
        raise ConfigurationError(
            "only a finished export is deleted by default. Received: "
            f"url={url!r}, with files of an export that was interrupted or is still being written. "
            "If none is being written, use `unfinished=True`."
        )
    _remove_half_manifests(url)
    for folder in folders:
        remove_tree(join(url, folder))
    remove_empty_folder(url)
    return True


def remove_until_empty(folder: str, *, quiet_tries: int) -> None:
    """Remove a folder until it is empty `quiet_tries` times in a row: killed tasks may write."""
    end = time.monotonic() + _CLEANING_S
    quiet = 0
    # Readers ignore files that remain, and `delete_export` removes them.
    while quiet < quiet_tries and time.monotonic() < end:
        # Removal fails with "not empty" if a task writes at the same time.
        with contextlib.suppress(OSError):
            remove_tree(folder)
        time.sleep(_TRY_S)
        quiet = 0 if list_entries(folder) else quiet + 1


def _remove_half_manifests(url: str) -> None:
    for entry in list_entries(url):
        if _UNFINISHED.fullmatch(entry) and not _FOLDER.fullmatch(entry):
            remove(join(url, entry))


def _manifest_bytes(url: str) -> bytes | None:
    try:
        return read_bytes(join(url, MANIFEST_NAME))
    except (FileNotFoundError, NotADirectoryError):
        return None
