"""Describe, list, verify and delete saved models without loading them."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation.reports import Table
from sparkwright.normalizers.kinds import Normalizer

from ._hdf5_models import DISTRIBUTED, Hdf5File, describe_hdf5, inputs_of
from ._model_archive import (
    CONFIG,
    NOTES,
    digest_of_all,
    digests_in,
    read_text_members,
    unpack_model,
)
from .files import absolute, exists, is_folder, open_to_read, remove, store_errors, system_of
from .listing import StoredFile, list_files
from .model_metadata import ModelInfo, info_from_about, metrics_text, size_text, time_text
from .models import about_in, is_hdf5, read_notes

_ENDINGS = ("keras", "h5", "hdf5")
# Enough for the notes and the archive's directory; by default, stores read megabytes ahead.
_READ_BYTES = 1 << 17
_AT_ONCE = 8
_COLUMNS = ("model", "saved", "by", "parameters", "size", "metrics", "title")
_WIDEST = 48
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class ModelList(list[ModelInfo]):
    """The models of a folder, newest first; a list of `ModelInfo` that is shown as a table.

    Unusable files are included, with their `problem`. Models without a known time, such as damaged
    files, come last.

    Attributes:
        folder_url: URL of the folder.

    Example:
        >>> print(ModelList("/data", [ModelInfo(url="/data/a.keras", size_bytes=1500)]))
        1 model in /data
        model    saved  by  parameters    size  metrics  title
        a.keras                         1.5 kB
    """

    def __init__(self, folder_url: str, models: Iterable[ModelInfo] = ()) -> None:
        """Sort models by time and URL."""
        by_url = sorted(models, key=lambda info: info.url)
        super().__init__(sorted(by_url, key=lambda info: info.saved_at or _LONG_AGO, reverse=True))
        self.folder_url = folder_url

    def __repr__(self) -> str:
        table = Table([_COLUMNS, *([_short(cell) for cell in row] for row in self._cells())])
        return "\n".join([self._heading(), *(table.text_lines()[1:] if self else [])])

    def _repr_html_(self) -> str:
        return Table([_COLUMNS, *self._cells()], title=self._heading()).html()

    def _heading(self) -> str:
        return f"{len(self)} model{'' if len(self) == 1 else 's'} in {self.folder_url}"

    def _cells(self) -> list[list[str]]:
        within = f"{self.folder_url.rstrip('/')}/"
        return [
            [
                info.url.removeprefix(within),
                time_text(info.saved_at),
                info.saved_by or "",
                "" if info.parameters is None else f"{info.parameters:,}",
                size_text(info.size_bytes),
                metrics_text(info.metrics),
                (info.title or info.comment or "")
                if info.problem is None
                else f"cannot be used: {info.problem}",
            ]
            for info in self
        ]


def _short(text: str) -> str:
    """Shorten a cell to one line of limited width."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def model_info(url: str) -> ModelInfo:
    """Describe a saved model, without loading it or importing TensorFlow.

    If the store supports seeking, only the required parts of the file are read. Files that Keras
    wrote contain less information. Weights are not verified: see `verify_model`.

    Args:
        url: URL or local path of a `.keras` file, or of a whole model in HDF5.

    Raises:
        OSError: if the store fails; names the URL.
        DataError: if the file is damaged or not a model; names the URL.
    """
    system, path = system_of(url)
    with store_errors(url, "read"), system.open(path, "rb", block_size=_READ_BYTES) as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        return _info(file, url, size_bytes)


def verify_model(url: str) -> ModelInfo:
    """Read a model's whole file and verify its checksums, without TensorFlow.

    `load_model` does the same. Files that Keras wrote have only the archive's checksums. HDF5 files
    have no checksums; only their config is read.

    Raises:
        OSError: if the store fails; names the URL.
        DataError: if the content differs from what was written; names the URL and the member.
    """
    info = model_info(url)
    if info.format == "keras":
        with open_to_read(url) as file:
            unpack_model(file, url, None)
    return info


