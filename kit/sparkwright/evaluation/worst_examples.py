"""The examples with the highest loss, found in parts of the data and then merged."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import DataError

from .checks import LARGEST_COUNT, check_count
from .numbers import number_text

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class WorstExample:
    """One example with its loss.

    Attributes:
        score: its loss without regularization; NaN ranks above any number.
        partition: its partition of the data, from 0.
        row: its row in the partition, from 0.
        features: input name -> array of the example, as in the data: not normalized.
        labels: output name -> array of the label; 0-dimensional for a number.
        predictions: output name -> array of the network's output, in the units of the labels.
        features_masks: input name -> (T,) array, 0 where a step is padding; empty without masks.
    """

    score: float
    partition: int
    row: int
    features: Arrays = field(repr=False)
    labels: Arrays = field(repr=False)
    predictions: Arrays = field(default_factory=dict[str, NDArray[Any]], repr=False)
    features_masks: Arrays = field(default_factory=dict[str, NDArray[Any]], repr=False)

    @property
    def place(self) -> tuple[int, int]:
        """Partition and row."""
        return self.partition, self.row

    @property
    def rank(self) -> tuple[bool, float, int, int]:
        """Sort key: highest loss first, ties in the order of the data."""
        unknown = math.isnan(self.score)
        return not unknown, 0.0 if unknown else -self.score, self.partition, self.row


@dataclass(frozen=True, slots=True, eq=False)
class WorstExamples:
    """The examples with the highest loss; those of parts can be added.

    Memory is that of `count` examples. The result does not depend on the grouping of the data.

    Attributes:
        count: most examples to keep, at least 1.
        examples: highest loss first.
        scored: number of examples scored.
        class_names: output name -> names of its classes; empty without class names.

    Example:
        >>> features = {"x": np.arange(4.0)[:, None]}
        >>> worst = WorstExamples.of_rows(
        ...     [0.1, 2.0, 0.3, 2.0], features, {"y": np.zeros(4)}, count=2, partition=0
        ... )
        >>> [(example.score, example.row) for example in worst]
        [(2.0, 1), (2.0, 3)]
    """

    count: int
    examples: tuple[WorstExample, ...] = ()
    scored: int = field(default=0, kw_only=True)
    class_names: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]], kw_only=True
    )

    def __post_init__(self) -> None:
        check_count("count", self.count, minimum=1)
        check_count("scored", self.scored, minimum=0, maximum=LARGEST_COUNT)
        ordered = tuple(sorted(self.examples, key=lambda example: example.rank))
        object.__setattr__(self, "examples", ordered)

    @classmethod
    def of_rows(
        cls,
        scores: ArrayLike,
        features: Arrays,
        labels: Arrays,
        predictions: Arrays | None = None,
        *,
        features_masks: Arrays | None = None,
        count: int,
        partition: int = 0,
        first_row: int = 0,
        class_names: Mapping[str, tuple[str, ...]] | None = None,
    ) -> "WorstExamples":
        """Select the worst of n examples.

        Args:
            scores: (n,) losses.
            features: input name -> (n, ...).
            labels: output name -> (n, ...).
            predictions: output name -> (n, ...); default None: unknown.
            features_masks: input name -> (n, T); default None: no masks.
            count: number of examples to keep.
            partition: partition of the examples.
            first_row: row of the first example in the partition.
            class_names: output name -> names of its classes; default none.

        Raises:
            DataError: if the arrays have different numbers of examples.
        """
        losses = np.asarray(scores, np.float64)
        groups = {
            "features": features,
            "labels": labels,
            "predictions": predictions or {},
            "features_masks": features_masks or {},
        }
        sizes = {len(array) for group in groups.values() for array in group.values()}
        if losses.ndim != 1 or sizes - {losses.size}:
            raise DataError(
                "scores, features, labels and predictions must have the same number of examples. "
                f"Received: scores of shape {losses.shape} and arrays of {sorted(sizes)}."
            )
        check_count("count", count, minimum=1)
        # NaN sorts last, as the largest loss; the first of tied losses is kept.
        order = np.lexsort((-losses, ~np.isnan(losses)))[:count]

        def example(row: int) -> WorstExample:
            # Copy: a view would keep the whole block in memory.
            parts: Any = {
                key: {name: array[row].copy() for name, array in group.items()}
                for key, group in groups.items()
            }
            score = float(losses[row])
            return WorstExample(score=score, partition=partition, row=first_row + row, **parts)

        found = tuple(map(example, order.tolist()))
        return cls(count, found, scored=losses.size, class_names=dict(class_names or {}))

    def __add__(self, other: "WorstExamples") -> "WorstExamples":
        """Return the worst examples of both sets of data together.

        Raises:
            DataError: if `count` differs.
        """
        if not isinstance(other, WorstExamples) or other.count != self.count:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DataError(
                "only worst examples of the same `count` can be added. Received: "
                f"count={self.count} and {getattr(other, 'count', repr(other))}."
            )
        both = nsmallest(self.count, [*self.examples, *other.examples], key=lambda e: e.rank)
        return WorstExamples(
            self.count,
            tuple(both),
            scored=self.scored + other.scored,
            class_names={**other.class_names, **self.class_names},
        )

    def with_predictions(self, predictions: Iterable[Arrays]) -> "WorstExamples":
        """Return a copy with the network's outputs for each example, in order of `examples`."""
        both = zip(self.examples, predictions, strict=True)
        return replace(self, examples=tuple(replace(e, predictions=said) for e, said in both))

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[WorstExample]:
        return iter(self.examples)

    def __repr__(self) -> str:
        losses = ", ".join(number_text(example.score) for example in self.examples[:3])
        more = ", …" if len(self.examples) > 3 else ""
        return f"WorstExamples({len(self)} of {self.scored} examples; losses {losses}{more})"
