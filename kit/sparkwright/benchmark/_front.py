"""`sw.benchmark`: its arguments; what it does loads with the first call."""

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
    """Measure training on this cluster: the network, step and round times, and what workers gain.

    One after another: bandwidth and latency between the executors; `model.fit` on one executor;
    training with each number of workers; the time to reach a value of a metric. What does not fit
    into `budget_s` is shortened or left out, and `notes` say so. The model stays as it is.

    Args:
        spark: the session.
        model: a compiled keras.Model or a NetworkSpec; default None: LeNet on 1,797 digits.
        data: a DataSet or DistributedDataSet to train on, of which up to 20,000 examples are used.
        validation: likewise, to evaluate; default None: the last fifth of `data`.
        master: how to train; default None: parameter averaging with minibatches of 32.
        workers: numbers of workers to measure; default None: 1, 2, 4 and so on, and all task slots.
        metric: name of a compiled metric of which more is better; default "accuracy".
        target: the value of the metric to reach; default None: 0.95 of the digits, else time to it
            is not measured.
        budget_s: about how many seconds everything may take; default 300, at least 10. The first
            measurements are made in any case: the start of Keras on all executors counts, too.
        include_hosts: whether the result names the executors' hosts; default False.

    Returns:
        The result: `print` it, or look at `table`, `figure()` and `to_json(url)`. It holds no
        settings of Spark, no names of users and, by default, no names of hosts.

    Raises:
        ConfigurationError: if an argument is invalid.
        SlotsError: if there are not enough task slots.

    Example:
        result = sw.benchmark(spark)
        print(result)
        result.to_json("benchmark.json")
    """
    # `sparkwright` imports this module at once, and the rest of the kit at its first use.
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
