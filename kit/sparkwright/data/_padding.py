"""Distributed sequences that differ in length, brought to one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError, DataError

from ._alignment import Alignment, LengthRange, check_alignment, pad_dataset
from ._dataset import DataSet
from ._reducing import reduce_all

if TYPE_CHECKING:
    from ._distributed import DistributedDataSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """The lengths of sequences; sums cover both.

    Attributes:
        ranges: input or output name -> steps, of arrays with an axis beside the examples'.
        masked: names with a mask for each step.
    """

    ranges: Mapping[str, LengthRange] = field(default_factory=dict[str, LengthRange])
    masked: frozenset[str] = frozenset()

    @classmethod
    def of(cls, dataset: DataSet) -> "Lengths":
        """Those of one chunk; features and labels of one name share a range."""
        ranges: dict[str, LengthRange] = {}
        for name, array in [*dataset.features.items(), *dataset.labels.items()]:
            if array.ndim > 1:
                known = ranges.get(name, LengthRange())
                ranges[name] = known + LengthRange.of([array.shape[1]])
        masks = [*dataset.features_masks.items(), *dataset.labels_masks.items()]
        stepwise = frozenset(name for name, mask in masks if mask.ndim > 1)
        return cls(ranges=ranges, masked=stepwise & ranges.keys())

    def __add__(self, other: "Lengths") -> "Lengths":
        none = LengthRange()
        return Lengths(
            ranges={
                name: self.ranges.get(name, none) + other.ranges.get(name, none)
                for name in {**self.ranges, **other.ranges}
            },
            masked=self.masked | other.masked,
        )

    def sequences(self) -> list[str]:
        """The names that are sequences beyond doubt: of different lengths, or with masks."""
        return [n for n, r in self.ranges.items() if not r.is_uniform or n in self.masked]


def padded(
    data: "DistributedDataSet",
    length: int | None,
    *,
    names: Sequence[str] | None,
    align: Alignment,
) -> "DistributedDataSet":
    """See `DistributedDataSet.padded`."""
    check_alignment(align, length)
    lengths = reduce_all(
        data, _lengths_of, Lengths.__add__, description="find the longest sequence"
    )
    found = lengths or Lengths()
    chosen = found.sequences() if names is None else list(names)
    strangers = sorted(set(chosen) - set(found.ranges))
    if strangers:
        raise ConfigurationError(
            "`names` must be inputs or outputs whose examples have an axis of steps. Received: "
            f"{strangers}; there are {sorted(found.ranges)}."
        )
    if not chosen:
        if length is None:
            return data
        raise ConfigurationError(
            "with `length` it must be known what is a sequence. Received: arrays of one length "
            f"only, without masks: {sorted(found.ranges)}. Give `names`."
        )
    longest = sum((found.ranges[name] for name in chosen), LengthRange())
    target = length or longest.longest
    if longest.longest > target:
        raise DataError(
            f"`length` must be at least that of the longest sequence, {longest.longest} steps. "
            f"Received: length={length}."
        )
    masked = bool(found.masked & set(chosen)) or longest.shortest != target
    pad = partial(pad_dataset, names=chosen, length=target, align=align, masked=masked)
    return data.map_chunks(pad, step=f"padded {sorted(chosen)} {target} {align} {masked}")


def _lengths_of(chunk: DataSet, partition: int, start: int) -> Lengths:
    return Lengths.of(chunk)
