"""A saved model in a report: where it is, its checksum, whether it is the model of the run."""

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
    """What was found at the URL of a model.

    Attributes:
        url: where.
        size_bytes: of the file; None: it cannot be read.
        sha256: of the file; empty likewise.
        verdict: one sentence about loading it again.
        is_equal: whether all its weights are those of the run's model; None: not compared.
    """

    url: str
    size_bytes: int | None = None
    sha256: str = ""
    verdict: str = ""
    is_equal: bool | None = None


def look_at_model(url: str, model: Any) -> SavedModel:
    """Read the file at `url`, load the model in it, and compare it with `model`.

    Nothing in the file is executed. Whatever goes wrong becomes the verdict.

    Args:
        url: of a model that was saved.
        model: a keras.Model; None: nothing is compared.
    """
    try:
        size_bytes, sha256 = _checksum(url)
    except OSError as error:
        return SavedModel(url=url, verdict=f"It cannot be read: {plain(str(error))}")
    found = SavedModel(url=url, size_bytes=size_bytes, sha256=sha256)
    try:
        loaded = load_model(url)
    except (SparkwrightError, OSError, ValueError, TypeError) as error:
        sentence = plain(str(error)).strip().splitlines()[0]
        return replace(found, verdict=f"It cannot be loaded: {sentence}")
    if model is None:
        return replace(found, verdict="It can be loaded; there is nothing to compare it with.")
    difference = difference_of_weights(
        [np.asarray(each) for each in model.get_weights()],
        [np.asarray(each) for each in loaded.get_weights()],
    )
    return replace(
        found,
        is_equal=not difference,
        verdict=difference
        or "Loaded again, it has exactly the weights of the model that this run holds.",
    )


def difference_of_weights(ours: list[Any], theirs: list[Any]) -> str:
    """What differs between two lists of arrays, in one sentence; empty: nothing does.

    Example:
        >>> difference_of_weights([np.zeros(2)], [np.zeros(2)])
        ''
        >>> difference_of_weights([np.zeros(2)], [np.array([0.0, 0.5])])
        'Loaded again, 1 of 1 arrays of weights differ from those of this run, by up to 0.5.'
    """
    shapes = [[tuple(each.shape) for each in side] for side in (ours, theirs)]
    if shapes[0] != shapes[1]:
        return "Loaded again, it is another network: its weights have other shapes."
    differ = [k for k, pair in enumerate(zip(ours, theirs, strict=True)) if not _equal(*pair)]
    if not differ:
        return ""
    most = max(float(np.max(np.abs(ours[k] - theirs[k]))) for k in differ)
    return (
        f"Loaded again, {len(differ)} of {len(ours)} arrays of weights differ from those of this "
        f"run, by up to {number_text(most)}."
    )


def saved_model_block(found: SavedModel) -> Block:
    """Path, size, checksum and the result of loading it again."""
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
