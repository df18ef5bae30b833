"""The cost of training on n workers: computing, bytes, latency, and the work of the driver; pure.

A model, not a measurement. An exchange is an averaging or, with gradient sharing, a message of each
worker. The interval between exchanges of a worker is

    interval = minibatches x step + waiting + exchange

and at least the time that the driver needs for the events of all n workers, in parallel. With a
delay, network time counts only if it exceeds the time of the minibatches trained during the
averaging; processor time always counts.
"""

from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import Self

from sparkwright.configuration import Configuration, configuration, option

from .plan import TrainingPlan, frequency_in
from .training_master import TrainingMaster

# Measured on two shared cores over loopback, which moves 2.5 GB/s: an averaging between two workers
# takes 1.9 ms for 1.7 MB, 6.3 ms for 5.2 MB and 109 ms for 100 MB. The rest of the time is
# proportional to the vector: reading variables, adding, writing them back.
LOOPBACK_BYTES_PER_S = 2.5e9
TEN_GIGABIT_BYTES_PER_S = 1.25e9
# An averaging by a Spark job takes 200 to 500 ms with a broadcast of 4 MB.
_SPARK_AVERAGING_S = 0.35
# Messages that a worker waits for, per other worker: the number of minibatches trained, then the
# vector, added up and passed on.
_STEPS = 3
# Log rows are sent at most ten times a second, heartbeats once a second.
_ROWS_S, _HEARTBEAT_S = 0.1, 1.0
_MOST_HEARTBEATS = 0.99  # of the driver's time
# Default duration of a piece of work: a request for the next one takes a millisecond.
PIECE_S = 0.1
# Minibatches share a message so that messages cost at most a fifth of training, unless an option
# sets their number. More of them would increase staleness.
_MESSAGE_SHARE, _MOST_GATHERED = 0.2, 5


@configuration
class ExchangeCosts(Configuration):
    """Constants of an exchange between two workers."""

    bandwidth_bytes_per_s: float = option(
        default=TEN_GIGABIT_BYTES_PER_S,
        above=0,
        help="Network bandwidth of a machine; the default is 10 Gbit/s.",
    )
    latency_s: float = option(
        default=1e-4,
        above=0,
        help="Latency of a message to a neighbor in a ring: half a usual round trip within a "
        "data center.",
    )
    averaging_s_per_byte: float = option(
        default=0.75e-9, above=0, help="Reading, adding and writing back a vector."
    )
    bfloat16_s_per_byte: float = option(
        default=0.9e-9,
        above=0,
        help="Rounding to bfloat16 and adding rounded vectors of others, per byte in float32; 25 "
        "million numbers take 73 to 110 ms.",
    )
    int8_s_per_byte: float = option(
        default=1.1e-9, above=0, help="The same for 8-bit integers: 100 to 125 ms."
    )
    outer_s_per_byte: float = option(
        default=0.5e-9, above=0, help="A step of an outer optimizer; 51 ms for 100 MB."
    )
    message_s: float = option(
        default=1e-3,
        above=0,
        help="A message of gradient sharing, whatever its size. Encoding, sending and applying "
        "updates of LeNet (1.7 MB) takes 3 to 4 ms.",
    )
    message_s_per_byte: float = option(
        default=0.7e-9,
        above=0,
        help="Adding to the residual, selecting the values to send and applying them; 100 MB "
        "take 66 ms of a core.",
    )


