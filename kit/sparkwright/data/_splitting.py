"""Random splits of distributed data; every example occurs exactly once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_number

from ._reducing import reduced
from .chunks import errors_as_chunks, from_bytes, row_count, to_bytes
from .classes import add_counts, class_of_each_example, class_output, count_classes
from .dataset import DataSet, check_integer

if TYPE_CHECKING:
    from pyspark import Broadcast

    from ._distributed import DistributedDataSet

Counts = NDArray[np.int64]
# NumPy draws hypergeometric numbers only from populations below this.
_MAX_POPULATION = 10**9 - 1


Data = TypeVar("Data", bound="DistributedDataSet")


def split_randomly(data: Data, weights: Sequence[float], *, seed: int) -> list[Data]:
    """Split without counting; the sizes are random."""
    check_integer("seed", seed, minimum=0)
    edges = np.concatenate([[0.0], np.cumsum(check_weights(weights))])
    edges[-1] = np.inf
    return [
        data.derive(
            data.rdd.mapPartitionsWithIndex(partial(_within, seed=seed, low=low, high=high)),
            step=f"random_split {low} {high} {seed}",
        )
        for low, high in pairwise(edges.tolist())
    ]


def split_to_sizes(data: Data, sizes: Counts, *, seed: int) -> list[Data]:
    """Split into parts with `sizes`."""
    check_integer("seed", seed, minimum=0)
    step = f"split to sizes {sizes.tolist()} {seed}"
    counts = [{0: count} for count in data.partition_counts()]
    return _parts(
        data, counts, {0: sizes}, lambda c: np.zeros(row_count(c), np.int64), seed=seed, step=step
    )


def split_stratified(
    data: Data, weights: Sequence[float], *, label: str | None, seed: int
) -> list[Data]:
    """Split so that each part has its share of every class; one Spark job counts the classes."""
    check_integer("seed", seed, minimum=0)
    shares = check_weights(weights)

    def classes_of(chunk: DataSet) -> NDArray[np.int64]:
        return class_of_each_example(chunk, class_output(chunk, label))

    found = reduced(
        data.spark,
        data.rdd,
        lambda chunk, *_: count_classes(classes_of(chunk)),
        add_counts,
        per_partition=True,
        description="count classes",
    )
    counts = [known or {} for known in found]
    classes = sorted({number for known in counts for number in known})
    totals = [sum(known.get(number, 0) for known in counts) for number in classes]
    sizes = stratified_sizes(totals, weights)
    # Empty data has no class, but may have partitions.
    wanted = dict(zip(classes, sizes, strict=True)) or {0: np.zeros(len(weights), np.int64)}
    step = f"stratified_split {shares.tolist()} {label} {seed}"
    return _parts(
        data, counts, wanted, lambda chunk: classes_of(from_bytes(chunk)), seed=seed, step=step
    )


def _parts(
    data: Data,
    counts: Sequence[Mapping[int, int]],
    sizes: Mapping[int, Counts],
    classes_of: Callable[[bytes], NDArray[np.int64]],
    *,
    seed: int,
    step: str,
) -> list[Data]:
    """Split into parts with `sizes` per class; `counts` holds class -> examples per partition."""
    quotas = np.stack(  # (partitions, classes, parts)
        [
            draw_quotas([known.get(number, 0) for known in counts], wanted, [seed, index])
            for index, (number, wanted) in enumerate(sizes.items())
        ],
        axis=1,
    )
    # A broadcast is deserialized once per worker process, not once per task.
    shared = data.rdd.context.broadcast((list(sizes), quotas))
    return [
        data.derive(
            data.rdd.mapPartitionsWithIndex(
                partial(_part, part=part, quotas=shared, classes_of=classes_of, seed=seed)
            ),
            step=f"{step} part {part}",
            counts=tuple(quotas[:, :, part].sum(axis=1).tolist()),
        )
        for part in range(quotas.shape[2])
    ]


@errors_as_chunks
def _part(
    index: int,
    chunks: Iterable[bytes],
    *,
    part: int,
    quotas: "Broadcast[tuple[list[int], Counts]]",
    classes_of: Callable[[bytes], NDArray[np.int64]],
    seed: int,
) -> Iterator[bytes]:
    classes, counts = quotas.value
    by_class = dict(zip(classes, counts[index], strict=True))
    assignment = Assignment(by_class, [seed, index], partition=index)
    for chunk in chunks:
        yield from _selected(chunk, assignment.take(classes_of(chunk)) == part)
    assignment.finish()


@errors_as_chunks
def _within(
    index: int, chunks: Iterable[bytes], *, seed: int, low: float, high: float
) -> Iterator[bytes]:
    random = np.random.default_rng([seed, index])
    for chunk in chunks:
        draws = random.random(row_count(chunk))
        yield from _selected(chunk, (draws >= low) & (draws < high))


def _selected(chunk: bytes, chosen: NDArray[np.bool_]) -> Iterator[bytes]:
    if chosen.all():
        yield chunk
    elif chosen.any():
        yield to_bytes(from_bytes(chunk).take(chosen))


# -- sizes, quotas and draws


def check_weights(weights: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Validate weights; normalize them to a sum of 1."""
    try:
        shares = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        shares = np.full(1, np.nan)
    fits = shares.ndim == 1 and shares.size and np.isfinite(shares).all() and (shares >= 0).all()
    if not fits or shares.sum() <= 0:
        raise ConfigurationError(
            "`weights` must be numbers of at least 0 with a sum above 0. "
            f"Received: weights={weights!r}."
        )
    return shares / shares.sum()


