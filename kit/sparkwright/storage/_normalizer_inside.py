"""Add a normalizer to the files of a saved model, as layers around it, and remove it again.

Only the config and the names in the weights file change. No weights are read or written.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ._model_archive import CONFIG, damaged

_WEIGHTS = "model.weights.h5"
_LAYERS, _OPTIMIZER = "layers", "optimizer"
_ASSETS = "assets"
_MEANWHILE = "sparkwright_meanwhile"
_OF_THE_GRAPH = ("name", "inbound_nodes")


def put_normalizer_inside(folder: Path, outer: dict[str, Any], name: str) -> None:
    """Wrap the model that Keras saved in `folder` in the model with the config `outer`.

    The outer model takes over the optimizer and the `compile` settings, because it has the same
    variables and outputs.
    """
    config = json.loads((folder / CONFIG).read_text())
    if "compile_config" in config:
        outer["compile_config"] = config.pop("compile_config")
    entry = _entry(outer, name)
    kept = {key: entry[key] for key in _OF_THE_GRAPH}
    entry.clear()
    entry.update(config, **kept)
    (folder / CONFIG).write_text(json.dumps(outer))
    group = _group_of(entry)
    _move_weights(folder / _WEIGHTS, group, inward=True)
    if any((folder / _ASSETS).glob("*")):
        (folder / _ASSETS).rename(folder / _MEANWHILE)
        (folder / _ASSETS / _LAYERS).mkdir(parents=True)
        (folder / _MEANWHILE).rename(folder / _ASSETS / _LAYERS / group)


def take_normalizer_out(folder: Path, name: str, url: str) -> None:
    """Restore exactly the files that `put_normalizer_inside` changed."""
    # Invalid content can raise many kinds of errors. None of the content is executed here.
    try:
        outer = json.loads((folder / CONFIG).read_text())
        entry = _entry(outer, name)
        config = {key: value for key, value in entry.items() if key not in _OF_THE_GRAPH}
        if "compile_config" in outer:
            config["compile_config"] = outer["compile_config"]
        group = _group_of(entry)
        _move_weights(folder / _WEIGHTS, group, inward=False)
        assets = folder / _ASSETS / _LAYERS / group
        if assets.is_dir():
            assets.rename(folder / _MEANWHILE)
            (folder / _ASSETS).rename(folder / f"{_MEANWHILE}_too")
            (folder / _MEANWHILE).rename(folder / _ASSETS)
        (folder / CONFIG).write_text(json.dumps(config))
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError, OSError) as error:
        reason = f"its normalizer cannot be extracted: {type(error).__name__}: {error}"
        raise damaged(url, reason) from error


def _entry(outer: Mapping[str, Any], name: str) -> dict[str, Any]:
    (entry,) = (layer for layer in outer["config"]["layers"] if layer["name"] == name)
    return entry


def _group_of(entry: Mapping[str, Any]) -> str:
    """Return Keras' name of a layer in the weights file, which derives from its class."""
    from keras.src.utils.naming import to_snake_case

    group = to_snake_case(str(entry["class_name"]))
    if not group.isidentifier():
        raise ValueError(f"invalid class name {group!r:.80}")
    return group


def _move_weights(path: Path, group: str, *, inward: bool) -> None:
    """Move all weights but the optimizer's variables into the layer's group, or out of it."""
    import h5py

    with h5py.File(path, "r+") as opened:
        file: Any = opened
        if inward:
            inner = [name for name in file if name != _OPTIMIZER]
            file.create_group(_MEANWHILE)
            for name in inner:
                file.move(name, f"{_MEANWHILE}/{name}")
            file.create_group(_LAYERS)
            file.move(_MEANWHILE, f"{_LAYERS}/{group}")
            return
        for parent, name in ((file, _LAYERS), (file[_LAYERS], group)):
            if type(parent.get(name, getlink=True)) is not h5py.HardLink:
                raise LookupError(f"{name!r} is not in {_WEIGHTS}")
        file.move(f"{_LAYERS}/{group}", _MEANWHILE)
        del file[_LAYERS]
        for name in list(file[_MEANWHILE]):
            file.move(f"{_MEANWHILE}/{name}", name)
        del file[_MEANWHILE]
