"""Problems counted by reason, with the first few named: what was skipped, what is invalid."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

_NAMED = 20
_ROWS = (
    ("valid", "valid"),
    ("missing_file", "file is missing"),
    ("unreadable", "cannot be read"),
    ("missing_features", "no features"),
    ("missing_labels", "no labels"),
    ("invalid_features", "features of another shape"),
    ("invalid_labels", "labels of another shape"),
)


class UnusableItem(Exception):
    """An item of a source that cannot be used.

    Attributes:
        reason: a few words, the same for all items of a kind.
        message: rule, what was received with the file's name, remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


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

    counts: Mapping[str, int] = field(default_factory=dict[str, int])
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
        counts = dict(Counter(self.counts) + Counter(other.counts))
        return Skipped(counts=counts, first=(self.first + other.first)[:_NAMED])

    def __str__(self) -> str:
        if not self.total:
            return "nothing skipped"
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.counts.items()))
        return "\n".join([f"{self.total} skipped: {reasons}", *(f"  {m}" for m in self.first)])

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"counts": dict(self.counts), "first": list(self.first)}


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationResult:
    """Counts of a validation; results of parts add up with `+`.

    Each item that is not valid is counted under the first of the reasons that applies, so
    `total` is the sum of `valid` and the six reasons.

    Attributes:
        total: items looked at: files, or examples of a data set.
        valid: items without a problem.
        missing_file: files that do not exist.
        unreadable: files that the loader refuses.
        missing_features: no features, not those that were asked for, or no examples.
        missing_labels: no labels, or not those that were asked for.
        invalid_features: features of another shape than asked for.
        invalid_labels: labels of another shape than asked for.
        deleted: invalid files removed on request.
        moved: invalid files moved away on request.
        first: messages of the first 20 problems, each naming its file.

    Example:
        >>> one = ValidationResult(total=2, valid=1, unreadable=1, first=("a.arrow: cut off",))
        >>> (one + ValidationResult(total=3, valid=3)).invalid
        1
    """

    total: int = 0
    valid: int = 0
    missing_file: int = 0
    unreadable: int = 0
    missing_features: int = 0
    missing_labels: int = 0
    invalid_features: int = 0
    invalid_labels: int = 0
    deleted: int = 0
    moved: int = 0
    first: tuple[str, ...] = ()

    @property
    def invalid(self) -> int:
        """Items with a problem."""
        return self.total - self.valid

    def __add__(self, other: "ValidationResult") -> "ValidationResult":
        total = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return ValidationResult(**total | {"first": total["first"][:_NAMED]})

    def __str__(self) -> str:
        rows = [(text, getattr(self, name)) for name, text in _ROWS]
        rows += [(name, getattr(self, name)) for name in ("deleted", "moved")]
        shown = [("total", self.total), *((text, n) for text, n in rows if n or text == "valid")]
        width = max(len(text) for text, _ in shown)
        table = [f"{text:<{width}}  {count:>12,}" for text, count in shown]
        return "\n".join([*table, *(f"  {message}" for message in self.first)])

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self) | {"first": list(self.first)}
