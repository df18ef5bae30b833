"""Pairs of CSV files as examples of one length: what executors do for `from_csv_sequences`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from sparkwright.data._alignment import Alignment, LengthRange, pad
from sparkwright.data._chunks import CHUNK_BYTES
from sparkwright.data._class_values import (
    MOST_CLASSES,
    class_numbers,
    classes_text,
    one_hot as one_hot_vectors,
    together,
)
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._pieces import OnError, SkipLog

from ._csv_steps import StepFormat, UnusableFile, line_of, matrix, read_columns

Pair = tuple[str, str | None]  # URL of the features, and of the labels if they are elsewhere


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceReader:
    """Reads pairs of files as examples of one length; travels to the executors.

    Attributes:
        features: format of the files with features.
        labels: format of those with labels; None where there are none, or in the same files.
        feature_names: columns, in order.
        label_names: columns, in order; empty for none.
        flat: labels lose the axis of their columns: one was asked for by itself.
        per_step: labels of each step, not of the whole sequence.
        classes: None for regression; else how many, or their names.
        one_hot: labels as vectors.
        align: what to do where features and labels differ in length.
        length: of all; 0 while it is being found out.
        truncate: whether longer sequences are cut.
        masked: whether there are masks.
    """

    features: StepFormat
    labels: StepFormat | None
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]
    flat: bool
    per_step: bool
    classes: int | tuple[str, ...] | Literal["infer"] | None
    one_hot: bool
    align: Alignment
    length: int = 0
    truncate: bool = False
    masked: bool = False

    def __call__(self, pairs: Iterable[Pair], log: SkipLog) -> Iterator[DataSet]:
        """The examples of a piece, some at a time."""
        step_bytes = 4 * (len(self.feature_names) + self._label_width)
        at_once = max(1, 4 * CHUNK_BYTES // (self.length * step_bytes))
        waiting: list[tuple[Array, Array | None]] = []
        for sequence in self.sequences(pairs, log):
            waiting.append(sequence)
            if len(waiting) == at_once:
                yield self._dataset(waiting)
                waiting = []
        if waiting:
            yield self._dataset(waiting)

    def survey(self, pairs: Iterable[Pair], on_error: OnError) -> "Survey":
        """What has to be known of a piece before it can be read."""
        steps: list[int] = []
        values: set[str] = set()
        for features, labels in self.sequences(pairs, SkipLog(on_error)):
            steps.append(len(features))
            if labels is not None and self.per_step:
                steps.append(len(labels))
            if labels is not None and self.classes == "infer" and len(values) <= MOST_CLASSES:
                values.update(np.atleast_1d(labels).tolist())
        return Survey(lengths=LengthRange.of(steps), classes=together([values]))

    def sequences(
        self, pairs: Iterable[Pair], log: SkipLog
    ) -> Iterator[tuple[Array, Array | None]]:
        """(steps, columns) features and the labels of each pair: (steps[, k]), or ([k])."""
        for pair in pairs:
            try:
                sequence = self._sequence(*pair)
            except UnusableFile as error:
                log.skip(error.reason, error.message)
            else:
                yield sequence

    def _sequence(self, url: str, labels_url: str | None) -> tuple[Array, Array | None]:
        columns = read_columns(url, self.features)
        features = matrix(columns, self.feature_names)
        self._check_length(len(features), url)
        if not self.label_names:
            return features, None
        where, layout = url, self.features
        if labels_url is not None and self.labels is not None:
            where, layout = labels_url, self.labels
            columns = read_columns(where, layout)
        labels = self._encoded(columns, where, layout)
        if not self.per_step:
            if labels_url is not None and len(labels) != 1:
                raise UnusableFile(
                    "several labels",
                    'with `label_per="sequence"` a file of labels must have one line. Received: '
                    f'{len(labels)} in {where}. Use `label_per="step"` for a label each step.',
                )
            return features, labels[-1]
        self._check_length(len(labels), where)
        if self.align == "equal_length" and len(labels) != len(features):
            raise UnusableFile(
                "lengths differ",
                "features and labels of a sequence must have as many steps. Received: "
                f'{len(features)} in {url}, {len(labels)} in {where}. Use `align="start"` or '
                '`align="end"` if they belong together nevertheless.',
            )
        return features, labels

    def _check_length(self, steps: int, url: str) -> None:
        if self.length and steps > self.length and not self.truncate:
            raise UnusableFile(
                "too long",
                f"sequences must have at most {self.length} steps, as `length` says. Received: "
                f"{steps} in {url}. Use a larger `length`, or `truncate=True`.",
            )

    def _encoded(self, columns: dict[str, Array], url: str, layout: StepFormat) -> Array:
        """Labels of all lines: numbers, class numbers, or texts while classes are collected."""
        if self.classes is None:
            values = matrix(columns, self.label_names)
            return values[:, 0] if self.flat else values
        values = columns[self.label_names[0]]
        if self.classes == "infer":
            return values
        numbers, good = class_numbers(values, self.classes)
        if not good.all():
            bad = int(np.argmin(good))
            raise UnusableFile(
                "no such class",
                f"a label must be {classes_text(self.classes)}. Received: {values[bad]!s} in "
                f"{url}, line {line_of(url, layout, bad)}.",
            )
        if self.one_hot:
            return one_hot_vectors(numbers, self._label_width)
        return numbers if self.flat else numbers[:, None]

    @property
    def _label_width(self) -> int:
        if self.one_hot and self.classes is not None:
            return self.classes if isinstance(self.classes, int) else len(self.classes)
        return len(self.label_names)

    def _dataset(self, sequences: Sequence[tuple[Array, Array | None]]) -> DataSet:
        features, mask = self._padded([features for features, _ in sequences])
        labels = [found for _, found in sequences if found is not None]
        masks = mask if self.masked else None
        if not labels:
            return DataSet(features, features_masks=masks)
        if not self.per_step:
            return DataSet(features, np.stack(labels), features_masks=masks)
        padded, labels_mask = self._padded(labels)
        return DataSet(
            features,
            padded,
            features_masks=masks,
            labels_masks=labels_mask if self.masked else None,
        )

    def _padded(self, arrays: list[Array]) -> tuple[Array, Array]:
        lengths = np.array([len(array) for array in arrays])
        return pad(np.concatenate(arrays), lengths, self.length, align=self.align)


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What a first pass has found; sums cover both.

    Attributes:
        lengths: of all features, and labels per step.
        classes: values of the labels, if they were asked for.
    """

    lengths: LengthRange = field(default_factory=LengthRange)
    classes: frozenset[str] = frozenset()

    def __add__(self, other: "Survey") -> "Survey":
        return Survey(
            lengths=self.lengths + other.lengths, classes=together([self.classes, other.classes])
        )
