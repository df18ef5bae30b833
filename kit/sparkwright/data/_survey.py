"""The results of a first pass over data: lengths of sequences, classes, problems. Pure Python."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, TypeVar

from sparkwright.errors import DataError

from .wording import clipped

# Columns with more distinct values do not hold classes.
MOST_CLASSES = 100_000
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRange:
    """Minimum and maximum length of sequences; the sum of two ranges spans both.

    Attributes:
        shortest: minimum number of steps; None without sequences.
        longest: maximum number of steps; 0 without sequences.
        masked: whether any sequence has a step mask.

    Example:
        >>> total = LengthRange.of([5, 3]) + LengthRange.of([4, 9])
        >>> total.shortest, total.longest
        (3, 9)
    """

    shortest: int | None = None
    longest: int = 0
    masked: bool = False

    @classmethod
    def of(cls, lengths: Iterable[int], *, masked: bool = False) -> "LengthRange":
        found = [int(length) for length in lengths]
        return cls(shortest=min(found, default=None), longest=max(found, default=0), masked=masked)

    def __add__(self, other: "LengthRange") -> "LengthRange":
        known = [s for s in (self.shortest, other.shortest) if s is not None]
        return LengthRange(
            shortest=min(known, default=None),
            longest=max(self.longest, other.longest),
            masked=self.masked or other.masked,
        )

    @property
    def is_uniform(self) -> bool:
        return self.shortest is None or self.shortest == self.longest


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The results of a pass over data; `+` merges two surveys."""

    examples: int = 0
    # By name of the array.
    lengths: Mapping[str, LengthRange] = field(default_factory=dict[str, LengthRange])
    # By column.
    classes: Mapping[Any, frozenset[str]] = field(default_factory=dict[Any, frozenset[str]])

    def __add__(self, other: "Survey") -> "Survey":
        return Survey(
            examples=self.examples + other.examples,
            lengths=_merged(self.lengths, other.lengths, LengthRange.__add__),
            classes=_merged(self.classes, other.classes, lambda a, b: merge_values([a, b])),
        )

    def take(self, rows: Any) -> "Survey":
        """Return the survey itself, which has no rows."""
        del rows
        return self

    def length_of(self, names: Iterable[str]) -> LengthRange:
        """Return the merged length range of several arrays."""
        return sum((self.lengths.get(name, LengthRange()) for name in names), LengthRange())


def _merged(a: Mapping[K, V], b: Mapping[K, V], add: Callable[[V, V], V]) -> dict[K, V]:
    return {**a, **{key: add(a[key], value) if key in a else value for key, value in b.items()}}


def merge_values(found: Iterable[Iterable[str]]) -> frozenset[str]:
    """Merge sets of values, up to `MOST_CLASSES` + 1 values, which indicates too many."""
    values: set[str] = set()
    for some in found:
        for value in some:
            if len(values) > MOST_CLASSES:
                return frozenset(values)
            values.add(value)
    return frozenset(values)


def check_found(values: Collection[str], where: str) -> None:
    """Raise DataError if the values from `merge_values` are too few or too many for classes."""
    if 2 <= len(values) <= MOST_CLASSES:
        return
    count = f"{len(values)}" if len(values) <= MOST_CLASSES else f"more than {MOST_CLASSES:,}"
    first = ", ".join(clipped(value) for value in nsmallest(10, values))
    raise DataError(
        f"a column of classes must have 2 to {MOST_CLASSES:,} distinct values. "
        f"Received: {count}, {first}{', …' if len(values) > 10 else ''}, {where}."
    )
