"""Linear scales of the columns of an array, and their inverse."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice

from ._moments import Per
from .dataset import Array
from .texts import is_text

Direction = Literal["apply", "revert"]
Group = Literal["features", "labels"]
Numbers = NDArray[np.float64]
_BLOCK_NUMBERS = 1 << 16  # a block fits into the processor's cache


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ColumnScale:
    """`(x - shift) / divisor * factor + offset` for the columns of one array.

    Attributes:
        per: "feature": one column per position of the last axis; "element": one per element of an
            example; "value": one for all numbers.
        shift: float64, (columns,), or the shape of an example, or (1,).
        divisor: float64, the same shape; never 0.
        columns: positions of the last axis to scale; None: all.
    """

    per: Per
    shift: Numbers
    divisor: Numbers
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
        """Scale `array`, or invert the scale with "revert"; computed in float64.

        Numbers are unchanged where `mask`, (n,) or (n, time), is 0. Floats keep their dtype; other
        numbers become float32. `what` names the array in messages.
        """
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
            if is_text(array) and name in scales:
                raise DataError(f"a normalizer requires numbers. Received: {what} of text.")
            if scale is not None and not is_text(array):
                found[name] = scale.mapped(array, direction, what=what, mask=masks.get(name))
        return found
