"""Convert joined rows from Arrow batches to examples, on executors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from sparkwright.data._alignment import Alignment, pad
from sparkwright.data._arrow_columns import Mask
from sparkwright.data._column_choice import sort_values
from sparkwright.data._csv_parse import conversion_fault, to_numbers
from sparkwright.data._join_plan import Plan, Slot
from sparkwright.data._skipped import Skipped
from sparkwright.data._survey import LengthRange, Survey, check_found, merge_values
from sparkwright.data.dataset import Array, DataSet
from sparkwright.data.pieces import SkipLog
from sparkwright.data.tables import Columns, Fault, Part, report
from sparkwright.data.wording import clipped
from sparkwright.errors import DataError

_DATASET_BYTES = 4 << 20
_REMEDY = "For classes, use `OneHot` or `ClassIndex`."
_NAMED = 5  # keys that an error lists


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinReader:
    """Reader of joined rows.

    Attributes:
        plan: the plan of the join.
        missing: handling of keys missing in a source, "drop" or "error".
        duplicates: handling of duplicate keys: "error", "first" or "last".
        align: alignment of sequences of different sources.
        lengths: source -> steps of its sequences; empty before the survey.
        masked: the sources whose sequences have masks.
        truncate: whether to truncate longer sequences.
    """

    plan: Plan
    missing: Literal["drop", "error"]
    duplicates: Literal["error", "first", "last"]
    align: Alignment
    lengths: Mapping[int, int] = field(default_factory=dict[int, int])
    masked: frozenset[int] = frozenset()
    truncate: bool = False

    def survey(self, batches: Iterable[bytes], log: SkipLog) -> Iterator[Survey]:
        """Yield one survey of the partition: classes, lengths, missing and duplicate keys.

        Rows that will be skipped are excluded.
        """
        found = Survey()
        for batch in batches:
            rows = _table(batch)
            rows = rows.filter(_readable(rows, self.plan, log))
            lacking = _lacking(rows, self.plan)
            kept = np.ones(rows.num_rows, np.bool_)
            for at in lacking.values():
                kept[at] = False
            whole = rows.filter(kept)
            whole = whole.filter(self._of_right_length(whole, log))
            steps = {i: whole.column(f"n{i}").to_numpy() for i in self.plan.sequences}
            values = {at: field_values(whole, *at).unique() for at in self.plan.to_infer()}
            found += Survey(
                examples=whole.num_rows,
                lengths={str(i): LengthRange.of(np.unique(counts)) for i, counts in steps.items()},
                classes={
                    at: merge_values([map(str, unique.drop_null().to_pylist())])
                    for at, unique in values.items()
                },
                lacking=_noted(rows, lacking),
                repeated=_noted(rows, _repeated(rows, self.plan)),
            )
        yield found

    def completed(self, found: Survey) -> "JoinReader":
        """Return a reader with a survey's classes and lengths; DataError if keys are invalid."""
        self._check_keys(found.lacking, found.repeated)
        if not found.examples:
            raise DataError(
                "at least one key with valid rows must be in every source. Received: none. Check "
                "the `key` of each source."
            )
        for (i, j), values in found.classes.items():
            column = self.plan.fields[i][j][0]
            check_found(values, f"in column {column!r} of source {self.plan.sources[i]!r}")
        plan = self.plan.with_classes({at: sort_values(v) for at, v in found.classes.items()})
        names = [str(i) for i in self.plan.sequences]
        alone = self.align == "equal_length"
        ranges = {int(n): found.length_of([n] if alone else names) for n in names}
        return replace(
            self,
            plan=plan,
            lengths=self.lengths or {i: one.longest for i, one in ranges.items()},
            masked=self.masked or frozenset(i for i, one in ranges.items() if not one.is_uniform),
        )

    def __call__(self, batches: Iterable[bytes], log: SkipLog) -> Iterator[DataSet]:
        """Yield the examples of a partition, in the order of their keys."""
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
        classes = [part.classes if part.hot else 1 for _, part in slot.parts]
        width = sum(len(c) if isinstance(c, tuple) else int(c or 1) for c in classes)
        return width * self.lengths.get(slot.source, 1)

    def _complete(self, rows: Any, log: SkipLog) -> Any:
        """Return the rows with a key, present in all sources and unique in sources of records."""
        rows = rows.filter(_readable(rows, self.plan, log))
        lacking = _lacking(rows, self.plan)
        self._check_keys(_noted(rows, lacking), _noted(rows, _repeated(rows, self.plan)))
        faults = [
            Fault(
                reason="missing key",
                rows=at,
                message=lambda _row, what=what: what,
                is_wanted=True,  # with `missing="drop"`, regardless of `on_error`
            )
            for what, at in lacking.items()
        ]
        return rows.filter(_reported(faults, rows, log))

    def _check_keys(self, lacking: Skipped, repeated: Skipped) -> None:
        if self.missing == "error" and lacking.total:
            raise DataError(
                f"every key must be in every source. Received: {_counted(lacking)}. "
                'Use `missing="drop"` to drop such keys.'
            )
        if self.duplicates == "error" and repeated.total:
            raise DataError(
                f"a source of records must have each key once. Received: {_counted(repeated)}. "
                'Use `duplicates="first"` or "last", or `sequences` for the source.'
            )

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
        plan, names = self.plan, self.plan.sources
        steps = {i: rows.column(f"n{i}").to_numpy() for i in plan.sequences}
        labels, features = (
            {s.source for s in plan.slots if s.group == group and plan.sequential[s.source]}
            for group in ("labels", "features")
        )
        # Checked first, because the survey's lengths exclude sequences that differ.
        pairs = {(a, b) for a in labels - features for b in features}
        for ours, theirs in pairs if self.align == "equal_length" else ():
            a, b = steps[ours], steps[theirs]
            faults.append(
                Fault(
                    reason="lengths differ",
                    rows=np.flatnonzero(a != b),
                    message=lambda row, a=a, b=b, ours=names[ours], theirs=names[theirs]: (
                        "labels and features of a sequence must have as many steps. Received: "
                        f"{a[row]} of {ours!r}, {b[row]} of {theirs!r}. "
                        'Use `align="start"` or `align="end"` to pad them to one length.'
                    ),
                )
            )
        for source, length in {} if self.truncate else self.lengths.items():
            faults.append(
                Fault(
                    reason="too long",
                    rows=np.flatnonzero(steps[source] > length),
                    message=lambda row, source=source, length=length: (
                        f"sequences must have at most {length} steps (`length`). Received: "
                        f"{steps[source][row]} of source {names[source]!r}. Use a larger `length`, "
                        "or `truncate=True`."
                    ),
                )
            )
        return _reported(faults, rows, log)


