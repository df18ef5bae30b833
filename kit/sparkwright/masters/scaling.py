"""Predict the speed-up for various numbers of workers with the cost model. Pure."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from sparkwright.errors import ConfigurationError
from sparkwright.options import MAX_BYTES, check_count, check_positive

from .cost import ScalingCosts, ScalingPoint, even_plan, interval
from .training_master import TrainingMaster

POWERS_OF_TWO = tuple(2**power for power in range(11))  # 1 to 1,024


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Scaling:
    """The prediction for several numbers of workers; created by `predict_scaling`.

    Attributes:
        kind: "averaging" or "sharing".
        step_s: seconds of one minibatch on one worker.
        vector_bytes: bytes that a worker contributes to an averaging or can change in an update.
        batch_size: minibatch size of each worker.
        points: one `ScalingPoint` per number of workers.
    """

    kind: str
    step_s: float
    vector_bytes: int
    batch_size: int
    points: tuple[ScalingPoint, ...]

    def __repr__(self) -> str:
        """Return the table as text."""
        return self.describe()

    def at(self, workers: int) -> ScalingPoint:
        """Return the point for this number of workers.

        Raises:
            ConfigurationError: if it was not predicted.
        """
        for point in self.points:
            if point.workers == workers:
                return point
        known = [point.workers for point in self.points]
        raise ConfigurationError(
            f"`workers` must be one of {known}. Received: workers={workers!r}. Name it in "
            "`predict_scaling(workers=…)`."
        )

    def examples_per_s(self, workers: int) -> float:
        """Return the examples per second of this number of workers."""
        return self.at(workers).speed_up * self.batch_size / self.step_s

    def most_workers(self, efficiency: float = 0.5) -> int:
        """Return the largest predicted number of workers with at least this efficiency, or 0."""
        fitting = [p.workers for p in self.points if p.efficiency >= efficiency]
        return max(fitting, default=0)

    def describe(self) -> str:
        """Return a table of speed-up, efficiency, seconds and MB/s by number of workers."""
        head = f"{self.kind}, minibatches of {1e3 * self.step_s:g} ms, {self.vector_bytes:,} bytes"
        columns = (
            "workers  times faster  efficiency  interval ms  exchange ms   MB/s each  bound by"
        )
        rows = [
            f"{p.workers:>7,}  {p.speed_up:>12,.1f}  {p.efficiency:>10.0%}  "
            f"{1e3 * p.interval_s:>11,.1f}  {1e3 * p.exchange_s:>11,.1f}  "
            f"{p.bytes_per_s / 1e6:>10,.1f}  {p.bound}"
            for p in self.points
        ]
        return "\n".join(line.rstrip() for line in (head, columns, *rows))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able fields."""
        return {"name": type(self).__name__, **asdict(self)}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """Create an instance from the result of `to_dict`.

        Raises:
            ConfigurationError: if a field is unknown.
        """
        given = {name: value for name, value in settings.items() if name != "name"}
        unknown = sorted(given.keys() - cls.__dataclass_fields__.keys())
        if unknown:
            raise ConfigurationError(
                f"unknown fields {unknown} of Scaling. Received: {given!r:.99}."
            )
        given["points"] = tuple(ScalingPoint(**point) for point in given["points"])
        return cls(**given)


def predict_scaling(
    master: TrainingMaster,
    *,
    step_s: float,
    vector_bytes: int,
    updater_bytes: int = 0,
    workers: Sequence[int] = POWERS_OF_TWO,
    bandwidth_bytes_per_s: float | None = None,
    costs: ScalingCosts | None = None,
) -> Scaling:
    """Predict the speed-up over one worker for various numbers of workers.

    Assumes the same number of minibatches for every worker.

    Args:
        master: the training master.
        step_s: seconds of one minibatch on one worker; `sw.measure_step` measures it.
        vector_bytes: size of the parameters and other averaged state, as float32.
        updater_bytes: size of the optimizer's state; used if the master averages it. Default 0.
        workers: numbers of workers; default 1, 2, 4 … 1,024.
        bandwidth_bytes_per_s: send bandwidth of a machine; default None: that of `costs`, by
            default 10 Gbit/s.
        costs: the other constants; default None: reference measurements.

    Raises:
        ConfigurationError: if an argument is invalid.

    Example:
        >>> from sparkwright.masters import ParameterAveragingTrainingMaster
        >>> found = predict_scaling(
        ...     ParameterAveragingTrainingMaster(averaging_frequency=5),
        ...     step_s=0.1, vector_bytes=100_000_000, workers=[1, 8, 64],
        ... )
        >>> [round(point.speed_up, 1) for point in found.points]
        [1.0, 5.6, 42.6]
    """
    check_positive("step_s", step_s)
    check_count("vector_bytes", vector_bytes, maximum=MAX_BYTES)
    for count in workers:
        check_count("workers", count)
    costs = (costs or ScalingCosts()).with_network(bandwidth_bytes_per_s)
    size = master.exchange.averaged_bytes(vector_bytes, updater_bytes)
    plans = [even_plan(master, count, step_s, size) for count in workers]
    return Scaling(
        kind=master.exchange.kind,
        step_s=step_s,
        vector_bytes=size,
        batch_size=master.batch_size_per_worker,
        points=tuple(interval(master, plan, step_s, costs) for plan in plans),
    )
