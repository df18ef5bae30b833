"""Save and load Keras models at a URL as `.keras` files, with metadata and a normalizer."""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.networks.building import (
    Builder,
    complete,
    example_from_json,
    model_of,
    serialize,
)
from sparkwright.networks.definition import dtype_policy
from sparkwright.networks.lora import lora_layers, restart_lora
from sparkwright.networks.normalizing import NormalizerPlace, describe_with_normalizer
from sparkwright.networks.optimizer_checks import (
    exclude_from_weight_decay,
)
from sparkwright.networks.own_objects import own_objects
from sparkwright.networks.signature import remember
from sparkwright.networks.state import ModelState
from sparkwright.networks.steps import optimizers, optimizers_of
from sparkwright.networks.training import ALIASES
from sparkwright.normalizers.normalizer import Normalizer
from sparkwright.options import check_choice

from ._hdf5_models import HDF5_SIGNATURE, check_hdf5, refuse_code, restore_updater
from ._model_archive import (
    CONFIG,
    NOTES,
    WEIGHTS,
    put_normalizer_inside,
    read_json_member,
    take_normalizer_out,
    unpack_model,
    write_model_archive,
)
from .files import open_to_read, write_atomically
from .model_metadata import ModelMetadata, about_model

_ABOUT = "about"
_HDF5_ENDINGS = (".h5", ".hdf5")
_LONGEST_REASON = 1000
_without_updater = threading.Lock()


def save_model(
    model: Any,
    url: str | os.PathLike[str] | BinaryIO,
    *,
    save_updater: bool = True,
    notes: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    normalizer: Normalizer | None = None,
    normalizer_place: NormalizerPlace = "inside",
) -> None:
    """Write `model` to `url` atomically.

    The file also contains what `model_info` returns: time, author, sizes, shapes, versions and
    SHA-256. It contains the states of random generators, which Keras does not save, so that
    training continues as if uninterrupted.

    If Keras cannot serialize the model, and a function built it (`SparkNetwork(spark, build)`), the
    file contains only weights. `load_model` then needs that function.

    Args:
        model: a keras.Model.
        url: URL or local path of the file; Keras' own extension is ".keras". Or an open binary file
            to write to.
        save_updater: save the optimizer's state (default True), so that training can continue. The
            state is not saved if the model was never trained, or if it has LoRA, which Keras merges
            into the weights. Without a saved state, loading initializes the optimizer with the
            present learning rate.
        notes: JSON-serializable values to store in the file for `read_notes`; default none.
        metadata: a dict with any of these keys; default none. "title" and "comment": text.
            "metrics": JSON-serializable results by name. "saved_by": text; default: user and
            machine; None: not saved. "training": JSON-serializable description of the training.
        normalizer: normalizer of the model's inputs and outputs, read by `load_normalizer`. It is
            applied to raw features and reverted on outputs. Default None.
        normalizer_place: "inside" (default): the normalizer is also saved as Keras layers around
            the model. Keras alone then takes raw features and returns outputs in the units of the
            labels. "beside": Keras alone loads the model without the normalizer. `load_model`
            always returns the model without it.

    Raises:
        ConfigurationError: if `metadata` or `notes` are invalid, if Keras cannot serialize the
            model, or if the normalizer cannot be expressed as layers around this model.
        OSError: if the store fails; names the URL.
    """
    import keras

    stream, url = _stream_or_url(url)
    if url.lower().endswith(_HDF5_ENDINGS):
        raise ConfigurationError(
            f"models are saved in the Keras 3 format. Received: {url}. Use a URL ending in "
            '".keras".'
        )
    if notes and _ABOUT in notes:
        raise ConfigurationError(
            f"`notes` must not have the reserved key {_ABOUT!r}. Received: {sorted(notes)}."
        )
    check_choice("normalizer_place", normalizer_place, get_args(NormalizerPlace))
    save_updater = save_updater and not lora_layers(model)
    notes = dict(notes or {})
    outer: dict[str, Any] | None = None
    if normalizer is not None:
        notes["normalizer"] = normalizer.to_dict()
        if normalizer_place == "inside":
            outer = describe_with_normalizer(model, normalizer)
    given = ModelMetadata.from_dict(metadata or {})
    used = optimizers_of(model)
    has_updater = save_updater and any(optimizer.built for optimizer in used)
    about = about_model(model, given, has_updater=has_updater)
    about["seeds"] = [np.asarray(state).ravel().tolist() for state in _states(model)]
    about["normalizer"] = None if normalizer is None else normalizer_place
    described = serialize(model) is not None
    if not described:
        about["weights_only"] = True
    with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
        # Save to a folder, because Keras would build an archive in memory.
        with contextlib.nullcontext() if save_updater else _updater_left_out(used):
            if described:
                keras.saving.save_model(model, folder, zipped=False)
            else:
                model.save_weights(Path(folder) / WEIGHTS)
                (Path(folder) / CONFIG).write_text("{}")
        if outer is not None:
            put_normalizer_inside(Path(folder), outer, str(model.name))
        if described:
            config = json.loads((Path(folder) / CONFIG).read_text())
            own_objects(model, config)
            (Path(folder) / CONFIG).write_text(json.dumps(config))
        with write_atomically(url, durable=True) if stream is None else stream as target:
            write_model_archive(
                target,
                Path(folder),
                lambda digests: {**notes, _ABOUT: {**about, "digests": digests}},
            )