def _reported(faults: list[Fault], rows: Any, log: SkipLog) -> Mask:
    """Log faults with their keys; return (n,) bool, True for rows without faults."""
    faults = [fault for fault in faults if fault.rows.size]
    good = report(faults, rows.num_rows, lambda row: f"key {key_text(rows, row)}", log)
    return np.ones(rows.num_rows, np.bool_) if good is None else good


def _values(rows: Any, plan: Plan, slot: Slot) -> tuple[Array, list[Fault]]:
    """Return the (rows or steps, width) values of a slot, and the faults of rows."""
    owner = np.arange(rows.num_rows)
    if plan.sequential[slot.source]:
        owner = np.repeat(owner, rows.column(f"n{slot.source}").to_numpy())
    values: list[Array] = []
    faults: list[Fault] = []
    for at, part in slot.parts:
        column = field_values(rows, slot.source, at, flat=part.shape is None)
        made, found = part_values(column, part)
        values.append(made)
        faults += [_of_rows(fault, owner, plan.sources[slot.source]) for fault in found]
    dtypes = {made.dtype for made in values}
    dtype = dtypes.pop() if len(dtypes) == 1 else np.float32
    return np.concatenate(values, axis=1, dtype=dtype), faults


def _of_rows(fault: Fault, owner: Array, source: str) -> Fault:
    """Convert a fault of steps to a fault of their rows."""
    owners, first = np.unique(owner[fault.rows], return_index=True)
    step_of = dict(zip(owners.tolist(), fault.rows[first].tolist(), strict=True))
    message = fault.message
    return replace(
        fault, rows=owners, message=lambda row: f"source {source!r}: {message(step_of[row])}"
    )