def apportion(total: int, weights: Sequence[float] | NDArray[np.float64]) -> Counts:
    """Apportion `total` in proportion to `weights` (largest remainders; ties go to the first)."""
    return stratified_sizes([total], weights)[0]


def balanced_sizes(total: int, parts: int) -> Counts:
    """Return `parts` sizes that differ by at most one, larger ones first."""
    size, surplus = divmod(total, parts)
    return size + (np.arange(parts) < surplus).astype(np.int64)


def equal_sizes(total: int, largest: int) -> Counts:
    """Return the fewest sizes of at most `largest`; sizes differ by at most one."""
    return balanced_sizes(total, max(1, -(-total // largest)))


def stratified_sizes(
    counts: Sequence[int], weights: Sequence[float] | NDArray[np.float64]
) -> Counts:
    """Return (classes, parts) numbers of examples, each within one example of its share."""
    shares = check_weights(weights)
    sizes = np.zeros((len(counts), len(shares)), np.int64)
    behind = np.zeros(len(shares))
    for row, count in zip(sizes, counts, strict=True):
        exact = count * shares
        row[:] = np.floor(exact + 1e-9)
        behind += exact - row
        # At most one more per part, and none if the share is an integer.
        open_parts = np.flatnonzero(exact - row > 1e-9)
        rest = int(count - row.sum())
        # To the parts furthest below their share so far, so that many small classes do not all
        # favor the same part.
        chosen = open_parts[np.argsort(-behind[open_parts], kind="stable")[:rest]]
        row[chosen] += 1
        behind[chosen] -= 1
    return sizes


def sample_sizes(total: int, size: int | None, fraction: float | None) -> Counts:
    """Return the sizes of a sample and of the rest; see `DistributedDataSet.sample`."""
    if (size is None) == (fraction is None):
        raise ConfigurationError(
            "exactly one of `size` and `fraction` must be set. Received: "
            f"size={size!r}, fraction={fraction!r}."
        )
    check_number("fraction", fraction, minimum=0, maximum=1, optional=True)
    drawn: Any = size if fraction is None else round(total * fraction)
    check_integer("size", drawn, minimum=0)
    if drawn > total:
        raise DataError(
            f"`size` must be at most the number of examples, {total}. Received: size={size}."
        )
    return np.array([drawn, total - drawn])


def draw_quotas(
    counts: Sequence[int], sizes: Sequence[int] | Counts, seed: Sequence[int]
) -> Counts:
    """Draw the (partitions, parts) int64 numbers of examples, as if without replacement.

    With `assigned`, all splits are equally likely; beyond 10⁹ examples, shares are proportional.
    """
    random = np.random.default_rng(list(seed))
    left = np.array(sizes, np.int64)
    quotas = np.zeros((len(counts), len(left)), np.int64)
    for quota, count in zip(quotas, counts, strict=True):
        quota[:] = (
            random.multivariate_hypergeometric(left, count, method="marginals")
            if left.sum() <= _MAX_POPULATION
            else np.minimum(apportion(count, left.astype(np.float64)), left)
        )
        left -= quota
    return quotas


def assigned(quotas: NDArray[Any], seed: Sequence[int]) -> NDArray[np.int32]:
    """Return the (examples,) int32 part of each example of a partition, uniformly shuffled."""
    parts = np.repeat(np.arange(len(quotas), dtype=np.int32), quotas)
    np.random.default_rng(list(seed)).shuffle(parts)
    return parts


class Assignment:
    """Assigns the examples of one partition to parts, chunk by chunk and per class."""

    def __init__(
        self, quotas: Mapping[int, Counts], seed: Sequence[int], *, partition: int
    ) -> None:
        # A single class 0 if classes do not matter.
        present = [number for number in sorted(quotas) if quotas[number].any()]
        self._parts = {
            number: assigned(quotas[number], [*seed, index]) for index, number in enumerate(present)
        }
        self._used = dict.fromkeys(self._parts, 0)
        self._partition = partition

    def take(self, classes: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the part of each of the next examples."""
        found = np.empty(len(classes), np.int32)
        for number in np.unique(classes).tolist():
            rows = np.flatnonzero(classes == number)
            start = self._used.get(number, 0)
            parts = self._parts.get(number, found[:0])[start : start + len(rows)]
            if len(parts) < len(rows):
                raise self._changed("more than")
            found[rows] = parts
            self._used[number] = start + len(rows)
        return found

    def finish(self) -> None:
        """Raise DataError if there were fewer examples than counted."""
        if any(self._used[number] < len(parts) for number, parts in self._parts.items()):
            raise self._changed("fewer than")

    def _changed(self, how: str) -> DataError:
        counted = sum(map(len, self._parts.values()))
        return DataError(
            "the data must be the same each time it is read. Received: in partition "
            f"{self._partition} {how} the {counted} examples of the count, or other classes. "
            "Seed its random steps, or persist or export it before the split."
        )
