"""Plan of a join: the source and columns of each array of the examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from sparkwright.data._column_choice import select_columns
from sparkwright.data._join_sources import ClassColumn, OneHot, Source
from sparkwright.data.tables import Part
from sparkwright.data.wording import shortened
from sparkwright.errors import ConfigurationError, DataError

INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*INTEGERS, "float", "double", "boolean")


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """One array of the examples.

    Attributes:
        group: "features" or "labels".
        name: name of the input or output.
        source: index into the sources.
        parts: (index into the fields, part) of each part concatenated along the last axis.
        flat: whether to drop the last axis, which has length 1.
    """

    group: str
    name: str
    source: int
    parts: tuple[tuple[int, Part], ...]
    flat: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The plan of a join.

    Attributes:
        sources: names of the sources.
        sequential: whether each source has sequences.
        fields: per source, (column to fetch, Spark type to cast it to).
        slots: the arrays to create.
    """

    sources: tuple[str, ...]
    sequential: tuple[bool, ...]
    fields: tuple[tuple[tuple[str, str], ...], ...]
    slots: tuple[Slot, ...]

    @property
    def sequences(self) -> list[int]:
        """Indices of the sources with sequences."""
        return [index for index, is_sequence in enumerate(self.sequential) if is_sequence]

    def to_infer(self) -> set[tuple[int, int]]:
        """Return (source, field) of the columns whose classes must be inferred."""
        return {
            (slot.source, at)
            for slot in self.slots
            for at, part in slot.parts
            if part.classes == "infer"
        }

    def with_classes(self, found: Mapping[tuple[int, int], tuple[str, ...]]) -> "Plan":
        """Return a copy of this plan with inferred classes, by (source, field)."""

        def filled(slot: Slot) -> Slot:
            parts = tuple(
                (at, replace(part, classes=found[slot.source, at]))
                if part.classes == "infer"
                else (at, part)
                for at, part in slot.parts
            )
            return replace(slot, parts=parts)

        return replace(self, slots=tuple(map(filled, self.slots)))

    def class_names(self) -> dict[str, tuple[str, ...]]:
        """Return output name -> class names of outputs that are a single column of classes."""
        alone = {s.name: s.parts[0][1].classes for s in self.slots if len(s.parts) == 1}
        labels = {slot.name for slot in self.slots if slot.group == "labels"}
        return {n: c for n, c in alone.items() if n in labels and isinstance(c, tuple)}


def make_plan(
    sources: Mapping[str, Source],
    types: Mapping[str, Mapping[str, str]],
    features: Mapping[str, Any],
    labels: Mapping[str, Any],
) -> Plan:
    """Create a plan from the user's options; `types` is source -> column -> Spark type."""
    names = list(sources)
    fields: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
    slots: list[Slot] = []
    for group, wanted in (("features", features), ("labels", labels)):
        for slot_name, given in wanted.items():
            source, choice = _of_source(group, slot_name, given, names)
            option = f"{group}[{slot_name!r}]"
            is_single = isinstance(choice, str | int | ClassColumn)
            many = [choice] if is_single or isinstance(choice, slice | range) else list(choice)
            alone = is_single and group == "labels"
            parts: list[tuple[int, Part]] = []
            for item in many:
                for kind, part in _parts(item, types[source], option, source, alone=alone):
                    field = part.column, kind
                    fields[source] += [] if field in fields[source] else [field]
                    parts.append((fields[source].index(field), part))
            if not parts:
                raise ConfigurationError(
                    f"`{option}` must have at least one column. Received: {choice!r}."
                )
            arrays = any(part.shape is not None for _, part in parts)
            if sources[source].is_sequence and arrays:
                raise DataError(
                    f"`{option}` must be numbers or classes, one per step. Received: a column of "
                    f"arrays of {source!r}."
                )
            flat = alone and len(parts) == 1 and not (parts[0][1].hot or arrays)
            slots.append(
                Slot(
                    group=group,
                    name=str(slot_name),
                    source=names.index(source),
                    parts=tuple(parts),
                    flat=flat,
                )
            )
    return Plan(
        sources=tuple(names),
        sequential=tuple(source.is_sequence for source in sources.values()),
        fields=tuple(tuple(fields[name]) for name in names),
        slots=tuple(slots),
    )


def _of_source(group: str, name: str, given: Any, sources: Sequence[str]) -> tuple[str, Any]:
    if not (isinstance(given, tuple | list) and len(cast(Sequence[Any], given)) == 2):
        raise ConfigurationError(
            f"`{group}` must be name -> (name of a source, columns). "
            f"Received: {group}[{name!r}]={given!r}."
        )
    source, choice = cast(tuple[Any, Any], given)
    if source not in sources:
        raise ConfigurationError(
            f"`{group}[{name!r}]` must name one of the sources {shortened(sources)}. "
            f"Received: {source!r}."
        )
    return source, choice


def _parts(
    item: Any, types: Mapping[str, str], option: str, source: str, *, alone: bool
) -> list[tuple[str, Part]]:
    """Return (Spark type to cast to, part) of each selected column."""
    chosen = item.column if isinstance(item, ClassColumn) else item
    columns = select_columns(list(types), [chosen], option=f"{option} of {source}")
    return [_part(item, name, types[name], option, alone=alone) for name in columns]


def _part(item: Any, column: str, kind: str, option: str, *, alone: bool) -> tuple[str, Part]:
    is_text = kind.startswith(("string", "char", "varchar"))
    if isinstance(item, ClassColumn):
        given: Any = item.classes
        classes = given if isinstance(given, int | str) else tuple(map(str, given))
        is_number = isinstance(classes, int) and not is_text
        if _is_number(kind) or not is_number:
            part = Part(column=column, classes=cast(Any, classes), hot=isinstance(item, OneHot))
            return "double" if is_number else "string", part
    elif alone and kind in (*INTEGERS, "boolean"):
        return "bigint", Part(column=column, is_integer=True)
    elif _is_number(kind):
        return "float", Part(column=column)
    elif is_text:
        # May hold numbers: a single invalid line turns a CSV column into text.
        return "string", Part(column=column)
    elif kind.startswith("array<") and _is_number(kind[len("array<") : -1]):
        return "array<float>", Part(column=column, shape=())  # set from the first array
    raise DataError(
        f"`{option}` must be columns of numbers, or of classes in `OneHot` or `ClassIndex`. "
        f"Received: column {column!r} of type {kind}."
    )


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind.startswith("decimal")
