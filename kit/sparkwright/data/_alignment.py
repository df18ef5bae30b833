"""Pad, mask, align and merge sequences of different lengths."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.normalizers.moments import mask_name
from sparkwright.options import check_choice, check_count

from ._survey import LengthRange, Survey
from ._tensors import Array

if TYPE_CHECKING:
    from ._distributed import DistributedDataSet

Alignment = Literal["equal_length", "start", "end"]
Mask = NDArray[np.bool_]
Data = TypeVar("Data", bound="DistributedDataSet")


def check_alignment(align: Any, length: Any = None) -> None:
    """Raise unless `align` and `length` are valid."""
    check_choice("align", align, get_args(Alignment))
    check_count("length", length, optional=True)


def pad(
    steps: Array, lengths: Array, length: int, *, align: Alignment = "start"
) -> tuple[Array, Mask]:
    """Pad or truncate (total, ...) steps of sequences: (n, length, ...) and an (n, length) mask.

    `align="end"` pads at the start and keeps the last steps of a longer sequence.
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


def lengths_of(columns: Mapping[str, Array]) -> Survey:
    """Survey the arrays with steps; features and labels with the same name share a range."""
    found = Survey()
    for flat, array in columns.items():
        group, _, name = flat.partition("/")
        if group in ("features", "labels") and array.ndim > 1:
            mask = columns.get(mask_name(flat))
            masked = mask is not None and mask.ndim > 1
            one = LengthRange.of([array.shape[1]], masked=masked)
            found += Survey(lengths={name: one})
    return found


def padded(data: Data, length: int | None, names: Iterable[str] | None, align: Alignment) -> Data:
    """See `DistributedDataSet.padded`."""
    check_alignment(align, length)
    survey = data.reduce_chunks(
        lambda chunk, *_: lengths_of(chunk.columns()),
        Survey.__add__,
        description="find the longest sequence",
    )
    found = survey or Survey()
    # Arrays of different lengths or with masks are certainly sequences.
    certain = [n for n, r in found.lengths.items() if r.masked or not r.is_uniform]
    chosen = certain if names is None else list(names)
    if strangers := sorted(set(chosen) - set(found.lengths)):
        raise ConfigurationError(
            "`names` must be inputs or outputs whose examples have an axis of steps, such as "
            f"{sorted(found.lengths)}. Received: {strangers}."
        )
    if not chosen and length is not None:
        raise ConfigurationError(
            "with `length`, the sequences must have masks or different lengths. Received: arrays "
            f"of one length without masks, {sorted(found.lengths)}. Set `names`."
        )
    if not chosen:
        return data
    lengths = found.length_of(chosen)
    target = length or lengths.longest
    if lengths.longest > target:
        raise DataError(
            f"`length` must be at least the longest sequence, {lengths.longest} steps. "
            f"Received: length={length}."
        )
    masked = lengths.masked or lengths.shortest != target
    pad_all = partial(pad_columns, names=chosen, length=target, align=align, masked=masked)
    return data.map_chunks(
        lambda chunk: type(chunk).from_columns(pad_all(chunk.columns())),
        step=f"padded {sorted(chosen)} {target} {align} {masked}",
    )


def pad_columns(
    columns: dict[str, Array], names: Iterable[str], length: int, *, align: Alignment, masked: bool
) -> dict[str, Array]:
    """Pad the features and labels in `names` to `length`, in place; masks are 0 at added steps."""
    for flat in [f"{group}/{name}" for name in names for group in ("features", "labels")]:
        if flat in columns:
            array, mask = columns[flat], columns.get(mask_name(flat))
            columns[flat] = _pad_steps(array, length, align)
            if masked or (mask is not None and mask.ndim > 1):
                steps = _step_mask(flat, array, mask, np.dtype(np.bool_))
                columns[mask_name(flat)] = _pad_steps(steps, length, align)
    return columns


def align_columns(parts: list[dict[str, Array]]) -> None:
    """Pad the columns of each part to a common shape, in place; see `DataSet.merge`."""
    # `concatenate` refuses other columns, and different dtypes.
    for flat in sorted(set.intersection(*(set(part) for part in parts))):
        if flat.startswith(("features/", "labels/")):
            _merge_lengths(flat, parts)
    weights = [part["weights"] for part in parts if "weights" in part]
    if weights:
        for part in parts:
            part.setdefault("weights", np.ones(len(next(iter(part.values()))), weights[0].dtype))


def _merge_lengths(flat: str, parts: list[dict[str, Array]]) -> None:
    """Pad one array to a common shape in all parts; add masks to all if any part needs one."""
    arrays = [part[flat] for part in parts]
    masks = [part.get(mask_name(flat)) for part in parts]
    given = [mask for mask in masks if mask is not None]
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
        part[mask_name(flat)] = np.ones(len(array), dtype) if mask is None else mask


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