def part_values(column: Any, part: Part) -> tuple[Array, list[Fault]]:
    """Convert an Arrow array to (n, width) float32 or int32; also return its faults."""
    import pyarrow as pa

    faults: list[Fault] = []
    is_number = part.classes is None or isinstance(part.classes, int)
    if is_number and pa.types.is_string(column.type):
        text = column
        column, bad = to_numbers(text)
        if bad.any():
            ids = np.arange(len(text))
            faults.append(conversion_fault(part.column, text, bad, ids=ids, remedy=_REMEDY))
            # Conversion turned invalid values into nulls.
            column = pa.array(np.where(bad, 0.0, column.fill_null(np.nan).to_numpy(False)))
    if part.shape is not None:
        lengths = column.value_lengths().drop_null()
        part = replace(part, shape=(lengths[0].as_py() if len(lengths) else 1,))
    columns = Columns(pa.table({part.column: column}))
    return columns.side_by_side([part]), faults + columns.faults


def _readable(rows: Any, plan: Plan, log: SkipLog) -> Mask:
    """Return (n,) bool, True for rows with a key and without a fault in any source."""
    keyless = np.zeros(rows.num_rows, np.bool_)
    for name in rows.column_names:
        if name.startswith("k"):
            keyless |= rows.column(name).is_null().to_numpy()
    faults: list[Fault] = []
    for i, name in enumerate(plan.sources):
        column = rows.column(f"x{i}")
        noted = np.flatnonzero(column.is_valid().to_numpy()).tolist()
        notes = {row: column[row].as_py().partition(": ") for row in noted}
        keyed = [row for row in noted if not keyless[row]]
        for reason in dict.fromkeys(notes[row][0] for row in keyed):
            faults.append(
                Fault(
                    reason=reason,
                    rows=np.array([row for row in keyed if notes[row][0] == reason]),
                    message=lambda row, notes=notes: notes[row][2],
                )
            )
        # Rows without a key are skipped one by one; other faults skip all rows of a key.
        for row in np.flatnonzero(keyless).tolist():
            found, broken = (rows.column(f"{what}{i}")[row].as_py() or 0 for what in "nf")
            if broken:
                log.skip(notes[row][0], notes[row][2], count=broken)
            if found > broken:
                log.skip(
                    "no key",
                    f"every row must have a key. Received: {found - broken:,} without one in "
                    f"source {name!r}.",
                    count=found - broken,
                )
    return _reported(faults, rows, log) & ~keyless


def _lacking(rows: Any, plan: Plan) -> dict[str, Array]:
    """Return reason -> rows whose keys are missing in exactly the sources of the reason."""
    code = np.zeros(rows.num_rows, np.int64)
    for i in range(len(plan.sources)):
        code |= rows.column(f"n{i}").is_null().to_numpy().astype(np.int64) << i
    found: dict[str, Array] = {}
    for value in np.unique(code[code > 0]).tolist():
        names = [repr(name) for i, name in enumerate(plan.sources) if value >> i & 1]
        found[f"not in {' and '.join(names)}"] = np.flatnonzero(code == value)
    return found


def _repeated(rows: Any, plan: Plan) -> dict[str, Array]:
    """Return reason -> rows whose keys are duplicate in a source of records."""
    found: dict[str, Array] = {}
    for i, name in enumerate(plan.sources):
        at = np.flatnonzero(rows.column(f"n{i}").fill_null(1).to_numpy() > 1)
        if len(at) and not plan.sequential[i]:
            found[f"more than once in {name!r}"] = at
    return found


def _noted(rows: Any, found: Mapping[str, Array]) -> Skipped:
    """Count rows by reason, with the first few keys."""
    first = sorted((int(i), what) for what, at in found.items() for i in at[:_NAMED])[:_NAMED]
    return Skipped(
        counts={what: len(at) for what, at in found.items()},
        first=tuple(f"{key_text(rows, i)} ({what})" for i, what in first),
    )


def _counted(found: Skipped) -> str:
    counts = ", ".join(f"{count:,} {what}" for what, count in found.counts.items())
    return f"{counts}; the first: {', '.join(found.first[:_NAMED])}"


def key_text(rows: Any, row: int) -> str:
    """Return a row's key for messages."""
    keys = [name for name in rows.column_names if name.startswith("k")]
    values = [rows.column(name)[row].as_py() for name in keys]
    return ", ".join(clipped(str(value)) for value in values)


def field_values(rows: Any, source: int, index: int, *, flat: bool = True) -> Any:
    """Return the Arrow array of a field: one value per row, or per step of sequences if `flat`."""
    import pyarrow as pa

    column = rows.column(f"c{source}_{index}")
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    steps = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    return array.flatten() if steps and flat else array


def _table(content: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_all()
