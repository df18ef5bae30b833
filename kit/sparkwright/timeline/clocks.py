"""How far two clocks are apart, from messages that go there and back.

Whoever asks reads its clock when it asks (t0) and when it has heard (t3), who answers when the
question came (t1) and when the answer left (t2). Then

    offset = ((t1 - t0) + (t2 - t3)) / 2        what to add to the asker's clock
    delay  =  (t3 - t0) - (t2 - t1)             of both ways together

and the truth is no further from the offset than half the delay, however unequal the two ways are.
A message that was held up says little, so the one with the smallest delay counts. Clocks drift, so
old messages lose their worth and clocks are compared again and again.

References:
    D. Mills et al., "Network Time Protocol Version 4", RFC 5905, sections 8 and 10.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self, get_args

from sparkwright.errors import DataError, NetworkError

ClockSource = Literal["driver", "ntp", "system"]
# Two quartz clocks drift apart by less than this, in seconds a second.
_DRIFT = 50e-6
_KEPT = 16


class Offset(NamedTuple):
    """What to add to a clock to get another's time, and how far off that may be; in seconds."""

    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True, slots=True)
class OffsetEstimator:
    """An estimate of the offset of another clock, from the last exchanges of messages.

    Example:
        >>> estimator = OffsetEstimator().with_exchange(10.0, 15.1, 15.2, 10.4)
        >>> found = estimator.estimate(10.4)
        >>> round(found.offset_s, 2), round(found.uncertainty_s, 2)
        (4.95, 0.15)
    """

    # The offset of each exchange, and when it was heard, by the asker's clock.
    _samples: tuple[tuple[Offset, float], ...] = ()

    def with_exchange(
        self, asked_s: float, came_s: float, answered_s: float, heard_s: float
    ) -> "OffsetEstimator":
        """Return the same with one more exchange, t0 to t3; an impossible one is ignored."""
        delay_s = (heard_s - asked_s) - (answered_s - came_s)
        times = (asked_s, came_s, answered_s, heard_s)
        if not all(map(math.isfinite, times)) or delay_s < 0 or answered_s < came_s:
            return self
        found = Offset(((came_s - asked_s) + (answered_s - heard_s)) / 2, delay_s / 2)
        return OffsetEstimator((*self._samples, (found, heard_s))[-_KEPT:])

    def estimate(self, now_s: float) -> Offset | None:
        """Return the offset at `now_s`, by the asker's clock; None before the first exchange."""
        drifted = (
            Offset(found.offset_s, found.uncertainty_s + _DRIFT * max(0.0, now_s - at_s))
            for found, at_s in self._samples
        )
        return min(drifted, key=lambda found: found.uncertainty_s, default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockState:
    """The state of the clocks of one process.

    Attributes:
        wall_s: its wall clock minus its monotonic clock, by which it takes times.
        source: by what its times are to be compared with those of others: "driver" (an offset that
            was measured), "ntp" or "system" (its wall clock, corrected or as it is).
        offset_s: with "driver", what to add to its monotonic clock for the driver's; with "ntp",
            what to add to its wall clock for the true time; else 0.
        uncertainty_s: of `offset_s`; None: unknown.
    """

    wall_s: float
    source: ClockSource
    offset_s: float = 0.0
    uncertainty_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            NetworkError: if the fields are no state of clocks.
        """
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
        return {**asdict(self), "uncertainty_s": uncertainty_s}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
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


class ClockComparison(NamedTuple):
    """How a worker's clocks compare with the driver's.

    Attributes:
        to_driver_s: what to add to the worker's monotonic clock for the driver's.
        ahead_s: seconds by which the worker's wall clock is ahead of the driver's; 0 by definition
            with "system".
        uncertainty_s: of both; None: unknown.
        source: by what they were compared.
    """

    to_driver_s: float
    ahead_s: float
    uncertainty_s: float | None
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
    # An integer too large for a float is no time.
    return number and abs(value) < 1e300
