"""Predict the cost of exchanges between workers, and of the intervals between them; pure.

A model, not a measurement. An exchange is an averaging or, with gradient sharing, a message of each
worker. The interval between exchanges of a worker is

    interval = minibatches x step + waiting + exchange

and at least the time that the driver needs for the events of all n workers, in parallel. With a
delay, network time counts only if it exceeds the time of the minibatches trained during the
averaging; processor time always counts.
"""

from dataclasses import dataclass
from math import log, sqrt

from sparkwright.errors import ConfigurationError
from sparkwright.masters import ScalingCosts, TrainingMaster
from sparkwright.masters.cost import PIECE_S, gathered
from sparkwright.masters.plan import frequency_in
from sparkwright.options import MAX_BYTES, check_count, check_positive

# An averaging by a Spark job takes 200 to 500 ms with a broadcast of 4 MB.
_SPARK_AVERAGING_S = 0.35
# Messages that a worker waits for, per other worker: the number of minibatches trained, then the
# vector, added up and passed on.
_STEPS = 3
# Log rows are sent at most ten times a second, heartbeats once a second.
_ROWS_S, _HEARTBEAT_S = 0.1, 1.0
_MOST_HEARTBEATS = 0.99  # of the driver's time


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalingPoint:
    """The cost of the interval between two exchanges, for a number of workers.

    Attributes:
        workers: number of workers.
        interval_s: seconds from one exchange to the next.
        training_s: seconds of training in the interval.
        waiting_s: seconds of waiting for the slowest worker and for a core.
        exchange_s: seconds of exchanging and of applying received updates, without hidden ones.
        driver_s: seconds of the driver per interval; exceeds the rest if the driver limits all
            workers.
        bytes_per_s: bytes that a worker sends per second.
        speed_up: speed relative to one worker without exchanges.
        hidden_s: seconds of the exchange that overlap with training.
    """

    workers: int
    interval_s: float
    training_s: float
    waiting_s: float
    exchange_s: float
    driver_s: float
    bytes_per_s: float
    speed_up: float
    hidden_s: float = 0.0

    @property
    def efficiency(self) -> float:
        """Speedup per worker, from 0 to 1."""
        return self.speed_up / self.workers

    @property
    def bound(self) -> str:
        """The largest cost besides training: "exchange", "waiting", "driver", or "" for none."""
        costs = {"exchange": self.exchange_s, "waiting": self.waiting_s}
        if self.driver_s > self.training_s + sum(costs.values()):
            return "driver"
        worst = max(costs, key=lambda name: costs[name])
        return worst if costs[worst] > 0 else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeCost:
    """The cost of one exchange for each worker."""

    sent_bytes: int = 0
    wire_s: float = 0.0  # sending and waiting, which can overlap with training
    handling_s: float = 0.0  # processor time: reading, rounding, adding and writing back

    @property
    def seconds(self) -> float:
        """Total seconds, if the worker waits."""
        return self.wire_s + self.handling_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What a minibatch and an exchange of a network take, and what follows for a master.

    Attributes:
        step_s: seconds of one minibatch on one worker; None: unknown.
        vector_bytes: size of all averaged values as float32, including the parameters; None:
            unknown.
        updater_bytes: size of the optimizer's state.
        costs: the constants of the prediction.
    """

    step_s: float | None
    vector_bytes: int | None
    updater_bytes: int
    costs: ScalingCosts

    def __post_init__(self) -> None:
        if self.step_s is not None:
            check_positive("step_s", self.step_s)
        check_count("vector_bytes", self.vector_bytes, maximum=MAX_BYTES, optional=True)
        check_count("updater_bytes", self.updater_bytes, minimum=0, maximum=MAX_BYTES)

    @property
    def is_known(self) -> bool:
        """Whether intervals can be predicted."""
        return self.step_s is not None and self.vector_bytes is not None

    def averaged_bytes(self, master: TrainingMaster) -> int:
        """Return the bytes of a worker's vector in an exchange; 0: unknown."""
        return master.exchange.averaged_bytes(self.vector_bytes or 0, self.updater_bytes)

    def minibatches(self, master: TrainingMaster) -> int:
        """Return the minibatches of a worker between two averagings or messages.

        With several averaging frequencies, the last one counts.
        """
        every = master.exchange.every
        if every is None:
            usual = ScalingCosts()  # as on workers
            message_s = usual.message_s + usual.message_s_per_byte * (self.vector_bytes or 0)
            staleness = getattr(master, "max_staleness", None)
            every = 1 if self.step_s is None else gathered(self.step_s, message_s, staleness)
        # A message never holds minibatches of two pieces.
        found = frequency_in(every)
        return min(found, getattr(master, "piece_minibatches", None) or found)

    def exchange(self, master: TrainingMaster, workers: int) -> ExchangeCost:
        """Return the cost of an exchange.

        A ring of n workers sends 2 (n - 1) / n vectors in 2 (n - 1) steps, after n - 1 in which the
        workers meet. So do rounded averagings, with a message from each worker to each other one. A
        message of gradient sharing reaches all others along a tree, and each worker applies an
        update of each other one; counted is the worker that passes on most. With
        `communication="driver"` the driver's machine receives, and sends, all that any worker
        sends.
        """
        others, costs, how = workers - 1, self.costs, master.exchange
        if others == 0:
            return ExchangeCost()
        vector_bytes, bandwidth = self.averaged_bytes(master), costs.bandwidth_bytes_per_s
        size, by_driver = round(how.density * vector_bytes), how.among == "driver"
        if how.kind == "sharing":
            # The update of one other worker is part of the cost of a message.
            handling_s = costs.message_s + costs.message_s_per_byte * vector_bytes
            handling_s += (others - 1) * (costs.update_s + costs.update_s_per_byte * size)
            mesh, sent = master.mesh, others * size
            # In a tree, the busiest worker sends each update to its parent and children.
            branches = others if mesh.mode == "plain" else min(others, mesh.max_downstreams + 1)
            wire_s = sent * (workers if by_driver else branches) / bandwidth
            return ExchangeCost(sent_bytes=sent, wire_s=wire_s, handling_s=handling_s)
        if how.among == "spark":
            return ExchangeCost(sent_bytes=size, wire_s=_SPARK_AVERAGING_S + 2 * size / bandwidth)
        sent = busiest = int(2 * others / workers * size)
        latency_s = costs.latency_s
        if by_driver:
            latency_s, busiest = 2 * latency_s, workers * sent
        wire_s = _STEPS * others * latency_s + busiest / bandwidth
        # Processor time reduces training time, whichever thread uses it.
        rounding = {"bfloat16": costs.bfloat16_s_per_byte, "int8": costs.int8_s_per_byte}
        s_per_byte = costs.averaging_s_per_byte + rounding.get(how.precision, 0.0)
        if getattr(master, "outer_optimizer", None) is not None:
            s_per_byte += costs.outer_s_per_byte
        handling_s = s_per_byte * vector_bytes
        return ExchangeCost(sent_bytes=sent, wire_s=wire_s, handling_s=handling_s)

    def point(self, master: TrainingMaster, workers: int) -> ScalingPoint:
        """Return the interval of workers that are all busy.

        Raises:
            ConfigurationError: if the step time or the network is unknown.
        """
        step_s, costs = self.step_s, self.costs
        if step_s is None or self.vector_bytes is None:
            raise ConfigurationError(
                "a prediction needs the time of a minibatch and a network. Received: "
                f"step_s={step_s!r}, vector_bytes={self.vector_bytes!r}. Give both."
            )
        minibatches, cost = self.minibatches(master), self.exchange(master, workers)
        training_s, waiting_s = minibatches * step_s, 0.0
        if workers > 1 and master.exchange.kind != "sharing":
            # The expected maximum of n standard normal variables is about sqrt(2 ln n).
            waiting_s = costs.jitter * step_s * sqrt(minibatches) * sqrt(2 * log(workers))
        crowd = 1.0 if costs.cores is None else max(1.0, workers / costs.cores)
        waiting_s += (crowd - 1) * costs.processor_share * training_s
        hidden_s = min(crowd * cost.wire_s, master.exchange.delay * step_s)
        exchange_s = crowd * cost.seconds - hidden_s
        busy_s = training_s + waiting_s + exchange_s
        driver_s = self._driver_s(master, workers, busy_s, busy_s / minibatches)
        if master.exchange.among == "driver":
            driver_s += workers * cost.sent_bytes * costs.relay_s_per_byte
        interval_s = max(busy_s, driver_s)
        return ScalingPoint(
            workers=workers,
            interval_s=interval_s,
            training_s=training_s,
            waiting_s=waiting_s,
            exchange_s=exchange_s,
            driver_s=driver_s,
            bytes_per_s=cost.sent_bytes / interval_s,
            speed_up=workers * training_s / interval_s,
            hidden_s=hidden_s,
        )

    def _driver_s(
        self, master: TrainingMaster, workers: int, busy_s: float, step_s: float
    ) -> float:
        """Return the driver's seconds on one core for an interval of all workers."""
        costs = self.costs
        event_s = costs.event_s * busy_s / max(busy_s, _ROWS_S)
        if master.exchange.kind == "sharing":
            fixed: int | None = getattr(master, "piece_minibatches", None)
            piece_s = max(PIECE_S, busy_s) if fixed is None else fixed * step_s
            event_s += (costs.event_s + costs.piece_s_per_worker * workers) * busy_s / piece_s
        # Heartbeats arrive even without progress.
        heartbeats = min(_MOST_HEARTBEATS, workers * costs.event_s / _HEARTBEAT_S)
        return workers * event_s / (1 - heartbeats)
