"""Fit the statistics of normalizers in one pass over the data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np

from sparkwright.errors import ConfigurationError, DataError

from .moments import (
    Array,
    Arrays,
    Floats,
    Moments,
    Per,
    column_values,
    merge_readings,
    numeric_names,
    readings_of,
)

# Positions on the last axis or column names, for all inputs or by input; None: all columns.
Columns = Sequence[int | str] | Mapping[str, Sequence[int | str] | None] | None
Labels = bool | str | Sequence[str]


class FittedColumns(NamedTuple):
    """The moments of one array's columns, and the chosen columns."""

    per: Per
    moments: Moments
    columns: tuple[int, ...] | None  # positions on the last axis; None: all

    def where_chosen(self, values: Array, otherwise: float) -> Floats:
        """Return `values` at the chosen columns and `otherwise` at the other columns."""
        if self.columns is None:
            return values
        return np.where(np.isin(np.arange(values.shape[-1]), self.columns), values, otherwise)


def fit_columns(
    data: Any, *, labels: Labels, columns: Columns, per: str
) -> dict[str, dict[str, FittedColumns]]:
    """Return "features" and "labels" -> name -> fitted columns; see `Standardize.fit`."""
    places = _by_position(columns, getattr(data, "schema", None))
    options: dict[str, Any] = {"labels": _label_names(labels), "columns": places, "per": per}
    if not hasattr(data, "reduce_chunks"):
        raise DataError(
            "a normalizer is fitted to a DataSet or a DistributedDataSet. Received: "
            f"{type(data).__name__}. For arrays, pass `DataSet(features, labels)`; for a local "
            "table, pass `table.data`."
        )
    found: Any = data.reduce_chunks(
        lambda chunk, *_: _summary_of(chunk.columns(), **options),
        merge_readings,
        description="fit a normalizer",
    )
    if not found:
        raise DataError("a normalizer needs at least one example to fit. Received: none.")
    fitted: dict[str, dict[str, FittedColumns]] = {"features": {}, "labels": {}}
    for flat, readings in found.items():
        group, _, name = flat.partition("/")
        reading, moments = next(iter(readings.items()))
        chosen: Any = None if group == "labels" else places
        chosen = chosen.get(name) if isinstance(chosen, Mapping) else chosen  # pyright: ignore[reportUnknownMemberType]
        positions = _positions(flat, chosen, moments.shape[-1])
        fitted[group][name] = FittedColumns(reading, moments, positions)
    return fitted


def _by_position(columns: Columns, schema: Any) -> Columns:
    """Replace the column names in `columns` by their positions in `schema`."""
    inputs: Any = getattr(schema, "features", ())
    known = {name: list(schema.feature_names(name)) for name in inputs}
    if isinstance(columns, Mapping):
        return {
            name: chosen and _name_positions(chosen, known.get(name, []))
            for name, chosen in columns.items()
        }
    chosen = [columns] if isinstance(columns, str) else list(columns or ())
    if not any(isinstance(column, str) for column in chosen):
        return columns
    _name_positions(chosen, [column for names in known.values() for column in names])
    # A position applies to each input, as it does without names.
    numbers = [column for column in chosen if not isinstance(column, str)]
    found = {
        name: [place for place, column in enumerate(names) if column in chosen] + numbers
        for name, names in known.items()
    }
    return {name: places for name, places in found.items() if places}


