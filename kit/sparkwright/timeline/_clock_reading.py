"""How a worker's clock differs from the driver's, as its spans were moved by."""

import math
from dataclasses import dataclass
from typing import Any, Self

from sparkwright.errors import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockReading:
    """One worker's clock, against the driver's.

    Attributes:
        worker: whose.
        offset_s: what its clock is ahead of the driver's.
        uncertainty_s: the true offset is at most so far from `offset_s`; NaN: not known.
        source: what it was read from, such as "driver", "system" or the name of an NTP server.
    """

    worker: int
    offset_s: float
    uncertainty_s: float
    source: str = "driver"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        uncertainty_s = None if math.isnan(self.uncertainty_s) else self.uncertainty_s
        return {
            "worker": self.worker,
            "offset_s": self.offset_s,
            "uncertainty_s": uncertainty_s,
            "source": self.source,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            DataError: if `values` is no such reading.
        """
        try:
            uncertainty_s = values["uncertainty_s"]
            return cls(
                worker=int(values["worker"]),
                offset_s=float(values["offset_s"]),
                uncertainty_s=math.nan if uncertainty_s is None else float(uncertainty_s),
                source=str(values["source"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                "A clock's reading has worker, offset_s, uncertainty_s and source. "
                f"Received: {values!r:.200}."
            ) from error
