"""What normalizers keep of each array, as numbers and as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._statistics._moments import Per
from sparkwright.errors import ConfigurationError

from ._fitting import FittedColumns

Numbers = NDArray[np.float64]
Found = TypeVar("Found")
Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class MeanAndStd:
    """Mean and deviation of the columns of one array.

    Attributes:
        per: "feature", "element" or "value": what a column is.
        mean: float64, (columns,), or the shape of an example, or (1,).
        std: likewise, of the population; 1 where all numbers are equal.
        columns: positions of the last axis that were chosen; None: all.
    """

    per: Per
    mean: Numbers
    std: Numbers
    columns: tuple[int, ...] | None = None

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
class Range:
    """Smallest and largest number of the columns of one array.

    Attributes:
        per: "feature", "element" or "value": what a column is.
        minimum: float64, (columns,), or the shape of an example, or (1,).
        maximum: likewise.
        columns: positions of the last axis that were chosen; None: all.
    """

    per: Per
    minimum: Numbers
    maximum: Numbers
    columns: tuple[int, ...] | None = None

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


def each(function: Callable[[Found], Made], named: Mapping[str, Found]) -> dict[str, Made]:
    """`function` of every value."""
    return {name: function(value) for name, value in named.items()}


def plain(found: MeanAndStd | Range) -> dict[str, Any]:
    """As JSON takes it; floats survive exactly."""
    numbers = (
        {"mean": found.mean.tolist(), "std": found.std.tolist()}
        if isinstance(found, MeanAndStd)
        else {"minimum": found.minimum.tolist(), "maximum": found.maximum.tolist()}
    )
    columns = None if found.columns is None else list(found.columns)
    return {"per": found.per, "columns": columns, **numbers}


def read(kind: Callable[..., Made], settings: Any) -> dict[str, Made]:
    """The inverse of `plain`, for several arrays.

    Raises:
        ConfigurationError: naming the array whose settings make no sense.
    """
    if not isinstance(settings, Mapping):
        raise ConfigurationError(
            f"a normalizer's arrays must be a dict by name. Received: {settings!r:.200}."
        )
    found: dict[str, Made] = {}
    for name, values in settings.items():
        try:
            columns = values.get("columns")
            found[str(name)] = kind(
                per=values["per"],
                columns=None if columns is None else tuple(int(column) for column in columns),
                **{
                    key: np.asarray(value, np.float64)
                    for key, value in values.items()
                    if key not in ("per", "columns")
                },
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"the settings of {name!r} must be those of a {getattr(kind, '__name__', kind)}. "
                f"Received: {values!r:.200} ({error})."
            ) from None
    return found


def check_keys(name: str, settings: Any, known: set[str]) -> None:
    """Refuse settings of another class, and options that this one does not have.

    Raises:
        ConfigurationError: naming them.
    """
    if not isinstance(settings, Mapping) or settings.get("name", name) != name:
        raise ConfigurationError(
            f"settings of {name} must be a dict with `name` {name!r}. Received: {settings!r:.200}."
        )
    unknown = sorted(map(str, set(settings) - known - {"name"}))
    if unknown:
        raise ConfigurationError(
            f"unknown options {unknown} for {name}. Known are {sorted(known)}."
        )
