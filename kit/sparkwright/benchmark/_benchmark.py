"""Measures training on the user's own cluster, within a time budget."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
from sparkwright.masters.plan import frequency_in
from sparkwright.networks import ModelDefinition, NetworkSpec, lenet
from sparkwright.options import check_count, check_number
from sparkwright.spark import SparkNetwork
from sparkwright.timeline import PhaseCode

from ._advise import sizes_of
from ._fit import FitOrders, fit_on_an_executor
from ._network import NetworkSpeed, measure_network
from ._result import BenchmarkResult, Facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
_MOST_EXAMPLES = 20_000
_DEFAULT_TARGET = 0.95
_NETWORK_S = 60.0  # at most, executors' first Python processes included
_RUN_S = 6.0  # of training, of each number of workers
_GUESS_S = 0.05  # a minibatch of which nothing is known
_WARM_ROUNDS, _LEAST_ROUNDS, _MOST_STEPS = 2, 6, 5_000
_STEPS_OF_SHARING = 5  # count as a round


class Benchmark:
    """The measurements of one `benchmark`, whose arguments it takes."""

    def __init__(
        self,
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
    ) -> None:
        """Check the arguments, and fetch the data.

        Raises:
            ConfigurationError: if an argument is invalid.
        """
        check_number("budget_s", budget_s, minimum=10, maximum=86_400)
        self._deadline_s = time.monotonic() + budget_s
        if (model is None) != (data is None):
            raise ConfigurationError(
                "`model` and `data` go together. Received: only one of them. Give both, or neither "
                "to train LeNet on digits."
            )
        self._counts = list(workers or _powers(task_slots(spark) or 1))
        for count in self._counts:
            check_count("workers", count)
        if model is None:
            target = _DEFAULT_TARGET if target is None else target
            model, data = lenet(), digits(spark, partitions=1)
        built: Any = model.build() if isinstance(model, NetworkSpec) else model
        train = _in_memory(data, "data")
        edge = len(train) * 4 // 5
        self._train, self._validation = (
            (train.take(slice(edge)), train.take(slice(edge, None)))
            if validation is None
            else (train, _in_memory(validation, "validation"))
        )
        self._spark, self._metric, self._target = spark, metric, target
        self._master = master or ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
        self._definition, self._weights = ModelDefinition.of(built), built.get_weights()
        self._sizes: dict[str, Any] = sizes_of(built)
        self._budget_s, self._most = budget_s, max(self._counts)
        self._costs: ScalingCosts | None = None
        self._notes = list[str]()

    def result(self, *, include_hosts: bool) -> BenchmarkResult:
        """Measure one after another; a measurement that fails is noted."""
        began_s, date = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
        network = self._tried("Network", self._network) if self._most > 1 else None
        fit = self._tried("`model.fit`", self._fit)
        runs = self._runs(fit)
        goal, advice, what = None, None, f"Time to {self._metric}"
        if self._target is not None and self._affords(what, 10):
            goal = self._tried(what, partial(self._goal, fit))
        # A minibatch without exchanges.
        steps_s = [run["minibatch_s"] for run in runs if run["workers"] == 1]
        steps_s += [] if fit is None else [fit["step_s"]]
        if steps_s and self._costs is not None:
            advice = advise(
                self._master,
                workers=self._most,
                step_s=steps_s[0],
                costs=self._costs,
                **self._sizes,
            )
        hosts = set[str]() if network is None else set(network.hosts)
        return BenchmarkResult(
            date=date,
            seconds=time.monotonic() - began_s,
            environment=self._environment(),
            cluster={
                # Of a URL only the kind, without names of hosts.
                "master": str(self._spark.sparkContext.master).partition(":")[0],
                "executors": executor_count(self._spark),
                "slots": task_slots(self._spark),
                "machines": len(hosts) or None,
                **({"hosts": sorted(hosts)} if include_hosts else {}),
            },
            model={
                "name": self._definition.name,
                "parameters": self._definition.parameters,
                "batch_size": self._master.batch_size_per_worker,
                **self._sizes,
            },
            master=self._master.to_dict(),
            network=None
            if network is None
            else {name: v for name, v in network._asdict().items() if name != "hosts"},
            fit=fit,
            runs=runs,
            goal=goal,
            advice=advice,
            notes=tuple(self._notes),
        )

    # -- measurements -----------------------------------------------------------------------

    def _network(self) -> NetworkSpeed:
        timeout_s = min(_NETWORK_S, self._budget_s / 3)
        found = measure_network(
            self._spark, workers=self._most, mesh=self._master.mesh, timeout_s=timeout_s
        )
        between = ExchangeCosts(
            bandwidth_bytes_per_s=found.bandwidth_bytes_per_s, latency_s=found.latency_s
        )
        cores = os.cpu_count() if is_local(self._spark) else None
        self._costs = ScalingCosts(exchange=between, cores=cores)
        return found

    def _fit(self) -> Facts:
        orders = FitOrders(
            definition=self._definition,
            weights=self._weights,
            train=self._train,
            validation=None if self._target is None else self._validation,
            batch_size=self._master.batch_size_per_worker,
            metric=self._metric,
            target=self._target,
            budget_s=self._budget_s / 5,
        )
        return fit_on_an_executor(self._spark, orders)

    def _runs(self, fit: Facts | None) -> tuple[Facts, ...]:
        """Train with each number of workers, the largest first: it starts all trainers."""
        step_s, last_s = _GUESS_S if fit is None else fit["step_s"], 0.0
        found = list[Facts]()
        for count in sorted(self._counts, key=lambda n: (n != self._most, n)):
            what = f"{count} workers" if count != 1 else "1 worker"
            # The first is measured in any case.
            if found and not self._affords(what, 1.2 * last_s):
                continue
            began_s = time.monotonic()
            training_s = max(1.0, min(_RUN_S, self._left_s / (2 * len(self._counts))))
            if run := self._tried(what, partial(self._run, count, step_s, training_s)):
                found.append(run)
                step_s = run["minibatch_s"]
            last_s = time.monotonic() - began_s
        found.sort(key=lambda run: run["workers"])
        if found and found[0]["workers"] == 1:
            self._compare(found)
        return tuple(found)

    def _run(self, workers: int, step_s: float, training_s: float) -> Facts:
        """Train for about so many seconds, and take times from the third round on."""
        master = self._master
        every = frequency_in(master.exchange.every or _STEPS_OF_SHARING)
        if isinstance(master, ParameterAveragingTrainingMaster):  # as in its last epochs
            master = master.averaging_every(every)
        rounds = max(_LEAST_ROUNDS, round(min(_MOST_STEPS, training_s / step_s) / every))
        # Where a minibatch takes long, an end by time keeps to the budget.
        limit = EarlyStopping(max_epochs=1, max_seconds=3 * training_s + 20, keep_best=None)
        steps = workers * rounds * every
        run = self._started(workers, master, steps_per_epoch=steps, early_stopping=limit)
        log, warm = run.history, _WARM_ROUNDS * every
        times = log[log.step >= warm].groupby("worker").time_s
        began_s, ended_s = float(times.min().max()), float(times.max().min())
        timed = log[(log.step > warm) & (log.time_s > began_s) & (log.time_s <= ended_s)]
        if timed.empty:
            raise ConfigurationError(
                f"`budget_s` must leave time for more than {warm} minibatches. Received: "
                f"budget_s={self._budget_s:g}."
            )
        minibatch_s = (ended_s - began_s) / len(timed) * workers
        averages = self._master.exchange.kind == "averaging"
        phases = {total.phase.code: total for total in run.timeline.totals()}
        spent = [phases[code] for code in (PhaseCode.AVERAGE, PhaseCode.APPLY) if code in phases]
        return {
            "workers": workers,
            "examples_per_s": float(timed.examples.sum()) / (ended_s - began_s),
            "minibatch_s": minibatch_s,
            "round_s": minibatch_s * every if averages else None,
            "averaging_s": sum(each.seconds / each.count for each in spent) if averages else None,
            **dict.fromkeys(("times_faster", "efficiency", "predicted")),
        }

    def _compare(self, runs: list[Facts]) -> None:
        """Add how much faster than the first, one worker, and what the cost model predicts."""
        alone, predicted = runs[0], dict[int, float]()
        if self._costs is not None:
            points = predict_scaling(
                self._master,
                step_s=alone["minibatch_s"],
                workers=[run["workers"] for run in runs],
                costs=self._costs,
                **self._sizes,
            ).points
            predicted = {point.workers: point.efficiency for point in points}
        for run in runs:
            faster = run["examples_per_s"] / alone["examples_per_s"]
            run["times_faster"], run["efficiency"] = faster, faster / run["workers"]
            run["predicted"] = predicted.get(run["workers"])

    def _goal(self, fit: Facts | None) -> Facts:
        limit = EarlyStopping(
            monitor=self._metric,
            mode="max",
            target=self._target,
            max_seconds=max(5.0, self._left_s - 5),
            max_epochs=10_000,
            keep_best=None,
        )
        began_s = time.monotonic()
        found = self._started(
            self._most, self._master, validation=self._validation, early_stopping=limit
        ).early_stopping
        seconds = time.monotonic() - began_s
        best = None if found is None else found.best_score
        is_reached = best is not None and limit.target_is_reached(best)
        return {
            "metric": self._metric,
            "target": self._target,
            "workers": self._most,
            "fit_s": None if fit is None else fit["reached_s"],
            "workers_s": seconds if is_reached else None,
            "best": best,
        }

    # -- what they share --------------------------------------------------------------------

    def _started(self, workers: int, master: TrainingMaster, **options: Any) -> Any:
        """The run of a network with the weights of the beginning, after its end."""
        model = self._definition.build()
        model.set_weights(self._weights)
        master = replace(master, workers=workers, collect_training_stats=True)
        run = SparkNetwork(self._spark, model, master).start(self._train, display=False, **options)
        run.wait()
        return run

    @property
    def _left_s(self) -> float:
        return self._deadline_s - time.monotonic()

    def _tried(self, what: str, measure: Callable[[], Result]) -> Result | None:
        try:
            return measure()
        except SparkwrightError as error:
            self._notes.append(f"{what}: not measured, because {error}")
        return None

    def _affords(self, what: str, seconds: float) -> bool:
        if self._left_s < seconds:
            self._notes.append(f"{what}: left out, {self._budget_s:g} s were not enough.")
        return self._left_s >= seconds

    def _environment(self) -> Facts:
        import keras
        import numpy as np
        import pyspark

        machine: Any = self._spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        return {
            "sparkwright": __version__,
            "python": platform.python_version(),
            "keras": keras.__version__,
            "backend": self._definition.backend,
            "numpy": np.__version__,
            "pyspark": pyspark.__version__,
            "java": str(machine.System.getProperty("java.version")),
            "system": f"{platform.system()} {platform.machine()}",
            "driver_cores": os.cpu_count(),
        }


def _powers(most: int) -> list[int]:
    """1, 2, 4 and so on, and the largest number itself.

    Example:
        >>> _powers(6)
        [1, 2, 4, 6]
    """
    return sorted({*(2**power for power in range(most.bit_length())), most})


def _in_memory(data: Any, name: str) -> DataSet:
    if isinstance(data, DistributedDataSet):
        return (data.sample(_MOST_EXAMPLES) if data.count() > _MOST_EXAMPLES else data).collect()
    if not isinstance(data, DataSet):
        raise ConfigurationError(
            f"`{name}` must be a DataSet or a DistributedDataSet. Received: {type(data).__name__}."
        )
    return data.take(slice(_MOST_EXAMPLES))
