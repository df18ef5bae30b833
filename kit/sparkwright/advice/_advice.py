"""The answer of `advise`: what a run costs, how it scales, and which settings are better; pure."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from sparkwright.evaluation.reports import Report, Table
from sparkwright.masters import TrainingMaster, TrainingPlan
from sparkwright.options import check_count
from sparkwright.timeline.summary import seconds_text, size_text

from ._alternatives import Alternative
from ._load import Load, ScalingPoint
from ._memory import MemoryPlan
from ._tables import POWERS_OF_TWO, MeasuredRun, options_table, runs_table, scaling_table
from ._verdict import Pays, pays, reason, verdict

_SHARE_TRAINING = 0.9
_FIGURES = ("settings", "sent_bytes", "minibatch_s", "efficiency", "memory_bytes")


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
    def reaches_target(self) -> bool:
        """Whether the recommended training master is predicted to reach the target."""
        return bool(self.alternatives) and self.best.efficiency >= self.target

    @property
    def fits(self) -> bool:
        """Whether the memory suffices, as far as it is known."""
        return self.memory is None or not self.memory.problem

    @property
    def reason(self) -> str:
        """The recommendation in one or two sentences."""
        return reason(self)

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
        if self.load.vector_bytes is None:
            return None
        return self.load.exchange(self.given, self.workers).seconds

    @property
    def bytes_per_exchange(self) -> int | None:
        """Maximum bytes that each worker sends in an exchange; None: unknown."""
        if self.load.vector_bytes is None:
            return None
        return self.load.exchange(self.given, self.workers).sent_bytes

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
        return self._seconds_of(self._longest)

    # --- whether workers pay

    @property
    def speed_up(self) -> float | None:
        """Speed relative to one worker without exchanges; None: unknown."""
        return self._speed_up_of(self._longest)

    @property
    def even_speed_up(self) -> float | None:
        """`speed_up` with the same number of minibatches on each worker."""
        return self._speed_up_of(-(-sum(self.plan.minibatches) // self.workers))

    @property
    def pays(self) -> Pays:
        """Whether more workers help, by the duration of a minibatch and the cost of exchanges."""
        return pays(self)

    @property
    def verdict(self) -> str:
        """Whether more workers help, in one sentence with its figures."""
        return verdict(self)

    @property
    def worthwhile_step_s(self) -> float | None:
        """Seconds of a minibatch at which exchanges take a tenth of the time; None: unknown."""
        if self.load.vector_bytes is None:
            return None
        cost = self.load.exchange(self.given, self.workers)
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
        between = self.load.costs
        return {
            "kind": self.plan.kind,
            "minibatches": list(self.plan.minibatches),
            "batch_size_per_worker": self.plan.batch_size,
            **{name: getattr(self, name) for name in names},
            **{name: getattr(self.load, name) for name in ("step_s", "vector_bytes")},
            "updater_bytes": self.load.updater_bytes,
            "bandwidth_bytes_per_s": between.bandwidth_bytes_per_s,
            "latency_s": between.latency_s,
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
        notes = [self.verdict, *self.sources]
        tables: list[Table] = []
        if self.load.is_known:
            notes.insert(1, self._facts)
            tables += [self.options, scaling_table(self)]
        if self.runs:
            tables.append(runs_table(self))
        if self.memory is not None:
            tables += self.memory.tables()
        return Report(title=self.reason, notes=notes, tables=tables)

    @property
    def options(self) -> Table:
        """The alternatives as a table; the recommended one has an arrow."""
        return options_table(self.alternatives, self.recommended)

    def __repr__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        return self.report().html()

    @property
    def _facts(self) -> str:
        between = self.load.costs
        return (
            f"{self.workers:,} workers, minibatches of {seconds_text(self.load.step_s or 0)}, "
            f"{size_text(self.load.vector_bytes or 0)} of parameters, "
            f"{between.bandwidth_bytes_per_s / 1.25e8:.3g} Gbit/s, "
            f"latency {seconds_text(between.latency_s)}."
            + (f" An epoch takes {seconds_text(self.epoch_s or 0)}." if self.rows_known else "")
        )

    @property
    def _longest(self) -> int:
        """Return the minibatches of the busiest worker."""
        if self.plan.kind == "sharing":  # idle workers take over work of others
            return -(-sum(self.plan.minibatches) // self.workers)
        return max(self.plan.minibatches, default=0)

    def _seconds_of(self, minibatches: int) -> float | None:
        """Return the seconds of an epoch, given the minibatches of the worker with most data."""
        point, step_s = self.point, self.load.step_s
        if point is None or step_s is None:
            return None
        exchanges = -(-minibatches // self.minibatches_per_exchange)
        return minibatches * step_s + exchanges * (point.interval_s - point.training_s)

    def _speed_up_of(self, minibatches: int) -> float | None:
        seconds = self._seconds_of(minibatches)
        if not seconds or self.load.step_s is None:
            return None
        return sum(self.plan.minibatches) * self.load.step_s / seconds
