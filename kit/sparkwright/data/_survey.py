"""The results of a first pass over data: lengths of sequences, classes, problems. Pure Python."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

# Columns with more distinct values do not hold classes.
MOST_CLASSES = 100_000
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRange:
    """Minimum and maximum length of sequences; the sum of two ranges spans both."""

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
            classes=_merged(
                self.classes, other.classes, lambda a, b: a if len(a) > MOST_CLASSES else a | b
            ),
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
