"""Keras models at a URL, as `.keras` files, with what belongs to them in the same file."""

import json
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkwright.errors import DataError

from ._entries import read_entry
from ._files import open_to_read, read_bytes, write_atomically

# A member of the archive beside Keras' own, which Keras neither reads nor minds.
_NOTES = "sparkwright.json"
_MAX_NOTES_BYTES = 256 << 20


def save_model(
    model: Any, url: str, *, save_updater: bool = True, notes: Mapping[str, Any] | None = None
) -> None:
    """Write `model` to `url`, atomically.

    Args:
        model: a keras.Model.
        url: where to; ".keras" is Keras' own ending. A local path counts as a URL.
        save_updater: with the optimizer's state (default True), so that training can go on.
        notes: JSON-able values to keep in the file, for `read_notes`; default none.

    Raises:
        OSError: whatever the store says, naming the URL.
    """
    with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
        file = Path(folder) / "model.keras"
        model.save(file, include_optimizer=save_updater)
        if notes:
            with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr(_NOTES, json.dumps(dict(notes), allow_nan=False))
        with file.open("rb") as source, write_atomically(url) as target:
            while block := source.read(1 << 22):
                target.write(block)


def load_model(url: str, *, custom_objects: dict[str, Any] | None = None) -> Any:
    """Read a model that `save_model` or Keras wrote; nothing in the file is executed.

    Args:
        url: where from.
        custom_objects: the user's own layers, losses and metrics, by name; default None.

    Raises:
        OSError: whatever the store says, naming the URL.
        ValueError: Keras' own, if the file is no model or needs a custom object.
    """
    import keras

    with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
        file = Path(folder) / "model.keras"
        file.write_bytes(read_bytes(url))
        return keras.saving.load_model(file, custom_objects=custom_objects, safe_mode=True)


def read_notes(url: str) -> dict[str, Any]:
    """What `save_model` kept beside the model; nothing for a file of Keras' own.

    Only this part of the file is read, where the store can seek.

    Raises:
        OSError: whatever the store says, naming the URL.
        DataError: if the file is no `.keras` file, or the notes are damaged.
    """
    with open_to_read(url) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if _NOTES not in archive.namelist():
                    return {}
                entry = archive.getinfo(_NOTES)
                size_bytes = entry.file_size
                if size_bytes > _MAX_NOTES_BYTES:
                    raise DataError(
                        f"{_NOTES} in a model's file may have {_MAX_NOTES_BYTES} bytes at most. "
                        f"Received: {size_bytes} in {url}. Is it a file of Sparkwright's?"
                    )
                found: Any = json.loads(read_entry(archive, entry))
        # The rest of what damage makes zipfile raise; RecursionError is json's, for [[[[….
        except (zipfile.BadZipFile, ValueError, RuntimeError, EOFError, zlib.error) as error:
            raise DataError(
                f"a model's file must be whole, in Keras' own format. Received: {url} ({error}). "
                "Save the model again."
            ) from None
    if not isinstance(found, dict):
        raise DataError(
            f"{_NOTES} in a model's file must hold a dict. Received: a {type(found).__name__} in "
            f"{url}. Save the model again."
        )
    return found
