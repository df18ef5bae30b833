"""Keras' older HDF5 files, which Deeplearning4j and Elephas use too: looked at before loading."""

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError

from ._code_in_models import refuse_code

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_DISTRIBUTED = "distributed_config"


def describe_hdf5(file: BinaryIO, url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file says of its model, without reading weights.

    Returns:
        Fields as `save_model` would have written them down, and what is kept besides.

    Raises:
        DataError: if it is damaged or holds no whole model; names `url`.
    """
    with _Hdf5(file, url) as content:
        config = content.model_config()
        settings: Any = config.get("config")
        name = settings.get("name") if isinstance(settings, Mapping) else None
        version = content.attribute("keras_version")
        distributed = content.json_attribute(_DISTRIBUTED)
        about = {
            "name": name if isinstance(name, str) else None,
            "versions": {} if version is None else {"keras": str(version)},
            "parameters": content.parameters(),
            "has_updater": "optimizer_weights" in content.root,
            "inputs": inputs_of(config),
        }
        return about, {} if distributed is None else {_DISTRIBUTED: distributed}


def check_hdf5(file: BinaryIO, url: str, *, safe_mode: bool) -> None:
    """Refuse what would read other files or, in safe mode, execute code.

    Raises:
        DataError: naming `url` and what it is.
    """
    with _Hdf5(file, url) as content:
        content.refuse_links()
        config = content.model_config()
        if safe_mode:
            refuse_code(config, url)
            refuse_code(content.json_attribute("training_config"), url)


def read_distributed_config(file: BinaryIO, url: str) -> dict[str, Any] | None:
    """The settings that Deeplearning4j and Elephas keep with a model; None if there are none.

    Raises:
        DataError: if they are damaged; names `url`.
    """
    with _Hdf5(file, url) as content:
        return content.json_attribute(_DISTRIBUTED)


def inputs_of(config: Any) -> dict[str, list[int | None]]:
    """Name -> shape of the input layers in a model's description, of Keras 2 or 3; as known.

    Example:
        >>> layer = {"class_name": "InputLayer", "config": {"name": "x", "batch_shape": [None, 4]}}
        >>> inputs_of({"config": {"layers": [layer]}})
        {'x': [None, 4]}
    """
    found: dict[str, list[int | None]] = {}
    settings = config.get("config") if isinstance(config, Mapping) else None
    layers = settings.get("layers") if isinstance(settings, Mapping) else settings
    for layer in layers if isinstance(layers, list) else []:
        inner = layer.get("config") if isinstance(layer, Mapping) else None
        if not isinstance(inner, Mapping) or layer.get("class_name") != "InputLayer":
            continue
        shape = inner.get("batch_shape", inner.get("batch_input_shape"))
        if isinstance(shape, list) and all(n is None or isinstance(n, int) for n in shape):
            found[str(inner.get("name", f"input_{len(found)}"))] = shape
    return found


class _Hdf5:
    """An HDF5 file that may be anything; its damage becomes a DataError."""

    def __init__(self, file: BinaryIO, url: str) -> None:
        import h5py

        self._url = url
        try:
            self.root: Any = h5py.File(file, "r")
        except Exception as error:
            raise self._damaged(str(error)) from None

    def __enter__(self) -> "_Hdf5":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.root.close()
        # What h5py raises for damage is of many kinds.
        if isinstance(error, Exception) and not isinstance(error, DataError):
            raise self._damaged(f"{type(error).__name__}: {error}") from error

    def attribute(self, name: str) -> Any:
        """An attribute of the file, text if it is; None if there is none."""
        value = self.root.attrs.get(name)
        if isinstance(value, bytes | np.bytes_):
            return bytes(value).decode()
        return value.item() if isinstance(value, np.generic) else value

    def json_attribute(self, name: str) -> dict[str, Any] | None:
        text = self.attribute(name)
        if text is None:
            return None
        try:
            found: Any = strict_json(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(f"{name} is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise self._damaged(f"{name} is a {type(found).__name__} and should be a dict")
        return found

    def model_config(self) -> dict[str, Any]:
        config = self.json_attribute("model_config")
        if config is None or "model_weights" not in self.root:
            raise DataError(
                "an HDF5 file must hold a whole model, its description and its weights. Received: "
                f"{self._url}, which does not. Save the model, not only its weights; weights go "
                "into a model of yours with Keras' `model.load_weights`."
            )
        return config

    def parameters(self) -> int:
        """Numbers in the model's weights, by their shapes."""
        import h5py

        sizes: list[int] = []

        def count(_: str, found: Any) -> None:
            if isinstance(found, h5py.Dataset):
                sizes.append(int(np.prod(found.shape, dtype=object)))

        self.root["model_weights"].visititems(count)
        return sum(sizes)

    def refuse_links(self) -> None:
        """No link to another file, and no data set that lies in one."""
        import h5py

        def elsewhere(name: str, link: Any) -> str | None:
            if not isinstance(link, h5py.HardLink):
                return name
            found = self.root[name]
            outside = isinstance(found, h5py.Dataset) and (found.external or found.is_virtual)
            return name if outside else None

        name = self.root.visititems_links(elsewhere)
        if name is not None:
            raise DataError(
                "a model's HDF5 file must hold all of its data itself. Received: "
                f"{self._url}, whose {name!r} lies elsewhere. Save the model again."
            )

    def _damaged(self, reason: str) -> DataError:
        return DataError(
            f"a model's HDF5 file must be whole. Received: {self._url} ({reason}). "
            "Save the model again."
        )
