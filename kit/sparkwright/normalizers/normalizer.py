"""The base class of normalizers, and the scales of columns that it applies."""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from sparkwright.configuration import Configuration
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from .moments import Array, Floats, Per

Direction = Literal["apply", "revert"]
Group = Literal["features", "labels"]
_BLOCK_NUMBERS = 1 << 16  # a block fits into the processor's cache


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ColumnScale:
    """`(x - shift) / divisor * factor + offset` of columns, in float64."""

    per: Per
    shift: Floats
    divisor: Floats
    columns: tuple[int, ...] | None = None
    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Raise for numbers whose scale has no inverse."""
        check_choice("per", self.per, get_args(Per))
        if self.shift.shape != self.divisor.shape or not self.shift.ndim:
            raise ConfigurationError(
                "both numbers of each column must be given. Received: arrays of shape "
                f"{self.shift.shape} and {self.divisor.shape}."
            )
        finite = bool(np.isfinite(self.shift).all() and np.isfinite(self.divisor).all())
        if not finite or bool((self.divisor == 0).any()):
            raise ConfigurationError(
                "the numbers of a normalizer must be finite, and divisors must not be 0. "
                f"Received: shift={self.shift}, divisor={self.divisor}."
            )

    def mapped(
        self, array: Array, direction: Direction, *, what: str, mask: Array | None = None
    ) -> Array:
        """Scale or "revert" `array` in float64 where `mask`, (n,) or (n, time), is not 0."""
        self._check(array, what)
        result = np.empty(array.shape, array.dtype if array.dtype.kind == "f" else np.float32)
        example = array.shape[1:]
        rows = max(1, _BLOCK_NUMBERS // math.prod(example))
        # Repeat the scales to a whole block: NumPy is slow at broadcasting short arrays.
        block_shape = (min(rows, len(array)), *example)
        shift = np.ascontiguousarray(np.broadcast_to(self.shift, block_shape))
        divisor = np.ascontiguousarray(np.broadcast_to(self.divisor, block_shape))
        chosen = None
        if self.columns is not None:
            chosen = np.isin(np.arange(self.shift.shape[-1]), self.columns)
        for start in range(0, len(array), rows):
            block = array[start : start + rows]
            wide = block.astype(np.float64)
            if direction == "apply":
                wide -= shift[: len(block)]
                wide /= divisor[: len(block)]
                wide *= self.factor
                wide += self.offset
            else:
                wide -= self.offset
                wide /= self.factor
                wide *= divisor[: len(block)]
                wide += shift[: len(block)]
            if chosen is not None:
                wide = np.where(chosen, wide, block)
            if mask is not None:
                part = mask[start : start + rows] != 0
                part = part.reshape(part.shape + (1,) * (block.ndim - part.ndim))
                wide = np.where(part, wide, block)
            result[start : start + rows] = wide
        return result

    def fits(self, example: Sequence[int | None]) -> bool:
        """Whether the scale was fitted to examples of this shape; None: any length."""
        fitted = self.shift.shape
        example = example[-1:] if self.per == "feature" else example
        return self.per == "value" or (
            len(example) == len(fitted)
            and all(size in (None, wanted) for size, wanted in zip(example, fitted, strict=True))
        )

    def _check(self, array: Array, what: str) -> None:
        shape = self.shift.shape
        if not self.fits(array.shape[1:]):
            fitted = (
                f"{shape[0]} columns" if self.per == "feature" else f"examples of shape {shape}"
            )
            raise DataError(
                f"{what} must have the shape that the normalizer was fitted to, {fitted}. "
                f"Received: shape {array.shape[1:]} per example."
            )


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Scales:
    """The scales of one normalizer, by names of inputs and outputs."""

    features: Mapping[str, ColumnScale] = field(default_factory=dict[str, ColumnScale])
    labels: Mapping[str, ColumnScale] = field(default_factory=dict[str, ColumnScale])
    inputs: ColumnScale | None = None  # scale of all inputs not in `features`

    def mapped(
        self,
        group: Group,
        direction: Direction,
        arrays: Mapping[str, Array],
        masks: Mapping[str, Array],
    ) -> dict[str, Array]:
        """Return the arrays of a group, scaled or reverted."""
        scales = self.features if group == "features" else self.labels
        if set(scales) - set(arrays):
            raise DataError(
                f"the normalizer was fitted to the {group} {sorted(scales)}. Received: "
                f"{sorted(arrays)}. Use the same names."
            )
        found = dict(arrays)
        for name, array in arrays.items():
            scale = scales.get(name, self.inputs if group == "features" else None)
            what = f"{group} {name!r}"
            if array.dtype == object and name in scales:
                raise DataError(f"a normalizer requires numbers. Received: {what} of text.")
            if scale is not None and array.dtype != object:
                found[name] = scale.mapped(array, direction, what=what, mask=masks.get(name))
        return found


class Normalizer(Configuration, ABC):
    """Base class of `Standardize`, `MinMaxScale`, `ImageScale` and `NormalizerChain`."""

    __slots__ = ()
    _tagged: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Convert NumPy numbers to Python numbers, and check the options."""
        made: Any = self
        for each in fields(made):
            value = getattr(self, each.name)
            if isinstance(value, np.number):
                object.__setattr__(self, each.name, value.item())
        Configuration.__post_init__(self)

    @abstractmethod
    def _scales(self) -> tuple[Scales, ...]:
        """Return the scales to apply, in order."""

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON values, with the class name; see `Normalizer.from_dict`."""
        settings = Configuration.to_dict(self)
        # Fingerprints must not distinguish 0 from 0.0.
        return {k: float(v) if isinstance(v, int) else v for k, v in settings.items()}

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The normalized inputs, in the order of fitting; None: all inputs."""
        names = self._names("features")
        return None if names is None else tuple(names)

    @property
    def label_names(self) -> tuple[str, ...]:
        """The outputs with normalized labels, in the order of fitting."""
        return tuple(self._names("labels") or ())

    def transform(self, data: Any) -> Any:
        """Normalize features, and fitted labels.

        Computation is in float64. Floats keep their dtype; other numbers become float32. Masked
        steps and labels are unchanged.

        Args:
            data: a DataSet; a DistributedDataSet, which stays lazy; or features only: the array of
                the only input, or a dict input name -> array.

        Returns:
            Normalized data of the same type.

        Raises:
            DataError: if a name or shape differs from the fitted one; for a DistributedDataSet
                when it is read.
        """
        return self._everywhere(data, "apply", ("features", "labels"))

    def revert_features(self, data: Any) -> Any:
        """Invert `transform` for features; labels are unchanged.

        Args:
            data: the same types as for `transform`.
        """
        return self._everywhere(data, "revert", ("features",))

    def revert_labels(self, outputs: Any) -> Any:
        """Convert normalized labels or predictions back to their original units.

        Args:
            outputs: a DataSet or DistributedDataSet, whose labels are converted; or predictions: an
                array for one output, a dict output name -> array, or a list in the order of the
                fitted outputs.

        Returns:
            Data of the same type; unchanged if no labels were fitted.
        """
        return self._everywhere(outputs, "revert", ("labels",))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalizer) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self._digest())

    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()

    def _everywhere(self, data: Any, direction: Direction, groups: tuple[Group, ...]) -> Any:
        if hasattr(data, "from_columns"):
            return self._dataset(data, direction, groups)
        if hasattr(getattr(data, "data", None), "from_columns"):
            raise ConfigurationError(
                "a normalizer is applied to data sets and arrays. Received: "
                f"{type(data).__name__}, a table with its schema. Give its `.data`."
            )
        if isinstance(data, tuple):
            raise ConfigurationError(
                "a normalizer is applied to a DataSet, or to the array of features alone. "
                "Received: a tuple. For features and labels: `DataSet(features, labels)`; for "
                "several inputs: a dict of names, or a list."
            )
        if hasattr(data, "map_chunks"):
            return data.map_chunks(
                partial(self._dataset, direction=direction, groups=groups),
                step=f"normalizer {direction} {'+'.join(groups)} {self._digest()}",
            )
        return self._bare(data, direction, groups[0])

    def _bare(self, data: Any, direction: Direction, group: Group) -> Any:
        """Scale arrays that are not part of a data set."""
        names = self._names(group)
        if isinstance(data, Mapping):
            return self._arrays(group, direction, {str(n): np.asarray(a) for n, a in data.items()})
        if names == []:
            return data
        names = names or [group]  # all inputs, with any name
        if len(names) == 1:
            return self._arrays(group, direction, {names[0]: np.asarray(data)})[names[0]]
        if not isinstance(data, Sequence) or len(data) != len(names):
            raise DataError(
                f"arrays for {group} {names} must be a dict of names, or a list in this order. "
                f"Received: {type(data).__name__}."
            )
        arrays = {name: np.asarray(array) for name, array in zip(names, data, strict=True)}
        return list(self._arrays(group, direction, arrays).values())

    def _names(self, group: Group) -> list[str] | None:
        """Return the names of the scaled arrays; None: all features."""
        scales = self._scales()
        names = list(dict.fromkeys(name for step in scales for name in getattr(step, group)))
        every_input = group == "features" and any(step.inputs is not None for step in scales)
        return None if every_input and not names else names

    def _dataset(self, dataset: Any, direction: Direction, groups: tuple[Group, ...]) -> Any:
        """Scale the arrays of a DataSet."""
        columns: dict[str, Array] = dataset.columns()
        for group in groups:
            arrays: dict[str, Array] = getattr(dataset, group)
            if arrays:
                masks: dict[str, Array] = getattr(dataset, f"{group}_masks")
                changed = self._arrays(group, direction, arrays, masks)
                columns |= {f"{group}/{name}": array for name, array in changed.items()}
        return dataset.from_columns(columns)

    def _arrays(
        self,
        group: Group,
        direction: Direction,
        arrays: Mapping[str, Array],
        masks: Mapping[str, Array] = MappingProxyType({}),
    ) -> dict[str, Array]:
        steps = self._scales()
        found = dict(arrays)
        for step in steps if direction == "apply" else reversed(steps):
            found = step.mapped(group, direction, found, masks)
        return found
