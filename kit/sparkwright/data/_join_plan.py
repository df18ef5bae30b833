"""Which columns of which source become which array of the joined examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from sparkwright.data._column_choice import select_columns
from sparkwright.data._join_sources import ClassIndex, OneHot, Source
from sparkwright.data._wording import shortened
from sparkwright.errors import ConfigurationError, DataError

Kind = Literal["number", "integer", "class", "array"]
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_INTEGERS, "float", "double", "boolean")


@dataclass(frozen=True, kw_only=True, slots=True)
class Field:
    """A column to be fetched.

    Attributes:
        column: its name in the source.
        spark_type: what it is cast to: "float", "double", "bigint", "string" or "array<float>".
    """

    column: str
    spark_type: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One or more columns of an array.

    Attributes:
        field: index into the source's fields.
        kind: how values become numbers.
        classes: for kind "class": how many, their names, or "infer" until they are known.
        hot: whether classes become vectors.
    """

    field: int
    kind: Kind
    classes: int | tuple[str, ...] | Literal["infer"] | None = None
    hot: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """One array of the examples.

    Attributes:
        group: "features" or "labels".
        name: of the input or output.
        source: index into the sources.
        parts: what stands side by side in its last axis.
        flat: the last axis goes: it is one number.
    """

    group: str
    name: str
    source: int
    parts: tuple[Part, ...]
    flat: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A whole join.

    Attributes:
        sources: their names.
        sequential: of each source, whether it has sequences.
        fields: of each source, what to fetch.
        slots: the arrays to make.
    """

    sources: tuple[str, ...]
    sequential: tuple[bool, ...]
    fields: tuple[tuple[Field, ...], ...]
    slots: tuple[Slot, ...]

    def to_infer(self) -> list[tuple[int, int]]:
        """(slot, part) whose classes are still to be found."""
        return [
            (i, j)
            for i, slot in enumerate(self.slots)
            for j, part in enumerate(slot.parts)
            if part.classes == "infer"
        ]

    def with_classes(self, found: Mapping[tuple[int, int], tuple[str, ...]]) -> "Plan":
        """This plan with the classes of (slot, part) filled in."""
        slots = list(self.slots)
        for (i, j), names in found.items():
            parts = list(slots[i].parts)
            parts[j] = replace(parts[j], classes=names)
            slots[i] = replace(slots[i], parts=tuple(parts))
        return replace(self, slots=tuple(slots))

    def class_names(self) -> dict[str, tuple[str, ...]]:
        """Output name -> names of its classes, where it is one column of classes with names."""
        return {
            slot.name: slot.parts[0].classes
            for slot in self.slots
            if slot.group == "labels"
            and len(slot.parts) == 1
            and isinstance(slot.parts[0].classes, tuple)
        }


def planned(
    sources: Mapping[str, Source],
    types: Mapping[str, Mapping[str, str]],
    features: Mapping[str, Any],
    labels: Mapping[str, Any],
) -> Plan:
    """Resolve what the user wrote.

    Args:
        sources: name -> source.
        types: source name -> column -> Spark's name of its type.
        features: input name -> (source name, columns).
        labels: output name -> (source name, columns).

    Raises:
        ConfigurationError, DataError: naming source and column.
    """
    names = list(sources)
    fields: dict[str, list[Field]] = {name: [] for name in names}
    slots: list[Slot] = []
    for group, wanted in (("features", features), ("labels", labels)):
        for slot_name, given in wanted.items():
            source, choice = _of_source(group, slot_name, given, names)
            option = f"{group}[{slot_name!r}]"
            bare = isinstance(choice, str | int | OneHot | ClassIndex)
            many = [choice] if bare or isinstance(choice, slice | range) else list(choice)
            parts: list[Part] = []
            for item in many:
                alone = bare and group == "labels"
                parts += _parts(item, types[source], fields[source], option, source, alone)
            if not parts:
                raise ConfigurationError(
                    f"`{option}` must have a column at least. Received: {choice!r}."
                )
            if sources[source].is_sequence and any(part.kind == "array" for part in parts):
                raise DataError(
                    f"`{option}` must be numbers or classes, one a step. Received: a column of "
                    f"arrays of {source!r}."
                )
            single = len(parts) == 1 and not parts[0].hot and parts[0].kind != "array"
            slots.append(
                Slot(
                    group=group,
                    name=str(slot_name),
                    source=names.index(source),
                    parts=tuple(parts),
                    flat=bare and single and group == "labels",
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
    item: Any,
    types: Mapping[str, str],
    fields: list[Field],
    option: str,
    source: str,
    alone: bool,
) -> list[Part]:
    if isinstance(item, OneHot | ClassIndex):
        column = select_columns(list(types), [item.column], option=f"{option} of {source}")[0]
        return [_class_part(item, column, types[column], fields, option)]
    columns = select_columns(list(types), [item], option=f"{option} of {source}")
    return [_number_part(c, types[c], fields, option, alone=alone) for c in columns]


def _class_part(
    item: OneHot | ClassIndex, column: str, kind: str, fields: list[Field], option: str
) -> Part:
    classes = item.classes
    if not isinstance(classes, int | str):
        classes = tuple(str(name) for name in classes)
    counted = isinstance(classes, int) and not kind.startswith(("string", "char", "varchar"))
    if counted and not _is_number(kind):
        raise _wrong_type(option, column, kind)
    field = _index(fields, Field(column=column, spark_type="double" if counted else "string"))
    known = cast(Any, classes)
    return Part(field=field, kind="class", classes=known, hot=isinstance(item, OneHot))


def _number_part(column: str, kind: str, fields: list[Field], option: str, *, alone: bool) -> Part:
    if alone and (kind in _INTEGERS or kind == "boolean"):
        return Part(field=_index(fields, Field(column=column, spark_type="bigint")), kind="integer")
    if _is_number(kind):
        return Part(field=_index(fields, Field(column=column, spark_type="float")), kind="number")
    if kind.startswith(("string", "char", "varchar")):
        # Perhaps numbers all the same: one bad line makes a column of a CSV file text.
        return Part(field=_index(fields, Field(column=column, spark_type="string")), kind="number")
    if kind.startswith("array<") and _is_number(kind[len("array<") : -1]):
        field = Field(column=column, spark_type="array<float>")
        return Part(field=_index(fields, field), kind="array")
    raise _wrong_type(option, column, kind)


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind.startswith("decimal")


def _wrong_type(option: str, column: str, kind: str) -> DataError:
    return DataError(
        f"`{option}` must be columns of numbers, or of classes in `OneHot` or `ClassIndex`. "
        f"Received: column {column!r} of type {kind}."
    )


def _index(fields: list[Field], field: Field) -> int:
    if field not in fields:
        fields.append(field)
    return fields.index(field)