def load_model(
    url: str | os.PathLike[str] | BinaryIO,
    *,
    custom_objects: dict[str, Any] | None = None,
    safe_mode: bool = True,
    build_model: Builder | None = None,
) -> Any:
    """Read a model that `save_model` or Keras wrote.

    The result never contains a normalizer saved in the file: see `load_normalizer`.

    Args:
        url: a `.keras` file, or a whole model in HDF5 (`.h5`), detected by its content. Or an open
            binary file that can seek.
        custom_objects: custom layers, losses and metrics by name; default None.
        safe_mode: raise for files that contain code, such as a lambda in a layer (default True). If
            False, loading EXECUTES code from the file: use it only for files from trusted authors.
        build_model: function that builds and compiles the model, which then gets the weights in the
            file. Required if Keras could not serialize the model. Default None: build the model
            from the file.

    Raises:
        OSError: if the store fails; names the URL.
        DataError: if the file is damaged, is not a model, needs a custom object or contains code;
            names the URL.
    """
    stream, url = _stream_or_url(url)
    with tempfile.TemporaryDirectory(prefix="sparkwright-") as folder:
        with open_to_read(url) if stream is None else stream as file:
            if is_hdf5(file):
                path = Path(folder) / "model.h5"
                with path.open("xb") as target:
                    shutil.copyfileobj(file, target, 1 << 22)
                about: dict[str, Any] = {}
            else:
                path = Path(folder) / "model"
                about = about_in(unpack_model(file, url, path))
                config = read_json_member(file, url, CONFIG)
                if safe_mode:
                    refuse_code(config, url)
                if about.get("normalizer") == "inside":
                    take_normalizer_out(path, str(about.get("name")), url)
        if path.is_file():
            with path.open("rb") as copy:
                check_hdf5(copy, url, safe_mode=safe_mode)
        model = _built(
            path, url, custom_objects, safe_mode=safe_mode, about=about, build_model=build_model
        )
        if path.is_file():
            restore_updater(model, path, url)
    restart_lora(model)
    if about.get("seeds") is not None:
        _restore_seeds(model, about["seeds"], url)
    try:
        exclude_from_weight_decay(model, about.get("undecayed") or "")
    except Exception as error:
        raise DataError(
            "a model file must name variables of the model as excluded from weight decay. "
            f"Received: {url} ({error}). Save the model again."
        ) from None
    return model


def read_notes(url: str) -> dict[str, Any]:
    """Return the notes of `save_model`, which are read alone; empty for a file of Keras."""
    with open_to_read(url) as file:
        if is_hdf5(file):
            return {}
        notes = read_json_member(file, url, NOTES) or {}
    return {name: value for name, value in notes.items() if name != _ABOUT}


