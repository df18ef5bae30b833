"""Keras models at a URL, as `.keras` files."""

import tempfile
from pathlib import Path
from typing import Any

from ._files import read_bytes, write_atomically


def save_model(model: Any, url: str, *, save_updater: bool = True) -> None:
    """Write `model` to `url`, atomically.

    Args:
        model: a keras.Model.
        url: where to; ".keras" is Keras' own ending. A local path counts as a URL.
        save_updater: with the optimizer's state (default True), so that training can go on.

    Raises:
        OSError: whatever the store says, naming the URL.
    """
    with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
        file = Path(folder) / "model.keras"
        model.save(file, include_optimizer=save_updater)
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
