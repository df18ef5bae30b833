"""What joined rows lack, hold twice or how long their sequences are: found before they are read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkwright.data._alignment import LengthRange
from sparkwright.data._classes import together
from sparkwright.data._dataset import Array
from sparkwright.data._join_plan import Plan
from sparkwright.data._wording import clipped

NAMED = 5  # how many keys an error lists


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinSurvey:
    """What a pass over joined rows has found; sums cover both, lower keys first.

    Attributes:
        keys: how many are in every source and can be used.
        lacking: names of sources -> how many keys just these lack.
        repeated: name of a source of records -> how many keys it has more than once.
        first_lacking: the first few keys, and who lacks them, as text.
        first_repeated: likewise of keys that are there more than once.
        lengths: source -> steps of its sequences.
        classes: (slot, part) -> values found, as of `together`.
    """

    keys: int = 0
    lacking: Mapping[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    repeated: Mapping[str, int] = field(default_factory=dict[str, int])
    first_lacking: tuple[str, ...] = ()
    first_repeated: tuple[str, ...] = ()
    lengths: Mapping[int, LengthRange] = field(default_factory=dict[int, LengthRange])
    classes: Mapping[tuple[int, int], frozenset[str]] = field(
        default_factory=dict[tuple[int, int], frozenset[str]]
    )

    @classmethod
    def of(cls, rows: Any, plan: Plan, *, usable: Callable[[Any], Array]) -> "JoinSurvey":
        """Those of one Arrow table of joined rows.

        Args:
            rows: that can be read.
            plan: of the join.
            usable: of rows that are in every source, True where examples can be made of them.
        """
        lacking, repeated = lacking_rows(rows, plan), repeated_rows(rows, plan)
        whole = rows
        if lacking:
            kept = np.ones(rows.num_rows, np.bool_)
            kept[np.concatenate(list(lacking.values()))] = False
            whole = rows.filter(kept)
        whole = whole.filter(usable(whole))
        lengths: dict[int, LengthRange] = {}
        for source, sequential in enumerate(plan.sequential):
            if sequential and whole.num_rows:
                steps = whole.column(f"n{source}").to_numpy()
                lengths[source] = LengthRange.of([steps.min(), steps.max()])
        classes: dict[tuple[int, int], frozenset[str]] = {}
        for i, j in plan.to_infer():
            slot = plan.slots[i]
            column = field_values(whole, slot.source, slot.parts[j].field)
            classes[i, j] = together([map(str, column.unique().drop_null().to_pylist())])
        return cls(
            keys=whole.num_rows,
            lacking={names: len(at) for names, at in lacking.items()},
            repeated={name: len(at) for name, at in repeated.items()},
            first_lacking=_first(
                rows, {f"not in {_quoted(names)}": at for names, at in lacking.items()}
            ),
            first_repeated=_first(rows, {f"in {name!r}": at for name, at in repeated.items()}),
            lengths=lengths,
            classes=classes,
        )

    def __add__(self, other: "JoinSurvey") -> "JoinSurvey":
        keys = dict.fromkeys([*self.classes, *other.classes])
        sources = dict.fromkeys([*self.lengths, *other.lengths])
        span = LengthRange()
        return JoinSurvey(
            keys=self.keys + other.keys,
            lacking=_added(self.lacking, other.lacking),
            repeated=_added(self.repeated, other.repeated),
            first_lacking=(self.first_lacking + other.first_lacking)[:NAMED],
            first_repeated=(self.first_repeated + other.first_repeated)[:NAMED],
            lengths={s: self.lengths.get(s, span) + other.lengths.get(s, span) for s in sources},
            classes={
                k: together([self.classes.get(k, ()), other.classes.get(k, ())]) for k in keys
            },
        )


def _added(a: Mapping[Any, int], b: Mapping[Any, int]) -> dict[Any, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in dict.fromkeys([*a, *b])}


def _first(rows: Any, found: Mapping[str, Array]) -> tuple[str, ...]:
    """The first few rows of any of `found`, in the order of the rows."""
    first = sorted((int(i), what) for what, at in found.items() for i in at[:NAMED])[:NAMED]
    return tuple(f"{key_text(rows, i)} ({what})" for i, what in first)


def without_key(rows: Any) -> Array:
    """(n,) bool, True where a column of the key is null."""
    found = np.zeros(rows.num_rows, np.bool_)
    for name in _key_columns(rows):
        found |= rows.column(name).is_null().to_numpy()
    return found


def lacking_rows(rows: Any, plan: Plan) -> dict[tuple[str, ...], Array]:
    """Names of sources -> indices of the rows whose keys just these lack."""
    code = np.zeros(rows.num_rows, np.int64)
    for i in range(len(plan.sources)):
        code |= rows.column(f"n{i}").is_null().to_numpy().astype(np.int64) << i
    found: dict[tuple[str, ...], Array] = {}
    for value in np.unique(code[code > 0]).tolist():
        names = tuple(name for i, name in enumerate(plan.sources) if value >> i & 1)
        found[names] = np.flatnonzero(code == value)
    return found


def repeated_rows(rows: Any, plan: Plan) -> dict[str, Array]:
    """Name of a source of records -> indices of the rows whose keys it has more than once."""
    found: dict[str, Array] = {}
    for i, name in enumerate(plan.sources):
        if not plan.sequential[i]:
            at = np.flatnonzero(rows.column(f"n{i}").fill_null(1).to_numpy() > 1)
            if len(at):
                found[name] = at
    return found


def lacking_text(lacking: Mapping[tuple[str, ...], int], first: Iterable[str]) -> str:
    """The message about keys that are missing."""
    counts = ", ".join(f"{n:,} not in {_quoted(names)}" for names, n in lacking.items())
    return (
        f"every key must be in every source. Received: {counts}; the first: {', '.join(first)}. "
        'Use `missing="drop"` to leave such keys out.'
    )


def repeated_text(repeated: Mapping[str, int], first: Iterable[str]) -> str:
    """The message about keys that are there more than once."""
    counts = ", ".join(f"{n:,} more than once in {name!r}" for name, n in repeated.items())
    return (
        f"a source of records must have a key once. Received: {counts}; the first: "
        f'{", ".join(first)}. Use `duplicates="first"` or "last", or `sequences` for the source.'
    )


def key_text(rows: Any, row: int) -> str:
    """A row's key for a message."""
    values = [rows.column(name)[row].as_py() for name in _key_columns(rows)]
    return ", ".join(clipped(str(value)) for value in values)


def field_values(rows: Any, source: int, index: int, *, flat: bool = True) -> Any:
    """The Arrow array of a field: a value a row; of sequences, if `flat`, a value a step."""
    import pyarrow as pa

    column = rows.column(f"c{source}_{index}")
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    steps = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    return array.flatten() if steps and flat else array


def _key_columns(rows: Any) -> list[str]:
    return [name for name in rows.column_names if name.startswith("k")]


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))
