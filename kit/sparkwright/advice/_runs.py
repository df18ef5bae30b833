"""Short trainings with several numbers of workers, measured."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.errors import ConfigurationError
from sparkwright.masters import TrainingMaster
from sparkwright.masters.plan import frequency_in
from sparkwright.networks import ModelDefinition
from sparkwright.spark import SparkNetwork
from sparkwright.timeline import PhaseCode

from ._tables import MeasuredRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_EXAMPLES = 20_000
_RUN_S = 6.0  # training time for each number of workers
_MOST_S = 120.0  # with slow minibatches
_WARM_ROUNDS, _LEAST_ROUNDS, _MOST_STEPS = 2, 6, 5_000
_STEPS_OF_SHARING = 5  # equivalent of a round


def measure_runs(
    spark: "SparkSession",
    model: Any,
    data: Any,
    master: TrainingMaster,
    counts: Iterable[int],
    step_s: float,
) -> tuple[MeasuredRun, ...]:
    """Train copies of a compiled model for some seconds with each number of workers."""
    held = in_memory(data)
    found: list[MeasuredRun] = []
    # The largest first, because it starts all trainers.
    for count in sorted({*counts}, reverse=True):
        found.append(_measured(spark, model, held, replace(master, workers=count), step_s))
        step_s = found[-1].minibatch_s
    return tuple(reversed(found))


def in_memory(data: Any) -> DataSet:
    """Return up to 20,000 examples."""
    if isinstance(data, DistributedDataSet):
        return (data.sample(_MOST_EXAMPLES) if data.count() > _MOST_EXAMPLES else data).collect()
    if not isinstance(data, DataSet):
        raise ConfigurationError(
            "`data` must be a DataSet or a DistributedDataSet to measure training. Received: "
            f"{type(data).__name__}."
        )
    return data.take(slice(_MOST_EXAMPLES))


def _measured(
    spark: "SparkSession", model: Any, data: DataSet, master: TrainingMaster, step_s: float
) -> MeasuredRun:
    """Train for about `_RUN_S` seconds; measure times from the third round on."""
    workers = master.workers or 1
    every = frequency_in(master.exchange.every or _STEPS_OF_SHARING, 0)
    rounds = max(_LEAST_ROUNDS, round(min(_MOST_STEPS, _RUN_S / step_s) / every))
    copy = ModelDefinition.of(model).build()
    copy.set_weights(model.get_weights())
    network = SparkNetwork(spark, copy, replace(master, collect_training_stats=True))
    steps = workers * rounds * every
    run = network.start(data, display=False, record=False, steps_per_epoch=steps)
    limit = threading.Timer(_MOST_S, run.stop)
    limit.daemon = True
    limit.start()
    try:
        run.wait()
    finally:
        limit.cancel()
    log, warm = run.history, _WARM_ROUNDS * every
    times = log[log.step >= warm].groupby("worker").time_s.agg(["min", "max"])
    began_s, ended_s = float(times["min"].max()), float(times["max"].min())
    timed = log[(log.step > warm) & (log.time_s > began_s) & (log.time_s <= ended_s)]
    if timed.empty:
        raise ConfigurationError(
            f"more than {warm} minibatches must take less than {_MOST_S:g} s to be measured. "
            f"Received: {workers} workers. Use smaller minibatches, or give `step_s`."
        )
    totals = {total.phase.code: total for total in run.timeline.totals()}
    spent = [totals[code] for code in (PhaseCode.AVERAGE, PhaseCode.APPLY) if code in totals]
    averages = master.exchange.kind == "averaging"
    return MeasuredRun(
        workers=workers,
        examples_per_s=float(timed.examples.sum()) / (ended_s - began_s),
        minibatch_s=(ended_s - began_s) / len(timed) * workers,
        averaging_s=sum(each.seconds / each.count for each in spent) if averages else None,
    )


def powers(most: int) -> Iterator[int]:
    """Yield the powers of 2 below `most`, and `most`.

    Example:
        >>> list(powers(6))
        [1, 2, 4, 6]
    """
    yield from (2**power for power in range((most - 1).bit_length()))
    yield most