def is_hdf5(file: BinaryIO) -> bool:
    """Whether `file` has HDF5's signature; its position is 0 before and after."""
    signature = file.read(len(HDF5_SIGNATURE))
    file.seek(0)
    return signature == HDF5_SIGNATURE


def about_in(notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's description from the notes; empty if it is not a dict."""
    about = notes.get(_ABOUT)
    return about if isinstance(about, dict) else {}


def _stream_or_url(
    place: str | os.PathLike[str] | BinaryIO,
) -> tuple[contextlib.nullcontext[BinaryIO] | None, str]:
    """Return an open file, which stays open, and its text for messages; or None and a URL."""
    if isinstance(place, str | os.PathLike):
        return None, os.fspath(place)
    return contextlib.nullcontext(place), repr(place)


@contextlib.contextmanager
def _updater_left_out(used: Sequence[Any]) -> Generator[None]:
    """Prevent Keras from saving the state of these optimizers within the block."""
    parts = [part for optimizer in used for part in optimizers(optimizer)]
    with _without_updater:
        for part in parts:
            part.save_own_variables = lambda store: None
        try:
            yield
        finally:
            for part in parts:
                del part.save_own_variables


def _built(
    path: Path,
    url: str,
    custom_objects: dict[str, Any] | None,
    *,
    safe_mode: bool,
    about: Mapping[str, Any],
    build_model: Builder | None,
) -> Any:
    import keras

    import sparkwright.networks.metrics  # pyright: ignore[reportUnusedImport]
    import sparkwright.networks.peephole_lstm  # noqa: F401  # pyright: ignore[reportUnusedImport]

    example = about.get("example")
    if build_model is None and about.get("weights_only"):
        raise DataError(
            f"a file with weights only needs a function that builds the model. Received: {url} "
            "without one. Pass it as `build_model`."
        )
    if path.is_file():
        # Keras writes short names of losses into HDF5, but cannot resolve them when loading.
        known = vars(keras.losses)
        losses = {short: known[name] for short, name in ALIASES.items() if name in known}
        custom_objects = {**losses, **(custom_objects or {})}
    with warnings.catch_warnings():
        if about:
            # Expected if the file has no optimizer state. Otherwise raise, because training would
            # not continue as before.
            action = "ignore" if about.get("has_updater") is False else "error"
            warnings.filterwarnings(action, "Skipping variable loading for optimizer")
        try:
            with dtype_policy(about.get("dtype_policy")):
                if build_model is not None:
                    model = model_of(build_model)
                    if example is not None:
                        traced = bool(example["traced"])
                        complete(model, example_from_json(example), traced=traced)
                    ModelState.of(model, training=False)  # the optimizer's variables
                    model.load_weights(path / WEIGHTS if path.is_dir() else path)
                    return model
                model = keras.saving.load_model(
                    path, custom_objects=custom_objects, safe_mode=safe_mode
                )
                if example is not None:
                    remember(model, example_from_json(example))
                return model
        except MemoryError:
            raise
        except Exception as error:  # from Keras, h5py or custom layers
            reason = f"{type(error).__name__}: {error}"
            raise DataError(
                f"a model file must contain a model that Keras can build. Received: {url}: "
                f"{reason[:_LONGEST_REASON]}\nPass custom layers, losses and metrics in "
                "`custom_objects`, or a function that builds the model as `build_model`."
            ) from error


def _restore_seeds(model: Any, seeds: Any, url: str) -> None:
    """Set the states of the random generators; raise DataError if they do not fit."""
    states = _states(model)
    try:
        values = [
            np.asarray(seed, state.dtype).reshape(state.shape)
            for seed, state in zip(seeds, states, strict=True)
        ]
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"a model file must hold one state for each of its {len(states)} random generators. "
            f"Received: {url}, which does not. Save the model again."
        ) from None
    for state, value in zip(states, values, strict=True):
        state.assign(value)


def _states(model: Any) -> list[Any]:
    """Return the states of random generators (such as Dropout's), which Keras does not save."""
    known = {id(variable) for variable in (*model.weights, *model.metrics_variables)}
    return [variable for variable in model.variables if id(variable) not in known]
