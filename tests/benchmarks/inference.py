"""Prediction and evaluation by two workers, against Keras' own in one process on the same cores."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks._data import digits_arrays

import sparkwright as sw

Row = dict[str, Any]
REPEATS = 5
COUNT = 60_000
BATCH_SIZE = 64
# Spark sends a task its part of arrays as one message, which the driver's JVM copies twice: parts
# of 94 MB do not fit its default gigabyte.
PARTITIONS = 8


def inference() -> Iterator[Row]:
    """Examples/s of LeNet; trainers and the Keras functions are warm, sides take turns."""
    images, labels = digits_arrays(COUNT)
    spark = sw.start_spark(workers=2)
    data = sw.data.from_arrays(spark, images, labels, partitions=PARTITIONS)
    network = sw.SparkNetwork(spark, sw.networks.lenet())
    model = network.model
    sides: dict[str, Callable[[], Any]] = {
        "model.predict": lambda: model.predict(images, batch_size=BATCH_SIZE, verbose=0),
        "predict": lambda: network.predict(data, batch_size=BATCH_SIZE).collect(),
        "model.evaluate": lambda: model.evaluate(images, labels, batch_size=BATCH_SIZE, verbose=0),
        "evaluate": lambda: network.evaluate(data, batch_size=BATCH_SIZE),
    }
    for side in sides.values():
        side()  # starts TensorFlow, compiles
    found: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(REPEATS):
        for name, side in sides.items():
            began_s = time.perf_counter()
            side()
            found[name].append(COUNT / (time.perf_counter() - began_s))
    spark.stop()
    for ours in ("predict", "evaluate"):
        theirs = f"model.{ours}"
        ratios = [a / b for a, b in zip(found[ours], found[theirs], strict=True)]
        yield {
            "what": f"LeNet, batch {BATCH_SIZE}, {ours} by 2 workers, against {theirs}",
            "value": statistics.median(found[ours]),
            "unit": "examples/s",
            "baseline": statistics.median(found[theirs]),
            "ratio": statistics.median(ratios),
            "target": ">= 1",
            "runs": {ours: found[ours], theirs: found[theirs]},
        }
