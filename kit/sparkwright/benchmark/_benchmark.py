"""Measures training on the user's own cluster, within a time budget."""

import contextlib
import os
import platform
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sparkwright._version import __version__
from sparkwright.cluster.slots import executor_count, is_local, task_slots
from sparkwright.data import DataSet, DistributedDataSet, digits
from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.masters import (
    EarlyStopping,
    ExchangeCosts,
    ParameterAveragingTrainingMaster,
    ScalingCosts,
    TrainingMaster,
    advise,
    predict_scaling,
)
from sparkwright.networks import ModelDefinition, NetworkSpec, lenet
from sparkwright.networks.state import ModelState
from sparkwright.options import check_number
from sparkwright.spark import SparkNetwork
from sparkwright.timeline import PhaseCode

from ._fit import FitOrders, FitTime, fit_on_an_executor
from ._network import NetworkSpeed, measure_network
from ._result import BenchmarkResult, Goal, WorkersTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_EXAMPLES = 20_000
_DEFAULT_TARGET = 0.95
_NETWORK_S = 60.0  # at most, executors' first Python processes included
_RUN_S = 6.0  # of training, of each number of workers
_GUESS_S = 0.05  # a minibatch of which nothing is known
_WARM_ROUNDS, _LEAST_ROUNDS, _MOST_STEPS = 2, 6, 5_000
_STEPS_OF_SHARING = 5  # for what an averaging's interval is


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What is to be measured; made by `plan_of`.

    Attributes:
        spark: the session.
        definition: of the network.
        weights: with which it begins.
        train: what is trained.
        validation: what is evaluated.
        master: how to train.
        counts: numbers of workers.
        metric: name of a compiled metric, of which more is better.
        target: the value to reach; None: time to it is not measured.
        budget_s: seconds for everything.
    """

    spark: "SparkSession"
    definition: ModelDefinition
    weights: list[Any]
    train: DataSet
    validation: DataSet
    master: TrainingMaster
    counts: tuple[int, ...]
    metric: str
    target: float | None
    budget_s: float

    @property
    def most(self) -> int:
        """The largest number of workers."""
        return max(self.counts)

    def network(self, workers: int) -> SparkNetwork:
        """A network with the weights of the beginning."""
        model = self.definition.build()
        model.set_weights(self.weights)
        master = replace(self.master, workers=workers, collect_training_stats=True)
        return SparkNetwork(self.spark, model, master)


@dataclass(kw_only=True, slots=True)
class _Measuring:
    """Measurements so far, and the time that is left."""

    plan: Plan
    deadline_s: float
    notes: list[str] = field(default_factory=list[str])

    @property
    def left_s(self) -> float:
        return self.deadline_s - time.monotonic()

    @contextlib.contextmanager
    def part(self, what: str) -> Generator[None]:
        """A measurement whose failure is noted, and ends only itself."""
        try:
            yield
        except SparkwrightError as error:
            self.notes.append(f"{what}: not measured, because {error}")

    def affords(self, what: str, seconds: float) -> bool:
        """Whether there is time for a measurement; if not, that is noted."""
        if self.left_s >= seconds:
            return True
        self.notes.append(f"{what}: left out, {self.plan.budget_s:g} s were not enough.")
        return False


def measure(plan: Plan, *, include_hosts: bool = False) -> BenchmarkResult:
    """Carry out `plan`; see `benchmark`."""
    began_s, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    doing = _Measuring(plan=plan, deadline_s=began_s + plan.budget_s)
    speed: NetworkSpeed | None = None
    if plan.most > 1:
        with doing.part("Network"):
            timeout_s = min(_NETWORK_S, plan.budget_s / 3)
            speed = measure_network(
                plan.spark, workers=plan.most, mesh=plan.master.mesh, timeout_s=timeout_s
            )
    fit = _fit(doing)
    runs = _runs(doing, fit, speed)
    goal = _goal(doing, fit)
    hosts = () if speed is None else speed.hosts
    sizes = _sizes(plan)
    step_s = _step_s(runs, fit)
    return BenchmarkResult(
        date=date,
        seconds=time.monotonic() - began_s,
        environment=_environment(plan),
        cluster={
            "master": _kind(str(plan.spark.sparkContext.master)),
            "executors": executor_count(plan.spark),
            "slots": task_slots(plan.spark),
            "machines": len(set(hosts)) or None,
            **({"hosts": sorted(set(hosts))} if include_hosts else {}),
        },
        model={
            "name": plan.definition.name,
            "parameters": plan.definition.parameters,
            "vector_bytes": sizes[0],
            "updater_bytes": sizes[1],
            "batch_size": plan.master.batch_size_per_worker,
        },
        master=plan.master.to_dict(),
        network=None if speed is None else replace(speed, hosts=()),
        fit=fit,
        runs=runs,
        goal=goal,
        advice=None
        if step_s is None or speed is None
        else advise(
            plan.master,
            workers=plan.most,
            step_s=step_s,
            vector_bytes=sizes[0],
            updater_bytes=sizes[1],
            costs=_costs(plan, speed),
        ),
        notes=tuple(doing.notes),
    )


def _fit(doing: _Measuring) -> FitTime | None:
    plan, found = doing.plan, None
    with doing.part("`model.fit`"):
        orders = FitOrders(
            definition=plan.definition,
            weights=plan.weights,
            train=plan.train,
            validation=None if plan.target is None else plan.validation,
            batch_size=plan.master.batch_size_per_worker,
            monitor=plan.metric,
            target=plan.target,
            budget_s=plan.budget_s / 5,
        )
        found = fit_on_an_executor(plan.spark, orders)
    return found


def _runs(
    doing: _Measuring, fit: FitTime | None, speed: NetworkSpeed | None
) -> tuple[WorkersTime, ...]:
    """Train with each number of workers, the largest first: it starts all trainers."""
    plan = doing.plan
    step_s, last_s = _GUESS_S if fit is None else fit.step_s, 0.0
    found = list[WorkersTime]()
    for count in sorted(plan.counts, key=lambda n: (n != plan.most, n)):
        what = f"{count} workers" if count != 1 else "1 worker"
        # The first is measured in any case. A later one takes no longer, and the goal needs time.
        if found and not doing.affords(what, 1.2 * last_s):
            continue
        began_s = time.monotonic()
        with doing.part(what):
            training_s = max(1.0, min(_RUN_S, doing.left_s / (2 * len(plan.counts))))
            found.append(_run(plan, count, step_s, training_s))
            step_s = found[-1].minibatch_s
        last_s = time.monotonic() - began_s if last_s == 0 or count != plan.most else last_s
    found.sort(key=lambda run: run.workers)
    alone = next((run for run in found if run.workers == 1), None)
    if alone is None:
        return tuple(found)
    predicted = _predicted(plan, alone.minibatch_s, speed)
    return tuple(
        replace(
            run,
            efficiency=run.examples_per_s / (run.workers * alone.examples_per_s),
            predicted=predicted.get(run.workers),
        )
        for run in found
    )


def _run(plan: Plan, workers: int, step_s: float, training_s: float) -> WorkersTime:
    """Train for about so many seconds, and take times from the third round on."""
    every = plan.master.exchange.every or _STEPS_OF_SHARING
    averages = plan.master.exchange.kind == "averaging"
    rounds = max(_LEAST_ROUNDS, round(min(_MOST_STEPS, training_s / step_s) / every))
    # Where a minibatch takes long, an end by time keeps to the budget.
    limit = EarlyStopping(max_epochs=1, max_seconds=3 * training_s + 20, keep_best=None)
    run = plan.network(workers).start(
        plan.train, steps_per_epoch=workers * rounds * every, early_stopping=limit, display=False
    )
    run.wait()
    log = run.history
    warm = _WARM_ROUNDS * every
    by_worker = log[log.step >= warm].groupby("worker").time_s.agg(["min", "max"])
    if by_worker.empty:
        raise ConfigurationError(
            f"`budget_s` must leave time for more than {warm} minibatches. Received: "
            f"budget_s={plan.budget_s:g}."
        )
    began_s, ended_s = float(by_worker["min"].max()), float(by_worker["max"].min())
    timed = log[(log.step > warm) & (log.time_s > began_s) & (log.time_s <= ended_s)]
    seconds, steps = ended_s - began_s, len(timed) / workers
    phases = {total.phase.code: total for total in run.timeline.totals()}
    spent = [phases[code] for code in (PhaseCode.AVERAGE, PhaseCode.APPLY) if code in phases]
    return WorkersTime(
        workers=workers,
        examples_per_s=float(timed.examples.sum()) / seconds,
        minibatch_s=seconds / steps,
        round_s=seconds / steps * every if averages else None,
        averaging_s=sum(each.seconds / each.count for each in spent) if averages else None,
        efficiency=None,
        predicted=None,
    )


def _goal(doing: _Measuring, fit: FitTime | None) -> Goal | None:
    plan, found = doing.plan, None
    if plan.target is None or not doing.affords(f"Time to {plan.metric}", 10):
        return None
    with doing.part(f"Time to {plan.metric}"):
        network = plan.network(plan.most)
        limit = EarlyStopping(
            monitor=plan.metric,
            mode="max",
            target=plan.target,
            max_seconds=max(5.0, doing.left_s - 5),
            max_epochs=10_000,
            keep_best=None,
        )
        began_s = time.monotonic()
        run = network.start(
            plan.train, validation=plan.validation, early_stopping=limit, display=False
        )
        run.wait()
        seconds = time.monotonic() - began_s
        best = None if run.early_stopping is None else run.early_stopping.best_score
        found = Goal(
            metric=plan.metric,
            target=plan.target,
            workers=plan.most,
            fit_s=None if fit is None else fit.reached_s,
            workers_s=seconds if best is not None and best >= plan.target else None,
            best_fit=None if fit is None else fit.best,
            best_workers=best,
        )
    return found


def _step_s(runs: Sequence[WorkersTime], fit: FitTime | None) -> float | None:
    """Seconds of a minibatch without exchanges; None: unknown."""
    alone = next((run.minibatch_s for run in runs if run.workers == 1), None)
    return alone if alone is not None or fit is None else fit.step_s


def _predicted(plan: Plan, step_s: float, speed: NetworkSpeed | None) -> dict[int, float]:
    """Efficiency by number of workers, as the cost model predicts it; empty without a network."""
    if speed is None:
        return {}
    sizes = _sizes(plan)
    found = predict_scaling(
        plan.master,
        step_s=step_s,
        vector_bytes=sizes[0],
        updater_bytes=sizes[1],
        workers=plan.counts,
        costs=_costs(plan, speed),
    )
    return {point.workers: point.efficiency for point in found.points}


def _costs(plan: Plan, speed: NetworkSpeed) -> ScalingCosts:
    return ScalingCosts(
        exchange=ExchangeCosts(
            bandwidth_bytes_per_s=speed.bandwidth_bytes_per_s, latency_s=speed.latency_s
        ),
        cores=os.cpu_count() if is_local(plan.spark) else None,
    )


def _sizes(plan: Plan) -> tuple[int, int]:
    """Bytes of the parameters, and of the optimizer's state."""
    state = ModelState.of(plan.definition.build())
    return state.averaged_size * state.dtype.itemsize, state.updater_size * state.dtype.itemsize


