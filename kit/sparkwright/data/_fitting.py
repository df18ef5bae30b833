"""What a normalizer has to know of the data, found in one pass, and what it keeps of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Self

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from ._dataset import Array, DataSet
from ._moments import Floats, Moments, Per, column_values, merge_readings, readings_of
from ._reducing import fold

# Positions of the last axis or names of columns, of every input or of the named ones; None: all.
Columns = Sequence[int | str] | Mapping[str, Sequence[int | str] | None] | None
Labels = bool | str | Sequence[str]
Readings = dict[str, dict[Per, "FittedColumns"]]  # flat name -> of the array, the best first


@dataclass(frozen=True, kw_only=True, slots=True)
class FittedColumns:
    """What was found about one array.

    Attributes:
        per: what a column is.
        moments: of each column.
        shape: of the numbers of all columns, such as an example's for `per="element"`.
        columns: chosen positions of the last axis; None: all.
    """

    per: Per
    moments: Moments
    shape: tuple[int, ...]
    columns: tuple[int, ...] | None

    def merge(self, other: "FittedColumns") -> "FittedColumns":
        """What was found in both parts of the data."""
        return replace(self, moments=self.moments.merge(other.moments))

    def over_chosen(self, values: Array, otherwise: float) -> Floats:
        """`values` of the columns in their shape; `otherwise` where they were not chosen."""
        shaped = values.reshape(self.shape)
        if self.columns is None:
            return shaped
        return np.where(np.isin(np.arange(self.shape[-1]), self.columns), shaped, otherwise)


def fit_columns(
    data: Any, *, labels: Labels, columns: Columns, per: str
) -> tuple[dict[str, FittedColumns], dict[str, FittedColumns]]:
    """Count, mean, deviation and range of features and labels; see `Standardize.fit`.

    Returns:
        Input name -> what was found, output name -> what was found.
    """
    positions = _by_position(columns, getattr(data, "schema", None))
    summarise = partial(summary_of, labels=_label_names(labels), columns=positions, per=per)
    if isinstance(data, DataSet):
        found = fold([data], summarise, merge_readings)
    elif hasattr(data, "reduce_chunks"):
        found = data.reduce_chunks(summarise, merge_readings, description="fit a normalizer")
    else:
        raise DataError(
            "a normalizer is fitted to a DataSet or a DistributedDataSet. Received: "
            f"{type(data).__name__}. Of arrays make one: `DataSet(features, labels)`; of a table "
            "that was read here, it is `table.data`."
        )
    if not found:
        raise DataError("a normalizer needs at least one example to be fitted to. Received: none.")
    groups: dict[str, dict[str, FittedColumns]] = {"features": {}, "labels": {}}
    for flat, readings in found.items():
        group, _, name = flat.partition("/")
        groups[group][name] = next(iter(readings.values()))
    return groups["features"], groups["labels"]


def _by_position(columns: Columns, schema: Any) -> Columns:
    """`columns` with positions in place of the names that `schema` knows."""
    inputs: Any = getattr(schema, "features", ())
    known = {name: list(schema.feature_names(name)) for name in inputs}
    if isinstance(columns, Mapping):
        return {
            name: chosen and _places(chosen, known.get(name, []))
            for name, chosen in columns.items()
        }
    chosen = [columns] if isinstance(columns, str) else list(columns or ())
    if not any(isinstance(column, str) for column in chosen):
        return columns
    _places(chosen, [column for names in known.values() for column in names])
    # A position is one of each input, as it is where no names are given.
    numbers = [column for column in chosen if not isinstance(column, str)]
    found = {
        name: [place for place, column in enumerate(names) if column in chosen] + numbers
        for name, names in known.items()
    }
    return {name: places for name, places in found.items() if places}


def _places(chosen: Sequence[int | str], names: Sequence[str]) -> list[int]:
    unknown = [column for column in chosen if isinstance(column, str) and column not in names]
    if unknown:
        raise ConfigurationError(
            f"`columns` must be positions on the last axis, or among {list(names)}, the names that "
            f"are known. Received: {unknown}."
        )
    return [names.index(c) if isinstance(c, str) else c for c in chosen]


def _label_names(labels: Labels) -> bool | tuple[str, ...]:
    if isinstance(labels, bool):
        return labels
    names = (labels,) if isinstance(labels, str) else tuple(labels)
    if not all(isinstance(name, str) for name in names):
        raise ConfigurationError(
            f"`labels` must be True, False or names of outputs. Received: labels={labels!r}."
        )
    return names


def summary_of(
    chunk: DataSet,
    partition: int,
    start: int,
    *,
    labels: bool | tuple[str, ...],
    columns: Any,
    per: str,
) -> Readings:
    """What is known of the chosen columns after one chunk."""
    inputs = columns if isinstance(columns, Mapping) else dict.fromkeys(chunk.features, columns)
    outputs = list(chunk.labels) if labels is True else list(labels or ())
    _refuse_unknown("`columns`", "inputs", list(inputs), list(chunk.features))
    _refuse_unknown("`labels`", "outputs", outputs, list(chunk.labels))
    if labels is True and not outputs:
        raise DataError("`labels=True` needs labels. Received: a data set without any.")
    for name in outputs:
        if chunk.labels[name].dtype.kind in "biu":
            raise DataError(
                "only labels for regression can be normalized. Received: output "
                f"{name!r} of dtype {chunk.labels[name].dtype}, which are class numbers. Use "
                "`labels=False`, or name the outputs to normalize, or convert them to float32."
            )
    chosen = {f"features/{name}": places for name, places in inputs.items()}
    chosen |= dict.fromkeys((f"labels/{name}" for name in outputs), None)
    found: Readings = {}
    for flat, places in chosen.items():
        readings = readings_of(chunk, flat, per)
        # Chosen positions on the last axis are columns.
        readings = readings if places is None else readings[-1:]
        found[flat] = {reading: _fitted(chunk, flat, reading, places) for reading in readings}
    return found


def _fitted(chunk: DataSet, flat: str, per: Per, chosen: Sequence[int] | None) -> FittedColumns:
    values = column_values(chunk, flat, per)
    shape = chunk.columns()[flat].shape[1:] if per == "element" else (values.shape[1],)
    positions = None if chosen is None else _positions(flat, chosen, shape[-1])
    valid = None
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        valid = finite  # columns that are left alone may hold anything
        _refuse_not_finite(flat, values, shape[-1], positions)
    return FittedColumns(per=per, moments=Moments.of(values, valid), shape=shape, columns=positions)


def _refuse_not_finite(
    flat: str, values: Array, width: int, positions: tuple[int, ...] | None
) -> None:
    for column in range(values.shape[1]):
        found = values[:, column]
        missing, infinite = int(np.isnan(found).sum()), int(np.isinf(found).sum())
        if (missing or infinite) and (positions is None or column % width in positions):
            group, _, name = flat.partition("/")
            raise DataError(
                f"a normalizer can be fitted only to finite numbers. Received: {missing} NaN and "
                f"{infinite} infinite of {len(found)} numbers in {group} {name!r}, column "
                f"{column}. Fill or drop them where the data is read, mask them, or leave the "
                "column out with `columns`."
            )


def _positions(flat: str, chosen: Sequence[int], count: int) -> tuple[int, ...]:
    wrong = [c for c in chosen if isinstance(c, bool) or not isinstance(c, int | np.integer)]
    wrong = wrong or [c for c in chosen if not -count <= c < count]
    if wrong or not len(chosen):
        raise ConfigurationError(
            f"`columns` must be positions of the last axis, which has {count} for {flat!r}. "
            f"Received: {list(chosen)}."
        )
    return tuple(sorted({int(c) % count for c in chosen}))


def _refuse_unknown(option: str, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise DataError(f"{option} must name {what} of the data, {known}. Received: {unknown}.")


# -- what normalizers keep of it


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _FittedArray:
    """What a normalizer keeps of one array."""

    per: Per
    columns: tuple[int, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it; floats survive exactly."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, settings: Any) -> Self:
        """The inverse of `to_dict`; raises whatever Python raises for other settings."""
        per, columns, numbers = settings["per"], settings.get("columns"), dict(settings)
        for name in {"per", "columns"} & numbers.keys():
            del numbers[name]
        arrays = {name: np.asarray(value, np.float64) for name, value in numbers.items()}
        chosen = None if columns is None else tuple(int(column) for column in columns)
        return cls(per=per, columns=chosen, **arrays)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MeanAndStd(_FittedArray):
    """Mean and deviation of the columns of one array.

    Attributes:
        per: "feature", "element" or "value": what a column is.
        columns: positions of the last axis that were chosen; None: all.
        mean: float64, (columns,), or the shape of an example, or (1,).
        std: likewise, of the population; 1 where all numbers are equal.
    """

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, found: FittedColumns) -> "MeanAndStd":
        """What was found in the data."""
        std = found.moments.std
        return cls(
            per=found.per,
            mean=found.over_chosen(found.moments.mean, 0.0),
            std=found.over_chosen(np.where(std > 0, std, 1.0), 1.0),
            columns=found.columns,
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Range(_FittedArray):
    """Smallest and largest number of the columns of one array.

    Attributes:
        per: "feature", "element" or "value": what a column is.
        columns: positions of the last axis that were chosen; None: all.
        minimum: float64, (columns,), or the shape of an example, or (1,).
        maximum: likewise.
    """

    minimum: Floats
    maximum: Floats

    @classmethod
    def of(cls, found: FittedColumns) -> "Range":
        """What was found in the data."""
        # Masked altogether: no range, so nothing to divide by.
        some = found.moments.count > 0
        return cls(
            per=found.per,
            minimum=found.over_chosen(np.where(some, found.moments.minimum, 0.0), 0.0),
            maximum=found.over_chosen(np.where(some, found.moments.maximum, 0.0), 1.0),
            columns=found.columns,
        )


def plain_fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON takes them."""
    return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value


def read_arrays(kind: type[MeanAndStd] | type[Range], settings: Any) -> dict[str, Any]:
    """The inverse of `to_dict` for the arrays of a normalizer, by name."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"a normalizer's arrays must be a dict by name. Received: {settings!r:.200}."
        )
    found: dict[str, Any] = {}
    for name, values in settings.items():
        try:
            found[str(name)] = kind.from_dict(values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the settings of {name!r} must be those of a {kind.__name__}. "
                f"Received: {values!r:.200} ({error})."
            ) from None
    return found
