"""Report on a saved model: path, checksum, and whether it has the weights of the run."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparkwright.errors import SparkwrightError
from sparkwright.storage import load_model
from sparkwright.storage.files import open_to_read
from sparkwright_widgets._block import Block, facts_block, joined
from sparkwright_widgets._format import bytes_text, escaped, number_text, plain

_PIECE_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedModel:
    """Facts on a saved model."""

    url: str
    size_bytes: int | None = None  # None: cannot be read
    sha256: str = ""  # "": cannot be read
    verdict: str = ""  # of loading and comparing, in one sentence
    is_equal: bool | None = None  # all weights equal those of the run's model; None: not compared


def inspect_model(url: str, model: Any) -> SavedModel:
    """Load the model at `url`, without executing code, and compare its weights with `model`'s."""
    try:
        size_bytes, sha256 = _checksum(url)
    except OSError as error:
        return SavedModel(url=url, verdict=f"The file cannot be read: {plain(str(error))}")
    found = SavedModel(url=url, size_bytes=size_bytes, sha256=sha256)
    try:
        loaded = load_model(url)
    except (SparkwrightError, OSError, ValueError, TypeError) as error:
        sentence = plain(str(error)).strip().splitlines()[0]
        return replace(found, verdict=f"The model cannot be loaded: {sentence}")
    if model is None:
        return replace(found, verdict="The model can be loaded. It was not compared with the run.")
    difference = difference_of_weights(
        [np.asarray(each) for each in model.get_weights()],
        [np.asarray(each) for each in loaded.get_weights()],
    )
    return replace(
        found,
        is_equal=not difference,
        verdict=difference or "The saved model has exactly the weights of this run.",
    )


def difference_of_weights(ours: list[Any], theirs: list[Any]) -> str:
    """Describe the difference of two lists of arrays in one sentence; "" if they are equal.

    Example:
        >>> difference_of_weights([np.zeros(2)], [np.zeros(2)])
        ''
        >>> difference_of_weights([np.zeros(2)], [np.array([0.0, 0.5])])
        '1 of 1 weight arrays of the saved model differ from those of this run, by up to 0.5000.'
    """
    shapes = [[tuple(each.shape) for each in side] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        return "The saved model is a different network: its weights have other shapes."
    differ = [k for k, pair in enumerate(zip(ours, theirs, strict=True)) if not _equal(*pair)]
    if not differ:
        return ""
    most = max(float(np.max(np.abs(ours[k] - theirs[k]))) for k in differ)
    return (
        f"{len(differ)} of {len(ours)} weight arrays of the saved model differ from those of this "
        f"run, by up to {number_text(most)}."
    )


def saved_model_block(found: SavedModel) -> Block:
    """Return path, size, checksum and verdict of a saved model."""
    icon = {True: "✓", False: "✕", None: "⚠"}[found.is_equal]
    pairs: list[tuple[str, object]] = [
        ("Path", found.url),
        ("Size", "—" if found.size_bytes is None else bytes_text(found.size_bytes)),
        ("SHA-256 of the file", found.sha256 or "—"),
    ]
    html = f'<p><span aria-hidden="true">{icon}</span> {escaped(found.verdict)}</p>'
    verdict = Block(html=html, text=found.verdict, kind="verdict")
    return joined("saved-model", verdict, facts_block(pairs, label="Saved model"))


def _checksum(url: str) -> tuple[int, str]:
    size_bytes, digest = 0, hashlib.sha256()
    with open_to_read(url) as file:
        while piece := file.read(_PIECE_BYTES):
            size_bytes += len(piece)
            digest.update(piece)
    return size_bytes, digest.hexdigest()


def _equal(one: Any, other: Any) -> bool:
    return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
