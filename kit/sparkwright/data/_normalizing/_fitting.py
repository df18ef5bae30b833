"""What a normalizer has to know of the data, found in one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._folding import fold
from sparkwright.data._statistics._moments import (
    Moments,
    Per,
    agreed,
    column_values,
    readings_of,
    refuse_not_finite,
)
from sparkwright.errors import ConfigurationError, DataError

# Positions of the last axis or names of columns, of every input or of the named ones; None: all.
Columns = Sequence[int | str] | Mapping[str, Sequence[int | str] | None] | None
Labels = bool | str | Sequence[str]
Readings = dict[Per, "FittedColumns"]  # of one array, the best first


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

    def over_chosen(self, values: Array, otherwise: float) -> NDArray[np.float64]:
        """`values` of the columns in their shape; `otherwise` where they were not chosen."""
        shaped = values.reshape(self.shape)
        if self.columns is None:
            return shaped
        chosen = np.isin(np.arange(self.shape[-1]), self.columns)
        return np.where(chosen, shaped, otherwise)


def fit_columns(
    data: Any, *, labels: Labels, columns: Columns, per: str
) -> tuple[dict[str, FittedColumns], dict[str, FittedColumns]]:
    """Count, mean, deviation and range of features and labels.

    Args:
        data: a DataSet or a DistributedDataSet.
        labels: whether labels too, or names of outputs.
        columns: which.
        per: "feature" or "element".

    Returns:
        Input name -> what was found, output name -> what was found.

    Raises:
        ConfigurationError: naming the option.
        DataError: if there are no examples or no such names, for class numbers as labels, and for
            NaN and infinite numbers, naming column and partition.
    """
    positions = _by_position(columns, getattr(data, "schema", None))
    summarise = partial(_summary, labels=_label_names(labels), columns=positions, per=per)
    if isinstance(data, DataSet):
        found = fold([data], summarise, _merged)
    elif hasattr(data, "reduce_chunks"):
        found = data.reduce_chunks(summarise, _merged, description="fit a normalizer")
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
    """`columns` with positions in place of names, which `schema` knows."""
    if isinstance(columns, Mapping):
        return {
            name: chosen and _places(chosen, _names(schema, name))
            for name, chosen in columns.items()
        }
    chosen = [columns] if isinstance(columns, str) else list(columns or ())
    if not any(isinstance(column, str) for column in chosen):
        return columns
    names = {name: _names(schema, name) for name in getattr(schema, "features", ())}
    _places(chosen, [column for known in names.values() for column in known])
    # A position is one of each input, as it is where no names are given.
    numbers = [column for column in chosen if not isinstance(column, str)]
    found = {
        name: [place for place, column in enumerate(known) if column in chosen] + numbers
        for name, known in names.items()
    }
    return {name: places for name, places in found.items() if places}


def _names(schema: Any, name: str) -> list[str]:
    return list(schema.feature_names(name)) if name in getattr(schema, "features", ()) else []


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


def _summary(
    chunk: DataSet,
    partition: int,
    start: int,
    *,
    labels: bool | tuple[str, ...],
    columns: Any,
    per: str,
) -> dict[str, Readings]:
    del partition, start
    found: dict[str, Readings] = {}
    named = (
        dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(chunk.features, columns)
    )
    _refuse_unknown("`columns`", "inputs", list(named), list(chunk.features))
    for name, chosen in named.items():
        found[f"features/{name}"] = _of_array(chunk, f"features/{name}", chosen, per)
    outputs = list(chunk.labels) if labels is True else list(labels or ())
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
        found[f"labels/{name}"] = _of_array(chunk, f"labels/{name}", None, per)
    return found


def _of_array(chunk: DataSet, flat: str, chosen: Sequence[int] | None, wanted: str) -> Readings:
    readings = readings_of(chunk, flat, wanted)
    # Who chooses positions on the last axis says that it has columns.
    readings = readings if chosen is None else readings[-1:]
    return {per: _as(per, chunk, flat, chosen) for per in readings}


def _as(per: Per, chunk: DataSet, flat: str, chosen: Sequence[int] | None) -> FittedColumns:
    array = chunk.columns()[flat]
    values = column_values(chunk, flat, per)
    shape = array.shape[1:] if per == "element" else (values.shape[1],)
    positions = None if chosen is None else _positions(flat, chosen, shape[-1])
    checked = np.arange(values.shape[1])
    if positions is not None:
        checked = checked[np.isin(checked % shape[-1], positions)]
    refuse_not_finite(flat, values, checked)
    return FittedColumns(per=per, moments=_moments(values), shape=shape, columns=positions)


def _moments(values: Array) -> Moments:
    # Columns that are left alone may hold anything.
    finite = values.dtype.kind != "f" or bool(np.isfinite(values).all())
    return Moments.of(values, None if finite else np.isfinite(values))


def _positions(flat: str, chosen: Sequence[int], count: int) -> tuple[int, ...]:
    wrong = [c for c in chosen if isinstance(c, bool) or not isinstance(c, int | np.integer)]
    wrong = wrong or [c for c in chosen if not -count <= c < count]
    if wrong or not len(chosen):
        raise ConfigurationError(
            f"`columns` must be positions of the last axis, which has {count} for {flat!r}. "
            f"Received: {list(chosen)}."
        )
    return tuple(sorted({int(c) % count for c in chosen}))


def _merged(first: dict[str, Readings], second: dict[str, Readings]) -> dict[str, Readings]:
    merged: dict[str, Readings] = {}
    same_names = set(first) == set(second)
    if same_names:
        merged = {
            name: agreed(
                readings,
                second[name],
                fit=lambda one, other: one.shape == other.shape,
                merge=lambda one, other: replace(one, moments=one.moments.merge(other.moments)),
            )
            for name, readings in first.items()
        }
    if not same_names or not all(merged.values()):
        raise DataError(
            "all chunks of the data must have the same inputs with the same columns. Received: "
            f"{_shapes(first)} and {_shapes(second)}."
        )
    return merged


def _shapes(found: dict[str, Readings]) -> dict[str, tuple[int, ...]]:
    # The last reading is the one with columns, if any is.
    return {name: list(readings.values())[-1].shape for name, readings in found.items()}


def _refuse_unknown(option: str, what: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise DataError(f"{option} must name {what} of the data, {known}. Received: {unknown}.")