@configuration
class ScalingCosts(Configuration):
    """Constants beyond those of an exchange between two workers."""

    exchange: ExchangeCosts = option(
        default_factory=ExchangeCosts, help="Costs of averagings and messages."
    )
    update_s: float = option(
        default=2e-4,
        above=0,
        help="Applying another worker's update and forwarding it. With the next option, this is "
        "0.4 to 0.6 ms for 21 KB, measured with 1 to 8 workers.",
    )
    update_s_per_byte: float = option(
        default=2e-8, above=0, help="The same, per byte of the update."
    )
    event_s: float = option(
        default=1.6e-4,
        above=0,
        help="Cost of a worker's message on the driver; measured with 1,000 simulated workers.",
    )
    relay_s_per_byte: float = option(
        default=3.5e-10,
        above=0,
        help='Cost of a byte on the driver with `communication="driver"`; measured over loopback.',
    )
    piece_s_per_worker: float = option(
        default=7.5e-7,
        above=0,
        help="Additional cost of a piece of work on the driver, per worker.",
    )
    jitter: float = option(
        default=0.0,
        minimum=0,
        below=1,
        help="Relative standard deviation of the time of a minibatch. Averaging waits for the "
        "slowest worker.",
    )
    cores: int | None = option(
        default=None,
        minimum=1,
        none_text="each worker has its own",
        help="Processor cores shared by all workers. With more workers than cores, workers wait "
        "for each other in training and in exchanges.",
    )
    processor_share: float = option(
        default=1.0,
        minimum=0,
        maximum=1,
        help="With `cores`: fraction of a minibatch that needs a core.",
    )

    def with_network(
        self, bandwidth_bytes_per_s: float | None = None, latency_s: float | None = None
    ) -> Self:
        """Return the same constants for another network; None: unchanged."""
        given = {"bandwidth_bytes_per_s": bandwidth_bytes_per_s, "latency_s": latency_s}
        changed = {name: value for name, value in given.items() if value is not None}
        return replace(self, exchange=replace(self.exchange, **changed))


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


def gathered(step_s: float, message_s: float, max_staleness: int | None) -> int:
    """Return how many minibatches share a message; workers and predictions use the same rule.

    Args:
        step_s: seconds of one minibatch.
        message_s: seconds that a message costs a worker, including received ones.
        max_staleness: minibatches that a worker may be ahead of the slowest; None: any number.

    Example:
        >>> [gathered(step_s, 0.004, None) for step_s in (0.001, 0.01, 0.1)]
        [5, 2, 1]
    """
    most = _MOST_GATHERED if max_staleness is None else min(_MOST_GATHERED, max_staleness)
    return max(1, min(most, ceil(message_s / (_MESSAGE_SHARE * step_s))))


def minibatches_per_exchange(
    master: TrainingMaster, step_s: float | None, vector_bytes: int | None = None
) -> int:
    """Return the minibatches of a worker between two averagings or messages.

    With several averaging frequencies, the last one counts.

    Args:
        master: how to train.
        step_s: seconds of one minibatch; None: unknown.
        vector_bytes: of the parameters; default None: unknown.
    """
    every = master.exchange.every
    if every is None:
        costs = ExchangeCosts()
        message_s = costs.message_s + costs.message_s_per_byte * (vector_bytes or 0)
        staleness = getattr(master, "max_staleness", None)
        every = 1 if step_s is None else gathered(step_s, message_s, staleness)
    # A message never holds minibatches of two pieces.
    found = frequency_in(every)
    return min(found, getattr(master, "piece_minibatches", None) or found)


