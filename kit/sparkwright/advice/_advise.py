"""`sw.advise`: measure what is missing, then predict and recommend."""

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.slots import executor_resources, is_local, task_slots
from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    ParameterAveragingTrainingMaster,
    ScalingCosts,
    TrainingMaster,
)
from sparkwright.masters.plan import frequency_in
from sparkwright.networks import ModelDefinition, NetworkSpec
from sparkwright.networks.estimate import training_sizes
from sparkwright.networks.state import ModelState
from sparkwright.options import check_count
from sparkwright.spark import SparkNetwork
from sparkwright.spark.memory_parts import overhead_in_container, parse_mib
from sparkwright.workers.step_time import measure_step

from ._advice import Advice
from ._memory import plan_memory
from ._network_speed import measure_network
from ._predict import predict
from ._tables import MeasuredRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_EXAMPLES = 20_000
_RUN_S = 6.0  # training time for each number of workers
_MOST_S = 120.0  # with slow minibatches
_WARM_ROUNDS, _LEAST_ROUNDS, _MOST_STEPS = 2, 6, 5_000
_STEPS_OF_SHARING = 5  # equivalent of a round


def advise(
    network: Any,
    data: Any = None,
    *,
    master: TrainingMaster | None = None,
    spark: "SparkSession | None" = None,
    workers: int | None = None,
    measure: bool | Sequence[int] = False,
    step_s: float | None = None,
    bandwidth_bytes_per_s: float | None = None,
    latency_s: float | None = None,
    cores: int | None = None,
    trainers: int | None = None,
    container: str | int | None = None,
    executor_memory: str | int | None = None,
    data_memory: str | int | None = None,
    driver_memory: str | int | None = None,
    target: float = 0.9,
    costs: ScalingCosts | None = None,
) -> Advice:
    """Say whether a network fits on a cluster, whether workers pay, and what to change.

    The recommendation is the safest setting in which workers spend a fraction `target` of the time
    training. The order of safety: the settings as given, moments kept by each worker, bfloat16,
    averaging beside training, fewer averagings, 8-bit integers, gradient sharing. If no setting
    reaches the target, the most efficient one is recommended, or a safer one within 1 %.

    By default, step time is measured on this machine. Bandwidth and latency are measured between
    the executors of `spark` by one job of a few seconds; without Spark, they are assumed.
    Amounts of memory are strings such as "11g" or "512m", or whole MiB; as in Spark, g is 1,024
    MiB.

    Args:
        network: a SparkNetwork, a compiled keras.Model, a NetworkSpec, or a number of parameters,
            with Adam assumed as optimizer. It is not changed.
        data: the data to train on, or its number of examples, for the time of an epoch; default
            None: unknown.
        master: the initial settings; default None: the SparkNetwork's, else parameter averaging.
        spark: the session; default None: the SparkNetwork's, else none.
        workers: number of workers; default None: the master's, else all task slots of `spark`.
        measure: numbers of workers to train with, each for some seconds, with up to 20,000 examples
            of `data`; True: 1, 2, 4 and so on, and `workers`. Default False: none.
        step_s: duration of one minibatch on one worker; default None: measured, except for a number
            of parameters.
        bandwidth_bytes_per_s: send bandwidth of a worker; default None: measured, or 10 Gbit/s.
        latency_s: latency to a neighbor; default None: measured, or 0.1 ms.
        cores: cores of each executor; default None: those of `spark`, else 1 for each trainer.
        trainers: training workers per executor, TensorFlow processes with `cores / trainers` cores;
            default None: the task slots of an executor of `spark`, else 1.
        container: memory limit of an executor, such as YARN's
            `yarn.scheduler.maximum-allocation-mb`; default None: what `spark` requests on YARN and
            Kubernetes, else no limit.
        executor_memory: heap of an executor; default None: that of `spark`, else a quarter of the
            container, at least 1 GiB.
        data_memory: examples of one worker, as arrays. They are in mapped files, which YARN counts
            as the trainer's memory. Default None: not counted.
        driver_memory: heap of the driver; default None: 1 GiB.
        target: the efficiency to reach, from 0 to 1; default 0.9.
        costs: constants of the cost model; default None: the default constants.

    Returns:
        The advice: `print` it, or use `advice.master`, `advice.memory` and `advice.epoch_s`.

    Raises:
        ConfigurationError: if an argument is invalid, or the number of workers is unknown.
        SlotsError: if there are not enough task slots to measure.
        NetworkError: if executors cannot connect to each other to measure the network.

    Example:
        advice = sw.advise(network, train)
        print(advice)
        network.master = advice.master
    """
    if isinstance(network, SparkNetwork):
        master, spark = master or network.master, spark or network.spark
        network = network.model
    master = master or ParameterAveragingTrainingMaster()
    asked = () if isinstance(measure, bool) else tuple(measure)
    workers = workers or master.workers or max(asked, default=0) or None
    workers = workers or (None if spark is None else task_slots(spark))
    if workers is None:
        raise ConfigurationError(
            "`workers` is not known. Received: workers=None, and no session with a fixed number "
            "of task slots. Give `workers`."
        )
    check_count("workers", workers)
    counts = tuple(_powers(workers)) if measure is True else asked
    for count in counts:
        check_count("measure", count)
    model: Any = network.build() if isinstance(network, NetworkSpec) else network
    is_number = isinstance(model, int) and not isinstance(model, bool)
    if counts and (spark is None or is_number):
        raise ConfigurationError(
            "`measure` needs a session and a compiled network. Received: "
            f"spark={spark!r}, network={network!r:.99}."
        )
    sizes = _sizes_of(model)
    held = _in_memory(data) if counts else None
    memory = plan_memory(
        network,
        master,
        workers=workers,
        data_memory=data_memory,
        driver_memory=driver_memory,
        **_executors(spark, cores, trainers, container, executor_memory),
    )
    sources = list[str]()
    measures_step = step_s is None and not is_number
    if measures_step:
        step = measure_step(model, master.batch_size_per_worker, xla=master.xla)
        step_s = step.seconds
        sources.append(f"Step time: measured on this machine, {step.device}, {step.cores} cores.")
    costs = costs or ScalingCosts(
        # The workers of a measured run share this machine.
        cores=os.cpu_count() if counts and spark is not None and is_local(spark) else None
    )
    if bandwidth_bytes_per_s is None:
        if spark is not None and workers > 1:
            speed = measure_network(spark, workers=workers, mesh=master.mesh)
            bandwidth_bytes_per_s = speed.bandwidth_bytes_per_s
            latency_s = latency_s or speed.latency_s
            sources.append(
                f"Network: measured between {workers} tasks on "
                f"{speed.machines} machine{'s' * (speed.machines > 1)}."
            )
        else:
            sources.append(
                "Network: assumed; give `bandwidth_bytes_per_s`, or `spark` to measure it."
            )
    found = list[MeasuredRun]()
    if spark is not None and held is not None and step_s is not None:
        # The largest first, because it starts all trainers.
        for count in sorted({*counts}, reverse=True):
            took_s = found[-1].minibatch_s if found else step_s
            found.append(_measured(spark, model, held, replace(master, workers=count), took_s))
        if measures_step and found[-1].workers == 1:
            step_s = found[-1].minibatch_s
            sources[0] = "Step time: measured, of one worker that trains on an executor."
    return predict(
        master,
        rows=_rows(data, workers),
        workers=workers,
        step_s=step_s,
        costs=costs.with_network(bandwidth_bytes_per_s, latency_s),
        target=target,
        memory=memory,
        runs=found[::-1],
        sources=sources,
        **sizes,
    )


