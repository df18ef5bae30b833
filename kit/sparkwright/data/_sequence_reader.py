"""Read pairs of CSV files as sequences of one length, on the executors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparkwright.data._alignment import Alignment, pad
from sparkwright.data._csv_format import compression_of
from sparkwright.data._csv_reader import CsvReader
from sparkwright.data._skipped import Fault, SkipLog, UnusableItem
from sparkwright.data._survey import MOST_CLASSES, LengthRange, Survey
from sparkwright.data.chunks import CHUNK_BYTES
from sparkwright.data.dataset import Array, DataSet
from sparkwright.data.tables import Columns, Part, Piece
from sparkwright.errors import DataError
from sparkwright.storage.listing import StoredFile

MOST_BYTES = 1 << 30  # limit for the arrays of one file
Pair = tuple[str, str | None]  # URLs of features and labels; None: labels are in the same file


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFiles:
    """Reader of files with one step per line; `parts` is group -> parts of the arrays."""

    reader: CsvReader
    parts: dict[str, list[Part]]

    def read(self, url: str) -> dict[str, Array]:
        """Return group -> (steps, columns) of a file; UnusableItem names an invalid file."""
        found: list[dict[str, Array]] = []
        size_bytes = 0
        log = SkipLog("raise", UnusableItem)  # partial sequences are invalid
        for arrays in self.reader.read(Piece(url=url), log, self._arrays):
            found.append(arrays)
            size_bytes += sum(array.nbytes for array in arrays.values())
            # A few compressed megabytes may decompress to a terabyte of zeros.
            if size_bytes > MOST_BYTES:
                raise UnusableItem(
                    "too large",
                    f"a sequence must have at most {MOST_BYTES:,} bytes. Received: more in {url}.",
                )
        if not found:
            raise UnusableItem(
                "empty file", f"a sequence must have at least one step. Received: none in {url}."
            )
        return {group: np.concatenate([arrays[group] for arrays in found]) for group in self.parts}

    def _arrays(self, table: Any, shown: Any) -> tuple[dict[str, Array], list[Fault]]:
        columns = Columns(table, shown=shown)
        made = {group: columns.side_by_side(parts) for group, parts in self.parts.items()}
        return made, columns.faults

    def with_classes(self, classes: tuple[str, ...]) -> "StepFiles":
        """Return a copy with the label classes, if the files have labels."""
        labels = [replace(part, classes=classes) for part in self.parts.get("labels", ())]
        return replace(self, parts={**self.parts, "labels": labels}) if labels else self


@dataclass(frozen=True, kw_only=True, slots=True)
class SequenceReader:
    """Reader of pairs of files as examples of one length; serialized for the executors."""

    files: StepFiles  # with features, and with labels without `label_files`
    label_files: StepFiles | None
    flat: bool  # drop the column axis of the labels
    per_step: bool  # labels are per step, not per sequence
    align: Alignment
    length: int = 0  # of all examples; 0: not yet known
    truncate: bool = False  # longer sequences
    masked: bool = False  # create masks

    def __call__(self, pairs: Iterable[Pair], log: SkipLog) -> Iterator[DataSet]:
        """Yield the examples of a piece in chunks."""
        waiting: list[tuple[Array, Array | None]] = []
        size_bytes = 0
        for features, labels in self.sequences(pairs, log):
            waiting.append((features, labels))
            size_bytes += features.nbytes // len(features) * self.length
            if size_bytes >= 4 * CHUNK_BYTES:
                yield self._dataset(waiting)
                waiting, size_bytes = [], 0
        if waiting:
            yield self._dataset(waiting)

    def survey(self, pairs: Iterable[Pair], log: SkipLog) -> Survey:
        """Survey lengths and classes of a piece, which are needed to read it."""
        steps: list[int] = []
        values: set[str] = set()
        for features, labels in self.sequences(pairs, log):
            steps.append(len(features))
            if labels is not None and self.per_step:
                steps.append(len(labels))
            if labels is not None and self.to_infer and len(values) <= MOST_CLASSES:
                values.update(np.ravel(labels).tolist())
        return Survey(
            examples=len(steps),
            lengths={"": LengthRange.of(steps)},
            classes={"labels": frozenset(values)},
        )

    @property
    def label_parts(self) -> list[Part]:
        """The parts of the label array; empty without labels."""
        return (self.label_files or self.files).parts.get("labels", [])

    @property
    def to_infer(self) -> bool:
        return any(part.classes == "infer" for part in self.label_parts)

    def with_classes(self, classes: tuple[str, ...]) -> "SequenceReader":
        others = None if self.label_files is None else self.label_files.with_classes(classes)
        return replace(self, files=self.files.with_classes(classes), label_files=others)

    def sequences(
        self, pairs: Iterable[Pair], log: SkipLog
    ) -> Iterator[tuple[Array, Array | None]]:
        """Yield (steps, columns) features and the labels of each pair: (steps[, k]), or ([k])."""
        for pair in pairs:
            try:
                sequence = self._sequence(*pair)
            except UnusableItem as error:
                log.skip(error.reason, error.message)
            else:
                yield sequence

    def _sequence(self, url: str, labels_url: str | None) -> tuple[Array, Array | None]:
        found, where = self.files.read(url), labels_url or url
        features = found["features"]
        self._check_length(len(features), url)
        if self.label_files is not None:
            found = self.label_files.read(where)
        if "labels" not in found:
            return features, None
        labels = found["labels"][:, 0] if self.flat else found["labels"]
        if not self.per_step:
            if labels_url is not None and len(labels) != 1:
                raise UnusableItem(
                    "several labels",
                    'with `label_per="sequence"`, a label file must have one line. Received: '
                    f'{len(labels)} in {where}. For one label per step, use `label_per="step"`.',
                )
            return features, labels[-1]
        self._check_length(len(labels), where)
        if self.align == "equal_length" and len(labels) != len(features):
            raise UnusableItem(
                "lengths differ",
                "features and labels of a sequence must have the same number of steps. Received: "
                f"{len(features)} in {url}, {len(labels)} in {where}. To allow different lengths, "
                'use `align="start"` or `align="end"`.',
            )
        return features, labels

    def _check_length(self, steps: int, url: str) -> None:
        if self.length and steps > self.length and not self.truncate:
            raise UnusableItem(
                "too long",
                f"sequences must have at most `length` steps, {self.length}. Received: "
                f"{steps} in {url}. Use a larger `length`, or `truncate=True`.",
            )

    def _dataset(self, sequences: Sequence[tuple[Array, Array | None]]) -> DataSet:
        arrays: dict[str, Array] = {}
        for group, found in zip(("features", "labels"), zip(*sequences, strict=True), strict=True):
            if found[0] is None:
                continue
            if group == "labels" and not self.per_step:
                arrays["labels/labels"] = np.stack(found)
                continue
            lengths = np.array([len(array) for array in found])
            steps = np.concatenate(found)
            arrays[f"{group}/{group}"], mask = pad(steps, lengths, self.length, align=self.align)
            if self.masked:
                arrays[f"{group}_masks/{group}"] = mask
        return DataSet.from_columns(arrays)


def in_natural_order(files: Iterable[StoredFile]) -> list[StoredFile]:
    """Sort files by URL in natural order: `2.csv` before `10.csv`."""
    return sorted(files, key=lambda file: natural_key(file.url))


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that compares runs of digits as numbers."""
    parts = re.split(r"([0-9]+)", text)
    return tuple((0, int(p), p) if p.isdecimal() else (1, 0, p) for p in parts if p)