def even_plan(
    master: TrainingMaster, workers: int, step_s: float | None, vector_bytes: int | None
) -> TrainingPlan:
    """Return the plan from one exchange to the next, for workers that are all busy.

    The arguments are those of `minibatches_per_exchange`, and the number of workers.
    """
    rows = minibatches_per_exchange(master, step_s, vector_bytes) * master.batch_size_per_worker
    return master.plan([rows] * workers, vector_bytes=vector_bytes or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeCost:
    """The cost of one exchange for each worker.

    Attributes:
        sent_bytes: bytes that the worker sends.
        wire_s: seconds of sending and waiting, which can overlap with training.
        handling_s: processor seconds of reading, rounding, adding and writing back.
    """

    sent_bytes: int = 0
    wire_s: float = 0.0
    handling_s: float = 0.0

    @property
    def seconds(self) -> float:
        """Total seconds, if the worker waits."""
        return self.wire_s + self.handling_s


def exchange(master: TrainingMaster, plan: TrainingPlan, costs: ScalingCosts) -> ExchangeCost:
    """Return the cost of an exchange of the workers of `plan`.

    A ring of n workers sends 2 (n - 1) / n vectors in 2 (n - 1) steps, after n - 1 in which the
    workers meet. So do rounded averagings, with a message from each worker to each other one. A
    message of gradient sharing reaches all others along a tree, and each worker applies an update
    of each other one; counted is the worker that passes on most. With `communication="driver"`
    the driver's machine receives, and sends, all that any worker sends.
    """
    others, one = plan.workers - 1, costs.exchange
    if others == 0:
        return ExchangeCost()
    bandwidth, by_driver = one.bandwidth_bytes_per_s, master.exchange.among == "driver"
    if plan.kind == "sharing":
        size = plan.bytes_per_minibatch
        update_s = costs.update_s + costs.update_s_per_byte * size
        # The update of one other worker is part of the cost of a message.
        handling_s = one.message_s + one.message_s_per_byte * plan.vector_bytes
        handling_s += (others - 1) * update_s
        mesh, sent = master.mesh, others * size
        # In a tree, the busiest worker sends each update to its parent and children.
        branches = others if mesh.mode == "plain" else min(others, mesh.max_downstreams + 1)
        wire_s = sent * (plan.workers if by_driver else branches) / bandwidth
        return ExchangeCost(sent_bytes=sent, wire_s=wire_s, handling_s=handling_s)
    how = master.exchange
    if how.among == "spark":
        wire_s = _SPARK_AVERAGING_S + 2 * plan.vector_bytes / bandwidth
        return ExchangeCost(sent_bytes=plan.vector_bytes, wire_s=wire_s)
    sent, whole_bytes = plan.bytes_per_round, plan.vector_bytes / how.density
    latency_s, busiest = one.latency_s, sent
    if by_driver:
        latency_s, busiest = 2 * latency_s, plan.workers * sent
    wire_s = _STEPS * others * latency_s + busiest / bandwidth
    # Processor time reduces training time, whichever thread uses it.
    rounding = {"bfloat16": one.bfloat16_s_per_byte, "int8": one.int8_s_per_byte}
    s_per_byte = one.averaging_s_per_byte + rounding.get(how.precision, 0.0)
    if getattr(master, "outer_optimizer", None) is not None:
        s_per_byte += one.outer_s_per_byte
    return ExchangeCost(sent_bytes=sent, wire_s=wire_s, handling_s=s_per_byte * whole_bytes)


def interval(
    master: TrainingMaster, plan: TrainingPlan, step_s: float, costs: ScalingCosts
) -> ScalingPoint:
    """Return the cost of an interval for the busy workers of `plan`.

    Args:
        master: how to train.
        plan: workers and bytes.
        step_s: seconds of one minibatch on one worker.
        costs: the constants.
    """
    workers = plan.workers
    minibatches = minibatches_per_exchange(master, step_s, plan.vector_bytes)
    cost = exchange(master, plan, costs)
    training_s, waiting_s = minibatches * step_s, 0.0
    if workers > 1 and plan.kind != "sharing":
        # The expected maximum of n standard normal variables is about sqrt(2 ln n).
        waiting_s = costs.jitter * step_s * sqrt(minibatches) * sqrt(2 * log(workers))
    crowd = 1.0 if costs.cores is None else max(1.0, workers / costs.cores)
    waiting_s += (crowd - 1) * costs.processor_share * training_s
    hidden_s = min(crowd * cost.wire_s, master.exchange.delay * step_s)
    exchange_s = crowd * cost.seconds - hidden_s
    busy_s = training_s + waiting_s + exchange_s
    driver_s = _driver_s(master, workers, busy_s, busy_s / minibatches, costs)
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
    master: TrainingMaster, workers: int, busy_s: float, step_s: float, costs: ScalingCosts
) -> float:
    """Return the driver's seconds on one core for an interval of all workers."""
    event_s = costs.event_s * busy_s / max(busy_s, _ROWS_S)
    if master.exchange.kind == "sharing":
        fixed: int | None = getattr(master, "piece_minibatches", None)
        piece_s = max(PIECE_S, busy_s) if fixed is None else fixed * step_s
        event_s += (costs.event_s + costs.piece_s_per_worker * workers) * busy_s / piece_s
    # Heartbeats arrive even without progress.
    heartbeats = min(_MOST_HEARTBEATS, workers * costs.event_s / _HEARTBEAT_S)
    return workers * event_s / (1 - heartbeats)
