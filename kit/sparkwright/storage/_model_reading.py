"""Looks at saved models without loading them: one, all of a folder; checks them; removes them."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from sparkwright.errors import ConfigurationError, DataError

from ._files import exists, is_folder, open_to_read, remove, system_of, told
from ._hdf5_models import describe_hdf5, inputs_of, read_distributed_config
from ._listing import list_files
from ._model_archive import (
    CONFIG,
    NOTES,
    digest_of_all,
    digests_in,
    read_text_members,
    unpack_model,
)
from ._model_info import ModelInfo, info_from_about
from ._model_list import ModelList
from ._models import about_in, is_hdf5

_ENDINGS = ("keras", "h5", "hdf5")
# Enough for the notes and the archive's directory; stores would else fetch megabytes ahead.
_READ_BYTES = 1 << 17
_AT_ONCE = 8


def model_info(url: str) -> ModelInfo:
    """What a model's file says of it, without loading it or TensorFlow.

    Only the parts of the file that are needed are read, where the store can seek. Files of Keras'
    own count too, and say less.

    Args:
        url: of a `.keras` file or a whole model in HDF5. A local path counts as a URL.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError: if it is damaged or no model; names the URL. Weights are not looked at: see
            `verify_model`.
    """
    system, path = system_of(url)
    with told(url, "read"), system.open(path, "rb", block_size=_READ_BYTES) as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        return _info(file, url, size_bytes)


def verify_model(url: str) -> ModelInfo:
    """Read all of a model's file and compare it with its checksums; TensorFlow is not needed.

    `load_model` does the same. In a file of Keras' own, only the archive's checksums can be
    compared; HDF5 has none, so there no more than what `model_info` reads is looked at.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError: if anything is not as it was written; names the URL and the part.
    """
    info = model_info(url)
    if info.format == "keras":
        with open_to_read(url) as file:
            unpack_model(file, url, None)
    return info


def list_models(folder_url: str, *, recursive: bool = False) -> ModelList:
    """What is known of each model in a folder, newest first.

    Files ending in ".keras", ".h5" or ".hdf5" count. One that is damaged or no model is listed with
    its problem.

    Args:
        folder_url: of the folder, or a pattern such as "s3://models/lenet-*.keras".
        recursive: with sub-folders; default False.

    Raises:
        FileNotFoundError: if there is nothing at `folder_url`.
        OSError: whatever the store says of the folder, naming the URL.
    """
    files = list_files(folder_url, extensions=_ENDINGS, recursive=recursive)
    # Other stores than this machine's answer slowly, and several at once.
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sparkwright-list") as threads:
        found = threads.map(lambda file: _info_or_problem(file.url, file.size_bytes), files)
        return ModelList.of(folder_url, found)


def delete_model(url: str) -> bool:
    """Remove a model's file; True if it was there.

    Raises:
        ConfigurationError: if a folder is there, or a file that does not end as a model's does.
        OSError: whatever the store says, naming the URL.
    """
    ending = PurePosixPath(url).suffix.lower().lstrip(".")
    if ending not in _ENDINGS or is_folder(url):
        raise ConfigurationError(
            f"a model's file must end in one of {', '.join(_ENDINGS)}, and be no folder. "
            f"Received: {url}. Remove other files with the tools of their store."
        )
    present = exists(url)
    remove(url)
    return present


def distributed_config(url: str) -> dict[str, Any] | None:
    """The settings of training that Deeplearning4j and Elephas keep in HDF5; None without any.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError: if they are damaged; names the URL.
    """
    with open_to_read(url) as file:
        return read_distributed_config(file, url) if is_hdf5(file) else None


def _info_or_problem(url: str, size_bytes: int) -> ModelInfo:
    try:
        return model_info(url)
    except (DataError, OSError) as error:
        return ModelInfo(url=url, size_bytes=size_bytes, problem=str(error))


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
    """What Keras itself writes down."""
    config, metadata = texts.get(CONFIG, {}), texts.get("metadata.json", {})
    settings = config.get("config")
    version = metadata.get("keras_version")
    return {
        "name": settings.get("name") if isinstance(settings, dict) else None,
        "saved_at": metadata.get("date_saved"),
        "versions": {} if version is None else {"keras": str(version)},
        "inputs": inputs_of(config),
    }