def load_normalizer(url: str) -> Normalizer | None:
    """Load the normalizer that `SparkNetwork.save` stored with a model; None if it has none.

    This does not need TensorFlow, and reads only the normalizer.

    Args:
        url: URL or local path of the `.keras` file.

    Raises:
        OSError: from the file system, with the URL.
        DataError, ConfigurationError: if the file is damaged.
    """
    settings = read_notes(url).get("normalizer")
    return None if settings is None else Normalizer.from_dict(settings)


def list_models(folder_url: str, *, recursive: bool = False) -> ModelList:
    """List the models in a folder, newest first.

    Models are files with names that end in ".keras", ".h5" or ".hdf5". A file that is damaged or
    not a model is listed with its problem.

    Args:
        folder_url: URL of the folder, or a pattern such as "s3://models/lenet-*.keras".
        recursive: include sub-folders; default False.

    Raises:
        FileNotFoundError: if `folder_url` does not exist.
        OSError: if the store fails; names the URL.
    """
    files = list_files(folder_url, extensions=_ENDINGS, recursive=recursive)
    # Listed paths are absolute; make those of a relative folder relative again.
    folder, begins = folder_url.rstrip("/"), f"{absolute(folder_url)}/"
    files = [
        replace(file, url=f"{folder}/{file.url.removeprefix(begins)}")
        if file.url.startswith(begins)
        else file
        for file in files
    ]
    # Remote stores have a high latency, so describe several files in parallel.
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sparkwright-list") as threads:
        return ModelList(folder_url, threads.map(_info_or_problem, files))


def delete_model(url: str) -> bool:
    """Remove a model's file; return whether it existed.

    Raises:
        ConfigurationError: if `url` is a folder, or lacks the extension of a model file.
        OSError: if the store fails; names the URL.
    """
    ending = PurePosixPath(url).suffix.lower().lstrip(".")
    if ending not in _ENDINGS or is_folder(url):
        raise ConfigurationError(
            f"a model file must end in one of {', '.join(_ENDINGS)} and not be a folder. "
            f"Received: {url}. Delete other files with the tools of their store."
        )
    present = exists(url)
    remove(url)
    return present


def distributed_config(url: str) -> dict[str, Any] | None:
    """Return the training settings of Deeplearning4j or Elephas in an HDF5 file, or None."""
    with open_to_read(url) as file:
        if not is_hdf5(file):
            return None
        with Hdf5File(file, url) as content:
            return content.json_attribute(DISTRIBUTED)


def _info_or_problem(file: StoredFile) -> ModelInfo:
    try:
        return model_info(file.url)
    except (DataError, OSError) as error:
        return ModelInfo(url=file.url, size_bytes=file.size_bytes, problem=str(error))


def _info(file: BinaryIO, url: str, size_bytes: int) -> ModelInfo:
    if is_hdf5(file):
        about, kept = describe_hdf5(file, url)
        return info_from_about(
            about, url=url, size_bytes=size_bytes, format="hdf5", kept=tuple(sorted(kept))
        )
    texts = read_text_members(file, url)
    notes = texts.get(NOTES, {})
    about = about_in(notes) or _about_of_keras(texts)
    digests = digests_in(notes)
    return info_from_about(
        about,
        url=url,
        size_bytes=size_bytes,
        format="keras",
        sha256=digest_of_all(digests) if digests else None,
        kept=tuple(sorted(name for name in notes if name != "about")),
    )


def _about_of_keras(texts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Describe a file that Keras wrote."""
    config, metadata = texts.get(CONFIG, {}), texts.get("metadata.json", {})
    settings = config.get("config")
    version = metadata.get("keras_version")
    return {
        "name": settings.get("name") if isinstance(settings, dict) else None,
        "saved_at": metadata.get("date_saved"),
        "versions": {} if version is None else {"keras": str(version)},
        "inputs": inputs_of(config),
    }
