"""Estimate the offset between two clocks by the algorithm of NTP.

The client reads its clock when it sends a request (t0) and when it receives the response (t3). The
server reads its clock when it receives the request (t1) and when it sends the response (t2). Then

    offset = ((t1 - t0) + (t2 - t3)) / 2        what to add to the client's clock
    delay  =  (t3 - t0) - (t2 - t1)             round-trip delay

and the error of the offset is at most half the delay, even if the two directions differ. The
exchange with the smallest delay is the most accurate. Clocks drift, so the uncertainty of old
exchanges grows, and clocks are compared repeatedly.

References:
    D. Mills et al., "Network Time Protocol Version 4", RFC 5905, sections 8 and 10.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

from sparkwright.errors import NetworkError

ClockSource = Literal["driver", "ntp", "system"]
# Upper bound of the relative drift of two quartz clocks, in seconds per second.
_DRIFT = 50e-6
_KEPT = 16


class Offset(NamedTuple):
    """Offset to add to a clock to get another clock's time, and its uncertainty; in seconds."""

    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True, slots=True)
class OffsetEstimator:
    """Estimate of the offset of another clock, from the last exchanges of messages.

    Example:
        >>> estimator = OffsetEstimator().with_exchange(10.0, 15.1, 15.2, 10.4)
        >>> found = estimator.estimate(10.4)
        >>> round(found.offset_s, 2), round(found.uncertainty_s, 2)
        (4.95, 0.15)
    """

    # The offset of each exchange, and the time of its response, by the client's clock.
    _samples: tuple[tuple[Offset, float], ...] = ()

    def with_exchange(
        self, asked_s: float, came_s: float, answered_s: float, received_s: float
    ) -> "OffsetEstimator":
        """Return a copy with one more exchange, t0 to t3; ignore invalid exchanges."""
        delay_s = (received_s - asked_s) - (answered_s - came_s)
        times = (asked_s, came_s, answered_s, received_s)
        if not all(map(math.isfinite, times)) or delay_s < 0 or answered_s < came_s:
            return self
        found = Offset(((came_s - asked_s) + (answered_s - received_s)) / 2, delay_s / 2)
        return OffsetEstimator((*self._samples, (found, received_s))[-_KEPT:])

    def estimate(self, now_s: float) -> Offset | None:
        """Return the offset at `now_s`, by the client's clock; None before the first exchange."""
        drifted = (
            Offset(found.offset_s, found.uncertainty_s + _DRIFT * max(0.0, now_s - at_s))
            for found, at_s in self._samples
        )
        return min(drifted, key=lambda found: found.uncertainty_s, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockState:
    """The state of the clocks of one process."""

    wall_s: float  # its wall clock minus its monotonic clock, which measures times
    # What others are compared with: a measured offset, NTP's time or wall clocks.
    source: ClockSource
    # With "driver", the driver's monotonic clock minus its own; with "ntp", true time minus wall.
    offset_s: float = 0.0
    uncertainty_s: float | None = None  # of `offset_s`; None: unknown

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Create an instance from `to_dict`; NetworkError if the fields are invalid."""
        wall_s, offset_s, within_s = map(fields.get, ("wall_s", "offset_s", "uncertainty_s"))
        known = fields.get("source") in get_args(ClockSource)
        if not known or not all(map(_is_finite, (wall_s, offset_s, within_s or 0.0))):
            raise NetworkError(
                "the state of clocks must have a source and finite numbers of seconds. Received: "
                f"{dict(fields)!r:.200}."
            )
        return cls(
            wall_s=float(fields["wall_s"]),
            source=fields["source"],
            offset_s=float(fields["offset_s"]),
            uncertainty_s=None if within_s is None else abs(float(within_s)),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockReading:
    """Offset of one worker's clock from the driver's.

    Attributes:
        worker: the worker's number.
        offset_s: the worker's clock minus the driver's.
        uncertainty_s: maximum error of `offset_s`; NaN: unknown.
        source: the source of the reading, such as "driver", "system" or the name of an NTP server.
    """

    worker: int
    offset_s: float
    uncertainty_s: float
    source: str = "driver"


class ClockComparison(NamedTuple):
    """Comparison of a worker's clocks with the driver's."""

    to_driver_s: float  # the driver's monotonic clock minus the worker's
    ahead_s: float  # the worker's wall clock minus the driver's; 0 with "system"
    uncertainty_s: float | None  # of both; None: unknown
    source: ClockSource


def compare_clocks(worker: ClockState, driver: ClockState) -> ClockComparison:
    """Compare the clocks of a worker's process with those of the driver.

    Example:
        >>> driver = ClockState(wall_s=100.0, source="system")
        >>> worker = ClockState(wall_s=107.0, source="driver", offset_s=4.0, uncertainty_s=0.001)
        >>> compare_clocks(worker, driver)
        ClockComparison(to_driver_s=4.0, ahead_s=3.0, uncertainty_s=0.001, source='driver')
    """
    wall_s = worker.wall_s - driver.wall_s
    if worker.source == "driver":
        to_driver_s = worker.offset_s
        return ClockComparison(to_driver_s, wall_s - to_driver_s, worker.uncertainty_s, "driver")
    if worker.source == driver.source == "ntp":
        to_driver_s, within_s = wall_s + worker.offset_s - driver.offset_s, None
        if worker.uncertainty_s is not None and driver.uncertainty_s is not None:
            within_s = worker.uncertainty_s + driver.uncertainty_s
        return ClockComparison(to_driver_s, wall_s - to_driver_s, within_s, "ntp")
    return ClockComparison(wall_s, 0.0, None, "system")


def _is_finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Integers too large for a float are invalid.
    return number and abs(value) < 1e300
