"""`sw.advise`: measure missing inputs, then recommend a training master."""

from typing import TYPE_CHECKING, Any

from sparkwright.cluster.slots import task_slots
from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    Advice,
    ParameterAveragingTrainingMaster,
    ScalingCosts,
    TrainingMaster,
    advise as recommend,
    updater_bytes,
    vector_bytes,
)
from sparkwright.networks import NetworkSpec
from sparkwright.networks.state import ModelState
from sparkwright.spark import SparkNetwork
from sparkwright.workers.step_time import measure_step

from ._network import measure_network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def advise(
    network: Any,
    *,
    master: TrainingMaster | None = None,
    spark: "SparkSession | None" = None,
    workers: int | None = None,
    step_s: float | None = None,
    bandwidth_bytes_per_s: float | None = None,
    latency_s: float | None = None,
    target: float = 0.9,
    costs: ScalingCosts | None = None,
) -> Advice:
    """Recommend averaging frequency, moments, precision and overlap for a network and a cluster.

    The recommendation is the safest setting in which workers spend a fraction `target` of the time
    training. By default, step time is measured on this machine. Bandwidth and latency are measured
    between the executors of `spark` by one job of a few seconds; without Spark, they are assumed.

    Args:
        network: a SparkNetwork, a compiled keras.Model, a NetworkSpec, or a number of parameters,
            with Adam assumed as optimizer.
        master: the initial settings; default None: the SparkNetwork's, else parameter averaging.
        spark: the session; default None: the SparkNetwork's, else none.
        workers: number of workers; default None: the master's, else all task slots of `spark`.
        step_s: duration of one minibatch on one worker; default None: measured.
        bandwidth_bytes_per_s: send bandwidth of a worker; default None: measured, or 10 Gbit/s.
        latency_s: latency to a neighbor; default None: measured, or 0.1 ms.
        target: the efficiency to reach, from 0 to 1; default 0.9.
        costs: constants of the cost model; default None: the default constants.

    Returns:
        The advice: `print` it, or use `advice.master` and `advice.table`.

    Raises:
        ConfigurationError: if an argument is invalid, or the number of workers or the step time
            is unknown.

    Example:
        advice = sw.advise(network)
        print(advice)
        network.master = advice.master
    """
    if isinstance(network, SparkNetwork):
        master, spark = master or network.master, spark or network.spark
        network = network.model
    master = master or ParameterAveragingTrainingMaster()
    workers = workers or master.workers or (None if spark is None else task_slots(spark))
    if workers is None:
        raise ConfigurationError(
            "`workers` is not known. Received: workers=None, and no session with a fixed number "
            "of task slots. Give `workers`."
        )
    sources = list[str]()
    if isinstance(network, int) and not isinstance(network, bool):
        if step_s is None:
            raise ConfigurationError(
                "`step_s` is needed with a number of parameters: seconds of one minibatch. "
                "Received: step_s=None. Give it, or a compiled network to measure."
            )
        sizes = {
            "vector_bytes": vector_bytes(network),
            "updater_bytes": updater_bytes(network, "Adam"),
        }
    else:
        model = network.build() if isinstance(network, NetworkSpec) else network
        sizes = sizes_of(model)
        if step_s is None:
            found = measure_step(model, master.batch_size_per_worker, xla=master.xla)
            step_s = found.seconds
            sources.append(
                f"Step time: measured on this machine, {found.device}, {found.cores} cores."
            )
    if bandwidth_bytes_per_s is None:
        if spark is not None and workers > 1:
            speed = measure_network(spark, workers=workers, mesh=master.mesh)
            bandwidth_bytes_per_s = speed.bandwidth_bytes_per_s
            latency_s = latency_s or speed.latency_s
            sources.append(f"Network: measured between {workers} tasks.")
        else:
            sources.append(
                "Network: assumed; give `bandwidth_bytes_per_s`, or `spark` to measure it."
            )
    return recommend(
        master,
        workers=workers,
        step_s=step_s,
        costs=(costs or ScalingCosts()).with_network(bandwidth_bytes_per_s, latency_s),
        target=target,
        sources=sources,
        **sizes,
    )


def sizes_of(model: Any) -> dict[str, int]:
    """Return `vector_bytes` and `updater_bytes` of a compiled model.

    Raises:
        ConfigurationError: if `model` is not a compiled model.
    """
    if getattr(model, "optimizer", None) is None:
        raise ConfigurationError(
            "`network` must be a SparkNetwork, a compiled keras.Model, a NetworkSpec or a number "
            f"of parameters. Received: {model!r:.99}."
        )
    state = ModelState.of(model)
    item = state.dtype.itemsize
    return {"vector_bytes": state.averaged_size * item, "updater_bytes": state.updater_size * item}
