"""Skipped and invalid items: counts by reason with the first messages, faults, and their log."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError
from sparkwright.options import check_choice

OnError = Literal["raise", "skip"]
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
    """An unusable item of a source; `reason` is the same for all items of a kind."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True, kw_only=True, slots=True)
class Skipped:
    """Items skipped with `on_error="skip"`.

    Attributes:
        counts: reason -> number of lines, files or keys.
        first: messages of the first 20 items, with file and line or key.

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
        """Create the count of `count` items skipped for one reason."""
        return cls(counts={reason: count}, first=(message,))

    @property
    def total(self) -> int:
        """Number of items of all reasons."""
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
        """Convert to JSON types."""
        return {"counts": dict(self.counts), "first": list(self.first)}


class SkipLog:
    """Handle invalid items reported by a reader: raise, or skip and count them."""

    def __init__(
        self, on_error: OnError, error: Callable[[str, str], Exception] | None = None
    ) -> None:
        """Raise or skip; `error` makes the exception of a reason and message, else a DataError."""
        self.raises, self._error = on_error == "raise", error or _with_advice
        self.skipped = Skipped()

    def skip(
        self,
        reason: str,
        message: str,
        *,
        count: int = 1,
        is_wanted: bool = False,
        column: str = "",
        received: str = "",
    ) -> None:
        """Report `count` items, which the caller skips if this returns; one `reason` per kind."""
        if self.raises and not is_wanted:
            raise self._error(reason, message)
        self.skipped += Skipped.of(reason, message, count=count)


def _with_advice(_reason: str, message: str) -> DataError:
    return DataError(f'{message} Or leave such items out: `on_error="skip"`.')


def plain_error(_reason: str, message: str) -> DataError:
    """Return the error of a `SkipLog` without the advice on `on_error="skip"`."""
    return DataError(message)


def check_on_error(on_error: str) -> None:
    """Raise ConfigurationError unless `on_error` is "raise" or "skip"."""
    check_choice("on_error", on_error, ("raise", "skip"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationResult:
    """Counts of a validation; `+` adds the results of parts.

    Each invalid item is counted under the first reason that applies, so `total` is the sum of
    `valid` and the six reasons.

    Attributes:
        total: number of checked items: files, or examples of a data set.
        valid: number of items without a problem.
        missing_file: files that do not exist.
        unreadable: files that the loader cannot read.
        missing_features: items without examples or without the requested features.
        missing_labels: items without the requested labels.
        invalid_features: items with features of another shape than requested.
        invalid_labels: items with labels of another shape than requested.
        deleted: invalid files that were deleted on request.
        first: messages of the first 20 problems, each with its file.

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
    first: tuple[str, ...] = ()

    @property
    def invalid(self) -> int:
        """Number of items with a problem."""
        return self.total - self.valid

    def __add__(self, other: "ValidationResult") -> "ValidationResult":
        total = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return ValidationResult(**total | {"first": total["first"][:_NAMED]})

    def __str__(self) -> str:
        rows = [(text, getattr(self, name)) for name, text in _ROWS]
        rows.append(("deleted", self.deleted))
        shown = [("total", self.total), *((text, n) for text, n in rows if n or text == "valid")]
        width = max(len(text) for text, _ in shown)
        table = [f"{text:<{width}}  {count:>12,}" for text, count in shown]
        return "\n".join([*table, *(f"  {message}" for message in self.first)])


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Rows that are invalid for one reason."""

    reason: str
    rows: NDArray[np.int64]
    message: Callable[[int], str]
    is_wanted: bool = False  # skipped on request (`missing="skip"`), so never an error
    column: str = ""  # empty: the whole row
    received: Callable[[int], str] | None = None  # the invalid text
    stands_for: int = 1  # rows that each of `rows` represents


def report(
    faults: list[Fault], rows: int, where: Callable[[int], str], log: SkipLog
) -> NDArray[np.bool_] | None:
    """Report all faults to `log` in row order; return a mask of valid rows, None if all are."""
    if not faults:
        return None
    # A row that is skipped on request is never an error, even if it has other faults.
    faults = sorted(faults, key=lambda fault: not fault.is_wanted)
    first = np.full(rows, len(faults), np.int64)
    for index in reversed(range(len(faults))):
        first[faults[index].rows] = index
    bad = np.flatnonzero(first < len(faults))
    named = bad[: max(0, _NAMED - len(log.skipped.first))]
    if log.raises:
        errors = bad[[not faults[index].is_wanted for index in first[bad].tolist()]]
        named = errors[:1] if len(errors) else named
    for row in named.tolist():
        fault = faults[first[row]]
        received = "" if fault.received is None else fault.received(row)
        _report_one(fault, f"{where(row)}: {fault.message(row)}", 1, log, received)
    rest = first[bad[len(named) :]]
    for index in np.unique(rest).tolist():
        _report_one(faults[index], faults[index].reason, int((rest == index).sum()), log)
    good = np.ones(rows, np.bool_)
    good[bad] = False
    return good


def taken(made: Any, good: NDArray[np.bool_] | None) -> Any:
    """Return the valid rows of `made` (a mask, None: all), or None if no row is valid."""
    if good is None or good.all():
        return made
    return made.take(good) if good.any() else None


def _report_one(fault: Fault, message: str, rows: int, log: SkipLog, received: str = "") -> None:
    log.skip(
        fault.reason,
        message,
        count=rows * fault.stands_for,
        is_wanted=fault.is_wanted,
        column=fault.column,
        received=received,
    )
