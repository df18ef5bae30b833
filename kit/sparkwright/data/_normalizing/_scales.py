"""Straight lines for columns: what a normalizer does to one array, and back."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.data._dataset import Array
from sparkwright.data._statistics._moments import Per
from sparkwright.errors import ConfigurationError, DataError

Direction = Literal["apply", "revert"]
Numbers = NDArray[np.float64]
_BLOCK_NUMBERS = 1 << 16  # computed at once: what fits into a processor's cache


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ColumnScale:
    """`(x - shift) / divisor * factor + offset` for the columns of one array.

    Attributes:
        per: "feature": one column for each position of the last axis; "element": one for each
            element of an example; "value": one for all numbers.
        shift: float64, (columns,), or the shape of an example, or (1,).
        divisor: likewise; never 0.
        columns: positions of the last axis that change, the others stay; None: all.
    """

    per: Per
    shift: NDArray[np.float64]
    divisor: NDArray[np.float64]
    columns: tuple[int, ...] | None = None
    factor: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be undone.

        Raises:
            ConfigurationError: naming the number.
        """
        if self.per not in get_args(Per):
            raise ConfigurationError(
                f"`per` must be one of {list(get_args(Per))}. Received: per={self.per!r}."
            )
        if self.shift.shape != self.divisor.shape or not self.shift.ndim:
            raise ConfigurationError(
                "both numbers of each column must be given. Received: arrays of shape "
                f"{self.shift.shape} and {self.divisor.shape}."
            )
        finite = bool(np.isfinite(self.shift).all() and np.isfinite(self.divisor).all())
        if not finite or bool((self.divisor == 0).any()):
            raise ConfigurationError(
                "the numbers of a normalizer must be finite, and those that divide other than 0. "
                f"Received: shift={self.shift}, divisor={self.divisor}."
            )

    def apply(self, array: Array, *, what: str, mask: Array | None = None) -> Array:
        """The scaled numbers.

        Args:
            array: (n, ...) numbers, of the shape that was fitted.
            what: name for the message.
            mask: (n,) or (n, time); numbers where it is 0 stay. Default None.

        Returns:
            Of the dtype of `array` if that is a float's, else float32. Computed in float64.

        Raises:
            DataError: if the array does not fit.
        """
        self._check(array, what)
        return self._mapped(array, mask, self._apply)

    def revert(self, array: Array, *, what: str, mask: Array | None = None) -> Array:
        """The inverse of `apply`."""
        self._check(array, what)
        return self._mapped(array, mask, self._revert)

    def _apply(self, wide: Numbers, shift: Numbers, divisor: Numbers) -> None:
        wide -= shift
        wide /= divisor
        wide *= self.factor
        wide += self.offset

    def _revert(self, wide: Numbers, shift: Numbers, divisor: Numbers) -> None:
        wide -= self.offset
        wide /= self.factor
        wide *= divisor
        wide += shift

    def _mapped(
        self, array: Array, mask: Array | None, line: Callable[[Numbers, Numbers, Numbers], None]
    ) -> Array:
        result = np.empty(array.shape, array.dtype if array.dtype.kind == "f" else np.float32)
        example = array.shape[1:]
        rows = max(1, _BLOCK_NUMBERS // math.prod(example))
        # As long as a block: NumPy is slow where it has to repeat a few numbers very often.
        block_shape = (min(rows, len(array)), *example)
        shift = _repeated(self.shift, block_shape)
        divisor = _repeated(self.divisor, block_shape)
        chosen = None
        if self.columns is not None:
            chosen = np.isin(np.arange(self.shift.shape[-1]), self.columns)
        for start in range(0, len(array), rows):
            block = array[start : start + rows]
            wide = block.astype(np.float64)
            line(wide, shift[: len(block)], divisor[: len(block)])
            if chosen is not None:
                wide = np.where(chosen, wide, block)
            if mask is not None:
                part = mask[start : start + rows] != 0
                part = part.reshape(part.shape + (1,) * (block.ndim - part.ndim))
                wide = np.where(part, wide, block)
            result[start : start + rows] = wide
        return result

    def _check(self, array: Array, what: str) -> None:
        shape = self.shift.shape
        fits = (
            self.per == "value"
            or (self.per == "element" and array.shape[1:] == shape)
            or (self.per == "feature" and array.ndim > 1 and array.shape[-1:] == shape)
        )
        if not fits:
            fitted = (
                f"{shape[0]} columns" if self.per == "feature" else f"examples of shape {shape}"
            )
            raise DataError(
                f"{what} must have the shape that the normalizer was fitted to, {fitted}. "
                f"Received: shape {array.shape[1:]} an example."
            )


def _repeated(numbers: Numbers, shape: tuple[int, ...]) -> Numbers:
    return np.ascontiguousarray(np.broadcast_to(numbers, shape))


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Scales:
    """What one normalizer does to a data set.

    Attributes:
        features: input name -> scale.
        labels: output name -> scale.
        inputs: scale of all inputs that `features` does not name; None: they stay.
    """

    features: Mapping[str, ColumnScale] = field(default_factory=dict[str, ColumnScale])
    labels: Mapping[str, ColumnScale] = field(default_factory=dict[str, ColumnScale])
    inputs: ColumnScale | None = None

    def mapped(
        self,
        group: Literal["features", "labels"],
        direction: Direction,
        arrays: Mapping[str, Array],
        masks: Mapping[str, Array],
    ) -> dict[str, Array]:
        """The arrays of a group, applied or reverted.

        Raises:
            DataError: if one that was fitted is missing, or has another shape.
        """
        scales = self.features if group == "features" else self.labels
        missing = sorted(set(scales) - set(arrays))
        if missing:
            raise DataError(
                f"the normalizer was fitted to {group} {sorted(scales)}. Received: "
                f"{sorted(arrays)}. Give them the same names."
            )
        found: dict[str, Array] = {}
        for name, array in arrays.items():
            scale = scales.get(name, self.inputs if group == "features" else None)
            found[name] = (
                array
                if scale is None
                else getattr(scale, direction)(
                    array, what=f"{group} {name!r}", mask=masks.get(name)
                )
            )
        return found
