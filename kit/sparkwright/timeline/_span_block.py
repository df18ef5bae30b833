"""Spans as they travel: three arrays, one after another, thirteen bytes a span."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError

# More than a worker collects before it sends.
MOST_SPANS = 1 << 20
_SPAN_BYTES = 8 + 4 + 1


class SpanBlock(NamedTuple):
    """Some spans of one worker or of the driver, in the order in which they ended.

    Attributes:
        codes: (n,) uint8, see `PhaseCode`.
        starts_s: (n,) float64, by the clock of whoever recorded them.
        seconds: (n,) float32.
    """

    codes: NDArray[np.uint8]
    starts_s: NDArray[np.float64]
    seconds: NDArray[np.float32]

    @classmethod
    def of_one(cls, code: int, start_s: float, seconds: float) -> "SpanBlock":
        """A single span; one that seems to end before it begins has no length."""
        return cls(
            codes=np.array([code], np.uint8),
            starts_s=np.array([start_s]),
            seconds=np.array([max(0.0, seconds)], np.float32),
        )

    def to_payload(self) -> tuple[bytes, ...]:
        """The arrays, little-endian: starts, seconds, codes."""
        return (
            self.starts_s.astype("<f8").tobytes(),
            self.seconds.astype("<f4").tobytes(),
            self.codes.tobytes(),
        )

    @classmethod
    def from_payload(cls, payload: bytes | bytearray | memoryview, count: int) -> "SpanBlock":
        """The inverse of `to_payload`; what is in the arrays is not looked at.

        Raises:
            NetworkError: if these are not `count` spans, or too many.
        """
        if not 0 <= count <= MOST_SPANS or len(payload) != count * _SPAN_BYTES:
            raise NetworkError(
                f"a message of spans must hold at most {MOST_SPANS}, of {_SPAN_BYTES} bytes each. "
                f"Received: {count} in {len(payload)} bytes."
            )
        return cls(
            starts_s=np.frombuffer(payload, "<f8", count),
            seconds=np.frombuffer(payload, "<f4", count, 8 * count),
            codes=np.frombuffer(payload, np.uint8, count, 12 * count),
        )
