"""Read and check Keras' older HDF5 files, and find code in a model's description.

Deeplearning4j and Elephas use HDF5 files too.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sparkwright._yaml import strict_json
from sparkwright.errors import DataError
from sparkwright.networks.optimizer_checks import lost_state, rebuild_optimizer

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
DISTRIBUTED = "distributed_config"
_LAMBDA = "__lambda__"


def code_in(config: Any) -> list[str]:
    """Return the sorted names of layers with Python bytecode; "?" for code outside a layer."""
    found: list[str] = []
    # A stack, because a file could be nested deeper than Python's recursion limit.
    left: list[tuple[Any, str]] = [(config, "?")]
    while left:
        value, owner = left.pop()
        if isinstance(value, list):
            left.extend((inner, owner) for inner in value)
        if not isinstance(value, Mapping):
            continue
        inside = value.get("config")
        if isinstance(inside, Mapping) and isinstance(inside.get("name"), str):
            owner = str(inside["name"])
        if value.get("class_name") == _LAMBDA or _is_old_lambda(value):
            found.append(owner)
        else:
            left.extend((inner, owner) for inner in value.values())
    return sorted(set(found))


def refuse_code(config: Any, url: str) -> None:
    """Raise if a model contains code."""
    layers = code_in(config)
    if layers:
        raise DataError(
            f"a model file must not contain code unless you allow it. Received: {url}, with a "
            f"lambda in {', '.join(map(repr, layers))}. Loading would execute this code. If you "
            "trust its author, pass `safe_mode=False`; better, save the model with a named "
            "function, registered by `keras.saving.register_keras_serializable`."
        )


def _is_old_lambda(value: Mapping[str, Any]) -> bool:
    """Whether `value` is a Lambda layer of Keras 1 or 2: its function is [code, defaults, …]."""
    inside = value.get("config")
    if value.get("class_name") != "Lambda" or not isinstance(inside, Mapping):
        return False
    kinds = (inside.get("function_type"), inside.get("output_shape_type"))
    return "lambda" in kinds or isinstance(inside.get("function"), list)


def describe_hdf5(file: BinaryIO, url: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the notes of `save_model` and the training settings, if any; reads no weights."""
    with Hdf5File(file, url) as content:
        config = content.model_config()
        settings: Any = config.get("config")
        name = settings.get("name") if isinstance(settings, Mapping) else None
        version = content.attribute("keras_version")
        distributed = content.json_attribute(DISTRIBUTED)
        about = {
            "name": name if isinstance(name, str) else None,
            "versions": {} if version is None else {"keras": str(version)},
            "parameters": content.parameters(),
            "has_updater": "optimizer_weights" in content.root,
            "inputs": inputs_of(config),
        }
        return about, {} if distributed is None else {DISTRIBUTED: distributed}


def check_hdf5(file: BinaryIO, url: str, *, safe_mode: bool) -> None:
    """Raise if a model refers to other files or, in safe mode, contains code."""
    with Hdf5File(file, url) as content:
        content.refuse_links()
        config = content.model_config()
        if safe_mode:
            refuse_code(config, url)
            refuse_code(content.json_attribute("training_config"), url)


def restore_updater(model: Any, path: Path, url: str) -> None:
    """Load the optimizer's state, of which Keras itself loads only iterations and learning rate."""
    import h5py

    if not rebuild_optimizer(model):
        return
    variables = {str(variable.path): variable for variable in model.optimizer.variables}
    with path.open("rb") as file, Hdf5File(file, url) as content:
        group = content.root["optimizer_weights"]
        stored = {name: group.get(name) for name in variables}
        values = {n: d[()] for n, d in stored.items() if isinstance(d, h5py.Dataset)}
    if any(v.shape != getattr(values.get(n), "shape", None) for n, v in variables.items()):
        remedy = f"The names in {url} are not those of Keras 3."
        warnings.warn(lost_state(model.optimizer, remedy), stacklevel=3)
        return
    for name, variable in variables.items():
        variable.assign(values[name])


def inputs_of(config: Any) -> dict[str, list[int | None]]:
    """Return name -> shape of the input layers in a config of Keras 2 or 3."""
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


class Hdf5File:
    """An untrusted HDF5 file; raises a DataError if it is damaged."""

    def __init__(self, file: BinaryIO, url: str) -> None:
        import h5py

        self._url = url
        try:
            self.root: Any = h5py.File(file, "r")
        except Exception as error:
            raise self._damaged(str(error)) from None

    def __enter__(self) -> "Hdf5File":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.root.close()
        # h5py raises many classes of errors for damaged files.
        if isinstance(error, Exception) and not isinstance(error, DataError):
            raise self._damaged(f"{type(error).__name__}: {error}") from error

    def attribute(self, name: str) -> Any:
        """Return an attribute of the file, or None."""
        value = self.root.attrs.get(name)
        if isinstance(value, bytes | np.bytes_):
            return bytes(value).decode()
        return value.item() if isinstance(value, np.generic) else value

    def json_attribute(self, name: str) -> dict[str, Any] | None:
        """Return a dict stored as a JSON attribute; None if it is missing."""
        text = self.attribute(name)
        if text is None:
            return None
        try:
            found: Any = strict_json(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._damaged(f"{name} is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise self._damaged(f"{name} is a {type(found).__name__} and should be a dict")
        return found

    def model_config(self) -> dict[str, Any]:
        config = self.json_attribute("model_config")
        if config is None or "model_weights" not in self.root:
            raise DataError(
                "an HDF5 file must hold a whole model, configuration and weights. Received: "
                f"{self._url}, which does not. Save the whole model; load weights alone with "
                "Keras' `model.load_weights`."
            )
        return config

    def parameters(self) -> int:
        """Count the model's parameters from the shapes of its weights."""
        import h5py

        sizes: list[int] = []

        def count(_: str, found: Any) -> None:
            if isinstance(found, h5py.Dataset):
                sizes.append(int(np.prod(found.shape, dtype=object)))

        self.root["model_weights"].visititems(count)
        return sum(sizes)

    def refuse_links(self) -> None:
        """Raise if the file has soft or external links, or external or virtual data sets."""
        import h5py

        def external_link(name: str, link: Any) -> str | None:
            if not isinstance(link, h5py.HardLink):
                return name
            found = self.root[name]
            outside = isinstance(found, h5py.Dataset) and (found.external or found.is_virtual)
            return name if outside else None

        name = self.root.visititems_links(external_link)
        if name is not None:
            raise DataError(
                f"a model's HDF5 file must not refer to other files. Received: {self._url}, "
                f"whose {name!r} does. Save the model again."
            )

    def _damaged(self, reason: str) -> DataError:
        return DataError(
            f"a model's HDF5 file must be complete. Received: {self._url} ({reason}). "
            "Save the model again."
        )
