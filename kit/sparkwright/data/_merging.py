"""Joining DataSets whose sequences differ in length: padded at the end, with masks."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkwright.errors import DataError

from ._dataset import Array, DataSet


def merged(parts: Sequence[DataSet]) -> DataSet:
    """See `DataSet.merge`."""
    if not parts:
        raise DataError("`merge` needs at least one DataSet. Received: parts=[].")
    if all(part.layout == parts[0].layout for part in parts):
        return DataSet.concatenate(parts)
    features, features_masks = _group(parts, "features", "features_masks")
    labels, labels_masks = _group(parts, "labels", "labels_masks")
    return DataSet(
        features,
        labels,
        features_masks=features_masks,
        labels_masks=labels_masks,
        weights=_weights(parts),
    )


def _group(
    parts: Sequence[DataSet], group: str, mask_group: str
) -> tuple[dict[str, Array], dict[str, Array]]:
    arrays: list[dict[str, Array]] = [getattr(part, group) for part in parts]
    masks: list[dict[str, Array]] = [getattr(part, mask_group) for part in parts]
    for number, found in enumerate(arrays):
        if set(found) != set(arrays[0]):
            raise DataError(
                f"DataSets can be merged only when their {group} have the same names. Received: "
                f"part 0 has {sorted(arrays[0])}, part {number} has {sorted(found)}."
            )
    stray = sorted({name for found in masks for name in found} - set(arrays[0]))
    if stray:
        raise DataError(
            f"every mask must carry the name of the array that it masks. Received: {mask_group} "
            f"{stray} beside {group} {sorted(arrays[0])}."
        )
    joined: dict[str, Array] = {}
    joined_masks: dict[str, Array] = {}
    for name in arrays[0]:
        array, mask = _column(
            f"{group}/{name}", [a[name] for a in arrays], [m.get(name) for m in masks]
        )
        joined[name] = array
        if mask is not None:
            joined_masks[name] = mask
    return joined, joined_masks


def _column(
    name: str, arrays: list[Array], masks: list[Array | None]
) -> tuple[Array, Array | None]:
    """The arrays of one name as one array, and its mask if it has one."""
    _refuse_dtypes(name, arrays)
    shapes = {array.shape[1:] for array in arrays}
    given = [mask for mask in masks if mask is not None]
    if given:
        _refuse_dtypes(f"the mask of {name}", given)
    if len(shapes) == 1 and not given:
        return np.concatenate(arrays), None
    dtype = given[0].dtype if given else np.dtype(np.bool_)
    if len(shapes) == 1 and all(mask.ndim == 1 for mask in given):
        full = [
            np.ones(len(a), dtype) if m is None else m for a, m in zip(arrays, masks, strict=True)
        ]
        return np.concatenate(arrays), np.concatenate(full)
    if len(shapes) > 1:
        _refuse_no_sequences(name, arrays, given)
    length = max(array.shape[1] for array in arrays)
    steps = [_step_mask(name, a, m, dtype) for a, m in zip(arrays, masks, strict=True)]
    return (
        np.concatenate([_padded(array, length) for array in arrays]),
        np.concatenate([_padded(mask, length) for mask in steps]),
    )


def _refuse_dtypes(name: str, arrays: Sequence[Array]) -> None:
    dtypes = sorted({str(array.dtype) for array in arrays})
    if len(dtypes) > 1:
        raise DataError(
            f"DataSets can be merged only when {name} has one dtype. Received: {dtypes}. Convert "
            "with `astype`."
        )


def _refuse_no_sequences(name: str, arrays: Sequence[Array], masks: Sequence[Array]) -> None:
    # Without a mask, (n, columns) numbers of different width are no sequences but a mistake.
    first = arrays[0]
    sequences = (
        first.ndim == 3
        or (first.ndim == 2 and first.dtype.kind in "iu")
        or any(mask.ndim == 2 for mask in masks)
    )
    shapes = sorted({array.shape[1:] for array in arrays})
    if not sequences or len({(a.ndim, a.shape[2:]) for a in arrays}) > 1:
        raise DataError(
            f"only sequences may differ in shape when DataSets are merged, and only in length: "
            "(n, time, columns), (n, time) integers, or any array with an (n, time) mask. "
            f"Received: {name} with shapes {shapes} an example."
        )


def _step_mask(name: str, array: Array, mask: Array | None, dtype: np.dtype[Any]) -> Array:
    """(n, time) mask of one part."""
    steps = array.shape[:2]
    if mask is None:
        return np.ones(steps, dtype)
    if mask.ndim == 1:
        return np.repeat(mask[:, None], steps[1], axis=1)
    if mask.shape != steps:
        raise DataError(
            f"a mask of {name} must have one number a step, shape {steps}. Received: {mask.shape}."
        )
    return mask


def _padded(array: Array, length: int) -> Array:
    missing = length - array.shape[1]
    widths = [(0, 0), (0, missing), *[(0, 0)] * (array.ndim - 2)]
    return np.pad(array, widths) if missing else array


def _weights(parts: Sequence[DataSet]) -> Array | None:
    given = [part.weights for part in parts if part.weights is not None]
    if not given:
        return None
    _refuse_dtypes("`weights`", given)
    return np.concatenate(
        [np.ones(len(p), given[0].dtype) if p.weights is None else p.weights for p in parts]
    )
