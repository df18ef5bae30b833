"""`sw.benchmark`, whose implementation is imported on the first call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.masters import TrainingMaster

    from ._result import BenchmarkResult


def benchmark(
    spark: "SparkSession",
    *,
    model: Any | None = None,
    data: Any | None = None,
    validation: Any | None = None,
    master: "TrainingMaster | None" = None,
    workers: Sequence[int] | None = None,
    metric: str = "accuracy",
    target: float | None = None,
    budget_s: float = 300.0,
    include_hosts: bool = False,
) -> "BenchmarkResult":
    """Measure training on this cluster: network, step and round times, and speedup.

    The measurements, in order:

    * bandwidth and latency between the executors;
    * `model.fit` on one executor;
    * training with each number of workers;
    * the time to reach a target value of a metric.

    Measurements that exceed `budget_s` are shortened or skipped, with a note in `notes`. The model
    is not changed.

    Args:
        spark: the session.
        model: a compiled keras.Model or a NetworkSpec; default None: LeNet on 1,797 digits.
        data: a DataSet or DistributedDataSet to train on; up to 20,000 examples are used.
        validation: data to evaluate on; default None: the last fifth of `data`.
        master: the training master; default None: parameter averaging with minibatches of 32.
        workers: numbers of workers to measure; default None: 1, 2, 4 and so on, and all task slots.
        metric: name of a compiled metric to maximize; default "accuracy".
        target: value of the metric to reach; default None: 0.95 for the digits, otherwise the time
            to reach a value is not measured.
        budget_s: approximate time limit in seconds, including the start of Keras on all executors;
            default 300, at least 10. The first measurements are always made.
        include_hosts: whether the result names the executors' hosts; default False.

    Returns:
        The result: `print` it, or use `table`, `figure()` and `to_json(url)`. It contains no Spark
        settings, no user names and, by default, no host names.

    Raises:
        ConfigurationError: if an argument is invalid.
        SlotsError: if there are not enough task slots.

    Example:
        result = sw.benchmark(spark)
        print(result)
        result.to_json("benchmark.json")
    """
    # `import sparkwright` imports this module, but the rest of the kit only on first use.
    from ._benchmark import Benchmark

    measuring = Benchmark(
        spark=spark,
        model=model,
        data=data,
        validation=validation,
        master=master,
        workers=workers,
        metric=metric,
        target=target,
        budget_s=budget_s,
    )
    return measuring.result(include_hosts=include_hosts)
