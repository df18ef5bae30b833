"""Sequences of different length as arrays of one length: padding, masks, alignment."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError

from ._dataset import Array, DataSet

Alignment = Literal["equal_length", "start", "end"]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRange:
    """The shortest and the longest of some sequences; sums of ranges span both.

    Attributes:
        shortest: steps; None where there is no sequence.
        longest: steps; 0 where there is no sequence.

    Example:
        >>> LengthRange.of([5, 3]) + LengthRange.of([4, 9])
        LengthRange(shortest=3, longest=9)
    """

    shortest: int | None = None
    longest: int = 0

    @classmethod
    def of(cls, lengths: Iterable[int]) -> "LengthRange":
        """The range of `lengths`."""
        found = [int(length) for length in lengths]
        return cls(shortest=min(found), longest=max(found)) if found else cls()

    def __add__(self, other: "LengthRange") -> "LengthRange":
        known = [s for s in (self.shortest, other.shortest) if s is not None]
        return LengthRange(
            shortest=min(known, default=None), longest=max(self.longest, other.longest)
        )

    @property
    def is_uniform(self) -> bool:
        """Whether all sequences have one length."""
        return self.shortest is None or self.shortest == self.longest


def check_alignment(align: Any, length: Any = None) -> None:
    """Refuse an unknown alignment, and a length that is none.

    Raises:
        ConfigurationError: naming the option.
    """
    if align not in ("equal_length", "start", "end"):
        raise ConfigurationError(
            f'`align` must be "equal_length", "start" or "end". Received: align={align!r}.'
        )
    bad = isinstance(length, bool) or not isinstance(length, int) or length < 1
    if length is not None and bad:
        raise ConfigurationError(
            "`length` must be an integer of at least 1, or None for the longest sequence. "
            f"Received: length={length!r}."
        )


def pad(
    steps: Array, lengths: Array, length: int, *, align: Alignment = "start"
) -> tuple[Array, Mask]:
    """Give sequences one length: zeros where a short one has no step, a mask that tells.

    With `align="end"` zeros go before a sequence, so that all end together; otherwise behind it,
    so that all begin together. Of a sequence longer than `length`, its last steps stay with
    `align="end"`, its first ones otherwise.

    Args:
        steps: (total, ...) steps of all sequences, one after the other.
        lengths: (n,) steps of each.
        length: wanted.
        align: default "start"; "equal_length" pads as "start" does.

    Returns:
        (n, length, ...) padded, of the same dtype; (n, length) mask, True where there is a step.

    Example:
        >>> values, mask = pad(np.array([7, 8, 9]), np.array([1, 2]), 3, align="end")
        >>> values.tolist(), mask.astype(int).tolist()
        ([[0, 0, 7], [0, 8, 9]], [[0, 0, 1], [0, 1, 1]])
    """
    counts = np.asarray(lengths, np.int64)
    if len(counts) and counts.max() > length:
        first = np.repeat(np.cumsum(counts) - counts, counts)
        at = np.arange(len(steps)) - first
        spare = np.repeat(counts - length, counts)
        steps = steps[at >= spare] if align == "end" else steps[at < length]
        counts = np.minimum(counts, length)
    places = np.arange(length)
    mask = places >= length - counts[:, None] if align == "end" else places < counts[:, None]
    padded = np.zeros((len(counts), length, *steps.shape[1:]), steps.dtype)
    padded[mask] = steps
    return padded, mask


def pad_dataset(
    dataset: DataSet, names: Iterable[str], length: int, *, align: Alignment, masked: bool
) -> DataSet:
    """Lengthen the features and per-step labels `names` of examples of one length to `length`.

    Args:
        dataset: its arrays in `names` are (n, time, ...).
        names: of inputs and outputs.
        length: at least `time`.
        align: "end" puts the zeros first.
        masked: give each of `names` a mask, (n, length), even where nothing is padded.

    Returns:
        A DataSet whose masks are 0 at the added steps; masks that were there stay.
    """
    columns = dataset.columns()
    for name in names:
        for group in ("features", "labels"):
            flat, mask_name = f"{group}/{name}", f"{group}_masks/{name}"
            if flat not in columns:
                continue
            array, mask = columns[flat], columns.get(mask_name)
            steps = array.shape[1]
            columns[flat] = _lengthened(array, length, align)
            if mask is not None and mask.ndim > 1:
                columns[mask_name] = _lengthened(mask, length, align)
            elif masked:
                # A mask of whole labels, (n,), is spread over the steps.
                spread = np.ones((len(array), steps), np.bool_)
                known = spread if mask is None else np.repeat(mask[:, None], steps, axis=1)
                columns[mask_name] = _lengthened(known, length, align)
    return DataSet.from_columns(columns)


def _lengthened(array: Array, length: int, align: Alignment) -> Array:
    missing = length - array.shape[1]
    if not missing:
        return array
    ends = (missing, 0) if align == "end" else (0, missing)
    return np.pad(array, [(0, 0), ends, *[(0, 0)] * (array.ndim - 2)])
