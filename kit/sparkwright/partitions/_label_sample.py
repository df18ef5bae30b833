"""Labels of rows that were drawn by chance from one partition, in one pass over it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._classes import class_numbers, class_output
from sparkwright.data._dataset import DataSet
from sparkwright.data._statistics._row_sample import Priorities, priorities_of
from sparkwright.errors import DataError

# Sequences have a label for each step: so many labels are kept for each row that may be.
_LABELS_A_ROW = 16


@dataclass(frozen=True, eq=False, slots=True)
class LabelSample:
    """The labels of at most `most_rows` rows, each set of rows as likely as any other.

    A row with several labels, such as a sequence, is in the sample with all of them.

    Attributes:
        most_rows: rows kept at most.
        priorities: (labels,) uint64, increasing; one number a row.
        numbers: (labels,) int64 place of the row in its partition.
        classes: (labels,) int64 class of each label.
        one_hot: how many classes there are if labels are one-hot; 0 if nobody says.
        complete: whether every row is in it.

    References:
        E. Cohen, H. Kaplan, "Summarizing data using bottom-k sketches", PODC 2007.
    """

    most_rows: int
    priorities: Priorities
    numbers: NDArray[np.int64]
    classes: NDArray[np.int64]
    one_hot: int = 0
    complete: bool = True

    @classmethod
    def empty(cls, most_rows: int) -> "LabelSample":
        """Nothing yet."""
        none = np.zeros(0, np.int64)
        return cls(most_rows, np.zeros(0, np.uint64), none, none)

    @property
    def rows(self) -> int:
        """How many rows there are in the sample."""
        return len(_row_starts(self.priorities))

    def extended(
        self, chunk: DataSet, *, output: str | None, start: int, partition: int, seed: int
    ) -> "LabelSample":
        """The sample after another chunk of the partition.

        Args:
            chunk: some rows; only labels of those that are kept are looked at.
            output: whose labels; None: the only ones.
            start: number of the chunk's first row in its partition.
            partition: number of the partition.
            seed: other seeds give other samples.

        Raises:
            DataError: if the labels are no classes, or there are several outputs and no `output`.
        """
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
        classes, one_hot = class_numbers(DataSet(labels, labels, labels_masks=masks), name)
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
        """Only the rows of smallest priority, as many as may be kept."""
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


def _row_starts(priorities: Priorities) -> NDArray[np.int64]:
    """(rows,) index of each row's first label."""
    changes = np.flatnonzero(np.diff(priorities)) + 1
    return np.concatenate([[0], changes]).astype(np.int64)[: len(priorities)]


def _labels_of_each(rows: int, mask: NDArray[np.generic] | None, labels: int) -> NDArray[np.int64]:
    """(rows,) how many of `labels` labels belong to each row; masked ones do not count."""
    kept = np.ones(rows, np.int64)
    if mask is not None:
        kept = np.count_nonzero(mask.reshape(rows, -1), axis=1).astype(np.int64)
    total = int(kept.sum())
    return kept * (labels // total if total else 0)
