"""Joined rows, as Arrow batches, made examples: what executors do for `join`."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sparkwright.data._alignment import Alignment, pad
from sparkwright.data._arrow_columns import Mask
from sparkwright.data._classes import one_hot
from sparkwright.data._csv_parse import conversion_fault, converted, to_number
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._join_plan import Part, Plan, Slot
from sparkwright.data._join_survey import (
    JoinSurvey,
    field_values,
    key_text,
    lacking_rows,
    lacking_text,
    repeated_rows,
    repeated_text,
    without_key,
)
from sparkwright.data._pieces import OnError, SkipLog
from sparkwright.data._skipped import Skipped
from sparkwright.data.tables import Columns, Fault, report
from sparkwright.errors import DataError

_DATASET_BYTES = 4 << 20
_REMEDY = "Of classes, use `OneHot` or `ClassIndex`."
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
                some = rows.slice(start, at_once)
                dataset = self._dataset(some.filter(self._of_right_length(some, log)), log)
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
        arrays: dict[str, Array] = {}
        faults: list[Fault] = []
        for slot in self.plan.slots:
            values, more = _values(rows, self.plan, slot)
            faults += more
            if self.plan.sequential[slot.source]:
                steps = rows.column(f"n{slot.source}").to_numpy()
                length = self.lengths[slot.source]
                values, mask = pad(values, steps, length, align=self.align)
                if slot.source in self.masked:
                    arrays[f"{slot.group}_masks/{slot.name}"] = mask
            arrays[f"{slot.group}/{slot.name}"] = values[..., 0] if slot.flat else values
        good = _reported(faults, rows, log)
        made = DataSet.from_columns(arrays)
        return made if good.all() else made.take(good)

    def _of_right_length(self, rows: Any, log: SkipLog) -> Mask:
        faults: list[Fault] = []
        steps = {
            i: rows.column(f"n{i}").to_numpy()
            for i, is_sequence in enumerate(self.plan.sequential)
            if is_sequence
        }
        # First, because lengths that were found are those of sequences that agree.
        for ours, theirs in self._must_agree() if self.align == "equal_length" else ():
            a, b = steps[ours], steps[theirs]
            faults.append(
                Fault(
                    reason="lengths differ",
                    rows=np.flatnonzero(a != b),
                    message=lambda row, a=a, b=b, ours=ours, theirs=theirs: (
                        "labels and features of a sequence must have as many steps. Received: "
                        f"{a[row]} of {self.plan.sources[ours]!r}, {b[row]} of "
                        f'{self.plan.sources[theirs]!r}. Use `align="start"` or `align="end"` if '
                        "they belong together nevertheless."
                    ),
                )
            )
        for source, length in {} if self.truncate else dict(self.lengths).items():
            faults.append(
                Fault(
                    reason="too long",
                    rows=np.flatnonzero(steps[source] > length),
                    message=lambda row, source=source, length=length: (
                        f"sequences must have at most {length} steps, as `length` says. Received: "
                        f"{steps[source][row]} of source {self.plan.sources[source]!r}. Use a "
                        "larger `length`, or `truncate=True`."
                    ),
                )
            )
        return _reported(faults, rows, log)

    def _must_agree(self) -> set[tuple[int, int]]:
        """(source of labels, source of features) that do not share a source."""
        plan = self.plan
        of = {
            group: {s.source for s in plan.slots if s.group == group and plan.sequential[s.source]}
            for group in ("features", "labels")
        }
        return {(a, b) for a in of["labels"] - of["features"] for b in of["features"]}


def _reported(faults: list[Fault], rows: Any, log: SkipLog) -> Mask:
    """(n,) bool, False for rows with faults, which are logged with their keys."""
    faults = [fault for fault in faults if fault.rows.size]
    good = report(faults, rows.num_rows, lambda row: f"key {key_text(rows, row)}", log)
    return np.ones(rows.num_rows, np.bool_) if good is None else good


def _values(rows: Any, plan: Plan, slot: Slot) -> tuple[Array, list[Fault]]:
    """(rows or steps, width) of a slot, and what is wrong with rows."""
    owner = np.arange(rows.num_rows)
    if plan.sequential[slot.source]:
        owner = np.repeat(owner, rows.column(f"n{slot.source}").to_numpy())
    values: list[Array] = []
    faults: list[Fault] = []
    for part in slot.parts:
        column = field_values(rows, slot.source, part.field, flat=part.kind != "array")
        name = plan.fields[slot.source][part.field].column
        made, found = part_values(column, name, part)
        values.append(made)
        faults += [_of_rows(fault, owner, plan.sources[slot.source]) for fault in found]
    same = {made.dtype for made in values}
    dtype = same.pop() if len(same) == 1 else np.dtype(np.float32)
    return np.concatenate([made.astype(dtype, copy=False) for made in values], axis=1), faults


def _of_rows(fault: Fault, owner: Array, source: str) -> Fault:
    """A fault of steps as one of the rows that they belong to."""
    owners, first = np.unique(owner[fault.rows], return_index=True)
    step_of = dict(zip(owners.tolist(), fault.rows[first].tolist(), strict=True))
    message: Callable[[int], str] = fault.message
    return replace(
        fault, rows=owners, message=lambda row: f"source {source!r}: {message(step_of[row])}"
    )


def part_values(column: Any, name: str, part: Part) -> tuple[Array, list[Fault]]:
    """(n, width) float32 or int32 of an Arrow array, and what is wrong with its values."""
    import pyarrow as pa

    faults: list[Fault] = []
    is_number = part.kind == "number" or isinstance(part.classes, int)
    if is_number and pa.types.is_string(column.type):
        text = column.cast(pa.binary())
        column, bad = converted(text, to_number)
        if bad.any():
            every = np.arange(len(text))
            faults.append(conversion_fault(name, text, every[bad], every, remedy=_REMEDY))
            # Converted, they are nulls.
            column = pa.array(np.where(bad, 0.0, column.fill_null(np.nan).to_numpy(False)))
    columns = Columns(pa.table({name: column}))
    if part.kind == "number":
        made = columns.numbers((name,))
    elif part.kind == "integer":
        made = columns.integers(name)[:, None]
    elif part.kind == "array":
        lengths = column.value_lengths().drop_null()
        made = columns.arrays(name, (lengths[0].as_py() if len(lengths) else 1,), fill=False)
    else:
        assert part.classes is not None
        assert part.classes != "infer"
        codes = columns.classes(name, part.classes)
        count = part.classes if isinstance(part.classes, int) else len(part.classes)
        made = one_hot(codes, count) if part.hot else codes[:, None]
    return made, faults + columns.faults


def _readable(rows: Any, plan: Plan, log: SkipLog) -> Mask:
    """(n,) bool: rows with a key whose lines were CSV and whose steps have an order."""
    keyless = without_key(rows)
    faults: list[Fault] = []
    for i, name in enumerate(plan.sources):
        notes, texts, unordered = (rows.column(f"{what}{i}") for what in "xtb")
        noted = notes.is_valid().to_numpy()
        for row in np.flatnonzero(noted & keyless).tolist():
            reason, _, message = notes[row].as_py().partition(": ")
            count = rows.column(f"f{i}")[row].as_py()
            log.skip(reason, f"{message} It is in source {name!r}.", count=count)
        faults += _noted_faults(notes, np.flatnonzero(noted & ~keyless), name)
        faults.append(
            Fault(
                reason="bad value",
                rows=np.flatnonzero(texts.is_valid().to_numpy() & ~keyless),
                message=lambda row, texts=texts, name=name: (
                    f"the `order` of source {name!r} must hold numbers. Received: "
                    f"{texts[row].as_py()}. To sort by text, read the files with Spark and give "
                    "the DataFrame."
                ),
            )
        )
        faults.append(
            Fault(
                reason="missing value",
                rows=np.flatnonzero((unordered.fill_null(0).to_numpy() > 0) & ~keyless),
                message=lambda _, name=name: (
                    f"each step of source {name!r} must have a value in its `order`. "
                    "Received: none."
                ),
            )
        )
    for row in np.flatnonzero(keyless).tolist():
        for i, name in enumerate(plan.sources):
            # Here single rows are left out, elsewhere all rows of a key.
            found, broken = (rows.column(f"{what}{i}")[row].as_py() or 0 for what in "nf")
            if found > broken:
                log.skip(
                    "no key",
                    f"every row must have a key. Received: {found - broken:,} without one in "
                    f"source {name!r}.",
                    count=found - broken,
                )
    return _reported(faults, rows, log) & ~keyless


def _noted_faults(notes: Any, rows: Array, source: str) -> list[Fault]:
    """What reading CSV files has noted at rows that have a key, by reason."""
    reasons = [notes[row].as_py().partition(": ")[0] for row in rows.tolist()]
    return [
        Fault(
            reason=reason,
            rows=rows[np.array(reasons) == reason],
            message=lambda row: (
                f"{notes[row].as_py().partition(': ')[2]} It is in source {source!r}."
            ),
        )
        for reason in dict.fromkeys(reasons)
    ]


def _table(content: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_all()
