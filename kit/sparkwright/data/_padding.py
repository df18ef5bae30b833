"""Chunks of sequences that differ in length, brought to one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from sparkwright.errors import ConfigurationError, DataError

from ._alignment import Alignment, LengthRange, check_alignment, pad_dataset
from ._arrow import errors_as_chunks, from_bytes, to_bytes
from ._chunks import joined_chunks
from ._dataset import DataSet
from ._distributed import DistributedDataSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """What a pass over chunks has found; sums cover both.

    Attributes:
        ranges: input or output name -> steps, of arrays with an axis beside the examples'.
        masked: names with a mask for each step.
    """

    ranges: dict[str, LengthRange] = field(default_factory=dict[str, LengthRange])
    masked: frozenset[str] = frozenset()

    @classmethod
    def of(cls, dataset: DataSet) -> "Lengths":
        """Those of one chunk; features and labels of one name share a range."""
        found = cls()
        for arrays, masks in (
            (dataset.features, dataset.features_masks),
            (dataset.labels, dataset.labels_masks),
        ):
            for name, array in arrays.items():
                if array.ndim > 1:
                    stepwise = name in masks and masks[name].ndim > 1
                    found += cls(
                        ranges={name: LengthRange.of([array.shape[1]])},
                        masked=frozenset([name] if stepwise else []),
                    )
        return found

    def __add__(self, other: "Lengths") -> "Lengths":
        names = dict.fromkeys([*self.ranges, *other.ranges])
        none = LengthRange()
        return Lengths(
            ranges={n: self.ranges.get(n, none) + other.ranges.get(n, none) for n in names},
            masked=self.masked | other.masked,
        )

    def sequences(self) -> list[str]:
        """The names that are sequences beyond doubt: of different lengths, or with masks."""
        return [n for n, r in self.ranges.items() if not r.is_uniform or n in self.masked]


def padded(
    data: DistributedDataSet,
    length: int | None,
    *,
    names: Sequence[str] | None,
    align: Alignment,
) -> DistributedDataSet:
    """See `DistributedDataSet.padded`."""
    check_alignment(align, length)
    found = _lengths(data)
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
    bring = partial(_padded_chunks, names=chosen, length=target, align=align, masked=masked)
    step = f"padded {sorted(chosen)} {target} {align} {masked}"
    counts = data.partition_counts() if data.is_counted else None
    return data.derive(data.rdd.mapPartitions(bring), step=step, counts=counts)


def _lengths(data: DistributedDataSet) -> Lengths:
    from sparkwright.spark._jobs import collect

    rdd = data.rdd.mapPartitions(_lengths_of)
    return sum(collect(data.spark, rdd, description="find the longest sequence"), Lengths())


def _lengths_of(chunks: Iterable[bytes]) -> Iterator[Lengths]:
    yield sum((Lengths.of(from_bytes(chunk)) for chunk in chunks), Lengths())


@errors_as_chunks
def _padded_chunks(
    chunks: Iterable[bytes], *, names: Sequence[str], length: int, align: Alignment, masked: bool
) -> Iterator[bytes]:
    padded_ones = (
        pad_dataset(from_bytes(chunk), names, length, align=align, masked=masked)
        for chunk in chunks
    )
    yield from map(to_bytes, joined_chunks(padded_ones))