def _name_positions(chosen: Sequence[int | str], names: Sequence[str]) -> list[int]:
    unknown = [column for column in chosen if isinstance(column, str) and column not in names]
    if unknown:
        raise ConfigurationError(
            "`columns` must be positions on the last axis, or column names among "
            f"{list(names)}. Received: {unknown}."
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


def _summary_of(
    chunk: Arrays, *, labels: bool | tuple[str, ...], columns: Any, per: str
) -> dict[str, dict[Per, Moments]]:
    """Return flat name -> reading -> moments of the columns of one chunk."""
    names = [name.split("/", 1) for name in numeric_names(chunk)]
    numbers = [name for group, name in names if group == "features"]
    known = [name for group, name in names if group == "labels"]
    inputs = columns if isinstance(columns, Mapping) else dict.fromkeys(numbers, columns)
    outputs = known if labels is True else list(labels or ())
    _check_known("`columns`", "numeric inputs", list(inputs), numbers)
    _check_known("`labels`", "outputs", outputs, known)
    if labels is True and not outputs:
        raise DataError("`labels=True` needs labels. Received: a data set without labels.")
    for name in outputs:
        if (dtype := chunk[f"labels/{name}"].dtype).kind in "biu":
            raise DataError(
                "only labels for regression can be normalized. Received: output "
                f"{name!r} of dtype {dtype}, which are class numbers. Use "
                "`labels=False`, or name the outputs to normalize, or convert them to float32."
            )
    chosen = {f"features/{name}": places for name, places in inputs.items()}
    chosen |= dict.fromkeys((f"labels/{name}" for name in outputs), None)
    found: dict[str, dict[Per, Moments]] = {}
    for flat, places in chosen.items():
        readings = readings_of(chunk, flat, per)
        # Chosen positions refer to the last axis: the "feature" reading.
        readings = readings if places is None else readings[-1:]
        found[flat] = {reading: _moments(chunk, flat, reading, places) for reading in readings}
    return found


def _moments(chunk: Arrays, flat: str, per: Per, chosen: Sequence[int] | None) -> Moments:
    values = column_values(chunk, flat, per)
    shape = chunk[flat].shape[1:] if per == "element" else (values.shape[1],)
    positions = _positions(flat, chosen, shape[-1])
    valid = None
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        valid = finite  # columns that are not chosen may hold any number
        for column in np.flatnonzero(~finite.all(axis=0)).tolist():
            if positions is None or column % shape[-1] in positions:
                raise _not_finite(flat, column, values[:, column])
    return Moments.of(values, valid, shape)


def _not_finite(flat: str, column: int, values: Array) -> DataError:
    group, _, name = flat.partition("/")
    missing, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    return DataError(
        f"a normalizer can be fitted only to finite numbers. Received: {missing} NaN and "
        f"{infinite} infinite of {len(values)} numbers in {group} {name!r}, column {column}. Fill "
        "or drop them when reading the data, mask them, or exclude the column with `columns`."
    )


def _positions(flat: str, chosen: Sequence[int] | None, count: int) -> tuple[int, ...] | None:
    if chosen is None:
        return None
    wrong = [c for c in chosen if isinstance(c, bool) or not isinstance(c, int | np.integer)]
    wrong = wrong or [c for c in chosen if not -count <= c < count]
    if wrong or not len(chosen):
        raise ConfigurationError(
            f"`columns` must be positions on the last axis, which has {count} for {flat!r}. "
            f"Received: {list(chosen)}."
        )
    return tuple(sorted({int(c) % count for c in chosen}))


def _check_known(option: str, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise DataError(f"{option} must name {what} of the data, {known}. Received: {unknown}.")


# -- fitted statistics of an array, JSON-serializable without loss


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class _FittedArray:
    per: Per
    columns: tuple[int, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: np.asarray(value).tolist() if isinstance(value, np.ndarray | tuple) else value
            for name, value in values.items()
        }

    @classmethod
    def from_dict(cls, settings: Any) -> Self:
        """Create from `to_dict`; invalid settings raise Python's own errors."""
        numbers = dict(settings)
        per, columns = numbers.pop("per"), numbers.pop("columns", None)
        arrays = {name: np.asarray(value, np.float64) for name, value in numbers.items()}
        chosen = None if columns is None else tuple(int(column) for column in columns)
        return cls(per=per, columns=chosen, **arrays)


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MeanAndStd(_FittedArray):
    """Float64 mean and population deviation of columns; 1 where all numbers are equal."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, found: FittedColumns) -> "MeanAndStd":
        """Create from fitted columns."""
        std = found.moments.std
        return cls(
            per=found.per,
            mean=found.where_chosen(found.moments.mean, 0.0),
            std=found.where_chosen(np.where(std > 0, std, 1.0), 1.0),
            columns=found.columns,
        )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Range(_FittedArray):
    """Float64 minimum and maximum of the columns of one array."""

    minimum: Floats
    maximum: Floats

    @classmethod
    def of(cls, found: FittedColumns) -> "Range":
        """Create from fitted columns."""
        # A fully masked column has no range.
        some = found.moments.count > 0
        return cls(
            per=found.per,
            minimum=found.where_chosen(np.where(some, found.moments.minimum, 0.0), 0.0),
            maximum=found.where_chosen(np.where(some, found.moments.maximum, 0.0), 1.0),
            columns=found.columns,
        )


def read_arrays(kind: type[Any], settings: Any) -> dict[str, Any]:
    """Create a normalizer's fitted arrays, by name, from their `to_dict` settings."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"a normalizer's arrays must be a dict: name -> settings. Received: {settings!r:.200}."
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
