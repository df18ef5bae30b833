"""What a source left out on request, counted by reason: mergeable, with the first few named."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

_NAMED = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """What was left out of a data set because `on_error="skip"` allowed it.

    Attributes:
        counts: reason -> how many lines, files or keys.
        first: messages of the first 20, each naming file and line or key.

    Example:
        >>> one = Skipped.of("unreadable", "a.png is no image")
        >>> both = one + Skipped.of("unreadable", "b.png is no image", count=2)
        >>> both.total, dict(both.counts)
        (3, {'unreadable': 3})
    """

    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    first: tuple[str, ...] = ()

    @classmethod
    def of(cls, reason: str, message: str, *, count: int = 1) -> "Skipped":
        """`count` items left out for one reason."""
        return cls(counts={reason: count}, first=(message,))

    @property
    def total(self) -> int:
        """How many items, over all reasons."""
        return sum(self.counts.values())

    def __add__(self, other: "Skipped") -> "Skipped":
        reasons = dict.fromkeys([*self.counts, *other.counts])
        counts = {r: self.counts.get(r, 0) + other.counts.get(r, 0) for r in reasons}
        return Skipped(counts=counts, first=(self.first + other.first)[:_NAMED])

    def __str__(self) -> str:
        if not self.total:
            return "nothing skipped"
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.counts.items()))
        return "\n".join([f"{self.total} skipped: {reasons}", *(f"  {m}" for m in self.first)])

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"counts": dict(self.counts), "first": list(self.first)}

    def __reduce__(self) -> tuple[Any, ...]:
        """Read-only mappings do not pickle."""
        return _restored, (dict(self.counts), self.first)


def _restored(counts: dict[str, int], first: tuple[str, ...]) -> Skipped:
    return Skipped(counts=counts, first=first)
