"""Predict one run with the cost model, before it starts; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sparkwright.errors import ConfigurationError
from sparkwright.options import check_count, check_positive
from sparkwright.timeline.summary import seconds_text, size_text

from .cost import (
    TEN_GIGABIT_BYTES_PER_S,
    ExchangeCost,
    ScalingCosts,
    ScalingPoint,
    even_plan,
    exchange,
    interval,
    minibatches_per_exchange,
)
from .parameter_averaging import ParameterAveragingTrainingMaster
from .plan import TrainingPlan, by_epoch
from .training_master import TrainingMaster

Pays = Literal["well", "partly", "hardly", "unknown"]

# Deeplearning4j's rule of thumb for one minibatch.
WELL_FROM_S, HARDLY_UP_TO_S = 0.1, 1e-3
_LITTLE_GAIN, _MUCH_LOST = 1.2, 0.7
_SHARE_TRAINING = 0.9
_MOST_WORKERS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Prospect:
    """The prediction of a run; created by `prospect`.

    An exchange is an averaging or, with gradient sharing, a message of each worker.

    Attributes:
        plan: workers, minibatches and rounds; of one full round if the data is unknown.
        rows_known: whether `plan` is based on the data.
        step_s: seconds of one minibatch on one worker; None: unknown.
        vector_bytes: bytes that a worker contributes to an averaging; None: unknown.
        minibatches_per_exchange: of each worker.
        exchange_s: seconds of an exchange for each worker; None: unknown.
        bytes_per_exchange: maximum bytes that each worker sends; None: unknown.
        worthwhile_step_s: seconds of a minibatch at which exchanges take a tenth of the time;
            None: unknown.
        point: the interval of workers that are all busy; None: unknown.
        at_first: prediction of the first epochs if the averaging frequency changes; the other
            fields are for epochs after the last change. None: constant frequency.
    """

    plan: TrainingPlan
    rows_known: bool
    step_s: float | None
    vector_bytes: int | None
    minibatches_per_exchange: int
    exchange_s: float | None = None
    bytes_per_exchange: int | None = None
    worthwhile_step_s: float | None = None
    point: ScalingPoint | None = None
    at_first: "Prospect | None" = None

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.plan.workers

    @property
    def examples_per_exchange(self) -> int:
        """Examples that all workers together train between two exchanges, at most."""
        most = self.minibatches_per_exchange * self.plan.batch_size
        return sum(min(rows, most) for rows in self.plan.rows)

    @property
    def exchanges(self) -> int:
        """Exchanges per epoch."""
        return -(-self._longest // self.minibatches_per_exchange)

    @property
    def short_batches(self) -> tuple[int, ...]:
        """Examples in the last minibatch of each worker for whom it is smaller than the others."""
        sizes = (rows % self.plan.batch_size for rows in self.plan.rows)
        return tuple(size for size in sizes if size)

    @property
    def interval_s(self) -> float | None:
        """Seconds from one exchange to the next: computing, then exchanging."""
        return None if self.point is None else self.point.interval_s

    @property
    def bytes_per_s(self) -> float | None:
        """Mean bytes per second that each worker sends."""
        return None if self.point is None else self.point.bytes_per_s

    @property
    def epoch_s(self) -> float | None:
        """Seconds of an epoch; of one full round if the data is unknown."""
        return self._seconds_of(self._longest)

    @property
    def speed_up(self) -> float | None:
        """Speed relative to one worker without exchanges."""
        return self._speed_up_of(self._longest)

    @property
    def even_speed_up(self) -> float | None:
        """`speed_up` with the same number of minibatches on each worker."""
        return self._speed_up_of(-(-sum(self.plan.minibatches) // self.workers))

    @property
    def pays(self) -> Pays:
        """Whether more workers help, by the duration of a minibatch and the cost of exchanges."""
        if self.workers == 1:
            return "hardly"
        if self.step_s is None or not sum(self.plan.rows):
            return "unknown"
        gain = self.speed_up
        if self.step_s <= HARDLY_UP_TO_S or (gain is not None and gain < _LITTLE_GAIN):
            return "hardly"
        efficient = gain is None or gain >= _MUCH_LOST * self.workers
        return "well" if self.step_s >= WELL_FROM_S and efficient else "partly"

    @property
    def verdict(self) -> str:
        """The conclusion in one sentence, with its figures."""
        if not sum(self.plan.rows):
            return "No worker has data: there is nothing to train."
        if self.workers == 1:
            return "One worker exchanges nothing and gains nothing over one machine."
        if self.step_s is None:
            return self._open_verdict()
        if self.exchange_s is None or self.speed_up is None:
            return f"A minibatch takes {seconds_text(self.step_s)}; {self._rule}."
        count, exchange = self.minibatches_per_exchange, self._exchange_text
        training = f"{_minibatches_text(count)} of {seconds_text(self.step_s)}"
        if count > 1:
            training += f" take {seconds_text(count * self.step_s)}"
        return (
            f"{training}, {exchange} about {seconds_text(self.exchange_s)}: {self.workers} workers "
            f"are at best {self.speed_up:.1f} times as fast as one{self._first_text}; {self._rule}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types, including the plan."""
        names = (
            *("rows_known", "step_s", "vector_bytes", "exchange_s", "minibatches_per_exchange"),
            *("examples_per_exchange", "bytes_per_exchange", "bytes_per_s", "epoch_s", "speed_up"),
            "pays",
        )
        return {
            **self.plan.to_dict(),
            **{name: getattr(self, name) for name in names},
            "exchanges_per_epoch": self.exchanges,
            "at_first": None if self.at_first is None else self.at_first.to_dict(),
        }

    @property
    def _first_text(self) -> str:
        """Describe the first epochs."""
        if self.at_first is None or self.at_first.speed_up is None:
            return ""
        return f", {self.at_first.speed_up:.1f} times in the first epochs"

    @property
    def _rule(self) -> str:
        """Apply Deeplearning4j's rule of thumb, unless another cost dominates."""
        if self.step_s is not None and self.step_s <= HARDLY_UP_TO_S:
            return "with minibatches of 1 ms or less, more workers hardly help"
        if self._is_uneven:
            return (
                f"the rows are uneven; balanced rows would make it {self.even_speed_up:.1f} times"
            )
        if self.pays == "hardly":
            return "exchanges cost more than additional workers gain"
        if self.step_s is None or self.step_s < WELL_FROM_S:
            return "minibatches of about 10 ms scale less than in proportion"
        if self.pays == "well":
            return "minibatches of 100 ms or more scale well"
        return "exchanges take much of the time"

    @property
    def _is_uneven(self) -> bool:
        """Return whether uneven rows are the reason for a low speedup."""
        gain, even = self.speed_up, self.even_speed_up
        if gain is None or even is None:
            return False
        if self.pays == "hardly":
            return even >= _LITTLE_GAIN > gain
        return gain < _MUCH_LOST * even

    @property
    def _longest(self) -> int:
        """Return the minibatches of the busiest worker."""
        if self.plan.kind == "sharing":  # idle workers take over work of others
            return -(-sum(self.plan.minibatches) // self.workers)
        return max(self.plan.minibatches, default=0)

    def _seconds_of(self, minibatches: int) -> float | None:
        """Return the seconds of an epoch, given the minibatches of the worker with most data."""
        if self.point is None or self.step_s is None:
            return None
        exchanges = -(-minibatches // self.minibatches_per_exchange)
        beside_s = self.point.interval_s - self.point.training_s
        return minibatches * self.step_s + exchanges * beside_s

    def _speed_up_of(self, minibatches: int) -> float | None:
        seconds = self._seconds_of(minibatches)
        if not seconds or self.step_s is None:
            return None
        return sum(self.plan.minibatches) * self.step_s / seconds

    @property
    def _exchange_text(self) -> str:
        if self.plan.kind == "sharing":
            return "a message"
        return f"an averaging of {size_text(self.vector_bytes or 0)}"

    def _open_verdict(self) -> str:
        wanted_s = self.worthwhile_step_s
        if wanted_s is None or self.exchange_s is None:
            return "Whether more workers pay off depends on the time of a minibatch: measure it."
        count = self.minibatches_per_exchange
        often = "" if self.plan.kind == "sharing" else f" every {_minibatches_text(count)}"
        return (
            f"More workers pay off if one minibatch takes {seconds_text(wanted_s)} or more: "
            f"{self._exchange_text}{often} takes about {seconds_text(self.exchange_s)}, which is "
            "then a tenth of the time."
        )


def prospect(
    master: TrainingMaster,
    *,
    rows: Sequence[int] | None = None,
    workers: int | None = None,
    vector_bytes: int | None = None,
    updater_bytes: int = 0,
    step_s: float | None = None,
    bandwidth_bytes_per_s: float = TEN_GIGABIT_BYTES_PER_S,
) -> Prospect:
    """Predict a run with `master`: rounds, bytes, times, and whether more workers pay.

    Args:
        master: how to train.
        rows: examples of each worker; default None: unknown.
        workers: number of workers; required without `rows`.
        vector_bytes: size of all averaged values as float32, including the parameters; None:
            unknown.
        updater_bytes: size of the optimizer's state, used if the master averages it. Default 0.
        step_s: seconds of one minibatch on one worker; default None: unknown.
        bandwidth_bytes_per_s: bandwidth of a machine; default 1.25e9, that is 10 Gbit/s.

    Raises:
        ConfigurationError: if the number of workers is unknown or an argument is invalid.

    Example:
        >>> from sparkwright.masters import ParameterAveragingTrainingMaster
        >>> found = prospect(
        ...     ParameterAveragingTrainingMaster(batch_size_per_worker=32),
        ...     rows=[6400, 6400],
        ...     vector_bytes=1_700_000,
        ...     step_s=0.01,
        ... )
        >>> found.exchanges, found.examples_per_exchange, round(found.speed_up, 2), found.pays
        (40, 320, 1.89, 'partly')
    """
    if rows is None:
        if workers is None:
            raise ConfigurationError(
                "`rows` or `workers` must give the number of workers. Received: neither."
            )
        check_count("workers", workers, maximum=_MOST_WORKERS)
    elif not rows:
        raise ConfigurationError("`rows` must have an entry per worker. Received: rows=[].")
    if step_s is not None:
        check_positive("step_s", step_s)
    check_positive("bandwidth_bytes_per_s", bandwidth_bytes_per_s)
    if vector_bytes is not None:
        vector_bytes = master.exchange.averaged_bytes(vector_bytes, updater_bytes)
    found = Prospect(
        plan=even_plan(master, workers or 1, step_s, vector_bytes)
        if rows is None
        else master.plan(rows, vector_bytes=vector_bytes or 0),
        rows_known=rows is not None,
        step_s=step_s,
        vector_bytes=vector_bytes,
        minibatches_per_exchange=minibatches_per_exchange(master, step_s, vector_bytes),
    )
    if vector_bytes is None:
        return found
    costs = ScalingCosts().with_network(bandwidth_bytes_per_s)
    cost, early = exchange(master, found.plan, costs), None
    if (
        isinstance(master, ParameterAveragingTrainingMaster)
        and len(by_epoch(master.averaging_frequency)) > 1
    ):
        early = prospect(
            master.averaging_every(master.frequency_in(0)),
            rows=rows,
            workers=workers,
            vector_bytes=vector_bytes,
            step_s=step_s,
            bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        )
    return replace(
        found,
        exchange_s=cost.seconds,
        bytes_per_exchange=cost.sent_bytes,
        worthwhile_step_s=_worthwhile_step_s(master, cost) if cost.seconds else 0.0,
        point=None if step_s is None else interval(master, found.plan, step_s, costs),
        at_first=early,
    )


def _worthwhile_step_s(master: TrainingMaster, cost: ExchangeCost) -> float:
    """Return the shortest minibatch for which exchanges take a tenth of the time."""
    ratio, delay = (1 - _SHARE_TRAINING) / _SHARE_TRAINING, master.exchange.delay

    def enough_s(count: int) -> float:
        """Return it for a number of minibatches between exchanges; a delay hides exchanges."""
        waits_s = cost.seconds / (ratio * count + delay)
        return max(waits_s, cost.handling_s / (ratio * count))

    # Short minibatches share a message: use the number for minibatches of that duration.
    most = minibatches_per_exchange(master, 1e-9)
    steps_s = ((count, enough_s(count)) for count in range(most, 0, -1))
    return next(s for count, s in steps_s if minibatches_per_exchange(master, s) >= count)


def _minibatches_text(count: int) -> str:
    return "1 minibatch" if count == 1 else f"{count:,} minibatches"
