"""The answer of `advise`: what a run costs, how it scales, and which settings are better; pure."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from sparkwright.evaluation.reports import Report, Table
from sparkwright.masters import TrainingMaster, TrainingPlan
from sparkwright.options import check_count
from sparkwright.timeline.summary import seconds_text, size_text

from ._alternatives import Alternative
from ._load import ExchangeCost, Load, ScalingPoint
from ._memory import MemoryPlan
from ._tables import POWERS_OF_TWO, MeasuredRun, options_table, report_on

Pays = Literal["well", "partly", "hardly", "unknown"]

_SHARE_TRAINING = 0.9
# Deeplearning4j's rule of thumb for one minibatch.
_WELL_FROM_S, _HARDLY_UP_TO_S = 0.1, 1e-3
_LITTLE_GAIN, _MUCH_LOST = 1.2, 0.7
_UNEVEN = 0.3  # of the workers' time lost to uneven data
_FIGURES = ("settings", "sent_bytes", "minibatch_s", "efficiency")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Advice:
    """What a network takes on a cluster, whether workers pay, and what to change; see `advise`.

    `print` it or display it in a notebook. An exchange is an averaging or, with gradient sharing, a
    message of each worker. The figures are those of the given training master.

    Attributes:
        given: the given training master.
        plan: workers, minibatches and rounds; of one full round if the data is unknown.
        rows_known: whether `plan` is based on the data.
        load: step time, sizes and costs that the prediction is based on.
        target: the efficiency to reach.
        alternatives: the given training master, then others in decreasing order of safety; none
            if the step time or the network is unknown.
        recommended: index of the recommended alternative.
        memory: the memory of executors and driver; None: unknown.
        runs: measured trainings, by number of workers.
        sources: measured and assumed values, one sentence each.
    """

    given: TrainingMaster
    plan: TrainingPlan
    rows_known: bool
    load: Load
    target: float
    alternatives: tuple[Alternative, ...] = ()
    recommended: int = 0
    memory: MemoryPlan | None = None
    runs: tuple[MeasuredRun, ...] = ()
    sources: tuple[str, ...] = ()

    # --- what to change

    @property
    def master(self) -> TrainingMaster:
        """The recommended training master."""
        return self.alternatives[self.recommended].master if self.alternatives else self.given

    @property
    def best(self) -> Alternative:
        """The recommended alternative.

        Raises:
            IndexError: if there are no alternatives.
        """
        return self.alternatives[self.recommended]

    @property
    def fits(self) -> bool:
        """Whether the memory suffices, as far as it is known."""
        return self.memory is None or not self.memory.problem

    @property
    def reason(self) -> str:
        """The recommendation in one or two sentences."""
        if self.memory is not None and self.memory.problem:
            return self.memory.problem
        if self.workers == 1:
            return "Keep the settings: one worker exchanges nothing."
        if not self.alternatives:
            return "Give a network and `step_s`, the time of a minibatch, for a recommendation."
        best, target = self.best, self.target
        if best.efficiency < target:
            what = f"`{best.settings}` is best" if best.settings else "the given settings are best"
            return (
                f"No setting reaches {target:.0%}; {what}, with {best.efficiency:.0%}. "
                "Larger minibatches, fewer workers or a faster network help more."
            )
        if not best.settings:
            return f"Keep the settings: workers train {best.efficiency:.0%} of the time."
        return (
            f"Set `{best.settings}`: workers train {best.efficiency:.0%} of the time instead of "
            f"{self.alternatives[0].efficiency:.0%}. It is the safest setting that reaches "
            f"{target:.0%}."
        )

    # --- what a run costs

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self.plan.workers

    @property
    def minibatches_per_exchange(self) -> int:
        """Minibatches of each worker between two exchanges."""
        return self.load.minibatches(self.given)

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
    def exchange_s(self) -> float | None:
        """Seconds of an exchange for each worker; None: unknown."""
        return None if self._exchange is None else self._exchange.seconds

    @property
    def bytes_per_exchange(self) -> int | None:
        """Maximum bytes that each worker sends in an exchange; None: unknown."""
        return None if self._exchange is None else self._exchange.sent_bytes

    @property
    def point(self) -> ScalingPoint | None:
        """The interval between exchanges of workers that are all busy; None: unknown."""
        return self.at(self.workers) if self.load.is_known else None

    @property
    def short_batches(self) -> tuple[int, ...]:
        """Examples in the last minibatch of each worker for whom it is smaller than the others."""
        sizes = (rows % self.plan.batch_size for rows in self.plan.rows)
        return tuple(size for size in sizes if size)

    @property
    def epoch_s(self) -> float | None:
        """Seconds of an epoch; of one full round if the data is unknown. None: unknown."""
        point, step_s = self.point, self.load.step_s
        if point is None or step_s is None:
            return None
        return self._longest * step_s + self.exchanges * (point.interval_s - point.training_s)

    # --- whether workers pay

    @property
    def speed_up(self) -> float | None:
        """Speed relative to one worker without exchanges; None: unknown."""
        step_s, epoch_s = self.load.step_s, self.epoch_s
        if step_s is None or not epoch_s:
            return None
        return sum(self.plan.minibatches) * step_s / epoch_s

    @property
    def pays(self) -> Pays:
        """Whether more workers help, by the duration of a minibatch and the cost of exchanges."""
        step_s, gain = self.load.step_s, self.speed_up
        if self.workers == 1:
            return "hardly"
        if step_s is None or not sum(self.plan.rows):
            return "unknown"
        if step_s <= _HARDLY_UP_TO_S or (gain is not None and gain < _LITTLE_GAIN):
            return "hardly"
        efficient = gain is None or gain >= _MUCH_LOST * self.workers
        return "well" if step_s >= _WELL_FROM_S and efficient else "partly"

    @property
    def verdict(self) -> str:
        """Whether more workers help, in one sentence with its figures."""
        step_s, exchange_s, gain = self.load.step_s, self.exchange_s, self.speed_up
        if not sum(self.plan.rows):
            return "No worker has data: there is nothing to train."
        if self.workers == 1:
            return "One worker exchanges nothing and gains nothing over one machine."
        if step_s is None:
            return self._condition
        if exchange_s is None or gain is None:
            return f"A minibatch takes {seconds_text(step_s)}; {self._cause(step_s)}."
        count = self.minibatches_per_exchange
        training = f"{_minibatches_text(count)} of {seconds_text(step_s)}"
        if count > 1:
            training += f" take {seconds_text(count * step_s)}"
        return (
            f"{training}, {self._exchange_text} about {seconds_text(exchange_s)}: "
            f"{self.workers} workers are at best {gain:.1f} times as fast as one; "
            f"{self._cause(step_s)}."
        )

    @property
    def worthwhile_step_s(self) -> float | None:
        """Seconds of a minibatch at which exchanges take a tenth of the time; None: unknown."""
        cost = self._exchange
        if cost is None:
            return None
        ratio, delay = (1 - _SHARE_TRAINING) / _SHARE_TRAINING, self.given.exchange.delay

        def enough_s(count: int) -> float:
            """Return it for a number of minibatches between exchanges; a delay hides exchanges."""
            waits_s = cost.seconds / (ratio * count + delay)
            return max(waits_s, cost.handling_s / (ratio * count))

        # Short minibatches share a message: use the number for minibatches of that duration.
        def minibatches(step_s: float) -> int:
            return replace(self.load, step_s=step_s, vector_bytes=None).minibatches(self.given)

        steps_s = ((count, enough_s(count)) for count in range(minibatches(1e-9), 0, -1))
        return next(s for count, s in steps_s if not s or minibatches(s) >= count)

    def at(self, workers: int, *, recommended: bool = False) -> ScalingPoint:
        """Return the prediction for a number of workers, with the same minibatches on each.

        Args:
            workers: number of workers.
            recommended: whether with the recommended settings; default: with the given ones.

        Raises:
            ConfigurationError: if the step time or the network is unknown.
        """
        check_count("workers", workers)
        return self.load.point(self.master if recommended else self.given, workers)

    def most_workers(self, efficiency: float = 0.5, *, recommended: bool = False) -> int:
        """Return the largest of 1, 2, 4 … 1,024 workers with at least this efficiency; 0: none.

        Args:
            efficiency: speedup per worker, from 0 to 1; default 0.5.
            recommended: whether with the recommended settings; default: with the given ones.

        Raises:
            ConfigurationError: if the step time or the network is unknown.
        """
        points = (self.at(count, recommended=recommended) for count in POWERS_OF_TWO)
        return max((each.workers for each in points if each.efficiency >= efficiency), default=0)

    # --- showing

    @property
    def table(self) -> Any:
        """Return a pandas DataFrame with one row per alternative."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()["alternatives"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable fields, without addresses, paths and URLs."""
        names = (
            *("workers", "rows_known", "minibatches_per_exchange", "exchanges", "exchange_s"),
            *("bytes_per_exchange", "epoch_s", "speed_up", "pays", "verdict", "reason", "target"),
        )
        of_load = ("step_s", "vector_bytes", "updater_bytes")
        of_network = ("bandwidth_bytes_per_s", "latency_s")
        return {
            "kind": self.plan.kind,
            "minibatches": list(self.plan.minibatches),
            "batch_size_per_worker": self.plan.batch_size,
            **{name: getattr(self, name) for name in names},
            **{name: getattr(self.load, name) for name in of_load},
            **{name: getattr(self.load.costs, name) for name in of_network},
            "sources": list(self.sources),
            "alternatives": [
                {
                    "recommended": index == self.recommended,
                    **{name: getattr(each, name) for name in _FIGURES},
                    "risks": " ".join(each.risks),
                }
                for index, each in enumerate(self.alternatives)
            ],
            "runs": [asdict(run) for run in self.runs],
            "memory": None if self.memory is None else asdict(self.memory),
        }

    def report(self) -> Report:
        """Return recommendation, verdict and sources, and tables of what is known."""
        return report_on(self)

    @property
    def options(self) -> Table:
        """The alternatives as a table; the recommended one has an arrow."""
        return options_table(self.alternatives, self.recommended)

    def __repr__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        return self.report().html()

    @property
    def _longest(self) -> int:
        """Return the minibatches of the busiest worker."""
        if self.plan.kind == "sharing":  # idle workers take over work of others
            return -(-sum(self.plan.minibatches) // self.workers)
        return max(self.plan.minibatches, default=0)

    @property
    def _exchange(self) -> ExchangeCost | None:
        load = self.load
        return None if load.vector_bytes is None else load.exchange(self.given, self.workers)

    @property
    def _exchange_text(self) -> str:
        if self.plan.kind == "sharing":
            return "a message"
        return f"an averaging of {size_text(self.load.averaged_bytes(self.given))}"

    @property
    def _condition(self) -> str:
        """The verdict if the time of a minibatch is unknown."""
        wanted_s, exchange_s = self.worthwhile_step_s, self.exchange_s
        if wanted_s is None or exchange_s is None:
            return "Whether more workers pay off depends on the time of a minibatch: measure it."
        count = _minibatches_text(self.minibatches_per_exchange)
        often = "" if self.plan.kind == "sharing" else f" every {count}"
        return (
            f"More workers pay off if one minibatch takes {seconds_text(wanted_s)} or more: "
            f"{self._exchange_text}{often} takes about {seconds_text(exchange_s)}, which is "
            "then a tenth of the time."
        )

    def _cause(self, step_s: float) -> str:
        """Apply Deeplearning4j's rule of thumb, unless another cost dominates."""
        if step_s <= _HARDLY_UP_TO_S:
            return "with minibatches of 1 ms or less, more workers hardly help"
        if self.plan.idle_fraction > _UNEVEN:
            return "the rows are uneven: balance them"
        if self.pays == "hardly":
            return "exchanges cost more than additional workers gain"
        if step_s < _WELL_FROM_S:
            return "minibatches of about 10 ms scale less than in proportion"
        if self.pays == "well":
            return "minibatches of 100 ms or more scale well"
        return "exchanges take much of the time"


def _minibatches_text(count: int) -> str:
    return "1 minibatch" if count == 1 else f"{count:,} minibatches"