def _rows(data: Any, workers: int) -> list[int] | None:
    """Return even numbers of examples of each worker; None: unknown."""
    if data is None:
        return None
    count: Any = data.count() if isinstance(data, DistributedDataSet) else data
    count = len(data) if isinstance(data, DataSet) else count
    check_count("data", count)
    each, more = divmod(int(count), workers)
    return [each + (worker < more) for worker in range(workers)]


def _executors(
    spark: "SparkSession | None",
    cores: int | None,
    trainers: int | None,
    container: str | int | None,
    executor_memory: str | int | None,
) -> dict[str, Any]:
    """Return the arguments of `plan_memory` about executors; default: those of the session."""
    if spark is not None:
        master, settings = str(context_of(spark).master), dict(context_of(spark).getConf().getAll())
        if cores is None and trainers is None:
            found, cpus = executor_resources(spark), int(settings.get("spark.task.cpus") or 1)
            slots = max(1, found.get("cores_per_executor", 1) // cpus)
            trainers = min(slots, found.get("gpus_per_executor") or slots)
            cores = trainers * cpus
        if executor_memory is None:
            executor_memory = settings.get("spark.executor.memory", "1g")
        if container is None:
            heap_mib = parse_mib("executor_memory", executor_memory)
            overhead_mib = overhead_in_container(master, settings, heap_mib=heap_mib)
            container = None if overhead_mib is None else heap_mib + overhead_mib
    trainers = 1 if trainers is None else trainers
    return {
        "cores": trainers if cores is None else cores,
        "trainers": trainers,
        "container": container,
        "executor_memory": executor_memory,
    }


def _sizes_of(model: Any) -> dict[str, int]:
    """Return `vector_bytes` and `updater_bytes` of a compiled model or a number of parameters."""
    if isinstance(model, int) and not isinstance(model, bool):
        found = training_sizes(model, batch_size=1)
        return {"vector_bytes": found.parameters, "updater_bytes": found.optimizer}
    if getattr(model, "optimizer", None) is None:
        raise ConfigurationError(
            "`network` must be a SparkNetwork, a compiled keras.Model, a NetworkSpec or a number "
            f"of parameters. Received: {model!r:.99}."
        )
    state = ModelState.of(model)
    item = state.dtype.itemsize
    return {"vector_bytes": state.averaged_size * item, "updater_bytes": state.updater_size * item}


def _in_memory(data: Any) -> DataSet:
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
    """Train a copy for about `_RUN_S` seconds; measure times from the third round on."""
    workers = master.workers or 1
    every = frequency_in(master.exchange.every or _STEPS_OF_SHARING, 0)
    rounds = max(_LEAST_ROUNDS, round(min(_MOST_STEPS, _RUN_S / step_s) / every))
    copy = ModelDefinition.of(model).build()
    copy.set_weights(model.get_weights())
    network = SparkNetwork(spark, copy, master)
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
    return MeasuredRun(
        workers=workers,
        examples_per_s=float(timed.examples.sum()) / (ended_s - began_s),
        minibatch_s=(ended_s - began_s) / len(timed) * workers,
    )


def _powers(most: int) -> Iterator[int]:
    """Yield the powers of 2 below `most`, and `most`.

    Example:
        >>> list(_powers(6))
        [1, 2, 4, 6]
    """
    yield from (2**power for power in range((most - 1).bit_length()))
    yield most
