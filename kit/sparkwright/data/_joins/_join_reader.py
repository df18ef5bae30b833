"""Joined rows, as Arrow batches, made examples: what executors do for `join`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sparkwright.data._alignment import Alignment, pad
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._pieces import OnError, SkipLog
from sparkwright.data._skipped import Skipped
from sparkwright.data._wording import clipped
from sparkwright.errors import DataError

from ._join_plan import Plan, Slot
from ._join_survey import (
    JoinSurvey,
    field_values,
    key_text,
    lacking_rows,
    lacking_text,
    repeated_rows,
    repeated_text,
    without_key,
)
from ._join_values import part_rule, part_values

_DATASET_BYTES = 4 << 20
_EACH = 20  # dropped keys that a batch names one by one


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinReader:
    """Makes examples of joined rows.

    Attributes:
        plan: which column becomes what.
        missing: "drop" or "error": keys that a source lacks.
        duplicates: "error", or "first", "last": which row of a key has been chosen.
        align: how sequences of different sources belong together.
        lengths: source -> steps of its sequences; empty while they are being found out.
        masked: sources whose sequences have masks.
        truncate: whether longer sequences are cut.
    """

    plan: Plan
    missing: Literal["drop", "error"]
    duplicates: Literal["error", "first", "last"]
    align: Alignment
    lengths: Mapping[int, int] = field(default_factory=dict[int, int])
    masked: frozenset[int] = frozenset()
    truncate: bool = False

    def survey(
        self, batches: Iterable[bytes], *, on_error: OnError = "raise"
    ) -> Iterator[JoinSurvey]:
        """What has to be known before rows can be read; one for each partition.

        Rows that will be left out do not count.

        Raises:
            DataError: with `on_error="raise"`, at rows that cannot be read.
        """
        log = SkipLog(on_error)
        found = JoinSurvey()
        for batch in batches:
            rows = _table(batch)
            rows = rows.filter(_readable(rows, self.plan, log))
            found += JoinSurvey.of(
                rows, self.plan, usable=lambda whole: self._of_right_length(whole, log)
            )
        yield found

    def __call__(self, batches: Iterable[bytes], log: SkipLog) -> Iterator[DataSet]:
        """The examples of a partition, in the order of their keys.

        Raises:
            DataError: what `log` does not take; keys that are missing or there twice.
        """
        row_bytes = 4 * sum(self._width(slot) for slot in self.plan.slots)
        at_once = max(1, _DATASET_BYTES // row_bytes)
        for batch in batches:
            rows = self._complete(_table(batch), log)
            for start in range(0, rows.num_rows, at_once):
                dataset = self._dataset(rows.slice(start, at_once), log)
                if len(dataset):
                    yield dataset

    def _width(self, slot: Slot) -> int:
        classes = [p.classes if p.hot else 1 for p in slot.parts]
        width = sum(len(c) if isinstance(c, tuple) else int(c or 1) for c in classes)
        return width * self.lengths.get(slot.source, 1)

    def _complete(self, rows: Any, log: SkipLog) -> Any:
        """The rows that have a key and all of the sources, each once."""
        good = _readable(rows, self.plan, log)
        lost: dict[int, tuple[str, ...]] = {}
        for names, at in lacking_rows(rows, self.plan).items():
            at = at[good[at]]
            if self.missing == "error" and len(at):
                raise DataError(lacking_text({names: len(at)}, [key_text(rows, int(at[0]))]))
            lost.update(dict.fromkeys(at.tolist(), names))
            good[at] = False
        for number, row in enumerate(sorted(lost)[:_EACH], start=1):
            count = 1 + max(0, len(lost) - _EACH) if number == _EACH else 1
            where = " and ".join(map(repr, lost[row]))
            message = f"key {key_text(rows, row)} is not in {where}"
            # Asked for by `missing="drop"`, whatever `on_error` says.
            log.skipped += Skipped.of("missing key", message, count=count)
        if self.duplicates == "error":
            for name, at in repeated_rows(rows, self.plan).items():
                if good[at].any():
                    key = key_text(rows, int(at[good[at]][0]))
                    raise DataError(repeated_text({name: int(good[at].sum())}, [key]))
        return rows.filter(good)

    def _dataset(self, rows: Any, log: SkipLog) -> DataSet:
        good = self._of_right_length(rows, log)
        arrays: dict[str, Array] = {}
        for slot in self.plan.slots:
            values = self._values(rows, slot, good, log)
            if self.plan.sequential[slot.source]:
                steps = rows.column(f"n{slot.source}").to_numpy()
                length = self.lengths[slot.source]
                values, mask = pad(values, steps, length, align=self.align)
                if slot.source in self.masked:
                    arrays[f"{slot.group}_masks/{slot.name}"] = mask
            arrays[f"{slot.group}/{slot.name}"] = values[..., 0] if slot.flat else values
        return DataSet.from_columns(arrays).take(good)

    def _values(self, rows: Any, slot: Slot, good: Array, log: SkipLog) -> Array:
        """(rows or steps, width); `good` becomes False at rows that cannot be used."""
        found: list[Array] = []
        for part in slot.parts:
            column = field_values(rows, slot.source, part.field, flat=part.kind != "array")
            values, usable = part_values(column, part)
            found.append(values)
            if usable.all():
                continue
            owner = np.arange(rows.num_rows)
            if self.plan.sequential[slot.source]:
                owner = np.repeat(owner, rows.column(f"n{slot.source}").to_numpy())
            bad = np.flatnonzero(~usable)
            for row in np.unique(owner[bad]).tolist():
                if good[row]:
                    value = column[int(bad[owner[bad] == row][0])].as_py()
                    name = self.plan.fields[slot.source][part.field].column
                    reason = "missing value" if value is None or value != value else "bad value"
                    log.skip(
                        reason,
                        f"column {name!r} of source {self.plan.sources[slot.source]!r} must hold "
                        f"{part_rule(part)}. Received: {clipped(repr(value))} at key "
                        f"{key_text(rows, row)}.",
                    )
                    good[row] = False
        same = {values.dtype for values in found}
        dtype = same.pop() if len(same) == 1 else np.dtype(np.float32)
        return np.concatenate([values.astype(dtype, copy=False) for values in found], axis=1)

    def _of_right_length(self, rows: Any, log: SkipLog) -> Array:
        good = np.ones(rows.num_rows, np.bool_)
        # First, because lengths that were found are those of sequences that agree.
        if self.align == "equal_length":
            for ours, theirs in self._must_agree():
                a, b = (rows.column(f"n{source}").to_numpy() for source in (ours, theirs))
                for row in np.flatnonzero((a != b) & good).tolist():
                    log.skip(
                        "lengths differ",
                        "labels and features of a sequence must have as many steps. Received: "
                        f"{a[row]} of {self.plan.sources[ours]!r}, {b[row]} of "
                        f"{self.plan.sources[theirs]!r} at key {key_text(rows, row)}. Use "
                        '`align="start"` or `align="end"` if they belong together nevertheless.',
                    )
                    good[row] = False
        for source, length in self.lengths.items():
            steps = rows.column(f"n{source}").to_numpy()
            for row in np.flatnonzero((steps > length) & good & (not self.truncate)).tolist():
                log.skip(
                    "too long",
                    f"sequences must have at most {length} steps, as `length` says. Received: "
                    f"{steps[row]} of source {self.plan.sources[source]!r} at key "
                    f"{key_text(rows, row)}. Use a larger `length`, or `truncate=True`.",
                )
                good[row] = False
        return good

    def _must_agree(self) -> set[tuple[int, int]]:
        """(source of labels, source of features) that do not share a source."""
        of = {
            group: {s.source for s in self.plan.slots if s.group == group and self._is_steps(s)}
            for group in ("features", "labels")
        }
        return {(a, b) for a in of["labels"] - of["features"] for b in of["features"]}

    def _is_steps(self, slot: Slot) -> bool:
        return self.plan.sequential[slot.source]


def _readable(rows: Any, plan: Plan, log: SkipLog) -> Array:
    """(n,) bool: rows with a key whose lines were CSV and whose steps have an order."""
    good = np.ones(rows.num_rows, np.bool_)
    keyless = without_key(rows)
    for i, name in enumerate(plan.sources):
        lines = rows.column(f"x{i}")
        for row in np.flatnonzero(lines.is_valid().to_numpy()).tolist():
            log.skip(
                "wrong number of columns",
                "every line must have as many columns as the first. Received: "
                f"{lines[row].as_py()}, of source {name!r}.",
                count=rows.column(f"f{i}")[row].as_py() if keyless[row] else 1,
            )
            good[row] = False
    for row in np.flatnonzero(keyless).tolist():
        for i, name in enumerate(plan.sources):
            # Here each row is left out by itself, elsewhere whole keys are.
            found, broken = (rows.column(f"{what}{i}")[row].as_py() or 0 for what in "nf")
            if found > broken:
                log.skip(
                    "no key",
                    f"every row must have a key. Received: {found - broken:,} without one in "
                    f"source {name!r}.",
                    count=found - broken,
                )
        good[row] = False
    for i, name in enumerate(plan.sources):
        texts = rows.column(f"t{i}")
        for row in np.flatnonzero(texts.is_valid().to_numpy() & good).tolist():
            log.skip(
                "bad value",
                f"the `order` of source {name!r} must hold numbers. Received: "
                f"{texts[row].as_py()}, at key {key_text(rows, row)}. To sort by text, read the "
                "files with Spark and give the DataFrame.",
            )
            good[row] = False
        unordered = rows.column(f"b{i}").fill_null(0).to_numpy() > 0
        for row in np.flatnonzero(unordered & good).tolist():
            log.skip(
                "missing value",
                f"each step of source {name!r} must have a value in its `order`. Received: none, "
                f"at key {key_text(rows, row)}.",
            )
            good[row] = False
    return good


def _table(content: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_all()
