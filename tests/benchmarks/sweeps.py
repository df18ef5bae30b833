"""What a sweep gains from trials side by side: equal trials one by one, against one a slot."""

import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks._harness import Row, compared, digits_arrays

import sparkwright as sw

TRIALS, EPOCHS, REPEATS = 6, 20, 2


def sweeps() -> Iterator[Row]:
    """LeNet, two task slots, one thread a worker, and worker processes that are warm."""
    spark = sw.start_spark(workers=2)
    x, y = digits_arrays(4_000)
    data = sw.data.from_arrays(spark, x, y).persist()
    validation = sw.data.from_arrays(spark, x[:500], y[:500]).persist()

    def build() -> Any:
        return sw.networks.lenet()

    def rate(parallel: int) -> float:
        began_s = time.perf_counter()
        sw.sweep(
            *(spark, build, data),
            trials=TRIALS,
            space={"batch_size_per_worker": [32]},
            validation=validation,
            epochs=EPOCHS,
            pruner=_never(),
            parallel=parallel,
            display=False,
        )
        return TRIALS / (time.perf_counter() - began_s)

    rate(2)  # starts TensorFlow in both slots
    found = {parallel: [] for parallel in (1, 2)}
    for _ in range(REPEATS):
        for parallel, rates in found.items():
            rates.append(rate(parallel))
    spark.stop()
    yield compared(
        "LeNet, a sweep of equal trials: two at a time",
        *("trials/s", found[2], found[1]),
        target=">= 1.6",
        runs={"two": found[2], "one": found[1]},
    )


def _never() -> Any:
    from optuna.pruners import NopPruner

    return NopPruner()
