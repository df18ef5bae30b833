"""Rows, bytes and labels of partitions, and whether they were counted or sampled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.data.classes import class_output, label_classes
from sparkwright.data.column_statistics import Priorities, priorities_of
from sparkwright.data.dataset import DataSet
from sparkwright.errors import DataError

LabelBasis = Literal["none", "counted", "sampled"]
MOST_CLASSES = 1000
# Sequences have a label per step: maximum number of labels kept per sampled row.
_LABELS_A_ROW = 16


@dataclass(frozen=True, eq=False, slots=True)
class LabelSample:
    """All labels of a uniform random sample of rows, as `RowSample` draws it."""

    most_rows: int
    priorities: Priorities  # (labels,) increasing; one number per row
    numbers: NDArray[np.int64]  # (labels,) position of the row in its partition
    classes: NDArray[np.int64]  # (labels,)
    one_hot: int = 0  # number of classes if labels are one-hot; 0: not one-hot or unknown
    complete: bool = True  # has every row

    @classmethod
    def empty(cls, most_rows: int) -> "LabelSample":
        """Return an empty sample."""
        none = np.zeros(0, np.int64)
        return cls(most_rows, np.zeros(0, np.uint64), none, none)

    @property
    def rows(self) -> int:
        """Number of rows in the sample."""
        return len(_row_starts(self.priorities))

    def extended(
        self, chunk: DataSet, *, output: str | None, start: int, partition: int, seed: int
    ) -> "LabelSample":
        """Return the sample extended by another chunk, whose first row has the number `start`."""
        if not chunk.labels:
            raise DataError("the data has no labels.")
        name = class_output(chunk, output)
        numbers = np.arange(start, start + len(chunk), dtype=np.int64)
        priorities = priorities_of(numbers, seed=seed, partition=partition)
        chosen = np.argsort(priorities, kind="stable")[: self.most_rows]
        if self.rows >= self.most_rows:
            chosen = chosen[priorities[chosen] < self.priorities[-1]]
        complete = self.complete and len(chosen) == len(chunk)
        if not chosen.size:
            return replace(self, complete=complete)
        labels = {name: chunk.labels[name][chosen]}
        masks = {n: mask[chosen] for n, mask in chunk.labels_masks.items() if n == name}
        classes, one_hot = label_classes(DataSet(labels, labels, labels_masks=masks), name)
        each = _labels_of_each(len(chosen), masks.get(name), len(classes))
        return LabelSample(
            self.most_rows,
            np.concatenate([self.priorities, np.repeat(priorities[chosen], each)]),
            np.concatenate([self.numbers, np.repeat(numbers[chosen], each)]),
            np.concatenate([self.classes, classes]),
            max(self.one_hot, one_hot or 0),
            complete,
        )._cut()

    def _cut(self) -> "LabelSample":
        """Keep the `most_rows` rows of smallest priority."""
        order = np.argsort(self.priorities, kind="stable")
        starts = _row_starts(self.priorities[order])
        ends = np.append(starts[1:], len(order))
        rows = min(self.most_rows, int((ends <= _LABELS_A_ROW * self.most_rows).sum()))
        kept = order[: ends[max(1, rows) - 1] if len(starts) else 0]
        return replace(
            self,
            priorities=self.priorities[kept],
            numbers=self.numbers[kept],
            classes=self.classes[kept],
            complete=self.complete and len(kept) == len(order),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionSurvey:
    """Rows of each partition, and their labels as far as they were read.

    Attributes:
        rows: in each partition, in order; counted, never estimated.
        size_bytes: size of each partition in Spark's memory; empty: unknown.
        label_counts: number of labels of each class in each partition; empty: unknown.
        class_names: names of the classes.
        rows_looked_at: rows of each partition read for labels; empty if `label_counts` is.
        output: name of the output of the labels; empty if there is one output.
        without_labels: reason why labels are unknown; empty if they are known.
        samples: labels with positions. Without them, each partition is assumed to be shuffled.

    Example:
        >>> survey = PartitionSurvey(rows=(300, 100), label_counts=((300, 0), (50, 50)))
        >>> survey.label_basis, survey.class_names, survey.description
        ('counted', ('0', '1'), 'Rows and labels: all counted, in 2 partitions.')
    """

    rows: tuple[int, ...]
    size_bytes: tuple[int, ...] = ()
    label_counts: tuple[tuple[int, ...], ...] = ()
    class_names: tuple[str, ...] = ()
    rows_looked_at: tuple[int, ...] = ()
    output: str = ""
    without_labels: str = ""
    samples: tuple[LabelSample, ...] = ()

    def __post_init__(self) -> None:
        for name in ("rows", "size_bytes", "rows_looked_at"):
            object.__setattr__(self, name, tuple(map(_count, getattr(self, name))))
        counts = tuple(tuple(map(_count, line)) for line in self.label_counts)
        object.__setattr__(self, "label_counts", counts)
        if counts and not self.rows_looked_at:
            object.__setattr__(self, "rows_looked_at", self.rows)
        if counts and not self.class_names:
            object.__setattr__(self, "class_names", tuple(map(str, range(len(counts[0])))))
        object.__setattr__(self, "class_names", tuple(map(str, self.class_names)))
        for name in ("size_bytes", "label_counts", "rows_looked_at", "samples"):
            if len(getattr(self, name)) not in (0, len(self.rows)):
                raise DataError(
                    f"`{name}` must have an entry for each of the {len(self.rows)} partitions. "
                    f"Received: {len(getattr(self, name))}."
                )
        if any(len(line) != len(self.class_names) for line in counts):
            raise DataError(
                f"`label_counts` must have {len(self.class_names)} entries per partition, one "
                f"per class. Received: {sorted({len(line) for line in counts})} numbers."
            )
        if any(seen > rows for seen, rows in zip(self.rows_looked_at, self.rows, strict=False)):
            raise DataError(
                "`rows_looked_at` must not exceed the rows of a partition. Received: "
                f"rows_looked_at={self.rows_looked_at}, rows={self.rows}."
            )

    @classmethod
    def of_samples(
        cls,
        rows: Sequence[int],
        samples: Sequence[LabelSample],
        *,
        size_bytes: Sequence[int] = (),
        class_names: Sequence[str] | None = None,
        output: str = "",
    ) -> "PartitionSurvey":
        """Create a survey from samples.

        Args:
            rows: of each partition.
            samples: of each partition.
            size_bytes: of each partition; default: unknown.
            class_names: names in the order of class indices; default None: the indices.
            output: whose labels.
        """
        found = np.unique(np.concatenate([s.classes for s in samples] or [np.zeros(0, np.int64)]))
        named = class_names or range(max((s.one_hot for s in samples), default=0))
        if len(named) and (not found.size or 0 <= found[0] <= found[-1] < len(named)):
            found = np.arange(len(named))
            names = tuple(map(str, named))
        else:
            names = tuple(map(str, found.tolist()))
        known: dict[str, Any] = {"rows": tuple(rows), "size_bytes": tuple(size_bytes)}
        if not names or len(names) > MOST_CLASSES:
            why = f"more than {MOST_CLASSES:,} different labels" if names else "no labels"
            return cls(**known, output=output, without_labels=f"There are {why}.")
        return cls(
            **known,
            label_counts=tuple(
                tuple(np.bincount(np.searchsorted(found, s.classes), minlength=len(found)).tolist())
                for s in samples
            ),
            class_names=names,
            rows_looked_at=tuple(
                n if s.complete else s.rows for n, s in zip(rows, samples, strict=True)
            ),
            output=output,
            # Columns of `label_counts` are class indices.
            samples=tuple(
                replace(s, classes=np.searchsorted(found, s.classes).astype(np.int64))
                for s in samples
            ),
        )

    @property
    def total(self) -> int:
        """Rows in all."""
        return sum(self.rows)

    @property
    def label_basis(self) -> LabelBasis:
        """Whether labels are unknown, counted, or sampled."""
        if not self.label_counts:
            return "none"
        return "counted" if self.rows_looked_at == self.rows else "sampled"

    @property
    def labels(self) -> NDArray[np.float64]:
        """(partitions, classes) labels of each class, extrapolated to all rows where sampled."""
        counts = np.asarray(self.label_counts, np.float64).reshape(
            len(self.label_counts), len(self.class_names)
        )
        return counts * self._scale()[:, None] if len(counts) else counts

    @property
    def bytes_per_row(self) -> float | None:
        """Mean bytes per row; None if bytes are unknown or there are no rows."""
        return sum(self.size_bytes) / self.total if self.size_bytes and self.total else None

    @property
    def description(self) -> str:
        """Describe what was counted and what was sampled."""
        where = f"in {len(self.rows):,} partition{'' if len(self.rows) == 1 else 's'}"
        if self.label_basis == "counted":
            return f"Rows and labels: all counted, {where}."
        rows = f"Rows: all counted, {where}."
        if self.label_basis == "none":
            why = self.without_labels or "Not counted yet."
            return f"{rows} Labels: {why[:1].lower()}{why[1:]}"
        seen, most = sum(self.rows_looked_at), max(self.rows_looked_at)
        looked_at = zip(self.rows_looked_at, self.rows, strict=True)
        fewest = min(looked for looked, rows in looked_at if looked < rows)
        # Two standard deviations of a proportion of 0.5, in percent.
        within = 100 / math.sqrt(max(1, fewest))
        return (
            f"{rows} Labels: a sample of {seen:,} of {self.total:,} rows, at most {most:,} of "
            f"each partition; shares are accurate to about {within:.0f} percentage points."
        )

    def _scale(self) -> NDArray[np.float64]:
        seen = np.asarray(self.rows_looked_at, np.float64)
        return np.divide(self.rows, seen, out=np.zeros(len(seen)), where=seen > 0)


def _count(value: Any) -> int:
    number = int(value)
    if number != value or number < 0 or isinstance(value, bool):
        raise DataError(f"counts must be integers of at least 0. Received: {value!r}.")
    return number


def _row_starts(priorities: Priorities) -> NDArray[np.int64]:
    """(rows,) index of each row's first label."""
    changes = np.flatnonzero(np.diff(priorities)) + 1
    return np.concatenate([[0], changes]).astype(np.int64)[: len(priorities)]


def _labels_of_each(rows: int, mask: NDArray[np.generic] | None, labels: int) -> NDArray[np.int64]:
    """(rows,) number of labels of each row; masked labels do not count."""
    kept = np.ones(rows, np.int64)
    if mask is not None:
        kept = np.count_nonzero(mask.reshape(rows, -1), axis=1).astype(np.int64)
    total = int(kept.sum())
    return kept * (labels // total if total else 0)
