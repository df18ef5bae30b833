"""Wrong predictions with the highest probability, in an order independent of the grouping."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, TypeAlias

import numpy as np

from sparkwright.errors import DataError

from .checks import Values, checked_counts, read_as, read_count, read_number
from .numbers import number_text
from .reports import Table
from .rows import Classes, LabeledRows

Record: TypeAlias = str | int | tuple[str | int, ...] | None


def _read_step(name: str, given: Any) -> tuple[int, ...]:
    return tuple(checked_counts(name, given, (None,)).tolist())


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictionError(Values):
    """One wrong prediction.

    Attributes:
        actual: number of the actual class.
        predicted: number of the predicted class, different from `actual`.
        probability: finite probability of the predicted class.
        record: entry of the example in `records=`: text, an integer, or several of these; None
            without records.
        step: indices of the time step or pixel in the example; empty if examples have none.
    """

    actual: int = field(metadata=read_as(read_count))
    predicted: int = field(metadata=read_as(read_count))
    probability: float = field(metadata=read_as(read_number))
    record: Record = None
    step: tuple[int, ...] = field(default=(), metadata=read_as(_read_step))

    def __post_init__(self) -> None:
        object.__setattr__(self, "probability", float(self.probability) + 0.0)  # -0.0 becomes 0.0
        object.__setattr__(self, "record", _checked_record(self.record))

    @property
    def place(self) -> str:
        """Record and step as text; "-" if both are missing."""
        record = self.record if isinstance(self.record, tuple) else (self.record,)
        parts = [str(part) for part in record if part is not None]
        parts += [f"step {', '.join(map(str, self.step))}"] if self.step else []
        return ", ".join(parts) or "-"


def _checked_record(record: Any) -> Record:
    """Convert a record to tuples and Python scalars; raise DataError if it is invalid."""
    if isinstance(record, list | tuple):
        parts: Sequence[Any] = record
        return tuple(_text_or_number(part, record) for part in parts)
    return None if record is None else _text_or_number(record, record)


def _text_or_number(part: Any, record: Any) -> str | int:
    if isinstance(part, str):
        return str(part)
    if isinstance(part, int | np.integer):
        return int(part)
    raise DataError(
        "an entry of `records` must be text, an integer, or a list of these. "
        f"Received: {record!r:.80}."
    )


def most_certain(errors: Iterable[PredictionError], keep: int) -> tuple[PredictionError, ...]:
    """Return the `keep` errors with the highest probability, in the order of all evaluations."""
    return tuple(nsmallest(keep, errors, key=_rank))


def _rank(error: PredictionError) -> tuple[Any, ...]:
    several = isinstance(error.record, tuple)
    parts = error.record if isinstance(error.record, tuple) else (error.record,)
    # Order: None, numbers, texts; single names before lists.
    keys = tuple((0, 0) if p is None else (1, p) if isinstance(p, int) else (2, p) for p in parts)
    return -error.probability, several, keys, error.step, error.actual, error.predicted


def errors_of(
    rows: LabeledRows, predicted: Classes, records: Sequence[Any] | None, keep: int
) -> tuple[PredictionError, ...]:
    """Return the errors of a batch that may be among the `keep` most probable ones."""
    if records is not None and len(records) != rows.where.shape[0]:
        raise DataError(
            "`records` must name every example. "
            f"Received: {len(records)} records for {rows.where.shape[0]} examples."
        )
    rule = "predictions must be finite for `keep_errors`"
    rows.where.require(np.isfinite(rows.scores), rows.scores, rule)
    wrong = np.flatnonzero(rows.actual != predicted)
    certainty = rows.probability_of(predicted[wrong], wrong)
    if wrong.size > keep:
        # Keep all ties with the lowest kept probability: `most_certain` orders them by record.
        bound = np.partition(certainty, wrong.size - keep)[wrong.size - keep]
        wrong, certainty = wrong[certainty >= bound], certainty[certainty >= bound]
    steps = np.unravel_index(rows.where.numbers[wrong], rows.where.shape)[1:]
    examples = rows.where.examples[wrong].tolist()

    def error(place: int) -> PredictionError:
        row = wrong[place]
        return PredictionError(
            actual=int(rows.actual[row]),
            predicted=int(predicted[row]),
            probability=float(certainty[place]),
            record=None if records is None else records[examples[place]],
            step=tuple(int(axis[place]) for axis in steps),
        )

    return most_certain(map(error, range(wrong.size)), keep)


def errors_table(errors: Sequence[PredictionError], names: Sequence[str], most: int) -> Table:
    """Return the first `most` errors."""
    rows = [
        [each.place, names[each.actual], names[each.predicted], number_text(each.probability)]
        for each in errors[:most]
    ]
    title = f"Errors with the highest probability ({len(rows)} of {len(errors)} kept)"
    heads = ["record", "actual", "predicted", "probability"]
    return Table([heads, *rows], title, text_columns=(1, 2))
