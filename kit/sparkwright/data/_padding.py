"""Pad distributed sequences to one length."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError, DataError

from ._alignment import Alignment, check_alignment, pad_dataset
from ._reducing import reduce_all
from ._survey import LengthRange, Survey
from .dataset import DataSet

if TYPE_CHECKING:
    from ._distributed import DistributedDataSet


def padded(
    data: "DistributedDataSet",
    length: int | None,
    *,
    names: Sequence[str] | None,
    align: Alignment,
) -> "DistributedDataSet":
    """See `DistributedDataSet.padded`."""
    check_alignment(align, length)
    description = "find the longest sequence"
    found = reduce_all(data, _lengths_of, Survey.__add__, description=description) or Survey()
    # Arrays of different lengths or with masks are certainly sequences.
    certain = [n for n, r in found.lengths.items() if r.masked or not r.is_uniform]
    chosen = certain if names is None else list(names)
    strangers = sorted(set(chosen) - set(found.lengths))
    if strangers:
        raise ConfigurationError(
            "`names` must be inputs or outputs whose examples have an axis of steps, such as "
            f"{sorted(found.lengths)}. Received: {strangers}."
        )
    if not chosen:
        if length is None:
            return data
        raise ConfigurationError(
            "with `length`, the sequences must have masks or different lengths. Received: arrays "
            f"of one length without masks, {sorted(found.lengths)}. Set `names`."
        )
    lengths = found.length_of(chosen)
    target = length or lengths.longest
    if lengths.longest > target:
        raise DataError(
            f"`length` must be at least the longest sequence, {lengths.longest} steps. "
            f"Received: length={length}."
        )
    masked = lengths.masked or lengths.shortest != target
    pad = partial(pad_dataset, names=chosen, length=target, align=align, masked=masked)
    return data.map_chunks(pad, step=f"padded {sorted(chosen)} {target} {align} {masked}")


def _lengths_of(chunk: DataSet, partition: int, start: int) -> Survey:
    """Survey the arrays with steps; features and labels with the same name share a range."""
    del partition, start
    found = Survey()
    for arrays, masks in (
        (chunk.features, chunk.features_masks),
        (chunk.labels, chunk.labels_masks),
    ):
        for name, array in arrays.items():
            if array.ndim > 1:
                masked = name in masks and masks[name].ndim > 1
                one = LengthRange.of([array.shape[1]], masked=masked)
                found += Survey(lengths={name: one})
    return found
