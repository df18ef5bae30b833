"""Pad, mask, align and merge sequences of different lengths."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.options import check_choice, check_count

from ._tensors import Array

if TYPE_CHECKING:
    from .dataset import DataSet

Alignment = Literal["equal_length", "start", "end"]
Mask = NDArray[np.bool_]


def check_alignment(align: Any, length: Any = None) -> None:
    """Raise unless `align` and `length` are valid."""
    check_choice("align", align, get_args(Alignment))
    check_count("length", length, optional=True)


def pad(
    steps: Array, lengths: Array, length: int, *, align: Alignment = "start"
) -> tuple[Array, Mask]:
    """Pad sequences with zeros, or truncate them, to one length.

    `align="end"` pads at the start and keeps the last steps of a longer sequence. Otherwise the
    padding is at the end, and the first steps of a longer sequence are kept.

    Args:
        steps: (total, ...) concatenated steps of all sequences.
        lengths: (n,) number of steps of each sequence.
        length: length of the padded sequences.
        align: default "start"; "equal_length" has the same effect.

    Returns:
        (n, length, ...) padded array of the same dtype; (n, length) mask, True at real steps.

    Example:
        >>> values, mask = pad(np.array([7, 8, 9]), np.array([1, 2]), 3, align="end")
        >>> values.tolist(), mask.astype(int).tolist()
        ([[0, 0, 7], [0, 8, 9]], [[0, 0, 1], [0, 1, 1]])
    """
    counts = np.asarray(lengths, np.int64)
    if len(counts) and counts.max() > length:
        first = np.repeat(np.cumsum(counts) - counts, counts)
        at = np.arange(len(steps)) - first
        spare = np.repeat(counts - length, counts)
        steps = steps[at >= spare] if align == "end" else steps[at < length]
        counts = np.minimum(counts, length)
    places = np.arange(length)
    mask = places >= length - counts[:, None] if align == "end" else places < counts[:, None]
    padded = np.zeros((len(counts), length, *steps.shape[1:]), steps.dtype)
    padded[mask] = steps
    return padded, mask


def pad_dataset(
    dataset: "DataSet", names: Iterable[str], length: int, *, align: Alignment, masked: bool
) -> "DataSet":
    """Pad the sequence features and labels in `names` to `length`.

    Args:
        dataset: its arrays in `names` are (n, time, ...).
        names: names of inputs and outputs.
        length: at least `time`.
        align: "end" pads at the start.
        masked: whether to add an (n, length) mask to arrays without a mask.

    Returns:
        A DataSet whose masks are 0 at the added steps; existing masks are kept.
    """
    columns = dataset.columns()
    for flat in [f"{group}/{name}" for name in names for group in ("features", "labels")]:
        if flat in columns:
            array, mask = columns[flat], columns.get(_mask_name(flat))
            columns[flat] = _pad_steps(array, length, align)
            if masked or (mask is not None and mask.ndim > 1):
                steps = _step_mask(flat, array, mask, np.dtype(np.bool_))
                columns[_mask_name(flat)] = _pad_steps(steps, length, align)
    return dataset.from_columns(columns)


def aligned_columns(parts: "Sequence[DataSet]") -> list[dict[str, Array]]:
    """Return the columns of each part, padded to a common shape; see `DataSet.merge`."""
    if not parts:
        raise DataError("`merge` needs at least one DataSet. Received: parts=[].")
    columns = [part.columns() for part in parts]
    if all(part.layout == parts[0].layout for part in parts):
        return columns
    for group in ("features", "labels"):
        _check_names(group, parts)
        for name in getattr(parts[0], group):
            _merge_lengths(f"{group}/{name}", columns)
    weights = [part["weights"] for part in columns if "weights" in part]
    if weights:
        _check_dtypes("`weights`", weights)
        for part, found in zip(parts, columns, strict=True):
            found.setdefault("weights", np.ones(len(part), weights[0].dtype))
    return columns


def _merge_lengths(flat: str, parts: list[dict[str, Array]]) -> None:
    """Pad one array to a common shape in all parts; add masks to all if any part needs one."""
    arrays = [part[flat] for part in parts]
    masks = [part.get(_mask_name(flat)) for part in parts]
    given = [mask for mask in masks if mask is not None]
    _check_dtypes(flat, arrays)
    _check_dtypes(f"the mask of {flat}", given)
    one_shape = len({array.shape[1:] for array in arrays}) == 1
    if not one_shape:
        _check_sequences(flat, arrays, given)
    elif not given:
        return
    dtype = given[0].dtype if given else np.dtype(np.bool_)
    stepwise = not one_shape or any(mask.ndim > 1 for mask in given)
    for part, array, mask in zip(parts, arrays, masks, strict=True):
        if stepwise:
            length = max(array.shape[1] for array in arrays)
            part[flat] = _pad_steps(array, length, "start")
            mask = _pad_steps(_step_mask(flat, array, mask, dtype), length, "start")
        part[_mask_name(flat)] = np.ones(len(array), dtype) if mask is None else mask


def _mask_name(flat: str) -> str:
    return flat.replace("/", "_masks/", 1)


def _step_mask(flat: str, array: Array, mask: Array | None, dtype: np.dtype[Any]) -> Array:
    """Return an (n, time) mask; an (n,) mask is repeated over the steps."""
    if mask is None:
        return np.ones(array.shape[:2], dtype)
    if mask.ndim == 1:
        return np.repeat(mask[:, None], array.shape[1], axis=1)
    if mask.shape != array.shape[:2]:
        raise DataError(
            f"a mask of {flat} must have one number per step, shape {array.shape[:2]}. "
            f"Received: {mask.shape}."
        )
    return mask


def _pad_steps(array: Array, length: int, align: Alignment) -> Array:
    missing = length - array.shape[1]
    if not missing:
        return array
    ends = (missing, 0) if align == "end" else (0, missing)
    return np.pad(array, [(0, 0), ends, *[(0, 0)] * (array.ndim - 2)])


def _check_names(group: str, parts: "Sequence[DataSet]") -> None:
    names = [sorted(getattr(part, group)) for part in parts]
    for number, found in enumerate(names):
        if found != names[0]:
            raise DataError(
                f"DataSets can be merged only when their {group} have the same names. Received: "
                f"part 0 has {names[0]}, part {number} has {found}."
            )
    masks = {name for part in parts for name in getattr(part, f"{group}_masks")}
    stray = sorted(masks - set(names[0]))
    if stray:
        raise DataError(
            f"every mask must have the name of the array that it masks. Received: {group}_masks "
            f"{stray} with {group} {names[0]}."
        )


def _check_dtypes(name: str, arrays: Sequence[Array]) -> None:
    dtypes = sorted({str(array.dtype) for array in arrays})
    if len(dtypes) > 1:
        raise DataError(
            f"DataSets can be merged only when {name} has the same dtype. Received: {dtypes}. "
            "Convert with `astype`."
        )


def _check_sequences(flat: str, arrays: Sequence[Array], masks: Sequence[Array]) -> None:
    # Without a mask, float (n, columns) arrays of different widths are not sequences.
    first = arrays[0]
    sequences = (
        first.ndim == 3
        or (first.ndim == 2 and first.dtype.kind in "iu")
        or any(mask.ndim == 2 for mask in masks)
    )
    if not sequences or len({(array.ndim, array.shape[2:]) for array in arrays}) > 1:
        raise DataError(
            "only sequences may differ in shape when DataSets are merged, and only in length: "
            "(n, time, columns), (n, time) integers, or any array with an (n, time) mask. "
            f"Received: {flat} with shapes {sorted({a.shape[1:] for a in arrays})} per example."
        )
