"""A multiset of scores: what an exact ROC keeps of the positives, and of the negatives."""

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import DataError

Scores = NDArray[np.float32 | np.float64]
_DTYPES = {"float32": np.dtype("<f4"), "float64": np.dtype("<f8")}


@dataclass(frozen=True, slots=True, eq=False)
class SortedScores:
    """Finite scores in no order of arrival: only how often each occurs matters.

    Held as sorted runs, each more than twice as long as the next, so that adding many small
    batches sorts each score a few times only, not once per batch. `values` is the canonical form.

    Attributes:
        runs: sorted, none empty, all read-only, float32 or float64.
    """

    runs: tuple[Scores, ...] = ()

    @classmethod
    def of(cls, values: Scores) -> "SortedScores":
        """The multiset of (n,) finite values; float32 stays float32."""
        return cls() if values.size == 0 else cls((_frozen(np.sort(values + 0.0)),))  # no -0.0

    @property
    def size(self) -> int:
        """How many there are."""
        return sum(run.size for run in self.runs)

    @property
    def values(self) -> Scores:
        """(size,) in ascending order; float32 if all came as float32; read-only."""
        if len(self.runs) == 1:
            return self.runs[0]
        return _frozen(np.sort(np.concatenate([np.empty(0, np.float32), *self.runs])))

    def __add__(self, other: "SortedScores") -> "SortedScores":
        """Both together."""
        # Longest first: short runs meet short ones before they meet a long one.
        runs: list[Scores] = []
        for run in sorted((*self.runs, *other.runs), key=len, reverse=True):
            runs.append(run)
            while len(runs) > 1 and runs[-2].size < 2 * runs[-1].size:
                last = np.concatenate([runs.pop(), runs.pop()])
                last.sort()
                runs.append(_frozen(last))
        return SortedScores(tuple(runs))

    def __eq__(self, other: object) -> bool:
        """The same scores, each as often."""
        return (
            isinstance(other, SortedScores)
            and self.size == other.size
            and np.array_equal(self.values, other.values)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: the bytes of `values`, little-endian, in base 64."""
        values = self.values
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        return {
            "dtype": values.dtype.name,
            "count": values.size,
            "sorted": base64.b64encode(little.tobytes()).decode("ascii"),
        }

    @classmethod
    def from_dict(cls, values: Any) -> "SortedScores":
        """The inverse of `to_dict`.

        Raises:
            DataError: if `values` is anything else; the length is checked before decoding.
        """
        given: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
        dtype, count, text = (given.get(key) for key in ("dtype", "count", "sorted"))
        if (
            not isinstance(dtype, str)
            or dtype not in _DTYPES
            or not isinstance(text, str)
            or type(count) is not int
            or count < 0
            or len(text) != 4 * math.ceil(count * _DTYPES[dtype].itemsize / 3)
        ):
            raise DataError(
                'scores are read from a dict with "dtype" float32 or float64, "count" and as many '
                f'"sorted" in base 64. Received: dtype={dtype!r:.40}, count={count!r:.40}, '
                f"{len(text) if isinstance(text, str) else 'no'} characters."
            )
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise DataError(f"scores must be base 64. Received: {text[:20]!r}: {error}.") from None
        if len(data) != count * _DTYPES[dtype].itemsize:
            raise DataError(f"{count} scores must fill their bytes. Received: {len(data)} bytes.")
        found = np.frombuffer(data, _DTYPES[dtype]).astype(dtype)
        if not np.isfinite(found).all() or bool((found[1:] < found[:-1]).any()):
            raise DataError(
                f"scores must be finite and in ascending order. Received: {count} that are not."
            )
        return cls.of(found)


def _frozen(values: Scores) -> Scores:
    values.setflags(write=False)
    return values