def paired(
    files: Sequence[StoredFile], label_files: Sequence[StoredFile] | None, pair_by: str
) -> list[tuple[StoredFile, StoredFile | None]]:
    """Pair files of features and labels; DataError names the first file without a counterpart."""
    if label_files is None:
        return [(file, None) for file in files]
    if pair_by == "order":
        if len(files) != len(label_files):
            longer = max(files, label_files, key=len)
            raise DataError(
                'with `pair_by="order"`, the numbers of feature files and label files must be '
                f"equal. Received: {len(files)} with features, {len(label_files)} with labels; the "
                "first without a counterpart is "
                f"{longer[min(len(files), len(label_files))].url}."
            )
        return list(zip(files, label_files, strict=True))
    features, labels = _by_stem(files), _by_stem(label_files)
    for ours, others, what in ((features, labels, "labels"), (labels, features, "features")):
        alone = next((file for stem, file in ours.items() if stem not in others), None)
        if alone is not None:
            raise DataError(
                "feature files and label files must have the same names except for the extension. "
                f'Received: no {what} for {alone.url}. If names differ, use `pair_by="order"`.'
            )
    return [(file, labels[stem]) for stem, file in features.items()]


def _by_stem(files: Iterable[StoredFile]) -> dict[str, StoredFile]:
    found: dict[str, StoredFile] = {}
    for file in files:
        name = file.url.rpartition("/")[2]
        if compression_of(name) is not None:
            name = name.rpartition(".")[0]
        stem = name.rpartition(".")[0] or name
        if stem in found:
            raise DataError(
                'with `pair_by="name"`, file names must be unique. Received: '
                f'{found[stem].url} and {file.url}. Use `pair_by="order"`.'
            )
        found[stem] = file
    return found
