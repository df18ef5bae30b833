"""How a training is going to scale, from one machine's minibatch to a thousand workers; pure.

A model, not a measurement. With n workers a round takes

    interval = minibatches x step + waiting + exchange + taking over others' updates

and no less than the driver needs to hear of it from all n. Efficiency is the share of the interval
in which a worker trains; n times that is how many times as fast as one worker it is.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from math import log, sqrt
from typing import Any, Self

from sparkwright.errors import ConfigurationError
from sparkwright.options import MAX_BYTES, check_count, check_seconds

from ._exchange_costs import ExchangeCosts, exchange, minibatches_per_exchange
from ._gathered import PIECE_S
from ._shared_training import SharedTrainingMaster
from ._training_master import TrainingMaster

POWERS_OF_TWO = tuple(2**power for power in range(11))  # 1 to 1,024
# Taking over an update of another worker and passing it on takes 0.4 to 0.6 ms of a core for
# 21 KB, measured with 1 to 8 workers; adding what it holds to two vectors is most of that.
UPDATE_S, UPDATE_S_PER_BYTE = 2e-4, 2e-8
# What a message of a worker costs the driver, measured with 1,000 simulated workers; a piece of
# work of gradient sharing costs 0.75 us more for each worker there is.
EVENT_S, PIECE_S_PER_WORKER = 1.6e-4, 7.5e-7
# Rows of the log travel ten times a second at most, signs of life once a second.
_ROWS_S, _SIGN_S = 0.1, 1.0
_MOST_SIGNS = 0.99  # of the driver's time


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingCosts:
    """Constants beyond those of an exchange between two.

    Attributes:
        exchange: of averagings and messages.
        update_s: taking over an update of another worker; default 0.2 ms.
        update_s_per_byte: likewise, for each byte of it; default 20 ns.
        event_s: what a message of a worker costs the driver; default 0.16 ms.
        piece_s_per_worker: what a piece of work costs it besides, times the number of workers;
            default 0.75 us.
        jitter: how much minibatches differ in time, as a share of it (standard deviation);
            default 0. Averaging waits for the slowest.
        cores: processor cores that all workers share; default None: each has its own. If there
            are more workers, they wait for one another, training and exchanging.
        processor_share: with `cores`, how much of a minibatch needs a core; default 1.
    """

    exchange: ExchangeCosts = field(default_factory=ExchangeCosts)
    update_s: float = UPDATE_S
    update_s_per_byte: float = UPDATE_S_PER_BYTE
    event_s: float = EVENT_S
    piece_s_per_worker: float = PIECE_S_PER_WORKER
    jitter: float = 0.0
    cores: int | None = None
    processor_share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            ConfigurationError: naming the constant.
        """
        for name in ("update_s", "update_s_per_byte", "event_s", "piece_s_per_worker"):
            check_seconds(name, getattr(self, name))
        check_count("cores", self.cores, optional=True)
        if not 0 <= self.jitter < 1:
            raise ConfigurationError(
                f"`jitter` must be at least 0 and below 1. Received: jitter={self.jitter!r}."
            )
        if not 0 <= self.processor_share <= 1:
            raise ConfigurationError(
                "`processor_share` must be between 0 and 1. Received: "
                f"processor_share={self.processor_share!r}."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPoint:
    """What is to be expected of one number of workers.

    Attributes:
        workers: how many.
        interval_s: seconds from one exchange to the next.
        training_s: of these, training.
        waiting_s: waiting for the slowest, and for a core.
        exchange_s: exchanging, and taking over what others have sent.
        driver_s: what the interval costs the driver; more than the interval if it holds all up.
        bytes_per_s: that a worker sends.
        speed_up: how many times as fast as one worker that exchanges nothing.
    """

    workers: int
    interval_s: float
    training_s: float
    waiting_s: float
    exchange_s: float
    driver_s: float
    bytes_per_s: float
    speed_up: float

    @property
    def efficiency(self) -> float:
        """The speed-up for each worker, from 0 to 1."""
        return self.speed_up / self.workers

    @property
    def bound(self) -> str:
        """What costs most beside training: "exchange", "waiting", "driver" or, nothing, ""."""
        costs = {"exchange": self.exchange_s, "waiting": self.waiting_s}
        if self.driver_s > self.training_s + sum(costs.values()):
            return "driver"
        worst = max(costs, key=lambda name: costs[name])
        return worst if costs[worst] > 0 else ""


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Scaling:
    """What is to be expected by the number of workers; made by `predict_scaling`.

    Attributes:
        kind: "averaging" or "sharing".
        step_s: seconds of one minibatch on one worker.
        vector_bytes: what a worker contributes to an averaging, or could change in an update.
        batch_size: examples of a minibatch of each worker.
        points: one for each number of workers.
    """

    kind: str
    step_s: float
    vector_bytes: int
    batch_size: int
    points: tuple[ScalingPoint, ...]

    def __repr__(self) -> str:
        """The table."""
        return self.describe()

    def at(self, workers: int) -> ScalingPoint:
        """The point of so many workers.

        Raises:
            ConfigurationError: if there is none.
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
        """Examples that so many workers train in a second."""
        return self.at(workers).speed_up * self.batch_size / self.step_s

    def most_workers(self, efficiency: float = 0.5) -> int:
        """The most workers of those predicted whose efficiency is at least so much; 0: none."""
        fitting = [p.workers for p in self.points if p.efficiency >= efficiency]
        return max(fitting, default=0)

    def describe(self) -> str:
        """A table: times faster, efficiency, seconds and MB/s by number of workers."""
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
        """JSON-able fields."""
        return {"name": type(self).__name__, **asdict(self)}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """The inverse of `to_dict`.

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
    """Predict how many times as fast as one worker some numbers of workers are.

    Every worker is taken to have the same number of minibatches.

    Args:
        master: how to train.
        step_s: seconds of one minibatch on one worker; `sw.measure_step` measures it.
        vector_bytes: of the parameters and what else is averaged, as float32.
        updater_bytes: of the optimizer's state; counts if the master averages it. Default 0.
        workers: numbers of workers; default 1, 2, 4 … 1,024.
        bandwidth_bytes_per_s: what a machine can send; default None: that of `costs`, 10 Gbit/s.
        costs: the other constants; default None: those that were measured.

    Raises:
        ConfigurationError: if an argument cannot be meant.

    Example:
        >>> from sparkwright.masters import ParameterAveragingTrainingMaster
        >>> found = predict_scaling(
        ...     ParameterAveragingTrainingMaster(averaging_frequency=5),
        ...     step_s=0.1, vector_bytes=100_000_000, workers=[1, 8, 64],
        ... )
        >>> [round(point.speed_up, 1) for point in found.points]
        [1.0, 5.6, 42.9]
    """
    check_seconds("step_s", step_s)
    check_count("vector_bytes", vector_bytes, maximum=MAX_BYTES)
    known = costs or ScalingCosts()
    between = known.exchange
    if bandwidth_bytes_per_s is not None:
        between = replace(between, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    size = vector_bytes + (updater_bytes if getattr(master, "save_updater", False) else 0)
    for count in workers:
        check_count("workers", count)
    points = tuple(_point(master, count, step_s, size, between, known) for count in workers)
    return Scaling(
        kind="sharing" if isinstance(master, SharedTrainingMaster) else "averaging",
        step_s=step_s,
        vector_bytes=size,
        batch_size=master.batch_size_per_worker,
        points=points,
    )


def _point(
    master: TrainingMaster,
    workers: int,
    step_s: float,
    vector_bytes: int,
    between: ExchangeCosts,
    costs: ScalingCosts,
) -> ScalingPoint:
    minibatches = minibatches_per_exchange(master, step_s)
    rows = [minibatches * master.batch_size_per_worker] * workers
    plan = master.plan(rows, vector_bytes=vector_bytes)
    sent, exchange_s = exchange(master, plan, vector_bytes, between)
    waiting_s = 0.0
    if isinstance(master, SharedTrainingMaster):
        # The first of the others is part of what a message costs.
        update_s = costs.update_s + costs.update_s_per_byte * plan.bytes_per_minibatch
        exchange_s += max(0, workers - 2) * update_s
    elif workers > 1:
        # The largest of n normal deviations is about sqrt(2 ln n) of them.
        waiting_s = costs.jitter * step_s * sqrt(minibatches) * sqrt(2 * log(workers))
    training_s = minibatches * step_s
    if costs.cores is not None:
        crowd = max(1.0, workers / costs.cores)
        exchange_s *= crowd
        waiting_s += (crowd - 1) * costs.processor_share * training_s
    busy_s = training_s + waiting_s + exchange_s
    driver_s = _driver_s(master, workers, busy_s, busy_s / minibatches, costs)
    interval_s = max(busy_s, driver_s)
    return ScalingPoint(
        workers=workers,
        interval_s=interval_s,
        training_s=training_s,
        waiting_s=waiting_s,
        exchange_s=exchange_s,
        driver_s=driver_s,
        bytes_per_s=sent / interval_s,
        speed_up=workers * training_s / interval_s,
    )


def _driver_s(
    master: TrainingMaster, workers: int, busy_s: float, step_s: float, costs: ScalingCosts
) -> float:
    """Seconds that an interval of all workers takes of the driver, which has one core for them."""
    event_s = costs.event_s * busy_s / max(busy_s, _ROWS_S)
    if isinstance(master, SharedTrainingMaster):
        fixed = master.piece_minibatches
        piece_s = max(PIECE_S, busy_s) if fixed is None else fixed * step_s
        event_s += (costs.event_s + costs.piece_s_per_worker * workers) * busy_s / piece_s
    # Signs of life come whether the workers get on or not.
    signs = min(_MOST_SIGNS, workers * costs.event_s / _SIGN_S)
    return workers * event_s / (1 - signs)
