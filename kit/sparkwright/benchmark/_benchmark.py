"""Measure training on the user's own cluster within a time budget."""

import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparkwright._version import __version__
from sparkwright.cluster.connect import context_of
from sparkwright.cluster.slots import executor_count, is_local, task_slots
from sparkwright.data import DataSet, DistributedDataSet, digits
from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.masters import (
    Advice,
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
from sparkwright.spark.secrets import session_facts
from sparkwright.timeline import PhaseCode

from ._fit import FitOrders, fit_on_an_executor
from ._network import NetworkSpeed, measure_network
from ._result import BenchmarkResult, Facts
from .advice import sizes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
_MOST_EXAMPLES = 20_000
_DEFAULT_TARGET = 0.95  # accuracy on the digits
_NETWORK_S = 60.0  # maximum, including the start of executors' first Python processes
_RUN_S = 6.0  # training time for each number of workers
_GUESS_S = 0.05  # assumed duration of a minibatch without measurements
_WARM_ROUNDS, _LEAST_ROUNDS, _MOST_STEPS = 2, 6, 5_000
_STEPS_OF_SHARING = 5  # equivalent of a round


@dataclass(kw_only=True)
class Benchmark:
    """The measurements of one `sw.benchmark` call, with the same arguments.

    Raises:
        ConfigurationError: if an argument is invalid.
    """

    spark: "SparkSession"
    model: Any | None
    data: Any | None
    validation: Any | None
    master: TrainingMaster | None
    workers: Sequence[int] | None
    metric: str
    target: float | None
    budget_s: float

    def __post_init__(self) -> None:
        """Validate the arguments, and load the data."""
        check_number("budget_s", self.budget_s, minimum=10, maximum=86_400)
        self._began_s = time.monotonic()
        model, data, validation = self.model, self.data, self.validation
        if (model is None) != (data is None):
            raise ConfigurationError(
                "`model` and `data` go together. Received: only one of them. Give both, or neither "
                "to train LeNet on digits."
            )
        self._counts = list(self.workers or _powers(task_slots(self.spark) or 1))
        for count in self._counts:
            check_count("workers", count)
        self._counts.sort()
        if model is None:
            model, data = lenet(), digits(self.spark, partitions=1)
            self.target = _DEFAULT_TARGET if self.target is None else self.target
        self._train = _in_memory(data, "data")
        if validation is None:
            edge = len(self._train) * 4 // 5
            validation = self._train.take(slice(edge, None))
            self._train = self._train.take(slice(edge))
        self._validation = _in_memory(validation, "validation")
        self._master = self.master or ParameterAveragingTrainingMaster(
            batch_size_per_worker=32, seed=1
        )
        built: Any = model.build() if isinstance(model, NetworkSpec) else model
        self._definition, self._weights = ModelDefinition.of(built), built.get_weights()
        self._sizes: dict[str, Any] = sizes_of(built)
        self._notes = list[str]()

    def result(self, *, include_hosts: bool) -> BenchmarkResult:
        """Run all measurements in order; failures become notes."""
        date, most = datetime.now(UTC).isoformat(timespec="seconds"), self._counts[-1]
        connect = partial(
            measure_network,
            self.spark,
            workers=most,
            mesh=self._master.mesh,
            timeout_s=min(_NETWORK_S, self.budget_s / 3),
        )
        network = self._tried("Network", connect) if most > 1 else None
        orders = FitOrders(
            definition=self._definition,
            weights=self._weights,
            train=self._train,
            validation=None if self.target is None else self._validation,
            batch_size=self._master.batch_size_per_worker,
            metric=self.metric,
            target=self.target,
            budget_s=self.budget_s / 5,
        )
        fit = self._tried("`model.fit`", partial(fit_on_an_executor, self.spark, orders))
        runs = self._runs(fit)
        goal, what = None, f"Time to {self.metric}"
        if self.target is not None and self._affords(what, 10):
            goal = self._tried(what, partial(self._goal, fit))
        advice = None if network is None else self._advice(network, fit, runs)
        hosts = sorted(set(network.hosts)) if network is not None else []
        return BenchmarkResult(
            date=date,
            seconds=time.monotonic() - self._began_s,
            environment=self._environment(),
            cluster={
                # Only the scheme of the URL, without host names.
                "master": str(context_of(self.spark).master).partition(":")[0],
                "executors": executor_count(self.spark),
                "slots": task_slots(self.spark),
                "machines": len(hosts) or None,
                **({"hosts": hosts} if include_hosts else {}),
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
            else {name: getattr(network, name) for name in network._fields if name != "hosts"},
            fit=fit,
            runs=tuple(runs),
            goal=goal,
            advice=advice,
            notes=tuple(self._notes),
        )

    def _runs(self, fit: Facts | None) -> list[Facts]:
        """Train with each number of workers; the largest first, because it starts all trainers."""
        step_s, last_s = _GUESS_S if fit is None else fit["step_s"], 0.0
        found = list[Facts]()
        for count in (self._counts[-1], *self._counts[:-1]):
            what = f"{count} workers" if count != 1 else "1 worker"
            # The first number of workers is always measured.
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
            for run in found:
                run["times_faster"] = run["examples_per_s"] / found[0]["examples_per_s"]
                run["efficiency"] = run["times_faster"] / run["workers"]
        return found

    def _run(self, workers: int, step_s: float, training_s: float) -> Facts:
        """Train for about `training_s` seconds; measure times from the third round on."""
        master = self._master
        every = frequency_in(master.exchange.every or _STEPS_OF_SHARING)
        if isinstance(master, ParameterAveragingTrainingMaster):  # averaging as in the last epochs
            master = master.averaging_every(every)
        rounds = max(_LEAST_ROUNDS, round(min(_MOST_STEPS, training_s / step_s) / every))
        # For slow minibatches, a time limit keeps to the budget.
        limit_s, steps = 3 * training_s + 20, workers * rounds * every
        run = self._trained(workers, master, limit_s=limit_s, steps_per_epoch=steps)
        log, warm = run.history, _WARM_ROUNDS * every
        times = log[log.step >= warm].groupby("worker").time_s
        began_s, ended_s = float(times.min().max()), float(times.max().min())
        timed = log[(log.step > warm) & (log.time_s > began_s) & (log.time_s <= ended_s)]
        if timed.empty:
            raise ConfigurationError(
                f"`budget_s` must leave time for more than {warm} minibatches. Received: "
                f"budget_s={self.budget_s:g}."
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

    def _advice(self, network: NetworkSpeed, fit: Facts | None, runs: list[Facts]) -> Advice | None:
        """Return advice; add the cost model's predictions, from one worker's run, to `runs`."""
        cores = os.cpu_count() if is_local(self.spark) else None
        costs = ScalingCosts(cores=cores).with_network(
            network.bandwidth_bytes_per_s, network.latency_s
        )
        # The duration of a minibatch without exchanges.
        step_s = None if fit is None else fit["step_s"]
        if runs and runs[0]["workers"] == 1:
            step_s = runs[0]["minibatch_s"]
            counts = [run["workers"] for run in runs]
            points = predict_scaling(
                self._master, step_s=step_s, workers=counts, costs=costs, **self._sizes
            ).points
            for run, point in zip(runs, points, strict=True):
                run["predicted"] = point.efficiency
        if step_s is None:
            return None
        most = self._counts[-1]
        return advise(self._master, workers=most, step_s=step_s, costs=costs, **self._sizes)

    def _goal(self, fit: Facts | None) -> Facts:
        import keras

        reached: list[float] = []
        target = self.target
        assert target is not None

        def look(epoch: int, logs: Any) -> None:
            reached.append(float(logs[f"val_{self.metric}"]))
            if reached[-1] >= target:
                callback.model.stop_training = True  # pyright: ignore[reportOptionalMemberAccess]

        callback = keras.callbacks.LambdaCallback(on_epoch_end=look)
        began_s, workers = time.monotonic(), self._counts[-1]
        self._trained(
            workers,
            self._master,
            limit_s=max(5.0, self._left_s - 5),
            epochs=10_000,
            validation=self._validation,
            callbacks=[callback],
        )
        seconds = time.monotonic() - began_s
        best = max(reached, default=None)
        return {
            "metric": self.metric,
            "target": self.target,
            "workers": workers,
            "fit_s": None if fit is None else fit["reached_s"],
            "workers_s": None if best is None or best < target else seconds,
            "best": best,
        }

    def _trained(
        self, workers: int, master: TrainingMaster, *, limit_s: float, **options: Any
    ) -> Any:
        """Train from the initial weights for at most `limit_s`; return the finished run."""
        model = self._definition.build()
        model.set_weights(self._weights)
        master = replace(master, workers=workers, collect_training_stats=True)
        network = SparkNetwork(self.spark, model, master)
        run = network.start(self._train, display=False, record=False, **options)
        limit = threading.Timer(limit_s, run.stop)
        limit.daemon = True
        limit.start()
        try:
            run.wait()
        finally:
            limit.cancel()
        return run

    @property
    def _left_s(self) -> float:
        return self._began_s + self.budget_s - time.monotonic()

    def _tried(self, what: str, measure: Callable[[], Result]) -> Result | None:
        try:
            return measure()
        except SparkwrightError as error:
            self._notes.append(f"{what}: not measured, because {error}")
        return None

    def _affords(self, what: str, seconds: float) -> bool:
        if self._left_s < seconds:
            self._notes.append(f"{what}: left out, {self.budget_s:g} s were not enough.")
        return self._left_s >= seconds

    def _environment(self) -> Facts:
        import keras

        return {
            "sparkwright": __version__,
            "python": platform.python_version(),
            "keras": keras.__version__,
            "backend": self._definition.backend,
            "numpy": np.__version__,
            "pyspark": self.spark.version,
            "java": session_facts(self.spark)["java"],
            "system": f"{platform.system()} {platform.machine()}",
            "driver_cores": os.cpu_count(),
        }


def _powers(most: int) -> list[int]:
    """Return the powers of 2 below `most`, and `most`.

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