def _environment(plan: Plan) -> dict[str, str]:
    import keras
    import numpy as np
    import pyspark

    machine: Any = plan.spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return {
        "sparkwright": __version__,
        "python": platform.python_version(),
        "keras": keras.__version__,
        "backend": plan.definition.backend,
        "numpy": np.__version__,
        "pyspark": pyspark.__version__,
        "java": str(machine.System.getProperty("java.version")),
        "system": f"{platform.system()} {platform.machine()}",
        "driver_cores": str(os.cpu_count()),
    }


def _kind(master: str) -> str:
    """A master's URL without names of hosts.

    Example:
        >>> _kind("spark://node-1:7077"), _kind("local-cluster[2,1,1024]")
        ('spark', 'local-cluster[2,1,1024]')
    """
    return master.partition(":")[0]


def plan_of(
    spark: "SparkSession",
    *,
    model: Any | None,
    data: Any | None,
    validation: Any | None,
    master: TrainingMaster | None,
    workers: Sequence[int] | None,
    metric: str,
    target: float | None,
    budget_s: float,
) -> Plan:
    """Check the arguments of `benchmark`, and complete them.

    Raises:
        ConfigurationError: if an argument is invalid.
    """
    check_number("budget_s", budget_s, minimum=10, maximum=86_400)
    if (model is None) != (data is None):
        raise ConfigurationError(
            "`model` and `data` go together. Received: only one of them. Give both, or neither to "
            "train LeNet on digits."
        )
    counts = tuple(workers or _powers(task_slots(spark) or 1))
    if not all(isinstance(each, int) and each > 0 for each in counts):
        raise ConfigurationError(
            f"`workers` must be numbers of at least 1. Received: workers={workers!r}."
        )
    if model is None:
        target = _DEFAULT_TARGET if target is None else target
        model, data = lenet(), digits(spark, partitions=1)
    built: Any = model.build() if isinstance(model, NetworkSpec) else model
    train = _in_memory(data, "data")
    if validation is None:
        edge = len(train) * 4 // 5
        train, held_out = train.take(slice(edge)), train.take(slice(edge, None))
    else:
        held_out = _in_memory(validation, "validation")
    return Plan(
        spark=spark,
        definition=ModelDefinition.of(built),
        weights=built.get_weights(),
        train=train,
        validation=held_out,
        master=master or ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1),
        counts=counts,
        metric=metric,
        target=target,
        budget_s=budget_s,
    )


def _powers(most: int) -> list[int]:
    """1, 2, 4 and so on, and the largest number itself.

    Example:
        >>> _powers(6)
        [1, 2, 4, 6]
    """
    found = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return [*found, most] if found[-1] != most else found


def _in_memory(data: Any, name: str) -> DataSet:
    if isinstance(data, DistributedDataSet):
        return (data.sample(_MOST_EXAMPLES) if data.count() > _MOST_EXAMPLES else data).collect()
    if not isinstance(data, DataSet):
        raise ConfigurationError(
            f"`{name}` must be a DataSet or a DistributedDataSet. Received: {type(data).__name__}."
        )
    return data.take(slice(_MOST_EXAMPLES)) if len(data) > _MOST_EXAMPLES else data
